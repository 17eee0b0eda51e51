"""Recordings: JAX traces that write what runs under them onto a flat tape.

Longer than most files: ``Recording`` is one class, a JAX trace with every method that JAX calls.  The recorder of
values, custom rules, references, templates and refusals stand in files of their own.

NOTE [Two kinds of recording]
``Recorder`` knows the values of its inputs (arrays, or tracers of an outer trace), so that a Python branch can ask
for them: the part of the tape that the answer needs is then run under the outer trace, and recording goes on.  An
operation none of whose arguments is being recorded is not recorded at all; it runs under the outer trace at once, as
under ``jax.grad``.  ``Stager`` knows types only (templates, ``make_graph``, ``jit``) and records everything.

NOTE [The tape]
A tape entry is an operation with its input numbers.  Inputs, constants and embedded literals are entries too, so
that the entries are a complete key of the program's structure and types: two recordings with equal keys do the same on
other numbers.  Operations hash by identity (see NOTE [Interned operations]), which makes the key cheap.  The entries
stand in flat lists (operations; all input numbers in a row) and not in a tuple each: the garbage collector passes over
every tuple again and again, which made a long recording more than twice as dear per operation as a short one.
"""

import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np

import fgrad.graph.reductions  # noqa: F401  (it enters what it does with lax.reduce)
from fgrad import errors
from fgrad.graph.graph import Builder, Const, Graph, evaluate
from fgrad.graph.hijax import label, of_arrays
from fgrad.graph.importing import (
    IMPORTERS,
    from_jaxpr,
    import_equation,
)
from fgrad.graph.op import Op, intern
from fgrad.graph.references import MAKERS, THREADED, is_reference, whole
from fgrad.graph.regions import Deferred, DeferredByZeros, PythonCall
from fgrad.graph.source import RawSource, Source, here, is_hidden, visible
from fgrad.jaxcore import (
    ShapedArray,
    Tracer as JaxTracer,
    as_wide_as,
    bind_custom_jvp,
    bind_custom_vjp,
    copied,
    current_scope,
    eval_context,
    evaluating_trace,
    folds_constants,
    is_high,
    name_of,
    set_trace,
    steadily,
    traced_shard_map,
    typeof,
)  # fmt: skip
from fgrad.record import refusals
from fgrad.record.configuration import configuration
from fgrad.record.custom import custom_jvp_call, custom_vjp_call
from fgrad.record.operands import explain
from fgrad.record.origin import Call
from fgrad.record.references import reference_call
from fgrad.record.tracer import Tracer, new_tracer
from fgrad.run.executable import TakesGraphs

_order = itertools.count(1)


class _Marker:
    """A pseudo-primitive of the tape."""

    multiple_results = False

    def __init__(self, name: str):
        self.name = name


INPUT, CONST, LITERAL = _Marker("input"), _Marker("const"), _Marker("literal")
_leaf_ops: dict[tuple[_Marker, Any], Op] = {}


def _leaf(marker: _Marker, key: Any, type: ShapedArray) -> Op:
    op = _leaf_ops.get((marker, key))
    if op is None:
        if len(_leaf_ops) > 1 << 14:
            _leaf_ops.clear()
        op = _leaf_ops[marker, key] = Op(marker, {"key": key}, (marker, key), (), (type,), False)
    return op


