"""Operations: the entries of the table, and applying one to tensors.

Longer than most files: an entry, its plan and its call form one path, taken by every operation.

NOTE [The table]
An operation is a function of arrays with a name, the name of its node, and what PyTorch's rules say of its operands'
types.  ``TABLE`` lists them all and is filled by the files of ``fgrad.torch.ops``, an entry an operation; functions,
methods, in-place twins and ``out=`` are made from the entries.  An operation is planned once for each combination of
types and static parameters (``plan.py``).

An operand is a tensor, or a Python number, which takes part in type promotion as PyTorch's wrapped numbers do and is an
input of the program, not a part of it: a number that changes each call compiles nothing new.
"""

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attrs import define, evolve, field
from numpy import ndarray

from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.layout.gradient_views import passed_on
from fgrad.mutable.operation.generations import generations
from fgrad.mutable.operation.gradient_layouts import ColumnMajorGradients
from fgrad.mutable.operation.joins import FEW, Join, LazyRoutine
from fgrad.mutable.operation.operands import (
    ArrayFunction,
    OperandType,
    Written,
    array_type_of,
    half_of,
    number,
    numbers_in,
    promoted,
    with_unsigned,
)
from fgrad.mutable.operation.operation_node import (
    NOT_IMPLEMENTED,
    CheckedNode,
    NotDerivedNode,
    OperationNode,
    Recording,
    node_of,
    type_at,
)
from fgrad.mutable.operation.origins import note_origin
from fgrad.mutable.operation.plan import NOTHING, Plan, Pullback, Reads, planned_graph, types_of
from fgrad.mutable.operation.sizes import Pattern, Sized, pattern_of
from fgrad.mutable.operation.traits import COMPUTING, GRADIENTS, WRITING, Computing, Gradients, Writing
from fgrad.mutable.ports import LIFTED, PUSH
from fgrad.mutable.tensor.cut import constants
from fgrad.mutable.tensor.exported import Fixed
from fgrad.mutable.tensor.in_memory import transposed
from fgrad.mutable.tensor.node import named
from fgrad.mutable.tensor.saved import save
from fgrad.mutable.tensor.storage import DeferredStorage, Storage, held_value
from fgrad.mutable.tensor.tensor import Tensor, deferred_read, find_nodes, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.types.dtypes import ByDefaultDtype, bool_, float32, uint64
from fgrad.mutable.types.promotion import promote_types
from fgrad.mutable.values.capacity import checked_for_capacity, memory
from fgrad.mutable.values.deferral import Deferred, defer
from fgrad.mutable.values.device_of_value import elsewhere, is_somewhere, place_of
from fgrad.mutable.values.evaluation import FILLED_SIZE, Readings, Routine, filled, silent
from fgrad.seam import Graph, Places, checks_each_primitive, replacement, simplify, visible, with_x64

Key = tuple[tuple[OperandType, ...], tuple[Any, ...]]


