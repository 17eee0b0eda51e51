"""Samples of the activations of ``torch.nn.functional``."""

from typing import Any

import numpy as np

from tests.torch.ops.sample import Sample, normal

_F = "nn.functional."
#: kinks of the functions, and what lies beyond the numbers
SPECIAL = np.array([-np.inf, -30.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.1, 0.5, 1.0, 3.0, 6.0, 25.0, np.inf, np.nan])


def _of(name: str, *params: Any, order: int = 2, special: int = 1, **named: Any) -> list[Sample]:
    """Samples of a function of each element: ordinary numbers, kinks, no dimensions, no elements, half precision."""
    label = "-".join([*map(str, params), *(f"{k}={v}" for k, v in named.items())])
    shapes = [("", normal(3, 4)), ("0-d", normal()), ("empty", normal(0, 3)), ("single", normal(2, 3, dtype="float32"))]
    return [
        *[Sample(_F + name, (x, *params), named, f"{label}{each}", order=order) for each, x in shapes],
        Sample(_F + name, (SPECIAL, *params), named, f"{label}special", order=min(order, special)),
        Sample(_F + name, (SPECIAL[2:13].astype("float16"), *params), named, f"{label}half", order=1, tolerance=2e-3),
        Sample(_F + name, (np.array([1, -2]), *params), named, f"{label}integers"),
    ]


SAMPLES: list[Sample] = [
    *_of("relu"),
    *_of("relu6"),
    *_of("hardtanh"),
    *_of("hardtanh", -0.5, 0.1),
    *_of("hardsigmoid", order=1),
    *_of("hardswish"),
    *_of("hardshrink"),
    *_of("hardshrink", 0.1),
    *_of("softshrink"),
    *_of("softshrink", 0.1),
    *_of("tanhshrink"),
    *_of("softsign"),
    *_of("sigmoid"),
    *_of("tanh"),
    *_of("threshold", 0.1, 20.0),
    *_of("leaky_relu"),
    *_of("leaky_relu", 0.3),
    *_of("rrelu"),
    *_of("elu"),
    *_of("elu", 0.5),
    *_of("selu"),
    *_of("celu"),
    *_of("celu", 2.0),
    *_of("gelu"),
    *_of("gelu", approximate="tanh"),
    *_of("silu"),
    *_of("mish"),
    *_of("softplus"),
    *_of("softplus", 2.0, 5.0),
    *_of("logsigmoid"),
    Sample(_F + "silu", (normal(3, dtype="complex128"),), label="complex", frozen=(0,)),
    Sample(_F + "rrelu", (normal(3, 4),), {"training": True}, "training", seeded=True),
    Sample(_F + "rrelu", (normal(3, 4, dtype="float32"), 0.1, 0.3, True), label="training-single", seeded=True),
    Sample(_F + "prelu", (normal(3, 4), normal(1)), label="one"),
    Sample(_F + "prelu", (normal(3, 4), normal()), label="scalar"),
    Sample(_F + "prelu", (normal(3, 4), normal(4)), label="channels"),
    Sample(_F + "prelu", (normal(2, 3, 4), normal(3)), label="channels-3d"),
    Sample(_F + "prelu", (SPECIAL, normal(1)), label="special", order=1),
    Sample(_F + "prelu", (normal(3, 4), normal(3)), label="mismatch"),
    Sample(_F + "prelu", (normal(), normal(1)), label="0-d"),
    Sample(_F + "prelu", (normal(3, 4), normal(4, dtype="float32")), label="types"),
    Sample(_F + "glu", (normal(3, 4),)),
    Sample(_F + "glu", (normal(4, 3), 0), label="dim"),
    Sample(_F + "glu", (normal(4, 3),), label="odd"),
    Sample(_F + "glu", (normal(),), label="0-d"),
    Sample(_F + "glu", (normal(4, 2), 5), label="no-such-dim"),
    Sample(_F + "celu", (normal(3), 0.0), label="zero"),
    Sample(_F + "gelu", (normal(3),), {"approximate": "other"}, "wrong"),
    Sample(_F + "softshrink", (normal(3), -1.0), label="negative"),
    Sample(_F + "hardtanh", (normal(3), 1.0, -1.0), label="empty-range"),
    Sample("hardshrink", (normal(3),)),
    Sample("Tensor.hardshrink", (normal(3),)),
    Sample("Tensor.prelu", (normal(3), normal(1))),
    Sample("prelu", (normal(3), normal(1))),
    Sample("selu", (normal(3),)),
    Sample("celu", (normal(3),)),
    Sample("rrelu", (normal(3),)),
]
