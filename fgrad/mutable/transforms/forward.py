"""Forward mode: tangents carried by tensors.

NOTE [Tangents and memory]
A tensor's tangent is a tensor like it.  A view's tangent is the same view of its base's tangent, so that a write
through either reaches both: writing to a tensor writes to its tangent's storage; a view that gains a tangent where its
base has none gives the base one of zeros first (PyTorch: torch/csrc/autograd/autograd_meta.cpp, "Forward Grad
View/inplace").

NOTE [Levels of forward mode]
``torch.func.jvp`` nests: each call opens a level, and a tensor has a tangent for each level that it depends on.  The
tangents of the innermost level are computed first, by operations that the levels outside see; so a tangent has tangents
of those levels, and no level mistakes another's perturbation for its own.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from attrs import evolve

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry, overlaps
from fgrad.mutable.operation.as_strided import AS_STRIDED, AS_STRIDED_SCATTER, split_offset
from fgrad.mutable.operation.graph_operation import graph_operation_on_reads, node_name
from fgrad.mutable.operation.operation import Planned, apply
from fgrad.mutable.operation.operation_node import NotDerivedNode, node_of, type_at, zeros
from fgrad.mutable.operation.views import view_of
from fgrad.mutable.ports import LIFTED
from fgrad.mutable.tensor.storage import VersionCounter
from fgrad.mutable.tensor.tensor import OwnTangent, Tensor, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.seam import Graph


class Level:
    """An open level; tensors hold their tangents in weak dicts keyed by it, so they lose them when it is closed."""

    __slots__ = ("__weakref__",)


def level_opened() -> dict[str, Any]:
    """The modes with one more level, inside the others."""
    return {"duals": (*modes.duals, Level()), "dual_level": len(modes.duals)}


def level_closed() -> dict[str, Any]:
    """The modes with the innermost level closed."""
    return {"duals": modes.duals[:-1], "dual_level": len(modes.duals) - 2}


def tangent_of(tensor: Tensor, level: int | None = None) -> Tensor | None:
    """The tangent of a tensor at a level, by default the innermost; for a view, a view of its base's tangent.

    With forward mode off, no tensor has one.
    """
    if not modes.forward_grad:
        return None
    number = modes.dual_level if level is None else level
    tangents = tensor._tangents
    tangent = None if tangents is None or number < 0 else tangents.get(modes.duals[number])
    base = _base(tensor)
    if tangent is None and base is not None:
        base_tangent = tangent_of(base, number)
        if base_tangent is not None:
            tangent = _view_of_tangent(base_tangent, _in_tangent_storage(tensor, base, base_tangent))
            enter_tangent(tensor, tangent, number)
    return tangent


def _view_of_tangent(tangent: Tensor, geometry: Geometry) -> Tensor:
    if modes.level:
        (tangent,) = LIFTED.call((tangent,))
    view = view_of(tangent, geometry)
    if modes.grad and is_tracked(tangent):
        start, params = split_offset(tangent._geometry_of(), geometry)
        view._node = node_of(AS_STRIDED.planned((tangent._type, int), params, None), (tangent, start))
    return view


def _base(tensor: Tensor) -> Tensor | None:
    """The tensor whose tangent a view's tangent is a view of."""
    view = tensor._view
    if view is None or view.dual is OwnTangent.ITSELF:
        return None
    return view.base if view.dual is None else view.dual


def enter_tangent(tensor: Tensor, tangent: Tensor, level: int) -> None:
    """Make a tensor the tangent of another at a level."""
    if tensor._tangents is None:
        tensor._tangents = WeakKeyDictionary()
    tensor._tangents[modes.duals[level]] = tangent


def _in_tangent_storage(view: Tensor, base: Tensor, tangent: Tensor) -> Geometry:
    """The geometry of a view, moved from its base's storage to the tangent's."""
    g = view._geometry_of()
    shift = tangent._geometry_of().offset - base._geometry_of().offset
    return evolve(g, offset=g.offset + shift)


def set_tangent(tensor: Tensor, tangent: Tensor, level: int | None = None) -> None:
    """Set a tensor's tangent: by writing to its current one, or to its base's if it is a view."""
    number = modes.dual_level if level is None else level
    have = tangent_of(tensor, number)
    base = _base(tensor)
    if have is None and base is not None:
        enter_tangent(base, with_layout_of(zeros(base._type), base), number)
        have = tangent_of(tensor, number)
    if have is None:
        enter_tangent(tensor, with_layout_of(tangent, tensor), number)
        return
    if have._storage is tangent._storage and have._geometry_of() == tangent._geometry_of():
        return  # a custom function returned the view of its input's tangent, which is there already
    if modes.grad and (is_tracked(have) or is_tracked(tangent)):
        innermost, derived = modes.dual_level, modes.derived
        try:
            # a tangent may be from outside of what is differentiated
            modes.dual_level, modes.derived = number - 1, 0
            have.copy_(tangent)  # recorded: it may be a part of a tangent that has a history
        finally:
            modes.dual_level, modes.derived = innermost, derived
        return
    have._overwrite(tangent._value(), "copy_", None)
    for outer in range(number):
        base_tangent = tangent_of(tangent, outer)
        if base_tangent is not None:
            set_tangent(have, base_tangent, outer)


