"""Operations: what the table holds, and how one is applied to tensors.

NOTE [The table]
An operation is a function of arrays with a name, the name of its node, and what PyTorch's rules say of its operands'
types.  ``TABLE`` lists them all and is filled by the files of ``fgrad.torch.ops``, an entry an operation; functions,
methods, in-place twins and ``out=`` are made from the entries.  An operation is planned once for each combination of
operand types and static parameters (see ``plan.py``).

An operand is a tensor, or a Python number, which takes part in type promotion as PyTorch's wrapped numbers do and is an
input of the program, not a part of it: a number that changes each call compiles nothing new.
"""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from fgrad.errors import UndefinedDerivativeError
from fgrad.graph.source import RawSource, here
from fgrad.torch.core.evaluation import Readings, filled
from fgrad.torch.core.geometry import Ints
from fgrad.torch.core.modes import modes
from fgrad.torch.core.node import TWICE, Edge, Node, named
from fgrad.torch.core.operands import OperandType, array_type_of, cast, check_cast, number, written
from fgrad.torch.core.origin import Origin, origin_of
from fgrad.torch.core.passing import passed_on
from fgrad.torch.core.plan import NOTHING, Plan, Pullback
from fgrad.torch.core.saved import SavedTensor
from fgrad.torch.core.saved_attributes import saved_attribute, saved_names
from fgrad.torch.core.tensor import Tensor, find_nodes, gradient_edge, gradient_function, is_tracked, new_tensor, unread
from fgrad.torch.core.types import TensorType
from fgrad.torch.dtypes import bfloat16, dtype as Dtype, float16, float32

Key = tuple[tuple[OperandType, ...], tuple[Any, ...]]

#: the node's name of operations without a derivative
NOT_IMPLEMENTED = "torch::autograd::NotImplemented"


@define(eq=False, slots=True)
class Operation:
    """One entry of the table.

    Attributes:
      name: PyTorch's name of the function.
      function: arrays (None for one left out) and static parameters to an array or a tuple of arrays.
      node: the node's name, or a function from the operands' types and the parameters to it.
      operands: the names of the tensor operands as ``_saved_*`` has them; a variadic operation has one, "*tensors".
      parameters: the names of the static parameters.
      fixed: the positions of the operands that have no derivative and no edge (indices, masks).
      outputs: the names of the outputs as ``_saved_*`` has them; none if backward never reads one.
      promote: how the operands' types are made one: see ``PROMOTIONS``.
      strides: how the strides of the outputs follow from the operands'; None for row-major.
      fused: the node's name of the gradient of the gradient, where PyTorch runs backward as one operation of its own;
        a function as of ``node`` gives it too.
      kept: the operands and outputs that PyTorch saves though the derivative reads nothing of them but their type.
      auxiliary: the outputs that have no derivative.
      single: whether half precision is computed in single precision, Python numbers too, and rounded once at the end.
      constants: what ``_saved_*`` shows, besides, of every node of it: names and values.
      overlap: what an in-place call checks of the memory of the tensor and the other operands; None for the usual.
    """

    name: str
    function: Callable[..., Any]
    node: str | Callable[..., str] | None
    operands: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    fixed: frozenset[int] = frozenset()
    outputs: tuple[str, ...] = ("result",)
    promote: Callable[..., Dtype | None] | None = None
    strides: Callable[..., Ints | None] | None = None
    fused: str | Callable[..., str] | None = None
    kept: tuple[str, ...] = ()
    auxiliary: tuple[str, ...] = ()
    overlap: Callable[[Tensor, Sequence[Any]], None] | None = None
    constants: tuple[tuple[str, Any], ...] = ()
    single: bool = False
    plans: dict[Key, "Planned"] = field(factory=dict)

    def planned(self, types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None) -> "Planned":
        """The plan for these types; ``into`` is the type of the tensor that an in-place operation writes."""
        found = self.plans.get((types, params) if into is None else (types, params, into))  # type: ignore[arg-type]
        if found is None:
            found = Planned(self, types, params, into)
            self.plans[(types, params) if into is None else (types, params, into)] = found  # type: ignore[index]
        return found

    def node_name(self, types: tuple[OperandType, ...], params: tuple[Any, ...]) -> str:
        if callable(self.node):
            return self.node(types, dict(zip(self.parameters, params, strict=True)))
        return self.node or f"{self.name.title().replace('_', '')}Backward0"


