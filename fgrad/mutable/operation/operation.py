"""Operations: what the table holds, and how one is applied to tensors.

Longer than most files: an entry, its plan and its call are one path, which every operation takes.

NOTE [The table]
An operation is a function of arrays with a name, the name of its node, and what PyTorch's rules say of its operands'
types.  ``TABLE`` lists them all and is filled by the files of ``fgrad.torch.ops``, an entry an operation; functions,
methods, in-place twins and ``out=`` are made from the entries.  An operation is planned once for each combination of
types and static parameters (``plan.py``).

An operand is a tensor, or a Python number, which takes part in type promotion as PyTorch's wrapped numbers do and is an
input of the program, not a part of it: a number that changes each call compiles nothing new.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, evolve, field

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry, Ints
from fgrad.mutable.operation.joins import FEW, Deferred, Join
from fgrad.mutable.operation.operands import OperandType, array_type_of, cast, check_cast, number, written
from fgrad.mutable.operation.operation_node import (
    NOT_IMPLEMENTED,
    CheckedNode,
    IntegerNode,
    NotDerivedNode,
    OperationNode,
    RefusedNode,
    type_at,
)
from fgrad.mutable.operation.plan import NOTHING, Plan, Pullback, planned_graph, types_of
from fgrad.mutable.tensor.cut import constants
from fgrad.mutable.tensor.node import Edge, named
from fgrad.mutable.tensor.origin import origin_of
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import (
    Tensor,
    find_nodes,
    gradient_edge,
    gradient_function,
    is_tracked,
    new_tensor,
    unread,
)
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.types.dtypes import bfloat16, dtype as Dtype, float16, float32
from fgrad.mutable.values.capacity import held, memory
from fgrad.mutable.values.device_of_value import elsewhere, place_of
from fgrad.mutable.values.evaluation import FILLED_SIZE, Readings, Routine, filled
from fgrad.seam import Graph, RawSource, UndefinedDerivativeError, here

#: how many operands the plans of an operation may have together: sequences that grow meet new ones without end
OPERANDS_KEPT = 1 << 17

Key = tuple[tuple[OperandType, ...], tuple[Any, ...]]


@define(eq=False, slots=True)
class Operation:
    """One entry of the table.

    Attributes:
      name: PyTorch's name of the function.
      function: arrays (None for one left out) and static parameters to arrays.
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
      gradient_views: by an operand's name, from the geometry of the result's gradient, the Python numbers and the
        parameters to the geometry of the operand's, which is a view of it, where the pull-back does not show that.
      gradient_strides: by an operand's name, how the strides of its gradient follow from the operands' types, as
        ``strides``.
      undefined: from the operands' types and the parameters to whether the gradients are undefined (None), not zero.
      many: from operands' types and the parameters to how so many are joined, or None: see NOTE [Joins of many].
      refuse: raises PyTorch's errors for gradients that an operation has no derivative for: of what was saved, by name,
        the outputs' gradients (None for one that is undefined), and the parameters.
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
    gradient_views: Mapping[str, Callable[..., Geometry | None]] = field(factory=dict)
    gradient_strides: Mapping[str, Callable[..., Ints | None]] = field(factory=dict)
    undefined: Callable[..., bool] | None = None
    refuse: Callable[..., None] | None = None
    many: Callable[..., Join | None] | None = None
    plans: dict[Key, "Planned"] = field(factory=dict)
    #: how many operands these have together
    held: int = 0

    def planned(self, types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None) -> "Planned":
        """The plan for these types; ``into`` is the type of the tensor that an in-place operation writes."""
        found = self.plans.get((types, params) if into is None else (types, params, into))  # type: ignore[arg-type]
        if found is None:
            found = Planned(self, types, params, into)
            self.held += len(types)
            if self.held > OPERANDS_KEPT:
                self.plans.clear()
                self.held = len(types)
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
        "blank",
        "join",
    )

    def __init__(
        self, operation: Operation, types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None
    ):
        self.operation: Operation = operation
        self.types: tuple[OperandType, ...] = types
        self.params: tuple[Any, ...] = params
        #: the operands that are there
        self.present: tuple[int, ...] = tuple([i for i, t in enumerate(types) if t is not None])
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

        arrays = [array_type_of(types[i]) for i in self.present]
        many = len(types) > FEW and operation.many is not None and into is None
        join = operation.many(types, **static) if many and operation.many is not None else None
        if join is not None and math.prod(join.shape) * types[0].dtype.itemsize > memory():  # type: ignore[union-attr]
            join = None
        self.join: Join | None = join
        if self.join is None:
            routine: Routine = held(Routine(planned_graph(function, arrays, operation.name)))
            out_types = types_of(routine.graph)
        else:
            made = self.join.join
            routine = Deferred(lambda: planned_graph(function, arrays, operation.name), lambda values: [made(values)])
            out_types = (tensor_type(types[0].dtype, self.join.shape),)  # type: ignore[union-attr]
        last = len(operation.operands) - 1
        kept = [place for place, i in enumerate(self.present) if operation.operands[min(i, last)] in operation.kept]
        kept += [len(self.present) + k for k, name in enumerate(operation.outputs) if name in operation.kept]
        super().__init__(
            routine,
            out_types,
            bool(operation.outputs),
            tuple(kept),
            tuple([k for k, name in enumerate(operation.outputs) if name in operation.auxiliary]),
        )
        self.single: bool = single or self.join is not None
        #: what stands for the elements of a small tensor that is to be written, where they do not matter
        self.blank: Any = None
        if into is not None and into.numel <= FILLED_SIZE and not _reads_first(self.graph):
            self.blank = filled(into.shape, into.dtype.numpy, 0)
        #: the strides of the outputs where all operands are row-major; None until they were asked for
        self.layouts: tuple[Ints | None, ...] | None = None
        name = operation.node_name(types, params)
        base = OperationNode if operation.refuse is None else CheckedNode
        self.node_class = named(NotDerivedNode, "NotImplemented") if name == NOT_IMPLEMENTED else named(base, name)
        #: the operands that have an edge, with their places among those that are there, None for one left out
        place_of = {i: place for place, i in enumerate(self.present)}
        self.edges: tuple[Any, ...] = tuple(
            [(i, place_of.get(i)) for i in range(len(types)) if i not in operation.fixed]
        )
        #: the operands that are there, with the names under which they are saved
        self.places: tuple[tuple[int, str], ...] = tuple([(i, operation.operands[min(i, last)]) for i in self.present])
        #: the operands that are Python numbers
        self.numbers: tuple[int, ...] = tuple([i for i in self.present if not isinstance(types[i], TensorType)])
        #: the places of Python numbers that PyTorch saves as they are; those that have a derivative are tensors to it
        self.by_value: frozenset[int] = frozenset(
            [k for k, i in enumerate(self.present) if i in operation.fixed and not isinstance(types[i], TensorType)]
        )

    def pulled_back(self, wanted: tuple[int, ...]) -> Pullback:
        """The pull-back with what the operation says of its gradients, where they lie in memory and if they are any."""
        operation = self.operation
        static = dict(zip(operation.parameters, self.params, strict=True))
        if issubclass(self.node_class, NotDerivedNode):
            return NOTHING
        if operation.undefined is not None and operation.undefined(self.types, static):
            return NOTHING
        join = self.join
        if join is not None:
            recorded = super().pulled_back
            routine = Deferred(lambda: recorded(wanted).routine.graph, join.pulled(wanted))
            views = tuple([(0, join.pieces[i]) for i in wanted])
            return Pullback(routine, wanted, (), (), views, (None,) * len(wanted), False)
        found = super().pulled_back(wanted)
        if not (operation.gradient_views or operation.gradient_strides):
            return found
        last = len(operation.operands) - 1
        passed, strides = list(found.passed), list(found.strides)
        for k, place in enumerate(wanted):
            name = operation.operands[min(self.present[place], last)]
            view, layout = operation.gradient_views.get(name), operation.gradient_strides.get(name)
            if view is not None:
                passed[k] = 0, partial(view, **static)
            if layout is not None:
                strides[k] = layout(self.types, type_at(self, place).shape)
        return evolve(found, passed=tuple(passed), strides=tuple(strides), whole=False)

    def laid_out(self, operands: Sequence[Any], apart: bool) -> tuple[Ints | None, ...]:
        """The strides of the outputs; ``apart`` says that an operand is not row-major."""
        strides = self.operation.strides
        layouts = tuple([None if strides is None else strides(operands, t.shape) for t in self.out_types])
        if not apart or strides is None:
            self.layouts = layouts
        return layouts


