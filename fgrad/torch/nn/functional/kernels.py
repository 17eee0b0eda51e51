"""How the functions of ``torch.nn.functional`` and the operations behind them are entered in the table."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from fgrad.torch.core.inplace import apply_inplace
from fgrad.torch.core.modes import modes
from fgrad.torch.core.tensor import Tensor, is_tracked
from fgrad.torch.dtypes import from_numpy
from fgrad.torch.ops.table import composite, operation, operation_of
from fgrad.torch.type_names import type_name

NAMESPACE = "nn.functional"


def functional(public: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a function of tensors as one of ``torch.nn.functional``."""
    return composite(method=False, function=False, namespace=NAMESPACE)(public)


def kernel(node: Any, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of arrays as an operation that no user calls by its name; ``settings`` as in ``operation``."""

    def enter(array_function: Callable[..., Any]) -> Callable[..., Any]:
        public = operation(node, method=False, function=False, **settings)(array_function)
        operation_of(public).name = array_function.__name__.removeprefix("_")
        return public

    return enter


def by_rank(name: str, parameter: str) -> Callable[..., str]:
    """The name of a node, in which the number of elements of a parameter stands for {}."""
    return lambda types, params: name.format(len(params[parameter]))


def written(kernel: Callable[..., Any], input: Tensor, *params: Any) -> Tensor:
    """Run an operation of one tensor in place; the parameters stand in the operation's order."""
    return apply_inplace(operation_of(kernel), (input,), params)


def single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of arrays compute 16-bit floating-point numbers in 32 bits, as PyTorch's kernels do."""

    @functools.wraps(function)
    def computed(*arrays: Any, **named: Any) -> Any:
        half = next((x.dtype for x in (*arrays, *named.values()) if _is_half_array(x)), None)
        if half is None:
            return function(*arrays, **named)
        found = function(*map(_widened, arrays), **{name: _widened(x) for name, x in named.items()})
        if isinstance(found, tuple):
            return tuple([lax.convert_element_type(y, half) if y.dtype == np.float32 else y for y in found])
        return lax.convert_element_type(found, half)

    return computed


def check_tensors(function: str, given: Sequence[tuple[str, Any]], first: int = 1) -> None:
    """Raise PyTorch's error for an argument that is no tensor; ``first`` is the position of the first of these."""
    for position, (name, value) in enumerate(given, first):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{function}(): argument '{name}' (position {position}) must be Tensor, not {type_name(value)}"
            )


def check_constant(function: str, **given: Any) -> None:
    """Raise PyTorch's error for a tensor that requires grad where no derivative is known."""
    for name, tensor in given.items():
        if tensor is not None and modes.grad and is_tracked(tensor):
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot "
                "have requires_grad True."
            )


def _is_half_array(x: Any) -> bool:
    return hasattr(x, "aval") and is_half(x.dtype)


def _widened(x: Any) -> Any:
    return lax.convert_element_type(x, np.float32) if _is_half_array(x) else x


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a floating-point one of 16 bits."""
    return dtype.itemsize == 2 and from_numpy(dtype).is_floating_point


def check_floating(kernel: str, array: Any) -> None:
    """Raise PyTorch's error of a kernel that takes real floating-point numbers only."""
    dtype = from_numpy(array.dtype)
    if not dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")
