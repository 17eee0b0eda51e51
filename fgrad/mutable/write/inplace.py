"""Operations that write: the checks, the write, and the change to the backward graph.

NOTE [Views that may not be written]
A view remembers why it was made.  One made in ``no_grad`` or inference mode has no history of its own, so a recorded
write through it would be ambiguous; one of several outputs of one operation (``unbind``) would need a node that changes
only one of that operation's outputs.  PyTorch refuses to write through such views, and so does this layer.

NOTE [CopySlices]
A recorded write through a view changes its base: the base's node becomes ``CopySlices``, whose backward takes the
gradient of the base, sends the part that the view covers through the write's own node, and passes the rest on.

NOTE [Lazy grad_fn of views]
When a base is written, all its views change, and none is notified.  So a view remembers the version for which its
``grad_fn`` is valid; asked for it later, it makes a new one that reads its elements from the base
(``AsStridedBackward0``; PyTorch: torch/csrc/autograd/variable.cpp, "View + Inplace").  Strides alone do not lead from
real numbers to complex ones or to conjugates, so PyTorch makes such views anew, and the node has the view's own name.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import evolve
from numpy import ndarray

from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.layout.geometry import Geometry, expanded, nested
from fgrad.mutable.operation.as_strided import AS_STRIDED, AS_STRIDED_SCATTER, split_offset
from fgrad.mutable.operation.operands import OperandType, number
from fgrad.mutable.operation.operation import (
    Operation,
    Planned,
    apply,
    check_same_device,
    has_non_inference,
    without_wide_integers,
)
from fgrad.mutable.operation.operation_node import OperationNode, node_of, zeros
from fgrad.mutable.operation.origins import note_origin
from fgrad.mutable.operation.overlap import (
    check_copied,
    check_overlap,
    check_repeated,
    in_sequence,
    in_turns,
    unchecked,
)
from fgrad.mutable.operation.plan import NOTHING
from fgrad.mutable.ports import CHECK_WRITE, LIFTED, PUSH, REFUSED_WRITE
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.cut import settled
from fgrad.mutable.tensor.in_memory import LARGE, Scatter
from fgrad.mutable.tensor.node import TWICE, Attached, Edge, Node, function_name
from fgrad.mutable.tensor.saved import SavedTensor, save_unhooked
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import (
    OwnTangent,
    Tensor,
    find_nodes,
    gradient_edge,
    gradient_function,
    is_tracked,
    new_tensor,
)
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.values.device_of_value import elsewhere
from fgrad.seam import RawSource, here, in_memory, visible

LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation."
INFERENCE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal "
    "tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)


def check_inplace(tensor: Tensor, recorded: bool) -> None:
    """Raise PyTorch's error if a tensor may not be written now."""
    if recorded and modes.grad:
        view = tensor._view
        if view is not None:
            check_view(tensor, "is being")
            if is_tracked(tensor) and gradient_function(view.base) is None:
                raise REFUSED_WRITE.call(tensor, VIEW_OF_LEAF)
        if is_tracked(tensor) and gradient_function(tensor) is None:
            raise REFUSED_WRITE.call(tensor, LEAF)


def check_written(tensor: Tensor, *others: Any) -> None:
    """``check_inplace`` for an operation's operands, which PyTorch checks before it looks at their elements."""
    if not modes.grad:
        return
    tracked = normal = False
    for x in (tensor, *others):
        if isinstance(x, Tensor):
            if x._requires_grad or x._node is not None or (x._view is not None and is_tracked(x)):
                tracked = True
            normal = normal or not x._inference
    # for inference tensors alone, the operation decides whether autograd is involved: see ``has_non_inference``
    if tracked and normal:
        check_inplace(tensor, True)


def check_captured(tensor: Tensor, operation: str, overload: str = "") -> None:
    """Raise PyTorch's error if a function being differentiated is about to write a tensor from outside.

    A capture is notified of the write.  ``overload`` is PyTorch's name of the overload, if there are several.
    """
    if modes.capturing is not None:
        modes.capturing.lift_tensor(tensor)
        modes.capturing.note_write(tensor)
    view = tensor._view
    root = tensor if view is None or view.dual is OwnTangent.ITSELF else view.base if view.dual is None else view.dual
    if root._level >= modes.derived:
        return
    called = f"{operation}_.{overload}" if overload else f"{operation}_"
    raise RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
        f"(aten::{called}) that would mutate a captured Tensor. This is not supported; please rewrite "
        "the function being transformed to explicitly accept the mutated Tensor(s) as inputs."
    )


