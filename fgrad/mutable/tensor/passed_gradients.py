"""Gradients that are views of incoming ones: see NOTE [Gradients that are views] in ``gradient_views.py``."""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.layout.gradient_views import View
from fgrad.mutable.tensor.tensor import Tensor, alias
from fgrad.mutable.tensor.tensor_type import tensor_type


def passed_on(gradient: Tensor, view: View | None, numbers: Sequence[Any]) -> Tensor | None:
    """A gradient itself or a view of it, or None where strides cannot say it."""
    if view is None:
        return gradient
    geometry = view(gradient._geometry_of(), *numbers)
    if geometry is None:
        return None
    result = alias(gradient)
    result._type = tensor_type(geometry.dtype, geometry.sizes)
    result._geometry = geometry
    return result


def remembering(view: Tensor, value: Any) -> Tensor:
    """A view, of which it is known what it reads."""
    if view._geometry is not None and view._cache is None:
        view._cache = view._storage.array, value
    return view
