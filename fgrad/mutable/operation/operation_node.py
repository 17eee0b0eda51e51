"""The nodes of operations: how they are made, what they save, and how they pull gradients back.

NOTE [Recordings]
The class of an operation's node, its pull-back and the operands that it saves depend on the plan and on which operands
require grad, not on the tensors.  So they are decided once for each combination, as a ``Recording``; each call then
makes the edges, the saved values and the node.

Python adapts the bytecode of a function to the classes that it meets.  There is a class of nodes for each operation,
so each has a copy of the function that writes its fields.
"""

from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

from attrs import frozen

from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.layout.gradient_views import View
from fgrad.mutable.operation.gradient_layouts import saved_reads
from fgrad.mutable.operation.operands import getter, number
from fgrad.mutable.operation.output_strides import ELEMENTWISE, SPATIAL, elementwise
from fgrad.mutable.operation.plan import NOTHING, Pullback
from fgrad.mutable.operation.saved_attributes import saved_attribute, saved_names
from fgrad.mutable.ports import CARRY, INTEGER_GRADIENT, RELEASED, REPLAY, REQUESTED
from fgrad.mutable.tensor.node import Edge, Node, named, numbering
from fgrad.mutable.tensor.origin import Origin
from fgrad.mutable.tensor.saved import SavedTensor, save
from fgrad.mutable.tensor.tensor import (
    Tensor,
    accumulator,
    alias,
    gradient_function,
    has_own_strides,
    is_tracked,
    new,
    new_tensor,
)
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.values.deferral import Deferred, computed, defer
from fgrad.mutable.values.evaluation import filled
from fgrad.seam import RawSource, UndefinedDerivativeError, here

#: an operation planned for the types of its operands: a ``Planned`` of ``operation.py``, which knows the nodes here
Planned = Any

#: the node name of operations without a derivative
NOT_IMPLEMENTED = "torch::autograd::NotImplemented"