class Recording(TakesGraphs):
    """What both kinds share: the tape, lifting of values, inlining of calls."""

    __slots__ = (
        "open",
        "ops",
        "args",
        "code",
        "scoped",
        "codes",
        "offsets",
        "count",
        "lifted",
        "consts",
        "configuration",
        "call",
    )

    #: what the recorded function is being, for messages
    purpose = "differentiated"

    def __init__(self) -> None:
        super().__init__()
        #: JAX's extensions come here whole, with their rules
        self.requires_low = False
        self.order: int = next(_order)
        self.open: bool = True
        #: which function is being recorded, for messages
        self.call: Call | None = None
        self.configuration: tuple[Any, ...] = configuration()
        #: the operations, all their input numbers in a row, and the user's code object and offset for each
        self.ops: list[Op] = []
        self.args: list[int] = []
        self.codes: list[Any] = []
        #: whether JAX's named scopes are kept: where XLA compiles the whole, and not for what runs at once
        self.scoped: bool = True
        self.offsets: list[int] = []
        #: the code of the user's that called the fast lane last, to be known again without a look-up
        self.code: CodeType | None = None
        self.count = 0
        #: values of enclosing scopes that were met, by identity (each is held, so that its identity stays its own):
        #: number, value, type
        self.lifted: dict[int, tuple[int, Any, ShapedArray]] = {}
        self.consts: list[Any] = []

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, op: Op, inputs: tuple[int, ...], source: RawSource | Source | None) -> int:
        """Write one operation; the number of its first output."""
        number = self.count
        self.ops.append(op)
        self.args.extend(inputs)
        self.note(source)
        self.count = number + len(op.out_types)
        return number

    def position(self, frame: FrameType) -> RawSource | None:
        """The user's line at which a frame stands, which is one of JAX's where the user called a function of JAX."""
        if is_hidden(frame.f_code):
            return visible(frame)
        if not self.scoped:
            self.code = frame.f_code
        return frame.f_code, frame.f_lasti

    def note(self, source: Any) -> None:
        """Keep where an operation comes from: a raw position, or a ``Source`` that a spliced node brought along."""
        if self.scoped and source is not None and (scope := current_scope()):
            source = (Source(*source) if type(source) is tuple else source).within(scope)
        if type(source) is tuple:
            self.codes.append(source[0])
            self.offsets.append(source[1])
        else:
            self.codes.append(source)
            self.offsets.append(0)

    def new_input(self, type: ShapedArray) -> Tracer:
        return new_tracer(self, type, self.append(_leaf(INPUT, type, type), (), None))

    def number(self, value: Any) -> int:
        """The number of a value on this tape; values from outside are entered as constants, NumPy arrays copied."""
        if type(value) is Tracer and value._trace is self:
            return value.number
        # a weak one is a Python number that JAX has made an array of: nobody else has it, and a copy would be strong
        weak = getattr(value, "weak_type", False)
        if isinstance(value, np.ndarray) and value.dtype != jax.dtypes.float0 and not weak:
            value = copied(value)
        held = self.lifted.get(id(value))
        if held is None:
            held = self.lifted[id(value)] = (self.lift(value), value, typeof(value))
        return held[0]

    def lift(self, value: Any) -> int:
        if type(value) is Tracer and not value._trace.open:
            raise refusals.leaked(value)
        kind = typeof(value)
        self.consts.append(value)
        return self.append(_leaf(CONST, kind, kind), (), None)

    def literal(self, const: Const) -> int:
        """The number of a constant that is part of the program (it comes from a template, not from the user)."""
        held = self.lifted.get(id(const))
        if held is None:
            number = self.append(_leaf(LITERAL, const, const.type), (), None)
            held = self.lifted[id(const)] = (number, const, const.type)
        return held[0]

    def emit(self, op: Op, args: Sequence[Any], source: RawSource | Source | None) -> list[Any]:
        """Record ``op`` on values; the tracers of its outputs."""
        if isinstance(op.primitive, PythonCall):
            with set_trace(self):
                return list(op.bind(args))
        first = self.append(op, tuple([self.number(x) for x in args]), source)
        return [new_tracer(self, t, first + i) for i, t in enumerate(op.out_types)]

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> list[Any]:
        """Record a whole graph applied to values; its outputs (values that pass through come back as they were).

        ``source`` is the line of those nodes that have none of their own: a function of JAX's is called there.
        """
        numbers = [self.number(x) for x in args]
        n = len(numbers)
        for const in graph.consts:
            numbers.append(self.number(const.value) if type(const.value) is Tracer else self.literal(const))
        if not graph.effects:
            ops, inputs, count = self.ops, self.args, self.count
            for node in graph.nodes:
                op = node.op
                ops.append(op)
                inputs.extend([numbers[i] for i in node.inputs])
                k = len(op.out_types)
                numbers.extend(range(count, count + k))
                count += k
            self.count: int = count
            if source is None or graph.sourced or self.scoped:
                for node in graph.nodes:
                    self.note(node.source or source)
            else:
                self.codes.extend([source[0]] * len(graph.nodes))
                self.offsets.extend([source[1]] * len(graph.nodes))
            types = graph.types
            return [args[i] if i < n else new_tracer(self, types[i], numbers[i]) for i in graph.outputs]
        values: list[Any] = [
            *args,
            *(
                c.value if is_reference(c.type) else new_tracer(self, c.type, i)
                for c, i in zip(graph.consts, numbers[n:], strict=True)
            ),
        ]
        for node in graph.nodes:
            values += self.emit(node.op, [values[i] for i in node.inputs], node.source or source)
        return [values[i] for i in graph.outputs]

    # -- reading ------------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[Op, tuple[int, ...], Source | None]]:
        """Every entry of the tape: operation, input numbers, the user's line."""
        at = 0
        sources: dict[tuple[int, int], Source] = {}
        for op, code, offset in zip(self.ops, self.codes, self.offsets, strict=True):
            start, at = at, at + len(op.in_types)
            source = code
            if code is not None and type(code) is not Source:
                source = sources.get((id(code), offset))
                if source is None:
                    source = sources[id(code), offset] = Source(code, offset)
            yield op, tuple(self.args[start:at]), source

    def key(self) -> tuple[Any, ...]:
        """What two recordings share when they do the same on values of the same types."""
        return tuple(self.ops), tuple(self.args)

    def lines(self) -> tuple[Any, ...]:
        """What two recordings share when, besides, they come from the same lines."""
        return tuple(self.codes), tuple(self.offsets)

    def graph(self, outputs: Sequence[int]) -> tuple[Graph, list[Any]]:
        """The graph of the tape with its user constants as trailing inputs, and those constants."""
        builder = Builder()
        numbers: list[int] = []
        lifted: list[int] = []
        ins: list[int] = []
        for op, args, source in self.steps():
            if op.primitive is INPUT:
                ins.append(builder.input(op.out_types[0]))
                numbers.append(ins[-1])
            elif op.primitive is CONST:
                lifted.append(builder.input(op.out_types[0]))
                numbers.append(lifted[-1])
            elif op.primitive is LITERAL:
                numbers.append(builder.const(op.params["key"]))
            else:
                first = builder.emit(op, tuple([numbers[i] for i in args]), source)
                numbers.extend(range(first, first + len(op.out_types)))
        return builder.finish([numbers[i] for i in outputs], [*ins, *lifted]), self.consts

    def closed_graph(self, outputs: Sequence[int]) -> Graph:
        """The graph of the tape with its user constants embedded."""
        graph, consts = self.graph(outputs)
        n = len(graph.in_types) - len(consts)
        builder = Builder(graph.in_types[:n])
        return builder.finish(builder.splice(graph, [*builder.inputs, *(builder.const(Const.of(c)) for c in consts)]))

    def source_of(self, number: int) -> Source | None:
        """The line that made a value."""
        count = 0
        for op, _, source in self.steps():
            count += len(op.out_types)
            if number < count:
                return source
        return None

    # -- JAX's side ---------------------------------------------------------------------------------------------------

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict[str, Any], /) -> Any:
        if primitive.name in THREADED and (primitive.name in MAKERS or any(is_reference(typeof(x)) for x in args)):
            return reference_call(self, primitive, args, params)
        if not self.records(args):
            return self.outside(primitive, args, params)
        types = [typeof(x) for x in args]
        if is_high(primitive, types, params) and not of_arrays(primitive, params):
            raise errors.high_type(label(primitive, params))
        if name_of(primitive) in IMPORTERS:
            found = import_equation(primitive, params, types)
        else:
            found = intern(primitive, params, types)
        source = here(2)
        outs = self.emit(found, args, source) if isinstance(found, Op) else self.splice(found, args, source)
        return outs if primitive.multiple_results else outs[0]

    def stage_value(self, value: Any) -> Any:
        """A value as an array; what comes from outside is recorded when an operation reads it."""
        return value if isinstance(value, jax.Array) else copied(value)

    def process_call(self, primitive: Any, f: Any, args: Sequence[Any], params: dict[str, Any], /) -> Any:
        with set_trace(self):
            return f.call_wrapped(*args)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], /, *, symbolic_zeros: Any
    ) -> Any:
        if not self.records(args):
            return bind_custom_jvp(self.outer(), primitive, fun, jvp, args, symbolic_zeros)
        return custom_jvp_call(self, fun, jvp, args, symbolic_zeros)

    def process_custom_vjp_call(
        self,
        primitive: Any,
        fun: Any,
        fwd: Any,
        bwd: Any,
        args: Sequence[Any],
        /,
        *,
        out_trees: Any,
        symbolic_zeros: Any,
    ) -> Any:
        if not self.records(args):
            return bind_custom_vjp(self.outer(), primitive, fun, fwd, bwd, args, out_trees, symbolic_zeros)
        return custom_vjp_call(self, fun, fwd, bwd, args, out_trees, symbolic_zeros)

    def process_shard_map(self, primitive: Any, fun: Any, args: Sequence[Any], **params: Any) -> Any:
        jaxpr, results = traced_shard_map(primitive, fun, args, params)
        graph = from_jaxpr(jaxpr)
        # the function may close over values that are being recorded; they are the graph's constants
        if self.records([*args, *(const.value for const in graph.consts)]):
            return results.update(self.splice(graph, args, here(2)))
        with set_trace(self.outer()):
            return results.update(evaluate(graph, args))

    # -- what the two kinds differ in --------------------------------------------------------------------------------

    def records(self, args: Sequence[Any]) -> bool:
        raise NotImplementedError

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError

    def outer(self) -> Any:
        raise NotImplementedError

    def read_outside(self, reference: Any) -> Any:
        """What a reference that was not made here holds."""
        raise NotImplementedError

    def write_outside(self, reference: Any, value: Any) -> None:
        raise NotImplementedError

    def inner(self, function: Any, args: Sequence[Any], moving: Collection[int]) -> tuple[Graph, list[Any]]:
        """The graph of a function called on values of this recording, and the outside values that it closes over."""
        raise NotImplementedError

    def rule(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        whole: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
    ) -> Deferred:
        """The custom rule ``whole(graph, outs, live)``: ``outs`` is what ``function`` gives for ``args`` and values of
        the types ``others``, and ``graph`` the graph of it.

        With ``by_zeros`` there is one for each pattern of what is live, which ``function`` is told as ``live=``.
        """
        return self.staged_rule(key, function, args, others, whole, by_zeros)

    def staged_rule(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        whole: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
    ) -> Deferred:
        """``rule`` on types alone."""
        types = [*map(typeof, args), *others]

        def made(live: Any) -> Any:
            stager, outs, numbers = _staged(function if live is None else partial(function, live=live), types)
            return whole(stager.closed_graph(numbers), outs, live)

        rule = Deferred(key, lambda: made(None))
        if not by_zeros:
            rule.function = function if others else None
            return rule
        return DeferredByZeros(rule, made)

    def concrete(self, number: int) -> Any:
        return None


