"""In-place views: ``t_``, ``squeeze_`` and others change the geometry of a tensor itself."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.graph.source import here
from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry, element_positions, overlaps
from fgrad.mutable.operation.as_strided import AS_STRIDED, split_offset, viewed_geometry
from fgrad.mutable.operation.operation_node import node_of
from fgrad.mutable.operation.views import ViewOperation
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.values.evaluation import concrete
from fgrad.mutable.write.inplace import Before, check_captured, check_inference, check_inplace
from fgrad.torch.ops.creation.copying import suggested_format
from fgrad.torch.ops.creation.making import tensor_beside
from fgrad.torch.ops.table.table import TABLE, SymInt, composite
from fgrad.torch.ops.views.splitting import checked_strided
from fgrad.torch.ops.views.views import wrap_dim


def _twin(name: str, node: str) -> ViewOperation:
    """A view operation with the node of its in-place variant."""
    view_operation = TABLE[name].operation
    assert isinstance(view_operation, ViewOperation)
    return ViewOperation(
        view_operation.name,
        view_operation.function,
        node,
        view_operation.operands,
        view_operation.parameters,
        view_operation.nondiff_operands,
        gradients=view_operation.gradients,
        geometry=view_operation.geometry,
    )


_T = _twin("t", "TBackward1")
_TRANSPOSE = _twin("transpose", "TransposeBackward1")
_UNSQUEEZE = _twin("unsqueeze", "UnsqueezeBackward1")
_SQUEEZE_ALL = _twin("_squeeze_all", "SqueezeBackward3")
_SQUEEZE_DIM = _twin("_squeeze_dim", "SqueezeBackward4")
_SQUEEZE_DIMS = _twin("_squeeze_dims", "SqueezeBackward5")
_AS_STRIDED = ViewOperation(
    "as_strided",
    AS_STRIDED.function,
    "AsStridedBackward1",
    AS_STRIDED.operands,
    AS_STRIDED.parameters,
    AS_STRIDED.nondiff_operands,
    gradients=AS_STRIDED.gradients,
    geometry=viewed_geometry,
)


def _reshape_inplace(tensor: Tensor, operation: ViewOperation, params: tuple[Any, ...] = (), *rest: int) -> Tensor:
    """Give a tensor the geometry of the view that an operation makes of it."""
    if modes.level:
        check_captured(tensor, "squeeze" if operation.name.startswith("_squeeze") else operation.name)
    return _set_geometry(tensor, operation, params, rest)


def _set_geometry(tensor: Tensor, operation: ViewOperation, params: tuple[Any, ...], rest: tuple[int, ...]) -> Tensor:
    recorded = modes.grad and is_tracked(tensor)
    check_inplace(tensor, recorded)
    check_inference(tensor)
    geometry: Geometry = operation.geometry(tensor._geometry_of(), *rest, **operation.named(params))
    types = (tensor._type, *[x.__class__ for x in rest])
    node = node_of(operation.planned(types, params, None), (tensor, *rest)) if recorded else None
    source, type = here(2), tensor_type(geometry.dtype, geometry.sizes)
    before = Before(tensor)
    try:
        tensor._geometry, tensor._type, tensor._cache = geometry, type, None
        tensor._bump(operation.name + "_", source)
        if node is not None:
            # hooks and ``retain_grad`` stay with the old node, as in PyTorch
            now = object()
            tensor._node, tensor._output_nr, changes.fields = node, 0, now
        if tensor._view is not None:
            tensor._view.version = tensor._counter.value
    except BaseException:
        before.restore()
        raise
    for tangent in (tensor._tangents or {}).values():
        _set_geometry(tangent, operation, params, rest)
    return tensor


@composite(function=False)
def t_(self: Tensor) -> Tensor:
    """``t`` in place.

    Source: `torch.Tensor.t_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.t_.html>`_.
    """
    if len(self._type.shape) > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {len(self._type.shape)}D")
    return _reshape_inplace(self, _T)


@composite(function=False)
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """``transpose`` in place.

    Source: `torch.Tensor.transpose_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.transpose_.html>`_.
    """
    return _reshape_inplace(self, _TRANSPOSE, (dim0, dim1))


@composite(function=False)
def swapdims_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """``transpose_`` by another name."""
    return transpose_(self, dim0, dim1)


@composite(function=False)
def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose_`` by another name."""
    return transpose_(self, axis0, axis1)