@define(eq=False, slots=True)
class Operation:
    """One entry of the table.

    Attributes:
      name: PyTorch's name of the function.
      function: arrays (None for one left out) and static parameters to arrays.
      node: the node's name, or a function from the operands' types and the parameters to it.
      operands: the names of the tensor operands as in ``_saved_*``; a variadic operation has one, "*tensors".
      parameters: the names of the static parameters.
      nondiff_operands: the positions of the operands without a derivative or an edge (indices, masks).
      outputs: the names of the outputs as in ``_saved_*``; none if backward never reads one.
      computing: how the results follow from the operands' types and layouts.
      gradients: what a node shows, saves and returns beyond what follows from the pull-back.
      writing: how in-place calls are checked and named.
    """

    name: str
    function: Callable[..., Any]
    node: str | Callable[..., str] | None
    operands: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    nondiff_operands: frozenset[int] = frozenset()
    outputs: tuple[str, ...] = ("result",)
    computing: Computing = COMPUTING
    gradients: Gradients = GRADIENTS
    writing: Writing = WRITING
    plans: dict[Key, "Planned"] = field(factory=ByDefaultDtype, init=False)
    #: those of the earlier generation
    earlier: dict[Key, "Planned"] = field(factory=ByDefaultDtype, init=False)
    #: what is recorded, by the pattern of the operands, and for pull-backs by the operands that require grad
    sized: dict[Any, Sized] = field(factory=ByDefaultDtype, init=False)

    def planned(self, types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None) -> "Planned":
        """The plan for these types; ``into`` is the type of the tensor written by an in-place operation."""
        key: Any = (types, params) if into is None else (types, params, into)
        plan = self.plans.get(key)
        if plan is None:
            if any(isinstance(x, Tensor) for x in params):
                return self.planned(types, numbers_in(self.name, self.named(params)), into)
            plan = self.earlier.pop(key, None) or Planned(self, types, params, into)
            generations.enter(self, len(types))
            self.plans[key] = plan
        return plan

    def age(self) -> None:
        """Begin a new generation of plans."""
        self.earlier, self.plans = self.plans, ByDefaultDtype()
        self.sized.clear()

    def node_name(self, types: tuple[OperandType, ...], params: tuple[Any, ...]) -> str:
        if callable(self.node):
            return self.node(types, self.named(params))
        return self.node or f"{self.name.title().replace('_', '')}Backward0"

    def named(self, params: tuple[Any, ...]) -> dict[str, Any]:
        """The static parameters, by name."""
        return dict(zip(self.parameters, params, strict=True))

    def operand(self, i: int) -> str:
        """The name of an operand; the last name is that of all further ones, too."""
        return self.operands[min(i, len(self.operands) - 1)]