class Planned(Plan):
    """A plan with what an ``OperationNode`` asks of it."""

    __slots__ = (
        "operation",
        "types",
        "params",
        "node_class",
        "present",
        "single",
        "edges",
        "places",
        "by_value",
        "numbers",
        "layouts",
    )

    def __init__(
        self, operation: Operation, types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None
    ):
        self.operation = operation
        self.types = types
        self.params = params
        #: the operands that are there
        self.present = tuple([i for i, t in enumerate(types) if t is not None])
        static = dict(zip(operation.parameters, params, strict=True))
        common = None if operation.promote is None else operation.promote(types, static)
        half = _half(common, types) if operation.single else None
        single = True

        def function(*given: Any) -> list[Any]:
            nonlocal single
            arrays: list[Any] = [None] * len(types)
            for i, x in zip(self.present, given, strict=True):
                if half is not None and i not in operation.fixed and (common is not None or x.dtype == half.numpy):
                    arrays[i] = cast(x, float32)
                else:
                    arrays[i] = x if common is None or i in operation.fixed else cast(x, common)
            try:
                found = operation.function(*arrays, **static)
            except NotImplementedError:
                # PyTorch looks first whether the result could be written at all
                if into is not None and common is not None:
                    check_cast(common, into.dtype)
                raise
            if single := not isinstance(found, tuple | list):
                found = (found,)
            if half is not None:
                found = tuple([cast(x, half) for x in found])
            if into is not None:
                found = (written(found[0], into, common), *found[1:])
            return list(found)

        last = len(operation.operands) - 1
        kept = [place for place, i in enumerate(self.present) if operation.operands[min(i, last)] in operation.kept]
        kept += [len(self.present) + k for k, name in enumerate(operation.outputs) if name in operation.kept]
        super().__init__(
            function,
            [array_type_of(types[i]) for i in self.present],
            bool(operation.outputs),
            tuple(kept),
            tuple([k for k, name in enumerate(operation.outputs) if name in operation.auxiliary]),
        )
        self.single = single
        #: the strides of the outputs where all operands are row-major; None until they were asked for
        self.layouts: tuple[Ints | None, ...] | None = None
        name = operation.node_name(types, params)
        self.node_class = (
            named(NotDerivedNode, "NotImplemented") if name == NOT_IMPLEMENTED else named(OperationNode, name)
        )
        #: the operands that have an edge, with their places among those that are there, None for one left out
        self.edges = tuple(
            [
                (i, self.present.index(i) if i in self.present else None)
                for i in range(len(types))
                if i not in operation.fixed
            ]
        )
        #: the operands that are there, with the names under which they are saved
        self.places = tuple([(i, operation.operands[min(i, last)]) for i in self.present])
        #: the operands that are Python numbers
        self.numbers = tuple([i for i in self.present if not isinstance(types[i], TensorType)])
        #: the places of Python numbers that PyTorch saves as they are; those that have a derivative are tensors to it
        self.by_value = frozenset(
            [k for k, i in enumerate(self.present) if i in operation.fixed and not isinstance(types[i], TensorType)]
        )

    def laid_out(self, operands: Sequence[Any], apart: bool) -> tuple[Ints | None, ...]:
        """The strides of the outputs; ``apart`` says that an operand is not row-major."""
        strides = self.operation.strides
        layouts = tuple([None if strides is None else strides(operands, t.shape) for t in self.out_types])
        if not apart or strides is None:
            self.layouts = layouts
        return layouts


def _half(common: Dtype | None, types: Sequence[OperandType]) -> Dtype | None:
    """The type of half precision in which an operation's results are, if they are."""
    dtype = next((t.dtype for t in types if isinstance(t, TensorType)), None) if common is None else common
    return dtype if dtype is float16 or dtype is bfloat16 else None


# -- applying --------------------------------------------------------------------------------------------------------