def _reads_first(graph: Graph) -> bool:
    return 0 in graph.outputs or any(0 in node.inputs for node in graph.nodes)


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
        operands = constants(levels.lifted(operands))
    if elsewhere.exist:
        check_together(operation, operands)
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
                tracked = tracked or not x._inference or has_normal(operation, operands)
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
        if tracked and modes.grad:
            check_integers(plan, operands)
        note_origin(operation.name, operands, results, here(2))
    return results[0] if plan.single else results


def check_together(operation: Operation, operands: Sequence[Any]) -> None:
    """Raise PyTorch's error for operands on several devices; a number on the CPU goes anywhere, and so do indices."""
    first = None
    for i, x in enumerate(operands):
        if isinstance(x, Tensor) and i not in operation.fixed:
            place = place_of(x._storage.array)
            if place.type == "cpu" and not x._type.shape:
                continue
            if first is not None and place != first:
                if "meta" in (first.type, place.type):
                    raise RuntimeError(f"Tensor on device {place} is not on the expected device {first}!")
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{first} and {place}!"
                )
            first = place


def note_origin(
    operation: str, operands: Sequence[Any], results: Sequence[Tensor], source: RawSource | None, reason: str = ""
) -> None:
    """Note on results without history where they came from: see NOTE [Origins]."""
    tracked = [_maker(x) for x in operands if isinstance(x, Tensor) and is_tracked(x)]
    parents = [x._origin for x in operands if isinstance(x, Tensor) and x._origin is not None and not is_tracked(x)]
    if not reason and tracked:
        reason = "not differentiable" if modes.grad else "no_grad"
    origin = origin_of(operation, source, reason or None, tracked, parents)
    for result in results:
        result._origin = origin


