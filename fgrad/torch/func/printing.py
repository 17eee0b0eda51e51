"""How tensors print inside the transformations: as wrappers, one for each level that they depend on."""

from typing import Any

from fgrad.torch.core.evaluation import concrete, is_abstract
from fgrad.torch.core.forward import tangent_of
from fgrad.torch.core.levels import MapLevel, is_mapped, value_out
from fgrad.torch.core.modes import modes
from fgrad.torch.core.tensor import Tensor
from fgrad.torch.func.entries import GradLevel
from fgrad.torch.func.forward import JvpLevel
from fgrad.torch.methods import conversion
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
    """The text at a depth of levels, the innermost of which is the outermost wrapper."""
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
    tracked = isinstance(level, GradLevel) and level.reaches(tensor)
    dual = isinstance(level, JvpLevel) and tangent_of(tensor, level.number) is not None
    return wrapped_text("GradTrackingTensor", inner, lvl=depth) if tracked or dual else inner


conversion.transformed.text = text