def apply(operation: Operation, operands: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
    """Run an operation on tensors and Python numbers, and record it for backward if a tensor requires grad.

    The parameters are hashable and stand in the operation's order.
    """
    if modes.level:
        operands = levels.lifted(operands)
    types: list[OperandType] = []
    values: list[Any] = []
    tracked = origin = apart = False
    readings: Readings = ()
    for x in operands:
        if isinstance(x, Tensor):
            types.append(x._type)
            storage = x._storage
            if x._geometry is None and storage.home is None:
                values.append(x._value())
                apart = apart or storage.strides is not None
            else:
                apart = True
                how = unread(x) if modes.interceptor is None else None
                if how is None:
                    values.append(x._value())
                else:
                    readings = (*readings, (len(values), how))
                    values.append(storage.array)
            if x._requires_grad or x._grad_fn is not None or (x._view is not None and is_tracked(x)):
                # what only inference tensors go into is never recorded
                tracked = tracked or not x._inference
            elif x._origin is not None:
                origin = True
        elif x is None:
            types.append(None)
        else:
            types.append(x.__class__)
            values.append(number(x))
    key = (tuple(types), params)
    plan = operation.plans.get(key)
    if plan is None:
        try:
            plan = operation.planned(key[0], params, None)
        except Exception:
            find_nodes(operands)
            raise
    if modes.interceptor is None:
        outs = (plan.routine.reading(readings) if readings else plan.routine)(values)
    else:
        outs = modes.interceptor(operation, plan, values, operands)
    layouts = plan.layouts
    if layouts is None or (apart and operation.strides is not None):
        layouts = plan.laid_out(operands, apart)
    if plan.single:
        results: tuple[Tensor, ...] = (new_tensor(outs[0], plan.out_types[0], layouts[0]),)
    else:
        results = tuple([new_tensor(*of) for of in zip(outs, plan.out_types, layouts, strict=True)])
    if modes.dual_level >= 0:
        forward_mode.push(plan, operands, results)
    if tracked and modes.grad and plan.differentiable:
        record(plan, operands, results)
    elif tracked or origin:
        note_origin(operation.name, operands, results, here(2))
    return results[0] if plan.single else results


def note_origin(
    operation: str, operands: Sequence[Any], results: Sequence[Tensor], source: RawSource | None, reason: str = ""
) -> None:
    """Note on results without history where they came from: see NOTE [Origins]."""
    tracked = [x._grad_fn or x for x in operands if isinstance(x, Tensor) and is_tracked(x)]
    parents = [x._origin for x in operands if isinstance(x, Tensor) and x._origin is not None and not is_tracked(x)]
    if not reason and tracked:
        reason = "not differentiable" if modes.grad else "no_grad"
    origin = origin_of(operation, source, reason or None, tracked, parents)
    for result in results:
        result._origin = origin


class _ForwardMode:
    """What carries tangents along; ``fgrad.torch.core.forward`` enters it when it is defined."""

    push: Any = None
    #: gives a tensor what a function makes of another's tangent at a level
    carry: Any = None


forward_mode = _ForwardMode()


class _Levels:
    """What operations ask inside ``torch.func.vmap``; ``fgrad.torch.core.levels`` enters it when it is defined."""

    lifted: Any = None
    check_write: Any = None


levels = _Levels()


def record(plan: Planned, operands: Sequence[Any], results: Sequence[Tensor]) -> None:
    """Make the node of an operation, and the results its outputs."""
    node = node_of(plan, operands)
    if node is None:
        return
    for k in plan.inexact:
        result = results[k]
        result._grad_fn = node
        result._output_nr = k
    for k in node.pullback.outputs:
        node.saved.append(SavedTensor(results[k], plan.operation.outputs[k], output=k in plan.inexact))


def node_of(plan: Planned, operands: Sequence[Any], overwritten: Tensor | None = None) -> "OperationNode | None":
    """The node of an operation with its edges and saved inputs; None if no operand that has an edge requires grad.

    ``overwritten`` is the tensor that the operation is about to write: its value is saved, and not a handle on it.
    """
    edges: list[Edge | None] = []
    wanted: list[int] = []
    for i, place in plan.edges:
        x = operands[i]
        edge = gradient_edge(x) if isinstance(x, Tensor) and x._type.inexact else None
        edges.append(edge)
        if edge is not None and place is not None:
            wanted.append(place)
    if not wanted and not any(isinstance(x, Tensor) and is_tracked(x) for x in operands):
        return None
    try:
        # a view made without recording requires grad when its base does, yet no gradient flows through it
        pullback = plan.pullback(tuple(wanted)) if wanted else NOTHING
    except UndefinedDerivativeError:
        nothing = Pullback(plan.routine, tuple(wanted), (), (), (None,) * len(wanted))
        return named(RefusedNode, plan.node_class.__name__)(plan, nothing, edges, [])
    saved: list[Any] = []
    if pullback.inputs:
        places = plan.places
        for at in pullback.inputs:
            i, name = places[at]
            x = operands[i]
            if not isinstance(x, Tensor):
                saved.append(number(x))
            else:
                # the same tensor as another operand is saved as any other: backward refuses it, for it was written
                saved.append(SavedTensor(before_write(x) if x is overwritten and i == 0 else x, name))
    node = plan.node_class(plan, pullback, edges, saved)
    if plan.numbers:
        node.numbers = tuple([operands[i] for i in plan.numbers])
    if len(wanted) < len(operands):
        node.origins = tuple([x._origin for x in operands if isinstance(x, Tensor) and x._origin is not None])
    return node


def before_write(tensor: Tensor) -> Tensor:
    """A copy, with its history, of a tensor that is about to be written."""
    made = new_tensor(tensor._value(), tensor._type)
    made._grad_fn, made._output_nr = gradient_function(tensor), tensor._output_nr
    for level in range(modes.dual_level + 1):
        forward_mode.carry(tensor, made, level, lambda tangent: before_write(tangent))
    return made


class OperationNode(Node):
    """The node of an operation of the table."""

    __slots__ = ("plan", "pullback", "saved", "numbers", "released", "origins")

    fusible = True

    def __init__(self, plan: Planned, pullback: Pullback, edges: Sequence[Edge | None], saved: list[Any]):
        super().__init__(edges, plan.out_types, here(3))
        self.plan = plan
        self.pullback = pullback
        self.saved = saved
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
            found = self._recorded(pullback, cotangents)
        else:
            found = self._computed(pullback, cotangents)
        return self._spread(found)

    def _computed(self, pullback: Pullback, cotangents: Sequence[Tensor]) -> Sequence[Tensor]:
        """The gradients of the wanted inputs, unrecorded."""
        plan = self.plan
        views = [None if p is None else passed_on(cotangents[p[0]], p[1]) for p in pullback.passed]
        if None not in views and not self.saved:
            return views  # type: ignore[return-value]
        values = [s.value(self) if isinstance(s, SavedTensor) else s for s in self.saved]
        values += [g._value() for g in cotangents]
        outs = pullback.routine(values)
        return [
            new_tensor(v, type_at(plan, i)) if view is None else view
            for view, v, i in zip(views, outs, pullback.wanted, strict=True)
        ]

    def _recorded(self, pullback: Pullback, cotangents: Sequence[Tensor]) -> Sequence[Tensor]:
        """The gradients as results of recorded operations, so that they can be differentiated again."""
        tensors = [s.operand(self) if isinstance(s, SavedTensor) else s for s in self.saved]
        return replay.run(self, pullback, [*tensors, *cotangents])

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

    def __init__(self, plan: Planned, pullback: Pullback, edges: Sequence[Edge | None], saved: list[Any]):
        super().__init__(plan, pullback, [edge for edge in edges if edge is not None], saved)

    def name(self) -> str:
        return NOT_IMPLEMENTED

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise RuntimeError(f"derivative for aten::{self.plan.operation.name} is not implemented")


class RefusedNode(OperationNode):
    """The node of an operation whose derivative with respect to a wanted operand is not known."""

    __slots__ = ()

    fusible = False

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise NotImplementedError(f"the derivative for '{self.plan.operation.name}' is not implemented.")


def type_at(plan: Planned, place: int) -> TensorType:
    """The type of the operand at a place among those that are there."""
    return plan.types[plan.present[place]]  # type: ignore[return-value]


def zeros(type: TensorType) -> Tensor:
    """A tensor of zeros, as an undefined gradient is made whole."""
    return new_tensor(filled(type.shape, type.dtype.numpy, 0), type)


class _Explanation:
    """What lengthens the error of a second backward; ``fgrad.torch.core.explain`` enters it when it is defined."""

    twice: Any = staticmethod(lambda node: RuntimeError(TWICE))


explanation = _Explanation()


def released_error(node: Node) -> Exception:
    return explanation.twice(node)


class _Replay:
    """What runs a pull-back on tensors, recording it; ``fgrad.torch.core.replay`` enters it when it is defined."""

    run: Any = None


replay = _Replay()