class Stager(Recording):
    """Records a function on types alone; everything that runs under it is recorded."""

    __slots__ = ()
    purpose = "staged (jit, make_graph, or a loop body)"

    def records(self, args: Sequence[Any]) -> bool:
        # jax.ensure_compile_time_eval asks for what depends on no traced value to be worked out at once
        return not folds_constants() or any(isinstance(x, JaxTracer) for x in args)

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with eval_context():
            return primitive.bind(*args, **params)

    def outer(self) -> Any:
        return evaluating_trace()

    def stage_value(self, value: Any) -> Any:
        value = super().stage_value(value)
        if np.ndim(value) or isinstance(value, JaxTracer) or folds_constants():
            return value
        # JAX looks at the number behind an index, where there is one, and would branch on what is recorded of it
        return new_tracer(self, typeof(value), self.number(value))

    def read_outside(self, reference: Any) -> Any:
        return self.emit(whole("get", [typeof(reference)]), [reference], here(4))[0]

    def write_outside(self, reference: Any, value: Any) -> None:
        self.emit(whole("swap", [typeof(reference), typeof(value)]), [reference, value], here(4))

    def number(self, value: Any) -> int:
        # scalars and NumPy scalars in staged code are part of the program
        if not isinstance(value, Tracer) and isinstance(value, int | float | complex | np.generic):
            return self.literal(_scalar(value))
        return super().number(value)

    def lift(self, value: Any) -> int:
        if (
            isinstance(value, jax.Array)
            and not isinstance(value, JaxTracer)
            and value.ndim == 0
            and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended)
        ):
            return self.literal(_scalar(value))
        return super().lift(value)

    def inner(self, function: Any, args: Sequence[Any], moving: Collection[int]) -> tuple[Graph, list[Any]]:
        return stage(function, [typeof(x) for x in args])


