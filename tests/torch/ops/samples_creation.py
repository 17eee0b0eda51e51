"""Samples of tensors made from sizes, numbers, data and ranges."""

import numpy as np

import fgrad.torch as torch
from tests.torch.ops.sample import Sample, integers, normal

MATRIX = normal(2, 3)


def _of(name: str, *args: object, label: str = "", **named: object) -> Sample:
    return Sample(name, args, named, label)


SAMPLES: list[Sample] = [
    *[
        each
        for name in ("zeros", "ones")
        for each in (
            _of(name, 2, 3),
            _of(name, (2, 0), label="tuple"),
            _of(name, [], label="0-d"),
            _of(name, size=(2,), dtype=torch.int64, label="named"),
            _of(name, 2, requires_grad=True, label="tracked"),
            _of(f"{name}_like", MATRIX),
            _of(f"{name}_like", MATRIX, dtype=torch.bool, label="type"),
            _of(f"Tensor.new_{name}", MATRIX, 2, 3),
            _of(f"Tensor.new_{name}", MATRIX, (2,), dtype=torch.int8, label="tuple"),
        )
    ],
    *[
        Sample(name, args, named, results=lambda found: (tuple(found.shape), found.stride()))
        for name, args, named in [
            ("empty", (2, 3), {}),
            ("empty_like", (MATRIX,), {}),
            ("empty_strided", ((2, 3), (1, 2)), {}),
            ("empty_permuted", ((2, 3, 4), (0, 2, 1)), {}),
            ("Tensor.new_empty", (MATRIX, 2, 3), {}),
            ("Tensor.new_empty_strided", (MATRIX, (2, 3), (1, 2)), {}),
        ]
    ],
    _of("full", (2,), 3),
    _of("full", (2,), 3.5, label="float"),
    _of("full", (2,), True, label="bool"),
    _of("full", (), 1j, label="complex"),
    _of("full", (2,), 3.7, dtype=torch.int64, label="type"),
    _of("full", (2,), np.array(4), label="tensor"),
    _of("full_like", MATRIX, 3),
    _of("full_like", integers(3), 3.5, dtype=torch.float32, label="type"),
    _of("Tensor.new_full", MATRIX, (2,), 3),
    _of("Tensor.new_tensor", MATRIX, [1, 2]),
    _of("arange", 5),
    _of("arange", 5.0, label="float"),
    _of("arange", 1, 2.5, 0.5, label="step"),
    _of("arange", 5, 1, -1, label="down"),
    _of("arange", 0, 1, 0.1, dtype=torch.float64, label="double"),
    _of("arange", start=1, end=4, label="named"),
    _of("arange", 1, 4.5, dtype=torch.int64, label="rounded"),
    _of("range", 1, 4, 0.5),
    _of("linspace", 0, 1, 5),
    _of("linspace", -3, 7, 11, dtype=torch.float64, label="double"),
    _of("linspace", 0, 10, 4, dtype=torch.int64, label="integers"),
    _of("linspace", 0, 1, 1, label="one"),
    _of("linspace", 0, 1, np.array(4, "int32"), label="a number of steps of 32 bits"),
    _of("logspace", 0, 1, np.array(4, "uint8"), label="a number of steps of 8 bits"),
    _of("linspace", 0, 1, np.array(4.0, "float32"), label="a number of steps with a fraction"),
    _of("linspace", 0.1, 0.7, 17, dtype=torch.bfloat16, label="bfloat16"),
    _of("linspace", 0, 1, 7, dtype=torch.float16, label="half"),
    _of("logspace", 0.1, 0.7, 7, dtype=torch.float16, label="half"),
    _of("linspace", np.array(0.0, "float32"), np.array(1.0, "float32"), 3, label="tensors"),
    _of("logspace", 0, 2, 3),
    _of("logspace", 0, 2, 5, base=2, label="base"),
    _of("linspace", -2.7, 3.9, 8, dtype=torch.int64, label="integers from fractions"),
    _of("linspace", -73, 53, 55, dtype=torch.int8, label="integers rounded once"),
    _of("logspace", 4.3, 3.9, 5, base=3.5, dtype=torch.int64, label="integers from fractions"),
    _of("logspace", 4.3, 0, 1, dtype=torch.int32, label="one integer"),
    _of("eye", 3),
    _of("eye", 2, 3, dtype=torch.int64, label="type"),
    _of("scalar_tensor", 3),
    _of("frombuffer", bytearray(b"\x01\x00\x02\x00"), dtype=torch.int16),
    _of("frombuffer", bytearray(b"\x01\x00\x02\x00"), dtype=torch.uint8, count=2, offset=1, label="part"),
]
