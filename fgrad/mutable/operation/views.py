"""Views: handles on the same storage with a geometry of their own, and their role in the backward graph."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.operation.operation import Operation, Planned, check_integers
from fgrad.mutable.operation.operation_node import node_of
from fgrad.mutable.operation.origins import note_origin
from fgrad.mutable.ports import CARRY
from fgrad.mutable.tensor.cut import cut
from fgrad.mutable.tensor.storage import VersionCounter
from fgrad.mutable.tensor.tensor import (
    DEEPEST_VIEW,
    OwnTangent,
    Tensor,
    ViewOf,
    alias,
    gradient_function,
    is_tracked,
    new,
)
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.types.symbolic import SymbolicNumber
from fgrad.seam import RawSource, visible

#: how many geometries each operation caches
GEOMETRIES_KEPT = 1 << 12


@define(eq=False, slots=True)
class ViewOperation(Operation):
    """An operation whose results are views of its first operand.

    ``geometry`` takes that operand's geometry, the further operands (Python numbers) and the static parameters by name,
    and returns the geometry of the result, or a list of them.  The array function does the same on values; it
    serves the derivative, and is planned only when one is requested.
    """

    geometry: Callable[..., Any] = lambda geometry: geometry
    #: the results by the operand's geometry, or its type if it covers its storage, and all else they depend on
    results: dict[Any, "Views"] = field(factory=dict)

    def age(self) -> None:
        super().age()
        self.results.clear()  # they hold plans

    def views(self, tensor: Tensor, rest: tuple[Any, ...], params: tuple[Any, ...]) -> "Views":
        """The results for these operands and parameters, cached."""
        geometry, storage = tensor._geometry, tensor._storage
        if geometry is None and storage.strides is None and storage.home is None:
            key = (tensor._type, rest, params)  # a type has the hash of its identity
        else:
            key = (tensor._geometry_of(), rest, params)
        if unusual.on and any(isinstance(x, SymbolicNumber) for x in (*rest, tensor._geometry_of().offset)):
            return Views.of(self.geometry(tensor._geometry_of(), *rest, **self.named(params)))
        result_views = self.results.get(key)
        if result_views is None:
            if len(self.results) >= GEOMETRIES_KEPT:
                self.results.clear()
            geometries = self.geometry(tensor._geometry_of(), *rest, **self.named(params))
            result_views = self.results[key] = Views.of(geometries)
        return result_views


@define(eq=False)
class Views:
    """The geometries of views, with their types, and whether they are a list or a single one."""

    geometries: tuple[tuple[Geometry, TensorType], ...]
    several: bool
    #: the operation's plan, once a derivative has been requested
    plan: Planned | None = None

    @staticmethod
    def of(geometries: Geometry | list[Geometry]) -> "Views":
        several = isinstance(geometries, list)
        return Views(
            tuple([(g, tensor_type(g.dtype, g.sizes)) for g in (geometries if several else [geometries])]), several
        )


def apply_view(operation: ViewOperation, operands: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
    """The view, or the list of views, that an operation makes of its first operand."""
    # a tensor from outside a level is viewed there, so that writes to the view reach it; reading lifts it
    tensor: Tensor = operands[0]
    grad = modes.grad
    if grad and tensor._view is not None:
        gradient_function(tensor)  # a forbidden view that was written is refused first: see ``find_nodes``
    rest = tuple(operands[1:])
    result_views = operation.views(tensor, rest, params)
    source = visible(sys._getframe(3))  # past the function that called and the wrapper around it
    creation = "multi_output" if result_views.several else "default"
    results = []
    for geometry, result_type in result_views.geometries:
        results.append(view_of(tensor, geometry, creation, operation.name, source, result_type))
    tracked = is_tracked(tensor) and not tensor._inference
    if not (tracked and grad):
        if tracked or tensor._origin is not None:
            for result in results:
                note_origin(operation.name, (tensor,), (result,), source)
    elif results:
        plan = result_views.plan
        if plan is None:
            plan = result_views.plan = operation.planned((tensor._type, *[x.__class__ for x in rest]), params, None)
        node = node_of(plan, operands, source=source) if plan.differentiable else None
        if node is not None:
            for k in plan.inexact:
                results[k]._node = node
                results[k]._output_nr = k
        elif not plan.differentiable:
            check_integers(plan, operands)
    return results if result_views.several else results[0]


def view_of(
    tensor: Tensor,
    geometry: Geometry,
    creation: str = "default",
    operation: str = "",
    source: RawSource | None = None,
    type: TensorType | None = None,
) -> Tensor:
    """A view: another handle on the same storage, with no history yet."""
    result = alias(tensor)
    result._type = type or tensor_type(geometry.dtype, geometry.sizes)
    result._geometry = geometry
    if tensor._inference:
        return result  # views of inference tensors are not recorded either
    parent = tensor._view
    if unusual.on and modes.inference:
        creation = "inference"
        cut(result)
    elif not modes.grad:
        creation = "no_grad"
        cut(result)
    base = tensor
    if parent is not None:
        base = parent.base
        if creation == "default":
            creation = parent.creation
    # field by field, as tensors and nodes are made: nearly every model makes many views
    view = result._view = new(ViewOf)
    view.base, view.creation, view.version = base, creation, tensor._counter.value
    view.operation, view.source, view.geometry = operation, source, geometry
    if parent is None:
        view.dual = view.parent = None
        view.depth = 0
    else:
        view.dual = tensor if parent.dual is OwnTangent.ITSELF else parent.dual
        view.parent = parent if parent.depth < DEEPEST_VIEW else None
        view.depth = 0 if view.parent is None else parent.depth + 1
    return result


def cut_from_base(view: Tensor) -> Tensor:
    """Turn a view into an independent tensor that shares its base's memory, but not its history or version counter."""
    for level in range(modes.dual_level, -1, -1):
        # until now its tangents followed from the base's
        CARRY.call(view, view, level, lambda tangent: tangent)
    view._view = None
    view._counter = VersionCounter()
    return view
