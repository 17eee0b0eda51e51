"""The optimisers with their options, and a run of one under PyTorch or under fgrad.torch on given gradients."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import field, frozen

SHAPES = ((), (3,), (2, 4))


@frozen
class Case:
    """An optimiser's name with options."""

    name: str
    options: dict[str, Any] = field(factory=dict)
    shapes: tuple[tuple[int, ...], ...] = SHAPES
    #: its arithmetic is coarser than the type of the parameters
    coarse: bool = False

    def __str__(self) -> str:
        return self.name + "".join(f"-{key}={value}" for key, value in self.options.items())

    @property
    def real_only(self) -> bool:
        return self.name in ("Muon", "Adafactor")


def _cases(name: str, *variants: dict[str, Any], **more: Any) -> Iterator[Case]:
    for options in ({}, *variants):
        yield Case(name, options, **more)


CASES = [
    *_cases(
        "SGD",
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.5, "nesterov": True},
        {"lr": 1, "maximize": True, "weight_decay": 0.01},
        {"lr": 0.1, "foreach": True},
        {"lr": 0.1, "momentum": 0.9, "fused": True},
    ),
    *_cases(
        "Adam",
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "amsgrad": True},
        {"betas": (0.0, 0.5), "eps": 1e-3, "maximize": True},
        {"weight_decay": 0.1, "decoupled_weight_decay": True},
        {"foreach": True, "amsgrad": True},
        {"fused": True, "amsgrad": True},
    ),
    *_cases("AdamW", {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True}, {"maximize": True}),
    *_cases("Adamax", {"lr": 0.1, "weight_decay": 0.1, "betas": (0.5, 0.9)}, {"maximize": True}),
    *_cases(
        "NAdam",
        {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    *_cases(
        "RAdam",
        {"lr": 0.1, "weight_decay": 0.1, "betas": (0.5, 0.9)},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ),
    *_cases("Adadelta", {"lr": 0.1, "rho": 0.5, "weight_decay": 0.1, "eps": 1e-2}, {"maximize": True}),
    *_cases("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}, {"initial_accumulator_value": 0.5}),
    *_cases(
        "RMSprop",
        {"weight_decay": 0.1, "alpha": 0.5},
        {"momentum": 0.9},
        {"centered": True},
        {"momentum": 0.5, "centered": True, "maximize": True},
    ),
    *_cases("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.5)}, {"maximize": True}),
    *_cases("ASGD", {"lr": 0.1, "lambd": 0.1, "weight_decay": 0.1}, {"t0": 10, "alpha": 0.5, "maximize": True}),
    *_cases(
        "Adafactor",
        {"lr": 0.1, "weight_decay": 0.1, "beta2_decay": -0.5, "d": 2.0, "maximize": True},
        {"eps": (1e-3, 0.1)},
        shapes=(*SHAPES, (2, 3, 2)),
    ),
    *_cases(
        "Muon",
        {"lr": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"},
        shapes=((2, 4), (4, 2), (3, 3)),
        coarse=True,
    ),
]


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Reproducible numbers of both signs."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def parameters(lib: Any, shapes: Any = SHAPES, dtype: str = "float32") -> list[Any]:
    """Leaves that require grad, the same under both libraries."""
    return [lib.tensor(numbers(shape, dtype, i)).requires_grad_() for i, shape in enumerate(shapes)]


def give_gradients(lib: Any, params: list[Any], step: int, dtype: str = "float32") -> None:
    """Gradients that depend on the step only, so that no error feeds back."""
    for i, param in enumerate(params):
        param.grad = lib.tensor(numbers(tuple(param.shape), dtype, 1000 * (step + 1) + i))


def run(lib: Any, case: Case, dtype: str = "float32", steps: int = 100, **options: Any) -> tuple[list[Any], Any]:
    """The parameters and the optimiser after some steps."""
    params = parameters(lib, case.shapes, dtype)
    optimizer = getattr(lib.optim, case.name)(params, **case.options, **options)
    for step in range(steps):
        give_gradients(lib, params, step, dtype)
        optimizer.step()
    return params, optimizer


def array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().numpy())