def check_view(tensor: Tensor, what: str) -> None:
    """Raise PyTorch's error if a view, or its base, may not be written."""
    view = tensor._view
    assert view is not None
    if view.creation == "default":
        return
    node = tensor._node
    if view.creation in ("no_grad", "inference") or node is None:
        start = "A view was created in"
        if node is not None:
            start = f"Output {tensor._output_nr} of {function_name(node)} is a view of a view which was created in"
        inference = view.creation == "inference"
        mode, normal = ("inference", "in normal mode") if inference else ("no_grad", "with grad mode enabled")
        text = f"{start} {mode} mode and {what} modified inplace {normal}. "
    else:
        text = f"Output {tensor._output_nr} of {function_name(node)} is a view and {what} modified inplace. "
    raise REFUSED_WRITE.call(tensor, text + _WHY_NOT[view.creation])


_AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
    "the view and the inplace either both inside the {} block (if you don't want the inplace to be tracked) or both "
    "outside (if you want the inplace to be tracked)."
)
_WHY_NOT = {
    "no_grad": _AMBIGUOUS.format("no_grad"),
    "inference": _AMBIGUOUS.format("inference_mode"),
    "multi_output": "This view is the output of a function that returns multiple views. Such functions do not allow "
    "the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
    "custom": "This view was created inside a custom Function (or because an input was returned as-is) and the "
    "autograd logic to handle view+inplace would override the custom backward associated with the custom Function, "
    "leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
    "Function.",
}


def apply_inplace(operation: Operation, operands: Sequence[Any], params: tuple[Any, ...] = ()) -> Tensor:
    """Run an operation, write its result into its first operand, and return that."""
    tensor: Tensor = operands[0]
    if not (unusual.on or elsewhere.exist):
        value = _computed_at_once(operation, operands, params)
        if value is not None:
            tensor._overwrite(value, f"{operation.name}_", visible(sys._getframe(3)))
            return tensor
    if unusual.on and modes.level:
        check_captured(tensor, operation.name, operation.writing.overload(operands))
        operands = (tensor, *LIFTED.call(operands[1:]))
    types, recorded, shared = _checked(operation, operands)
    plan = operation.planned(types, params, tensor._type)
    try:
        value = _computed(plan, operands, shared)
    except OverflowError:
        return apply_inplace(operation, without_wide_integers(operation, operands, params), params)
    source = visible(sys._getframe(3))  # past the function that called and the wrapper around it
    # integers get a history, except by ``copy_``: see NOTE [Integers with a history]
    keeps_history = plan.differentiable or (not tensor._type.inexact and operation.name != "copy")
    node = node_of(plan, operands, tensor, source) if recorded and modes.grad and keeps_history else None
    if unusual.on and modes.dual_level >= 0:
        PUSH.call(plan, operands, (tensor,))
    write(tensor, value, operation.name, node, source)
    if recorded and not modes.grad and tensor._requires_grad and any(map(_has_history, operands[1:])):
        note_origin(f"{operation.name}_", operands[1:], (tensor,), source)
    return tensor