def _maker(tensor: Tensor) -> Any:
    """The node that made a tensor with history, or the leaf that it is; of a view without one, its base's."""
    if tensor._grad_fn is None and not tensor._requires_grad and tensor._view is not None:
        return _maker(tensor._view.base)
    return tensor._grad_fn or tensor


def has_normal(operation: Operation, operands: Sequence[Any]) -> bool:
    """Whether an operand is no inference tensor: a number that has a derivative is a tensor to PyTorch."""
    return any(
        not x._inference if isinstance(x, Tensor) else x is not None and i not in operation.fixed
        for i, x in enumerate(operands)
    )


class _ForwardMode:
    """What carries tangents along; ``fgrad.mutable.transforms.forward`` enters it when it is defined."""

    push: Any = None
    #: gives a tensor what a function makes of another's tangent at a level
    carry: Any = None


forward_mode: _ForwardMode = _ForwardMode()


class _Levels:
    """What operations ask inside ``torch.func.vmap``; ``fgrad.mutable.transforms.levels`` fills it."""

    lifted: Any = None
    check_write: Any = None


levels: _Levels = _Levels()


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


def check_integers(plan: Planned, operands: Sequence[Any]) -> None:
    """Raise PyTorch's error if integers would give their history on: see NOTE [Integers with a history]."""
    at = [i for i, _ in plan.edges if isinstance(operands[i], Tensor)]
    if not any(is_tracked(operands[i]) and not operands[i]._type.inexact for i in at):
        return
    types = [tensor_type(float32, t.shape) if i in at else t for i, t in enumerate(plan.types)]  # type: ignore[union-attr]
    try:
        derived = plan.operation.planned(tuple(types), plan.params, None).differentiable
    except Exception:
        return  # an operation of integers alone
    if derived:
        raise RuntimeError(f"Autograd not support dtype: {plan.out_types[0].dtype.scalar_name}")


def node_of(
    plan: Planned, operands: Sequence[Any], overwritten: Tensor | None = None, source: RawSource | None = None
) -> "OperationNode | None":
    """The node of an operation with its edges and saved inputs; None if no operand that has an edge requires grad.

    ``overwritten`` is the tensor that the operation is about to write: its value is saved, and not a handle on it.
    ``source`` is the user's line, where it has been looked for already.
    """
    edges: list[Edge | None] = []
    wanted: list[int] = []
    integers = overwritten is not None and not overwritten._type.inexact
    for i, place in plan.edges:
        x = operands[i]
        edge = gradient_edge(x) if isinstance(x, Tensor) and (x._type.inexact or is_tracked(x)) else None
        edges.append(edge)
        if edge is not None and place is not None:
            wanted.append(place)
            integers = integers or not x._type.inexact
    if not wanted and not any(isinstance(x, Tensor) and is_tracked(x) for x in operands):
        return None
    if integers:
        return named(IntegerNode, plan.node_class.__name__)(plan, NOTHING, edges, [])
    try:
        # a view made without recording requires grad when its base does, yet no gradient flows through it
        pullback = plan.pullback(tuple(wanted)) if wanted else NOTHING
    except UndefinedDerivativeError:
        none = (None,) * len(wanted)
        nothing = Pullback(plan.routine, tuple(wanted), (), (), none, none, False)
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
    node = plan.node_class(plan, pullback, edges, saved, source)
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