class OperationNode(Node):
    """The node of an operation of the table."""

    __slots__ = ("plan", "pullback", "saved", "numbers", "released", "origins")

    fusible = True

    def __init__(
        self,
        plan: Planned,
        pullback: Pullback,
        edges: Sequence[Edge | None],
        saved: list[Any],
        source: RawSource | None = None,
    ):
        # as ``Node.__init__`` has it: nearly every operation makes one of these
        self.next_edges = edges
        self.out_types = plan.gradient_types
        self._source = source or here(2)
        self._scope = modes.module
        self._sequence = next(numbering.numbers)
        self._attached = None
        if unusual.on:
            self.trace()
        self.plan: Planned = plan
        self.pullback: Pullback = pullback
        self.saved: list[Any] = saved
        #: the operands that are Python numbers
        self.numbers: tuple[Any, ...] = ()
        #: the origins of operands without history
        self.origins: tuple[Origin, ...] = ()
        #: whether the saved values were freed, and the user's line whose backward freed them
        self.released: RawSource | bool = False

    @property
    def broadcasts_saved(self) -> bool:
        return self.plan.operation.computing.strides in ELEMENTWISE

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        plan = self.plan
        pullback = self.pullback
        if self.released and self.saved:
            raise RELEASED.call(self)
        cotangents: list[Tensor] = []
        for k in plan.inexact:
            g = grads[k]
            if g is not None:
                cotangents.append(g)
        if pullback is NOTHING or not cotangents:
            return [None] * len(self.next_edges)
        missing = len(cotangents) < len(plan.inexact)
        if missing:
            pullback = plan.partial_pullback(pullback, tuple([k for k in plan.inexact if grads[k] is not None]))
            cotangents = [zeros(plan.out_types[k]) if (g := grads[k]) is None else g for k in pullback.received]
        if modes.grad or (unusual.on and modes.dual_level >= 0):
            # as results of recorded operations, so that they can be differentiated again
            values = self._read(grads, SavedTensor.operand)
            if pullback is not self.pullback:
                values = pullback.operands_of(self.pullback, values)
            gradients = REPLAY.call(self, pullback, [*values, *cotangents])
        else:
            gradients = self._computed(pullback, cotangents, grads)
        if missing or self.pullback.absent == "unread":
            undefined = self.pullback.undefined([grads[k] for k in plan.inexact])
            gradients = [None if x else g for g, x in zip(gradients, undefined, strict=True)]
        return gradients if len(gradients) == len(self.next_edges) else self._spread(gradients)

    def _read(self, grads: Sequence[Tensor | None], how: Callable[[SavedTensor, Node], Any]) -> list[Any]:
        """The saved values, each read only once: unpack hooks run at each read."""
        values = []
        for s in self.saved:
            values.append(how(s, self) if isinstance(s, SavedTensor) else s)
        return values

    def _computed(
        self, pullback: Pullback, cotangents: Sequence[Tensor], grads: Sequence[Tensor | None]
    ) -> Sequence[Tensor]:
        """The requested gradients, unrecorded."""
        views: Sequence[Tensor | None] = (None,) * len(pullback.wrt)
        if any(pullback.views):
            views = self._views(pullback, cotangents)
        if pullback.only_views and not self.saved and all(view is not None for view in views):
            return views  # type: ignore[return-value]
        values = self._read(grads, SavedTensor.waiting)
        if pullback is not self.pullback:
            values = pullback.operands_of(self.pullback, values)
        waits = pullback.routine.defers
        for g in cotangents:
            values.append(g._waiting())
        for x in values:
            if x.__class__ is Deferred:
                waits = True
        outs = defer(pullback.routine, values) if waits else pullback.routine(values)
        layouts = pullback.strides
        of_images = self.plan.operation.computing.strides
        if of_images in SPATIAL:
            layouts = self._of_images(of_images, pullback, cotangents)
        elif len(cotangents) == 1 and (has_own_strides(cotangents[0]) or self.plan.operation.gradients.saved_first):
            layouts = self._following(pullback, cotangents[0])
        gradients = []
        types, present = self.plan.types, self.plan.present
        for view, v, i, strides in zip(views, outs, pullback.wrt, layouts, strict=True):
            gradients.append(new_tensor(v, types[present[i]], strides) if view is None else _with_value_read(view, v))
        return gradients

    def _views(self, pullback: Pullback, cotangents: Sequence[Tensor]) -> Sequence[Tensor | None]:
        """For each gradient, the incoming one or the view of it that it is; None if it must be computed."""
        return [None if p is None else _passed_on(cotangents[p[0]], p[1], self.numbers) for p in pullback.views]

    def _following(self, pullback: Pullback, cotangent: Tensor) -> Sequence[Ints | None]:
        """The strides of gradients computed elementwise from a result's gradient: they have its layout.

        If it is expanded and has no layout of its own, they have that of the saved factor; see also ``saved_first``.
        """
        if not self.broadcasts_saved:
            return pullback.strides
        shape, saved_first = cotangent._type.shape, self.plan.operation.gradients.saved_first
        saved = [s.tensor if isinstance(s, SavedTensor) else None for s in self.saved]
        if saved_first or any(x is not None and has_own_strides(x) and not x._geometry_of().contiguous for x in saved):
            factors = [[saved[k] for k in read] for read in saved_reads(pullback)]
        else:
            factors = [[]] * len(pullback.wrt)
        return [
            elementwise((*more, cotangent) if saved_first else (cotangent, *more), shape)
            if strides is None and type_at(self.plan, i).shape == shape
            else strides
            for i, strides, more in zip(pullback.wrt, pullback.strides, factors, strict=True)
        ]

    def _of_images(
        self, of_images: Callable[..., Ints | None], pullback: Pullback, cotangents: Sequence[Tensor]
    ) -> Sequence[Ints | None]:
        """The strides of gradients of images: those of a saved image or kernel, or else of a result's gradient."""
        images = [s.tensor for s in self.saved if isinstance(s, SavedTensor)] or cotangents
        return [
            of_images(images, type_at(self.plan, i).shape) if strides is None else strides
            for i, strides in zip(pullback.wrt, pullback.strides, strict=True)
        ]

    def _spread(self, gradients: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradients at the positions of their edges."""
        it = iter(gradients)
        return [None if edge is None else next(it) for edge in self.next_edges]

    def _release(self, source: RawSource | None = None) -> None:
        for s in self.saved:
            if isinstance(s, SavedTensor):
                s.release()
        by_value = self.plan.by_value
        if self.released or len(self.saved) == (len(by_value.intersection(self.pullback.inputs)) if by_value else 0):
            return  # numbers alone are never freed
        self.released = source or True

    # -- _saved_* ----------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        return saved_attribute(self, name)

    def __dir__(self) -> list[str]:
        names = ["metadata", "name", "next_functions", "register_hook", "register_prehook", "requires_grad"]
        return names + saved_names(self)


class NotDerivedNode(OperationNode):
    """The node of an operation without a derivative in PyTorch: backward through it is an error."""

    __slots__ = ()

    fusible = False

    def __init__(self, plan: Planned, pullback: Pullback, edges: Sequence[Edge | None], *rest: Any):
        super().__init__(plan, pullback, [edge for edge in edges if edge is not None], *rest)

    def name(self) -> str:
        return NOT_IMPLEMENTED

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise RuntimeError(f"derivative for aten::{self.plan.called} is not implemented")


class CheckedNode(OperationNode):
    """The node of an operation without a derivative in some cases: see ``Gradients.refuse``."""

    __slots__ = ()

    fusible = False

    def _read(self, grads: Sequence[Tensor | None], how: Callable[[SavedTensor, Node], Any]) -> list[Any]:
        operation = self.plan.operation
        values = super()._read(grads, how)
        saved = {
            s.name: x._value() if isinstance(x, Tensor) else computed(x)
            for s, x in zip(self.saved, values, strict=True)
            if isinstance(s, SavedTensor)
        }
        static = operation.named(self.plan.params)
        refuse = operation.gradients.refuse
        assert refuse is not None
        refuse(saved, [None if g is None else g._value() for g in grads], **static)
        return values


class RefusedNode(OperationNode):
    """The node of an operation that has no derivative with respect to a tracked operand, in PyTorch or here.

    Its pull-back has the gradients of the others, if these alone are requested.
    """

    __slots__ = ()

    fusible = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        plan = self.plan
        for (_, index), requested in zip(plan.edges, REQUESTED.call(self), strict=True):
            if requested and index not in self.pullback.wrt:
                operation = plan.operation
                called = operation.gradients.not_derived.get(plan.named_operands[index][1], operation.name)
                raise NotImplementedError(f"the derivative for '{called}' is not implemented.")
        return super().apply(grads)

    def _spread(self, gradients: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        by_operand = dict(zip(self.pullback.wrt, gradients, strict=True))
        return [by_operand.get(index) for _, index in self.plan.edges]


class IntegerNode(OperationNode):
    """The node of an operation on integers that have a history, through which no gradient can flow.

    NOTE [Integers with a history]
    ``fill_`` and the like put a differentiable number into an integer tensor, which in PyTorch then requires grad.
    Its gradient would be of integers: backward through it is an error, and so is an operation that passes such
    integers on.  No gradient is lost silently.
    """

    __slots__ = ()

    fusible = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise INTEGER_GRADIENT.call(self)


def type_at(plan: Planned, position: int) -> TensorType:
    """The type of the operand at a position among those present."""
    return plan.types[plan.present[position]]  # type: ignore[return-value]


def zeros(type: TensorType) -> Tensor:
    """A tensor of zeros, in place of an undefined gradient."""
    return new_tensor(filled(type.shape, type.dtype.numpy, 0), type)


def _passed_on(gradient: Tensor, view: View | None, numbers: Sequence[Any]) -> Tensor | None:
    """A gradient itself or a view of it, or None if strides cannot express it: see NOTE [Gradients that are views]."""
    if view is None:
        return gradient
    geometry = view(gradient._geometry_of(), *numbers)
    if geometry is None:
        return None
    result = alias(gradient)
    result._type = tensor_type(geometry.dtype, geometry.sizes)
    result._geometry = geometry
    return result


def _with_value_read(view: Tensor, value: Any) -> Tensor:
    """The view, with its value cached."""
    if view._geometry is not None and view._cache is None and value.__class__ is not Deferred:
        view._cache = view._storage.array, value
    return view


# -- making one ------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Recording:
    """How an operation is recorded if certain operands require grad: see NOTE [Recordings]."""

    node_class: type[OperationNode]
    pullback: Pullback
    #: the operands that the node saves, with their names
    saved: tuple[tuple[int, str], ...]
    #: from the operands to those that are Python numbers
    numbers: Callable[[Sequence[Any]], Sequence[Any]]
    #: the ``__init__`` of the class, with bytecode of its own
    initialize: Callable[..., None]

    @staticmethod
    def of(plan: Planned, tracked: Sequence[int]) -> "Recording":
        """The recording of a plan if the operands at these positions require grad."""
        node_class, pullback = _decided(plan, frozenset(tracked))
        saved = tuple([plan.named_operands[at] for at in pullback.inputs])
        return Recording(node_class, pullback, saved, getter(plan.numbers), _initializer(node_class))


def _decided(plan: Planned, tracked: frozenset[int]) -> tuple[type[OperationNode], Pullback]:
    """The class of the node, and its pull-back."""
    node_class = plan.node_class
    if any(not plan.types[i].inexact for i in tracked) or (plan.into is not None and not plan.into.inexact):
        return named(IntegerNode, node_class.__name__), NOTHING
    wrt = [position for i, position in plan.edges if i in tracked]
    if plan.not_derived and not plan.not_derived.isdisjoint(wrt):
        wrt = [at for at in wrt if at not in plan.not_derived]
        node_class = named(RefusedNode, node_class.__name__)
    try:
        # a view made without recording requires grad if its base does, but no gradient flows through it
        return node_class, plan.pullback(tuple(wrt)) if wrt else NOTHING
    except UndefinedDerivativeError:
        return named(RefusedNode, plan.node_class.__name__), NOTHING


@cache
def _initializer(node_class: type[OperationNode]) -> Callable[..., None]:
    function: Any = node_class.__init__
    return FunctionType(
        function.__code__.replace(), function.__globals__, None, function.__defaults__, function.__closure__
    )


def node_of(
    plan: Planned, operands: Sequence[Any], overwritten: Tensor | None = None, source: RawSource | None = None
) -> "OperationNode | None":
    """The node of an operation with its edges and saved inputs; None if no operand that has an edge requires grad.

    ``overwritten`` is the tensor that the operation is about to write: its value is saved, not a handle.
    ``source`` is the user's line, if already known.
    """
    edges: list[Edge | None] = []
    #: a bit for each operand that has an edge: whether it requires grad
    tracked = 1
    origin = plan.has_nondiff
    for i in plan.differentiated:
        x = operands[i]
        tracked += tracked
        if isinstance(x, Tensor):
            if x._origin is not None:
                origin = True
            # ``gradient_edge``, inlined
            maker = x._node if x._view is None else gradient_function(x)
            if maker is not None:
                edges.append((maker, x._output_nr))
                tracked += 1
                continue
            if x._requires_grad:
                edges.append((accumulator(x), 0))
                tracked += 1
                continue
        edges.append(None)
    recording = plan.recordings.get(tracked)
    if recording is None:
        at = [i for i, edge in zip(plan.differentiated, edges, strict=True) if edge is not None]
        if not at and not any(isinstance(x, Tensor) and is_tracked(x) for x in operands):
            return None
        recording = Recording.of(plan, at)
        if at:
            plan.recordings[tracked] = recording
    pullback = recording.pullback
    if plan.columns is not None:
        pullback = plan.columns.for_operands(pullback, operands)
    saved: list[Any] = []
    for i, name in recording.saved:
        x = operands[i]
        if not isinstance(x, Tensor):
            saved.append(number(x))
        else:
            # if the written tensor is also another operand, that one is saved as it is, and backward raises for it
            saved.append(save(before_write(x) if x is overwritten and i == 0 else x, name))
    node = new(recording.node_class)
    recording.initialize(node, plan, pullback, edges, saved, source)
    if plan.numbers:
        node.numbers = tuple(recording.numbers(operands))
    if origin:
        node.origins = tuple([x._origin for x in operands if isinstance(x, Tensor) and x._origin is not None])
    return node


def before_write(tensor: Tensor) -> Tensor:
    """A copy, with its history, of a tensor that is about to be written."""
    old = new_tensor(tensor._value(), tensor._type)
    old._node, old._output_nr = gradient_function(tensor), tensor._output_nr
    for level in range(modes.dual_level + 1):
        CARRY.call(tensor, old, level, lambda tangent: before_write(tangent))
    return old
