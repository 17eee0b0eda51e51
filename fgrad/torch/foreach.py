"""``torch._foreach_*``: an operation on each tensor of a list, for optimisers and weight averaging.

Each calls the operation of its name for every tensor, so a graph shows ``AddBackward0`` where PyTorch's shows
``ForeachAddBackward0List``.  A list argument gives each call one of its elements; any other goes to every call.  The
functions return a tuple; those whose names end in ``_`` write the tensors and return the list.

>>> import fgrad.torch as torch
>>> torch._foreach_add([torch.ones(1), torch.zeros(1)], [1.0, 2.0])
(tensor([2.]), tensor([2.]))

Source: PyTorch: aten/src/ATen/native/ForeachOpsKernels.cpp and ForeachUtils.h
"""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.write.inplace import apply_inplace, check_inplace
from fgrad.torch import linalg, ops
from fgrad.torch.ops.table.table import TABLE

#: the functions that call a method of each tensor; the operations with ``foreach`` in their rows
_METHODS = [name for name, row in TABLE.items() if row.foreach]

#: the functions that accept a tensor of numbers, one for each call
_OF_ELEMENTS = ("addcdiv", "addcmul")


def _method(name: str) -> Callable[..., Any]:
    return lambda tensor, *args, **kwargs: getattr(tensor, name)(*args, **kwargs)


def _with_factor(name: str) -> Callable[..., Any]:
    return lambda tensor, first, second, value=1: getattr(tensor, name)(first, second, value=value)


def _like(tensor: Tensor, number: Any) -> Tensor:
    return number if isinstance(number, Tensor) else ops.tensor(number, dtype=tensor._type.dtype)


def _inplace(name: str) -> Callable[..., Any]:
    operation: Any = TABLE[name].operation
    return lambda tensor, other: apply_inplace(operation, (tensor, _like(tensor, other)))


def _powsum(tensor: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return tensor.abs().pow(ord).sum(dtype=dtype)


def _norm(tensor: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return linalg.vector_norm(tensor, ord, dtype=dtype)


#: the operation on one tensor of the functions that return new tensors; the entries written out here take other
#: arguments than the method, or have none
_NEW: dict[str, Callable[..., Any]] = {
    **{name: _method(name) for name in _METHODS},
    **{name: _with_factor(name) for name in _OF_ELEMENTS},
    "clamp_max": lambda tensor, other: tensor.clamp(max=other),
    "clamp_min": lambda tensor, other: tensor.clamp(min=other),
    "clone": lambda tensor, memory_format=None: tensor.clone(),
    "max": lambda tensor: tensor.max(),
    "maximum": lambda tensor, other: ops.maximum(tensor, _like(tensor, other)),
    "minimum": lambda tensor, other: ops.minimum(tensor, _like(tensor, other)),
    "mm": lambda tensor, other: tensor.mm(other),
    "norm": _norm,
    "pow": lambda tensor, exponent: ops.pow(tensor, exponent),
    "powsum": _powsum,
}

#: the operation on one tensor of the functions that write
_WRITING: dict[str, Callable[..., Any]] = {
    **{name: _method(f"{name}_") for name in _METHODS},
    **{name: _with_factor(f"{name}_") for name in _OF_ELEMENTS},
    "clamp_max": lambda tensor, other: tensor.clamp_(max=other),
    "clamp_min": lambda tensor, other: tensor.clamp_(min=other),
    "copy": lambda tensor, source, non_blocking=False: tensor.copy_(source),
    "maximum": _inplace("maximum"),
    "minimum": _inplace("minimum"),
    "pow": _method("pow_"),
    "zero": _method("zero_"),
}


def _is_list(x: Any) -> bool:
    return isinstance(x, list | tuple)


def _column(x: Any, count: int, accepts_elements: bool) -> Sequence[Any]:
    """An argument's value for each call; a tensor of numbers gives its elements if the function accepts that."""
    if isinstance(x, Tensor) and x._type.shape:
        size = x._type.numel
        if not accepts_elements:
            dimensions = len(x._type.shape)
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {dimensions} dimensions and {size} elements."
            )
        if size != count:
            raise RuntimeError(f"Expected length of scalars to match input of length {count} but got {size} instead.")
        return x.tolist()
    if not isinstance(x, list | tuple):
        return [x] * count
    if len(x) != count:
        if x and not isinstance(x[0], Tensor):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(x)}")
    return x


def _made(name: str, function: Callable[..., Any], accepts_elements: bool) -> Callable[..., Any]:
    """A function of lists of the operation on one tensor."""

    def on_list(*args: Any, **kwargs: Any) -> Any:
        if "self" in kwargs:
            args = (kwargs.pop("self"), *args)
        tensors = next(filter(_is_list, args), None)
        # a number may come first: the base of the powers in the list
        if tensors is None or not (_is_list(args[0]) or isinstance(args[0], int | float | complex)):
            given = type_name(args[0]) if args else "nothing"
            raise TypeError(f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {given}")
        if not tensors:
            raise RuntimeError("Tensor list must have at least one tensor.")
        columns = [_column(x, len(tensors), accepts_elements) for x in args]
        if name.endswith("_"):
            for tensor in tensors:  # before any is written
                check_inplace(tensor, True)
        results = [function(*arguments, **kwargs) for arguments in zip(*columns, strict=True)]
        return tensors if name.endswith("_") else tuple(results)

    on_list.__name__ = on_list.__qualname__ = name
    return on_list


#: the functions by their names
NAMES = {
    called: _made(called, one, name in _OF_ELEMENTS)
    for functions, called_as in ((_NEW, "_foreach_{}"), (_WRITING, "_foreach_{}_"))
    for name, one in functions.items()
    for called in (called_as.format(name),)
}
