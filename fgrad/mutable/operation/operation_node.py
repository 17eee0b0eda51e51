"""The nodes of operations: what they saved, and how they pull gradients back."""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.output_strides import ELEMENTWISE, elementwise
from fgrad.mutable.operation.plan import NOTHING, Pullback
from fgrad.mutable.operation.saved_attributes import saved_attribute, saved_names
from fgrad.mutable.tensor.node import TWICE, Edge, Node
from fgrad.mutable.tensor.origin import Origin
from fgrad.mutable.tensor.passed_gradients import passed_on, remembering
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor, lies_apart, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.values.evaluation import filled
from fgrad.seam import RawSource, here

#: an operation planned for the types of its operands: a ``Planned`` of ``operation.py``, which knows the nodes here
Planned = Any

#: the node's name of operations without a derivative
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
        super().__init__(edges, plan.out_types, source or here(3))
        self.plan: Planned = plan
        self.pullback: Pullback = pullback
        self.saved: list[Any] = saved
        #: the operands that are Python numbers
        self.numbers: tuple[Any, ...] = ()
        #: the origins of operands without history
        self.origins: tuple[Origin, ...] = ()
        #: whether what was saved is gone, and the user's line whose backward let go of it
        self.released: RawSource | bool = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        plan = self.plan
        pullback = self.pullback
        if self.released and self.saved:
            raise released_error(self)
        inexact = plan.inexact
        given = [grads[k] for k in inexact]
        if pullback is NOTHING or all(g is None for g in given):
            return [None] * len(self.next_edges)
        cotangents = [zeros(plan.out_types[k]) if g is None else g for k, g in zip(inexact, given, strict=True)]
        if modes.grad or modes.dual_level >= 0:
            # as results of recorded operations, so that they can be differentiated again
            found = replay.run(self, pullback, [*self._read(grads, SavedTensor.operand), *cotangents])
        else:
            found = self._computed(pullback, cotangents, grads)
        return self._spread(found)

    def _read(self, grads: Sequence[Tensor | None], how: Callable[[SavedTensor, Node], Any]) -> list[Any]:
        """What was saved, each read once: hooks that unpack it run each time."""
        return [how(s, self) if isinstance(s, SavedTensor) else s for s in self.saved]

    def _computed(
        self, pullback: Pullback, cotangents: Sequence[Tensor], grads: Sequence[Tensor | None]
    ) -> Sequence[Tensor]:
        """The gradients of the wanted inputs, unrecorded."""
        plan = self.plan
        numbers = self.numbers
        views = [None if p is None else passed_on(cotangents[p[0]], p[1], numbers) for p in pullback.passed]
        if pullback.whole and not self.saved and all(view is not None for view in views):
            return views  # type: ignore[return-value]
        values = self._read(grads, SavedTensor.value)
        values += [g._value() for g in cotangents]
        outs = pullback.routine(values)
        layouts = pullback.strides
        if len(cotangents) == 1 and lies_apart(cotangents[0]):
            layouts = self._following(pullback, cotangents[0])
        return [
            new_tensor(v, type_at(plan, i), strides) if view is None else remembering(view, v)
            for view, v, i, strides in zip(views, outs, pullback.wanted, layouts, strict=True)
        ]

    def _following(self, pullback: Pullback, cotangent: Tensor) -> Sequence[Ints | None]:
        """The strides of gradients that are made of a result's gradient element by element: they lie as that does."""
        if self.plan.operation.strides not in ELEMENTWISE:
            return pullback.strides
        shape = cotangent._type.shape
        own = elementwise((cotangent,), shape)
        return [
            own if given is None and type_at(self.plan, i).shape == shape else given
            for i, given in zip(pullback.wanted, pullback.strides, strict=True)
        ]

    def _spread(self, found: Sequence[Tensor]) -> Sequence[Tensor | None]:
        edges = self.next_edges
        if len(found) == len(edges):
            return found
        it = iter(found)
        return [None if edge is None else next(it) for edge in edges]

    def release(self, source: RawSource | None = None) -> None:
        for s in self.saved:
            if isinstance(s, SavedTensor):
                s.release()
        if self.released or len(self.saved) == len(self.plan.by_value.intersection(self.pullback.inputs)):
            return  # numbers alone are never let go of
        self.released = source or True

    # -- _saved_* ----------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        return saved_attribute(self, name)

    def __dir__(self) -> list[str]:
        found = ["metadata", "name", "next_functions", "register_hook", "register_prehook", "requires_grad"]
        return found + saved_names(self)