class Planned(Plan):
    """A plan with what an ``OperationNode`` needs to know."""

    __slots__ = (
        "operation",
        "types",
        "params",
        "node_class",
        "present",
        "single",
        "into",
        "edges",
        "differentiated",
        "has_nondiff",
        "recordings",
        "named_operands",
        "by_value",
        "numbers",
        "layouts",
        "columns",
        "any_order",
        "blank",
        "join",
        "not_derived",
        "called",
        "function",
        "pattern",
        "_scatter",
    )

    def __init__(
        self, operation: Operation, types: tuple[OperandType, ...], params: tuple[Any, ...], into: TensorType | None
    ):
        self.operation: Operation = operation
        self.types: tuple[OperandType, ...] = types
        self.params: tuple[Any, ...] = params
        #: the type of the tensor that an in-place operation writes
        self.into: TensorType | None = into
        #: the positions of the operands that are not None
        self.present: tuple[int, ...] = tuple([i for i, t in enumerate(types) if t is not None])
        static, computing, gradients = operation.named(params), operation.computing, operation.gradients
        common = None if computing.promote is None else computing.promote(types, static)
        half = half_of(common, types) if computing.in_float32 else None
        #: from the arrays of the present operands to the results
        self.function: ArrayFunction = ArrayFunction(
            operation.function,
            static,
            len(types),
            self.present,
            operation.nondiff_operands,
            common,
            half,
            into and Written(into.dtype, into.shape),
        )
        self.join: Join | None = None if into is not None else _join(operation, types, static)
        #: which other operands share its recording
        self.pattern: Pattern | None = pattern_of(types, params, into) if self.join is None else None
        if self.join is None:
            routine: Routine = checked_for_capacity(Routine(self._graph()))
            out_types = types_of(routine.graph)
        else:
            join = self.join.join
            routine = LazyRoutine(self._graph, lambda values: [join(values)])
            out_types = (tensor_type(types[0].dtype, self.join.shape),)  # type: ignore[union-attr]
        #: the present operands' positions, with the names under which they are saved
        self.named_operands: tuple[tuple[int, str], ...] = tuple([(i, operation.operand(i)) for i in self.present])
        names = [*[name for _, name in self.named_operands], *operation.outputs]
        super().__init__(
            routine,
            out_types,
            bool(operation.outputs),
            tuple([k for k, name in enumerate(names) if name in gradients.always_saved]),
            tuple(
                [k for k, name in enumerate(operation.outputs) if name in (*gradients.auxiliary, *gradients.workspace)]
            ),
        )
        self.single: bool = self.function.single
        #: a placeholder for the elements of a small tensor about to be overwritten
        self.blank: Any = None
        if into is not None and into.numel <= FILLED_SIZE and not _reads_first(self.graph):
            self.blank = filled(into.shape, into.dtype.numpy, 0)
        #: the strides of the outputs if all operands are row-major; None until needed
        self.layouts: tuple[Ints | None, ...] | None = None
        self.node_class: type[OperationNode] = _node_class(operation, types, params)
        #: the operands that have an edge, with their indices among those present, or None
        position_of = {i: position for position, i in enumerate(self.present)}
        self.edges: tuple[Any, ...] = tuple(
            [(i, position_of.get(i)) for i in range(len(types)) if i not in operation.nondiff_operands]
        )
        #: the positions of these operands, and whether others are tensors
        self.differentiated: tuple[int, ...] = tuple([i for i, _ in self.edges])
        others = [type for i, type in enumerate(types) if i in operation.nondiff_operands]
        self.has_nondiff: bool = any(isinstance(type, TensorType) for type in others)
        #: by which of these require grad: see NOTE [Recordings]
        self.recordings: dict[int, Recording] = {}
        factors = [(at, i) for at, (i, name) in enumerate(self.named_operands) if name in gradients.columns]
        #: the pull-backs for column-major operands, if that makes a difference
        self.columns: ColumnMajorGradients | None = ColumnMajorGradients(factors) if factors else None
        #: whether it is a product of matrices, which BLAS reads by rows as well as by columns
        self.any_order: bool = self.columns is not None and operation.computing.strides is None
        #: the operation's name in errors, which for a write ends in "_"
        self.called: str = operation.name if into is None else f"{operation.name}_"
        #: the operands without a derivative, by their indices among those present
        self.not_derived: frozenset[int] = frozenset(
            [at for at, (_, name) in enumerate(self.named_operands) if name in gradients.not_derived]
        )
        #: the operands that are Python numbers
        self.numbers: tuple[int, ...] = tuple([i for i in self.present if not isinstance(types[i], TensorType)])
        #: the positions of Python numbers that PyTorch saves as numbers; those with a derivative it saves as tensors
        self.by_value: frozenset[int] = frozenset(
            [position_of[i] for i in self.numbers if i in operation.nondiff_operands]
        )

    @property
    def scatter(self) -> tuple[Routine, Places] | None:
        """For a scatter into the first operand: the program of its indices and updates, and how to write them there."""
        try:
            return self._scatter
        except AttributeError:
            found = None if self.join is not None else replacement(self.graph)
            self._scatter: tuple[Routine, Places] | None = found and (Routine(simplify(found.graph)), found.places)
            return self._scatter

    def _graph(self) -> Graph:
        """The graph of the operation, made from that for other sizes if it can be."""
        pattern, sized = self.pattern, self.operation.sized
        if pattern is None:
            return self._recorded(())[0]
        same = sized.get(pattern.key)
        if same is None:
            same = sized[pattern.key] = Sized(pattern.sizes, self._recorded(pattern.sizes))
        graph, self.function.single = same.recorded(pattern.sizes, self._recorded)
        return graph

    def _recorded(self, sizes: Sequence[Any]) -> tuple[Graph, bool]:
        """The graph for other sizes, or symbols, and whether the function returns one result."""
        function, pattern, fixed = self.function, self.pattern, self.operation.nondiff_operands
        types = [array_type_of(self.types[i], i not in fixed) for i in self.present]
        if pattern is not None and sizes is not pattern.sizes:
            types = [t.update(shape=pattern.shape(t.shape, sizes)) for t in types]
            into = function.into and evolve(function.into, shape=pattern.shape(function.into.shape, sizes))
            function = evolve(function, static=self.operation.named(pattern.parameters(sizes)), into=into)
        return planned_graph(function, types, self.operation.name), function.single

    def pullback_graph(self, wrt: tuple[int, ...]) -> tuple[Graph, Reads]:
        """The graph of the pull-back, and what it reads; made from that for other sizes if it can be."""
        pattern, sized = self.pattern, self.operation.sized
        forward = pattern and sized.get(pattern.key)
        if pattern is None or forward is None:
            return super().pullback_graph(wrt)
        first, (recorded, _) = forward.first
        symbolic = forward.symbolic(pattern.sizes)
        if symbolic is None:
            return super().pullback_graph(wrt)

        def record(sizes: Sequence[Any]) -> tuple[Graph, Reads]:
            if sizes is first:
                return self.pullback_of(recorded, wrt)
            return self.pullback_of(self._recorded(sizes)[0] if sizes is pattern.sizes else symbolic, wrt)

        pullback = sized.get((pattern.key, wrt))
        if pullback is None:
            # of a graph that has been recorded for its sizes, with its rules, and is no member of the family
            pullback = sized[pattern.key, wrt] = Sized(first, record(first))
        return pullback.recorded(pattern.sizes, record)

    def pulled_back(self, wrt: tuple[int, ...]) -> Pullback:
        """The pull-back, adjusted by the operation's ``Gradients``."""
        gradients, static = self.operation.gradients, self.operation.named(self.params)
        if issubclass(self.node_class, NotDerivedNode):
            return NOTHING
        if gradients.undefined is not None and gradients.undefined(self.types, static):
            return NOTHING
        if self.join is not None:
            recorded = super().pulled_back
            routine = LazyRoutine(lambda: recorded(wrt).routine.graph, self.join.pullback(wrt))
            views = tuple([(0, self.join.pieces[i]) for i in wrt])
            return Pullback(routine, wrt, self.inexact, (), (), views, (None,) * len(wrt), False)
        pullback = super().pulled_back(wrt)
        # PyTorch's backward that has a node of its own makes new tensors
        views = passed_on("copy" if gradients.backward_node else gradients.passing, pullback.views)
        if gradients.absent != pullback.absent and not gradients.backward_node:
            pullback = evolve(pullback, absent=gradients.absent)
        if views != pullback.views:
            pullback = evolve(pullback, views=views, only_views=pullback.only_views and any(views))
        if not (gradients.views or gradients.strides):
            return pullback
        passed, strides = list(pullback.views), list(pullback.strides)
        for k, position in enumerate(wrt):
            name = self.named_operands[position][1]
            view, layout = gradients.views.get(name), gradients.strides.get(name)
            if view is not None:
                passed[k] = 0, partial(view, **static)
            if layout is not None:
                strides[k] = layout(self.types, type_at(self, position).shape)
        return evolve(pullback, views=tuple(passed), strides=tuple(strides), only_views=False)

    def output_strides(self, operands: Sequence[Any], irregular: bool) -> tuple[Ints | None, ...]:
        """The strides of the outputs; ``irregular``: some operand is not row-major."""
        strides = self.operation.computing.strides
        layouts = tuple([None if strides is None else strides(operands, t.shape) for t in self.out_types])
        if not irregular or strides is None:
            self.layouts = layouts
        return layouts