@composite(function=False)
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """``unsqueeze`` in place.

    Source: `torch.Tensor.unsqueeze_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.unsqueeze_.html>`_.
    """
    return _reshape_inplace(self, _UNSQUEEZE, (wrap_dim(dim, len(self._type.shape) + 1),))


@composite(function=False)
def squeeze_(self: Tensor, dim: Any = None) -> Tensor:
    """``squeeze`` in place.

    Source: `torch.Tensor.squeeze_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.squeeze_.html>`_.
    """
    if dim is None:
        return _reshape_inplace(self, _SQUEEZE_ALL)
    return (
        _reshape_inplace(self, _SQUEEZE_DIM, (dim,))
        if isinstance(dim, int)
        else _reshape_inplace(self, _SQUEEZE_DIMS, (tuple(dim),))
    )


@composite()
def as_strided_(self: Any, size: Any, stride: Any, storage_offset: SymInt | None = None) -> Tensor:
    """``as_strided`` in place.

    Source: `torch.Tensor.as_strided <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.as_strided.html>`_.
    """
    base = self._geometry_of()
    offset = base.offset if storage_offset is None else int(storage_offset)
    start, params = split_offset(base, checked_strided(self, tuple(size), tuple(stride), offset))
    return _reshape_inplace(self, _AS_STRIDED, params, start)


# -- a Python function for each element ------------------------------------------------------------------------------


def _mapped(name: str, self: Tensor, others: tuple[Tensor, ...], function: Callable[..., Any]) -> Tensor:
    if any(is_tracked(x) for x in (self, *others)):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    columns = [concrete(x._value()).ravel().tolist() for x in (self, *others)]
    geometry = self._geometry_of()
    if overlaps(geometry.sizes, geometry.strides):
        results = _in_turn(self, columns, function)
    else:
        results = [function(*row) for row in zip(*columns, strict=True)]
    values = tensor_beside(self, np.asarray(results), self._type.dtype)._value()
    self._write(values.reshape(self._type.shape))
    return self


def _in_turn(self: Tensor, columns: list[list[Any]], function: Callable[..., Any]) -> list[Any]:
    """What the elements are after a function of one after the other, some of which share a place in memory."""
    geometry = self._geometry_of()
    places = element_positions(geometry.sizes, geometry.strides, 0).ravel().tolist()
    memory = dict(zip(places, columns[0], strict=True))
    for place, *others in zip(places, *columns[1:], strict=True):
        result = function(memory[place], *others)
        memory[place] = tensor_beside(self, np.asarray(result), self._type.dtype).item()
    return [memory[place] for place in places]


@composite(function=False)
def apply_(self: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replace each element by the result of a Python function.

    Source: `torch.Tensor.apply_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.apply_.html>`_.
    """
    return _mapped("apply_", self, (), callable)


@composite(function=False)
def map_(self: Tensor, tensor: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replace each element by a Python function of it and the other tensor's element.

    Source: `torch.Tensor.map_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.map_.html>`_.
    """
    return _mapped("map_", self, (tensor.expand_as(self),), callable)


@composite(function=False)
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
    """Replace each element by a Python function of it and two other tensors' elements."""
    return _mapped("map2_", self, (x.expand_as(self), y.expand_as(self)), callable)


@composite()
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the size of another tensor.

    Source: `torch.Tensor.resize_as_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.resize_as_.html>`_.
    """
    if memory_format is not None and memory_format.name == "preserve_format":
        memory_format = suggested_format(the_template)
    return self.resize_(the_template._type.shape, memory_format=memory_format)