class NotDerivedNode(OperationNode):
    """The node of an operation that has a derivative nowhere in PyTorch: backward through it is an error."""

    __slots__ = ()

    fusible = False

    def __init__(self, plan: Planned, pullback: Pullback, edges: Sequence[Edge | None], *rest: Any):
        super().__init__(plan, pullback, [edge for edge in edges if edge is not None], *rest)

    def name(self) -> str:
        return NOT_IMPLEMENTED

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise RuntimeError(f"derivative for aten::{self.plan.operation.name} is not implemented")


class CheckedNode(OperationNode):
    """The node of an operation that has no derivative for some gradients: see ``Operation.refuse``."""

    __slots__ = ()

    fusible = False

    def _read(self, grads: Sequence[Tensor | None], how: Callable[[SavedTensor, Node], Any]) -> list[Any]:
        operation = self.plan.operation
        found = super()._read(grads, how)
        saved = {
            s.name: x._value() if isinstance(x, Tensor) else x
            for s, x in zip(self.saved, found, strict=True)
            if isinstance(s, SavedTensor)
        }
        static = dict(zip(operation.parameters, self.plan.params, strict=True))
        assert operation.refuse is not None
        operation.refuse(saved, [None if g is None else g._value() for g in grads], **static)
        return found


class RefusedNode(OperationNode):
    """The node of an operation whose derivative with respect to a wanted operand is not known."""

    __slots__ = ()

    fusible = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise NotImplementedError(f"the derivative for '{self.plan.operation.name}' is not implemented.")


class IntegerNode(OperationNode):
    """The node of an operation on integers that have a history, through which no gradient can flow.

    NOTE [Integers with a history]
    ``fill_`` and its kin put a differentiable number into a tensor of integers, and in PyTorch that tensor requires
    grad from then on.  Its gradient would be of integers: whatever leads backward to it is an error, and so is an
    operation that gives such integers on.  Nothing is silently lost.
    """

    __slots__ = ()

    fusible = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise explanation.integers(self)


def type_at(plan: Planned, place: int) -> TensorType:
    """The type of the operand at a place among those that are there."""
    return plan.types[plan.present[place]]  # type: ignore[return-value]


def zeros(type: TensorType) -> Tensor:
    """A tensor of zeros, as an undefined gradient is made whole."""
    return new_tensor(filled(type.shape, type.dtype.numpy, 0), type)


#: what PyTorch says where a gradient would be of integers
INTEGERS = (
    "isDifferentiableType(grad.scalar_type()) INTERNAL ASSERT FAILED at "
    '"/__w/pytorch/pytorch/torch/csrc/autograd/engine.cpp":998, please report a bug to PyTorch. '
)


class _Explanation:
    """What lengthens errors of backward; ``fgrad.mutable.explain.explain`` enters it when it is defined."""

    twice: Any = staticmethod(lambda node: RuntimeError(TWICE))
    integers: Any = staticmethod(lambda node: RuntimeError(INTEGERS))


explanation: _Explanation = _Explanation()


def released_error(node: Node) -> Exception:
    return explanation.twice(node)


class _Replay:
    """What runs a pull-back on tensors, recording it; ``fgrad.mutable.backward.replay`` fills it."""

    run: Any = None


replay: _Replay = _Replay()