def take_tangents(tensor: Tensor, computed: Tensor) -> None:
    """Give a tensor that is written the tangents of what is written to it, at the open levels."""
    for level in range(modes.dual_level + 1):
        tangent = tangent_of(computed, level)
        if tangent is not None:
            set_tangent(tensor, tangent, level)


def counters_of(tensor: Tensor, levels: int) -> list[VersionCounter]:
    """The version counters that a write to a tensor raises: its own, and those of its tangents at the first levels."""
    tangents = [(tangent_of(tensor, level), level) for level in range(levels)]
    inner = [counters_of(tangent, level) for tangent, level in tangents if tangent is not None]
    return [tensor._counter, *itertools.chain.from_iterable(inner)]


def with_layout_of(tangent: Tensor, tensor: Tensor) -> Tensor:
    """A tangent with the memory layout of its tensor, so that views of one correspond to views of the other.

    If the tensor is a part of its storage, the tangent is the same part of a storage that is zero elsewhere: a view may
    reach beyond the tensor.  It is conjugated or negated on reading as the tensor is: views of the tensor are so, too
    (PyTorch: torch/csrc/autograd/autograd_meta.cpp, ``has_same_meta``).
    """
    g, capacity = tensor._geometry_of(), _capacity(tensor)
    have = tangent._geometry_of()
    if not tensor._type.numel or overlaps(g.sizes, g.strides) or (have == g and _capacity(tangent) == capacity):
        return tangent
    if capacity != tensor._type.numel or g.conj or g.neg:
        memory = zeros(tensor_type(g.dtype, (capacity,)))
        start, params = split_offset(memory._geometry_of(), g)
        return _view_of_tangent(apply(AS_STRIDED_SCATTER, (memory, tangent, start), params), g)
    if have.strides == g.strides and not (have.conj or have.neg):
        return tangent
    result = new_tensor(tangent._value(), tangent._type, g.strides)
    result._node, result._output_nr, result._tangents = tangent._node, tangent._output_nr, tangent._tangents
    return result


def _capacity(tensor: Tensor) -> int:
    """How many elements of its type a tensor's storage has."""
    storage = tensor._storage
    return storage.count * storage.dtype.itemsize // tensor._type.dtype.itemsize


def _node_name(plan: Planned, tangents: Graph) -> str:
    """The node name of tangents: that of the last step of PyTorch's formula, which for a product is a sum."""
    if isinstance(plan.operation.gradients.backward_node, str):
        return plan.operation.gradients.backward_node
    nodes = plan.graph.nodes
    if nodes and nodes[-1].op.name in ("mul", "dot_general"):
        return "AddBackward0"
    return node_name(tangents.nodes[-1].op) if tangents.nodes else "AliasBackward0"


def push(plan: Planned, operands: Sequence[Any], results: Sequence[Tensor]) -> None:
    """Compute the tangents of an operation's results from its operands', innermost level first."""
    innermost = modes.dual_level
    try:
        for level in range(innermost, -1, -1):
            modes.dual_level = level - 1
            _push(plan, operands, results, level)
    finally:
        modes.dual_level = innermost


def _push(plan: Planned, operands: Sequence[Any], results: Sequence[Tensor], level: int) -> None:
    present = [operands[i] for i in plan.present]
    nondiff = plan.operation.nondiff_operands
    tangents = [
        tangent_of(x, level) if isinstance(x, Tensor) and plan.present[index] not in nondiff else None
        for index, x in enumerate(present)
    ]
    varied = tuple([i for i, t in enumerate(tangents) if t is not None and type_at(plan, i).inexact])
    if not varied or not plan.inexact:
        return
    check_pushed(plan)
    graph = plan.pushforward(varied).routine.graph
    operation, read = graph_operation_on_reads(graph, plan.operation.name, _node_name(plan, graph))
    if modes.grad and any(is_tracked(x) for x in (*present, *tangents) if isinstance(x, Tensor)):
        for i, x in enumerate(present):
            if any(x is written for written in results):  # backward may need it, and its tangent, as they were
                tangent = tangents[i]
                present[i], tangents[i] = x.clone(), None if tangent is None else tangent.clone()
    inputs = [*present, *[tangents[i] for i in varied]]
    pushed = apply(operation, [inputs[i] for i in read])
    for k, tangent in zip(plan.inexact, pushed, strict=True):
        set_tangent(results[k], tangent, level)


def check_pushed(plan: Planned) -> None:
    """Raise PyTorch's error for an operation that has no derivative."""
    if issubclass(plan.node_class, NotDerivedNode):
        raise NotImplementedError(f"Trying to use forward AD with aten::{plan.called} that does not support it.")
    if plan.not_derived:
        raise NotImplementedError(
            f"Trying to use forward AD with {plan.called} that does not support it because it has not been implemented "
            "yet."
        )


def carry(tensor: Tensor, result: Tensor, level: int, step: Callable[[Tensor], Tensor]) -> None:
    """Give a tensor the tangent that ``step`` computes from another's, at a level."""
    tangent = tangent_of(tensor, level)
    if tangent is not None:
        innermost, modes.dual_level = modes.dual_level, level - 1
        try:
            enter_tangent(result, step(tangent), level)
        finally:
            modes.dual_level = innermost
