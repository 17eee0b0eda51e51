"""What a sample of an operation is: a call that both libraries can make."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen


@frozen(eq=False)
class Sample:
    """A call of a function of ``torch``, arrays standing for tensors.

    Attributes:
      name: the function's path: "mul", "nn.functional.conv2d", "linalg.inv"; of a method, "Tensor.unfold".
      args, kwargs: its arguments; every NumPy array in them (also within lists and tuples) becomes a tensor, which
        requires grad if its elements are inexact.
      label: what sets this sample apart from others of the same name.
      frozen: positions among the arrays that do not require grad.
      order: up to which derivative it is compared: 0, 1 or 2.
      names: whether the node's name and the number of its edges are compared.
      tolerance: relative, of values; derivatives get ten times as much for each order.
      results: takes the results apart into what is compared (to leave out what the libraries may choose freely).
      seeded: draw random numbers from the same seed.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(factory=dict)
    label: str = ""
    frozen: tuple[int, ...] = ()
    order: int = 2
    names: bool = True
    tolerance: float = 1e-6
    results: Callable[[Any], Any] | None = None
    seeded: bool = False

    @property
    def id(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Numbers from a normal distribution."""
    rng = np.random.default_rng([seed, *shape])
    made = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.standard_normal(shape)
    return np.asarray(made, dtype)


def positive(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Numbers between 0.1 and 1.1."""
    return np.asarray(np.random.default_rng([seed, *shape]).random(shape) + 0.1, dtype)


def integers(*shape: int, low: int = 0, high: int = 5, seed: int = 0, dtype: str = "int64") -> np.ndarray:
    """Integers from ``low`` to below ``high``."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)