def _computed_at_once(operation: Operation, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """The elements to write, if nothing is recorded and the state is that of NOTE [The short path]; else None."""
    tensor: Tensor = operands[0]
    if operation.writing.overlap is not None or tensor._inference or tensor._type.numel >= LARGE:
        return None
    types: list[OperandType] = []
    values: list[Any] = []
    for x in operands:
        if isinstance(x, Tensor):
            storage = x._storage
            if storage.__class__ is not Storage or x._geometry is not None or storage.strides is not None:
                return None
            if storage.home is not None or (storage is tensor._storage and x is not tensor):
                return None
            # without grad mode, the written tensor alone may require grad
            if (x._requires_grad or x._node is not None or x._view is not None) and (x is not tensor or modes.grad):
                return None
            value = storage.array
            if value.__class__ is not ndarray:
                return None
            types.append(x._type)
            values.append(value)
        elif x is None:
            types.append(None)
        else:
            types.append(x.__class__)
            try:
                values.append(number(x))
            except OverflowError:
                return None
    plan = operation.planned(tuple(types), params, tensor._type)
    if plan.blank is not None:
        values[0] = plan.blank
    return plan.routine(values)[0]


def _checked(operation: Operation, operands: Sequence[Any]) -> tuple[tuple[OperandType, ...], bool, bool]:
    """Check that a write is allowed.

    Returns the types of the operands, whether the write is recorded, and whether other operands share the memory.
    """
    tensor: Tensor = operands[0]
    recorded = shared = False
    types: list[OperandType] = []
    for x in operands:
        if isinstance(x, Tensor):
            types.append(x._type)
            if x._requires_grad or x._node is not None or (x._view is not None and is_tracked(x)):
                recorded = recorded or not x._inference or has_non_inference(operation, operands)
            if x._storage is tensor._storage and x is not tensor:
                shared = True
        else:
            types.append(None if x is None else x.__class__)
    recorded = recorded and not operation.writing.unrecorded
    if recorded:
        check_inplace(tensor, recorded)
        find_nodes(operands)
    if elsewhere.exist:
        check_same_device(operation, operands)
    overlap = operation.writing.overlap
    if shared or overlap is not None:
        (overlap or check_overlap)(tensor, operands[1:])
    elif tensor._geometry is not None:
        check_repeated(tensor)
    return tuple(types), recorded, shared


def _computed(plan: Planned, operands: Sequence[Any], shared: bool) -> Any:
    """The elements that an operation writes to its first operand; ``shared``: other operands share its memory."""
    tensor: Tensor = operands[0]
    operation, geometry = plan.operation, tensor._geometry
    if geometry is None and tensor._type.numel >= LARGE and not (shared or tensor._inference):
        scatter = _scatter(plan, operands)
        if scatter is not None:
            return scatter
    writing, routine = operation.writing, plan.routine
    overlap = writing.overlap
    # elements that are overwritten entirely need not be read
    read = geometry is None or plan.blank is None or modes.level or elsewhere.exist
    if geometry is not None and overlap is not unchecked and not nested(geometry.sizes, geometry.strides):
        aliases = tuple([k for k, i in enumerate(plan.present) if operands[i] is tensor])
        routine = in_turns(plan.graph, geometry.sizes, geometry.strides, aliases)
        read = True
    elif shared and overlap in (None, check_copied) and operation.computing.strides is not None:
        routine = _in_sequence(plan, operands) or routine
    elif writing.sequence is not None:
        shared_at = [_geometry_in(tensor, operands[i]) for i in plan.present]
        if any(g is not None for g in shared_at[1:]):
            routine = writing.sequence(plan.graph, tuple(shared_at))
    return routine([tensor._value() if read else plan.blank, *_read(operands[1:])])[0]


def _scatter(plan: Planned, operands: Sequence[Any]) -> Scatter | None:
    """What a scatter writes into its first operand, if it can be written in place; None for any other operation."""
    tensor: Tensor = operands[0]
    if plan.scatter is None or tensor._storage.strides is not None or tensor._storage.home is not None:
        return None
    if not tensor._is_replaceable(tensor._type.geometry):
        return None
    routine, places = plan.scatter
    values = routine(_read(operands[1:]))
    if not all(map(in_memory, values)):
        return None
    positions, new = places.of(*map(np.asarray, values))
    return Scatter(positions, new, places.write)


def _read(operands: Sequence[Any]) -> list[Any]:
    """The values of operands, without those that are left out."""
    return [x._value() if isinstance(x, Tensor) else number(x) for x in operands if x is not None]


def _has_history(x: Any) -> bool:
    return isinstance(x, Tensor) and is_tracked(x)


def _geometry_in(tensor: Tensor, x: Any) -> Geometry | None:
    """The geometry of an operand in the memory of a tensor; None if it lies elsewhere."""
    return x._geometry_of() if isinstance(x, Tensor) and x._storage is tensor._storage else None


#: the bytes that a vectorised kernel handles at once
_REGISTERS = 64


def _in_sequence(plan: Planned, operands: Sequence[Any]) -> Any:
    """The routine for operands that overlap the written memory; None if there are none."""
    tensor = operands[0]
    storage = tensor._storage
    shared = [i for i, x in enumerate(operands) if isinstance(x, Tensor) and x._storage is storage and x is not tensor]
    if not shared or 0 in tensor._type.shape:
        return None
    geometry = tensor._geometry_of()
    read = {i: expanded(operands[i]._geometry_of(), geometry.sizes) for i in shared}
    along = min(range(len(geometry.sizes)), key=lambda axis: geometry.strides[axis], default=None)
    # an element broadcast along a row is read only once if the row fills a vector register
    in_registers = along is None or geometry.sizes[along] * geometry.dtype.itemsize >= _REGISTERS
    read = {
        i: g
        for i, g in read.items()
        if g != geometry and not (in_registers and (along is None or not g.strides[along]))
    }
    if not read:
        return None
    types = list(plan.types)
    for i in read:
        types[i] = tensor_type(operands[i]._type.dtype, geometry.sizes)
    wide = plan.operation.planned(tuple(types), plan.params, tensor._type)
    return in_sequence(plan.graph, wide.graph, geometry, tuple([read.get(i) for i in plan.present[1:]]))


def write(
    tensor: Tensor, value: Any, operation: str, node: OperationNode | None, source: RawSource | None = None
) -> None:
    """Replace a tensor's elements, count the write, and make ``node`` part of its history.

    ``source`` is the user's line, if already known.

    Raises:
      RuntimeError: an inference tensor is written outside inference mode; as in PyTorch, after the write.
    """
    if unusual.on and modes.level:
        check_captured(tensor, operation)
        CHECK_WRITE.call(tensor, value)
        value = settled(tensor, value)
    if tensor._inference:
        tensor._write(value)
        check_inference(tensor)
    source = source or here(2)
    if node is None:
        tensor._overwrite(value, operation + "_", source)
        return
    before = Before(tensor)
    try:
        tensor._overwrite(value, operation + "_", source, before=before)
        rebase(tensor, node)
        outputs = save_outputs(node, tensor)
    except BaseException:
        before.restore()
        raise
    if unusual.on:
        # what a hook raises does not undo the write: a checkpoint ends its recomputation so
        for saved in outputs:
            saved.apply_hooks(tensor)


class Before:
    """The state of a tensor before a write, so that a write interrupted by a signal can be undone (NOTE [Signals])."""

    __slots__ = ("tensor", "root", "version", "undo", "metadata", "histories", "retains")

    def __init__(self, tensor: Tensor):
        view = tensor._view
        self.tensor: Tensor = tensor
        root = tensor if view is None else view.base
        self.root: Tensor = root
        self.version: int = tensor._counter.value
        #: puts the elements back, once some are written
        self.undo: Callable[[], None] | None = None
        self.metadata: tuple[Geometry | None, TensorType, int | None] = (
            tensor._geometry,
            tensor._type,
            None if view is None else view.version,
        )
        self.histories: list[tuple[Tensor, Node | None, int, OrderedDict[int, Any] | None]] = [
            (x, x._node, x._output_nr, x._tensor_hooks) for x in (tensor, root)
        ]
        #: the nodes that retain gradients, with their former tables
        self.retains: list[tuple[Attached, dict[int, Any]]] = [
            (node._attached, dict(node._attached.retains))
            for x, node, _, _ in self.histories
            if x._retains_grad and node is not None and node._attached is not None and node._attached.retains
        ]

    def restore(self) -> None:
        tensor = self.tensor
        if self.undo is not None:
            self.undo()
        tensor._counter.value = self.version
        tensor._geometry, tensor._type, version = self.metadata
        if tensor._view is not None and version is not None:
            tensor._view.version = version
        for x, node, output, hooks in self.histories:
            x._node, x._output_nr, x._tensor_hooks = node, output, hooks
        changes.fields = object()
        for attached, retains in self.retains:
            attached.retains = retains


def check_inference(tensor: Tensor) -> None:
    """Raise PyTorch's error if an inference tensor is changed outside inference mode."""
    if tensor._inference and not modes.inference:
        raise RuntimeError(INFERENCE)


def save_outputs(node: OperationNode, tensor: Tensor) -> list[SavedTensor]:
    """Save the written tensor, if backward reads the operation's result."""
    grad_fn = tensor._node if tensor._view is not None else None
    names = node.plan.operation.outputs
    outputs = [save_unhooked(tensor, names[k], True, grad_fn) for k in node.pullback.outputs]
    node.saved += outputs
    return outputs


def rebase(tensor: Tensor, node: Node) -> None:
    """Make a node the ``grad_fn`` of a tensor just written; for a view, of its base, through ``CopySlices``."""
    view = tensor._view
    if view is None:
        make(tensor, node)
        return
    base = view.base
    copy = CopySlices(base, tensor._geometry_of(), node)
    gradient_function(base)
    make(base, copy)
    # also where the write has been counted before and the old history was asked for since
    renew(tensor)


def make(tensor: Tensor, node: Node) -> None:
    """Make a new node the ``grad_fn`` of a tensor: hooks stay with the old one, ``retain_grad`` follows the tensor.

    From the first change to the last nothing is called: see NOTE [Signals].
    """
    old, number = tensor._node, tensor._output_nr
    retains = attached = None
    if tensor._retains_grad and old is not None and old._attached is not None:
        retains = old._attached.retains
    if retains is not None:
        attached = node._attach()
        if modes.capturing is not None:
            modes.capturing.note_change(retains)
    now = object()
    if attached is not None and retains is not None:
        attached.retains = {0: retains[number]}
    tensor._node, tensor._output_nr, tensor._tensor_hooks = node, 0, None
    changes.fields = now
    if retains is not None:
        del retains[number]
    if tensor._view is not None:
        tensor._view.version = tensor._counter.value


class CopySlices(Node):
    """The node of a base that was written through a view: see NOTE [CopySlices]."""

    __slots__ = ("base", "view", "function")

    def __init__(self, base: Tensor, view: Geometry, function: Node):
        edges: list[Edge | None] = [gradient_edge(base), *function.next_edges[1:]]
        super().__init__(edges, (base._type,), function._source)
        self.base: Geometry = base._geometry_of()
        self.view: Geometry = view
        self.function: Node | None = function

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        function = self.function
        if function is None:
            raise RuntimeError(TWICE)
        grad = grads[0]
        if grad is None:
            return [None] * len(self.next_edges)
        start, params = split_offset(self.base, self.view)
        part = apply(AS_STRIDED, (grad, start), params)
        input_grads = list(function.apply([part]))
        if self.next_edges[0] is not None:
            inner = input_grads[0]
            if inner is None:
                inner = new_tensor(zero_value(part._type), part._type)
            input_grads[0] = apply(AS_STRIDED_SCATTER, (grad, inner, start), params)
        else:
            input_grads[0] = None
        return input_grads

    def _release(self, source: RawSource | None = None) -> None:
        # the function's saved values stay: a double backward may still need them
        self.function = None


def zero_value(type: TensorType) -> Any:
    """An array of zeros of a type."""
    return zeros(type)._value()


def renew(tensor: Tensor) -> None:
    """Renew the ``grad_fn`` of a view after a write: see NOTE [Lazy grad_fn of views]."""
    view = tensor._view
    assert view is not None
    if tensor._node is None and not is_tracked(view.base):
        return
    check_view(tensor, "its base or another view of its base has been")
    base = view.base
    start, params = split_offset(base._geometry_of(), tensor._geometry_of())
    reading = _reading_as(view.operation) if view.operation in _OTHER_ELEMENTS else AS_STRIDED
    plan = reading.planned((base._type, int), params, None)
    # a base that no longer requires grad: the node exists, and leads nowhere
    make(tensor, node_of(plan, (base, start)) or plan.node_class(plan, NOTHING, [None], []))


#: views whose elements are not those of the base
_OTHER_ELEMENTS = frozenset(("view_as_real", "view_as_complex", "_conj", "_neg_view"))


@lru_cache(1 << 8)
def _reading_as(operation: str) -> Operation:
    """``as_strided`` with the node of another view."""
    return evolve(AS_STRIDED, name=operation, node=None)
