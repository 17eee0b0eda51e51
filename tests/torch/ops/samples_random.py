"""Samples of random numbers: from the same seed, both libraries draw the same."""

import numpy as np

import fgrad.torch as torch
from tests.torch.ops.sample import Sample, positive

PROBABILITIES = positive(3, 4) / 2
#: more numbers than the blocks in which normal ones are drawn
MANY = np.zeros((5, 7), "float32")


def _of(name: str, *args: object, label: str = "", order: int = 1, **named: object) -> Sample:
    return Sample(name, args, named, label, order=order, seeded=True)


SAMPLES: list[Sample] = [
    _of("rand", 3, 4),
    _of("rand", (3, 4), dtype=torch.float64, label="double"),
    _of("rand", (), label="0-d"),
    _of("rand", 0, 3, label="empty"),
    _of("rand", size=(3,), dtype=torch.float16, label="half"),
    _of("randn", 3, 7),
    _of("randn", [2, 2], dtype=torch.complex64, label="complex"),
    _of("randint", 10, (3, 4)),
    _of("randint", -3, 10, (20,), dtype=torch.int32, label="bounds"),
    _of("randint", low=0, high=2**40, size=(3,), label="long"),
    _of("randint", 5, (3,), dtype=torch.float32, label="floats"),
    _of("randperm", 10),
    _of("randperm", 6, dtype=torch.float32, label="floats"),
    _of("rand_like", MANY),
    _of("rand_like", MANY, dtype=torch.float64, label="double"),
    _of("randn_like", MANY),
    _of("randint_like", MANY, 7),
    _of("randint_like", MANY, -2, 7, dtype=torch.int64, label="bounds"),
    _of("normal", MANY, 2.0, label="mean"),
    _of("normal", 1.0, PROBABILITIES, label="std"),
    _of("normal", MANY[:1], PROBABILITIES[:, :1], label="both"),
    _of("normal", 1.0, 2.0, (3, 4), label="numbers"),
    _of("bernoulli", PROBABILITIES),
    _of("bernoulli", PROBABILITIES.T, label="float order"),
    _of("Tensor.bernoulli", PROBABILITIES, 0.25, label="number", order=0),
    _of("multinomial", PROBABILITIES, 3),
    _of("Tensor.multinomial", PROBABILITIES[0], 9, True, label="replacement"),
    _of("poisson", PROBABILITIES * 30),
    _of("binomial", np.full((3, 4), 20.0), PROBABILITIES, order=0),
    # both libraries approximate this derivative
    Sample("_standard_gamma", (PROBABILITIES * 5,), order=1, seeded=True, tolerance=1e-4),
    Sample("_sample_dirichlet", (PROBABILITIES * 5,), order=0, seeded=True),
    *[
        Sample(f"Tensor.{name}", (array, *args), label=label, order=0, seeded=True, frozen=(0,))
        for name, array, args, label in [
            ("uniform_", MANY, (), ""),
            ("uniform_", MANY, (-2.0, 3.0), "bounds"),
            ("normal_", MANY, (1.0, 2.0), ""),
            ("normal_", MANY[:2], (), "few"),
            ("log_normal_", MANY, (0.0, 0.5), ""),
            ("exponential_", MANY, (2.0,), ""),
            ("cauchy_", MANY, (1.0, 2.0), ""),
            ("geometric_", MANY, (0.3,), ""),
            ("geometric_", MANY.astype("int64"), (0.3,), "integers"),
            ("random_", MANY, (), ""),
            ("random_", MANY.astype("int64"), (7,), "bound"),
            ("random_", MANY, (-3, 7), "bounds"),
            ("bernoulli_", MANY, (), ""),
            ("bernoulli_", MANY.astype("bool"), (0.25,), "number"),
        ]
    ],
    Sample("Tensor.bernoulli_", (MANY[:3, :4], PROBABILITIES), label="each", order=0, seeded=True, frozen=(0, 1)),
]