def _reads_first(graph: Graph) -> bool:
    return 0 in graph.outputs or any(0 in node.inputs for node in graph.nodes)


def _join(operation: Operation, types: tuple[OperandType, ...], static: dict[str, Any]) -> Join | None:
    """The join for this many operands, if there are many and the result fits in memory: see NOTE [Joins of many]."""
    many = operation.computing.many
    if many is None or len(types) <= FEW:
        return None
    join = many(types, **static)
    if join is not None and math.prod(join.shape) * types[0].dtype.itemsize > memory():  # type: ignore[union-attr]
        return None
    return join


def _node_class(operation: Operation, types: tuple[OperandType, ...], params: tuple[Any, ...]) -> type[OperationNode]:
    name = operation.node_name(types, params)
    if name == NOT_IMPLEMENTED:
        return named(NotDerivedNode, "NotImplemented")
    return named(OperationNode if operation.gradients.refuse is None else CheckedNode, name)


def without_wide_integers(operation: Operation, operands: Sequence[Any], params: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands, with integers of more than 63 bits in the type in which the operation is computed."""
    types = [x._type if isinstance(x, Tensor) else x if x is None else x.__class__ for x in operands]
    tensors = [type for type in types if isinstance(type, TensorType)]
    promote = operation.computing.promote
    if promote is None:
        return with_unsigned(operands, tensors[0].dtype)
    if promoted(tensors) is bool_:
        promote_types(bool_, uint64)  # raises
    return with_unsigned(operands, promote(types, operation.named(params)) or tensors[0].dtype)


# -- applying --------------------------------------------------------------------------------------------------------


def apply(operation: Operation, operands: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
    """Run an operation on tensors and Python numbers, and record it for backward if a tensor requires grad.

    The parameters are hashable, and in the operation's order.

    NOTE [The short path]
    Nearly all operations are met in the same state: no unusual mode is on, the operands are whole row-major tensors
    (or a matrix's transpose, for a product) whose arrays NumPy holds, and NumPy runs the plan.  Such a call goes
    straight from the operands to the result here; any other starts again in ``apply_in_general``.
    """
    if unusual.on or elsewhere.exist:
        return apply_in_general(operation, operands, params)
    types: list[OperandType] = []
    values: list[Any] = []
    tracked = origin = turned = False
    for x in operands:
        if isinstance(x, Tensor):
            storage = x._storage
            if (storage.__class__ is not Storage and storage.__class__ is not Fixed) or storage.strides is not None:
                return apply_in_general(operation, operands, params)
            types.append(x._type)
            value = storage.array
            if value.__class__ is not ndarray or storage.home is not None:
                return apply_in_general(operation, operands, params)
            if x._geometry is not None:
                value = transposed(storage, x._geometry)
                if value is None:
                    return apply_in_general(operation, operands, params)
                turned = True
            values.append(value)
            if x._requires_grad or x._node is not None:
                if x._inference:
                    return apply_in_general(operation, operands, params)
                tracked = True
            elif x._view is not None:
                return apply_in_general(operation, operands, params)
            elif x._origin is not None:
                origin = True
        elif x is None:
            types.append(None)
        else:
            types.append(x.__class__)
            try:
                values.append(number(x))
            except OverflowError:
                return apply_in_general(operation, operands, params)
    plan = operation.plans.get((tuple(types), params))
    if plan is None or (layouts := plan.layouts) is None or checks_each_primitive() or (turned and not plan.any_order):
        return apply_in_general(operation, operands, params)
    routine = plan.routine
    if turned and not routine.begun:
        with_x64(routine.begin)  # so far only its variants that transpose by themselves have run
    if routine.kernel is not None:
        out = silent().run(routine.kernel, *values)
        out.setflags(False)  # write=False; twice as fast by position
        results: tuple[Tensor, ...] = (new_tensor(out, plan.out_types[0], layouts[0]),)
    elif routine.at_once is not None:
        outs = silent().run(routine.at_once, values)
        if plan.single:
            results = (new_tensor(outs[0], plan.out_types[0], layouts[0]),)
        else:
            results = tuple([new_tensor(*of) for of in zip(outs, plan.out_types, layouts, strict=True)])
    else:
        return apply_in_general(operation, operands, params)
    if tracked or origin:
        remember(plan, operands, results, tracked)
    return results[0] if plan.single else results


def apply_in_general(operation: Operation, operands: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
    """``apply`` for operands of any kind, in any mode."""
    is_unusual = unusual.on and unusual.within()
    if is_unusual and modes.level:
        operands = constants(LIFTED.call(operands))
    if elsewhere.exist:
        check_same_device(operation, operands)
    types: list[OperandType] = []
    values: list[Any] = []
    tracked = origin = irregular = waits = False
    readings: Readings = ()
    for x in operands:
        if isinstance(x, Tensor):
            types.append(x._type)
            storage = x._storage
            if storage.__class__ is DeferredStorage and not is_unusual:
                waits = True
                value = storage.waiting  # type: ignore[attr-defined]
            else:
                value = storage.array
            if x._geometry is not None or storage.home is not None:
                irregular = True
                reading = deferred_read(x) if modes.interceptor is None else None
                if reading is not None:
                    readings = (*readings, (len(values), reading))
                else:
                    value = x._value() if is_unusual else x._waiting()
                    if value.__class__ is Deferred:
                        waits = True
            elif storage.strides is not None:
                irregular = True
            values.append(value)
            if x._requires_grad or x._node is not None or (x._view is not None and is_tracked(x)):
                # an operation on inference tensors alone is never recorded
                tracked = tracked or not x._inference or has_non_inference(operation, operands)
            elif x._origin is not None:
                origin = True
        elif x is None:
            types.append(None)
        else:
            types.append(x.__class__)
            try:
                values.append(number(x))
            except OverflowError:
                return apply(operation, without_wide_integers(operation, operands, params), params)
    plan = operation.plans.get((tuple(types), params))
    if plan is None:
        try:
            plan = operation.planned(tuple(types), params, None)
        except Exception:
            find_nodes(operands)
            raise
    if not is_unusual or modes.interceptor is None:
        routine = plan.routine.reading(readings) if readings else plan.routine
        outs = defer(routine, values) if (waits or routine.defers) and not is_unusual else routine(values)
    else:
        outs = modes.interceptor(operation, plan, values, operands)
    layouts = plan.layouts
    if irregular or layouts is None:
        layouts = plan.output_strides(operands, irregular)
    if plan.single:
        results: tuple[Tensor, ...] = (new_tensor(outs[0], plan.out_types[0], layouts[0]),)
    else:
        results = tuple([new_tensor(*of) for of in zip(outs, plan.out_types, layouts, strict=True)])
    if is_unusual and modes.dual_level >= 0:
        PUSH.call(plan, operands, results)
    if tracked or origin:
        remember(plan, operands, results, tracked)
    return results[0] if plan.single else results


def remember(plan: Planned, operands: Sequence[Any], results: tuple[Tensor, ...], tracked: bool) -> None:
    """Give results their node, or if nothing is recorded their origin; ``tracked``: an operand requires grad."""
    source = visible(sys._getframe(4))  # past ``apply``, the function that called it and the wrapper around that
    if tracked and modes.grad:
        if plan.differentiable:
            node = node_of(plan, operands, None, source)
            if node is not None:
                for k in plan.inexact:
                    result = results[k]
                    result._node = node
                    result._output_nr = k
                for k in node.pullback.outputs:
                    node.saved.append(save(results[k], plan.operation.outputs[k], k in plan.inexact))
            return
        check_integers(plan, operands)
    note_origin(plan.operation.name, operands, results, source)


def check_same_device(operation: Operation, operands: Sequence[Any]) -> None:
    """Raise PyTorch's error for operands on several devices; 0-d CPU tensors and indices are allowed anywhere."""
    first = None
    for i, x in enumerate(operands):
        if isinstance(x, Tensor) and i not in operation.nondiff_operands:
            value = held_value(x._storage)
            device = place_of(value)
            if (device.type == "cpu" and not x._type.shape) or not is_somewhere(value):
                continue
            if first is not None and device != first:
                if "meta" in (first.type, device.type):
                    raise RuntimeError(f"Tensor on device {device} is not on the expected device {first}!")
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{first} and {device}!"
                )
            first = device


def has_non_inference(operation: Operation, operands: Sequence[Any]) -> bool:
    """Whether some operand is not an inference tensor: a number with a derivative counts as a tensor, as in PyTorch."""
    return any(
        not x._inference if isinstance(x, Tensor) else x is not None and i not in operation.nondiff_operands
        for i, x in enumerate(operands)
    )


def check_integers(plan: Planned, operands: Sequence[Any]) -> None:
    """Raise PyTorch's error if integers would pass on their history: see NOTE [Integers with a history]."""
    for i, _ in plan.edges:
        x = operands[i]
        if isinstance(x, Tensor) and not x._type.inexact and is_tracked(x):
            break
    else:
        return
    at = [i for i, _ in plan.edges if isinstance(operands[i], Tensor)]
    types = [tensor_type(float32, t.shape) if i in at else t for i, t in enumerate(plan.types)]  # type: ignore[union-attr]
    try:
        derived = plan.operation.planned(tuple(types), plan.params, None).differentiable
    except Exception:
        return  # an operation of integers alone
    if derived:
        raise RuntimeError(f"Autograd not support dtype: {plan.out_types[0].dtype.scalar_name}")