_scalars: dict[Any, Const] = {}


def _scalar(value: Any) -> Const:
    """The one ``Const`` for a scalar, so that a tape enters it once."""
    const = Const.of(value)
    if len(_scalars) > 1 << 14:
        _scalars.clear()
    return _scalars.setdefault(const, const)


def stage(function: Any, in_types: Sequence[ShapedArray], call: Call | None = None) -> tuple[Graph, list[Any]]:
    """The graph of a flat function on values of these types, outside values as trailing inputs; and those values."""
    stager, _, numbers = _staged(function, in_types, call)
    return stager.graph(numbers)


def stage_closed(function: Any, in_types: Sequence[ShapedArray], call: Call | None = None) -> Graph:
    """``stage`` with outside values embedded as constants."""
    stager, _, numbers = _staged(function, in_types, call)
    return stager.closed_graph(numbers)


def _outputs(stager: Stager, function: Any, tracers: Sequence[Tracer]) -> tuple[Sequence[Any], list[int]]:
    with set_trace(stager):
        outs = function(*tracers)
        return outs, [stager.number(x) for x in outs]


def _staged(
    function: Any, in_types: Sequence[ShapedArray], call: Call | None = None
) -> tuple[Stager, Sequence[Any], list[int]]:
    """The finished tape of a flat function, its outputs, and their numbers on the tape."""
    stager = Stager()
    stager.call = call
    tracers = [stager.new_input(t) for t in in_types]
    try:
        return stager, *as_wide_as(in_types, steadily, _outputs, stager, function, tracers)
    except Exception as error:
        explain(error)
        raise
    finally:
        stager.open = False
