"""Printing of tensors inside transformations: as wrappers, one for each level; and unwrapping them."""

from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.transforms.levels import MapLevel, is_mapped, value_out
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.torch.printing import tensor_text, wrapped_text


def text(tensor: Tensor) -> str:
    """A tensor as it prints inside the open levels.

    >>> import fgrad.torch as torch
    >>> _ = torch.func.vmap(lambda x: print(x) or x)(torch.ones(2))
    BatchedTensor(lvl=1, bdim=0, value=
        tensor([1., 1.])
    )
    """
    return _text(tensor, tensor._value(), len(modes.transforms))


def _text(tensor: Tensor, value: Any, depth: int) -> str:
    """The text at a depth of levels; the innermost level is the outermost wrapper."""
    if not depth:
        return tensor_text(
            None if is_abstract(value) else concrete(value),
            shape=tuple(value.shape),
            dtype=tensor._type.dtype,
            contents=str(value) if is_abstract(value) else None,
        )
    level = modes.transforms[depth - 1]
    if isinstance(level, MapLevel) and is_mapped(value, level):
        inner = _text(tensor, value_out(value, level), depth - 1)
        return wrapped_text("BatchedTensor", inner, lvl=depth, bdim=0)
    inner = _text(tensor, value, depth - 1)
    varied = not isinstance(level, MapLevel) and level.reaches(tensor)
    return wrapped_text("GradTrackingTensor", inner, lvl=depth) if varied else inner


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The value that a tensor wraps inside a transformation, without history, for debugging.

    Arguments:
      recurse: unwrap all transformations; else the innermost that the tensor depends on.

    >>> import fgrad.torch as torch
    >>> _ = torch.func.vmap(lambda x: print(torch.func.debug_unwrap(x)) or x)(torch.ones(2))
    tensor([1., 1.])

    Source: `torch.func.debug_unwrap <https://docs.pytorch.org/docs/stable/generated/torch.func.debug_unwrap.html>`_.
    """
    value, wrapped = tensor._value(), False
    for level in reversed(modes.transforms):
        if isinstance(level, MapLevel) and is_mapped(value, level):
            value = value_out(value, level)
        elif isinstance(level, MapLevel) or not level.reaches(tensor):
            continue
        wrapped = True
        if not recurse:
            break
    return new_tensor(value, tensor_type(tensor._type.dtype, tuple(value.shape))) if wrapped else tensor
