"""Recordings: JAX traces that append the operations run under them to a flat tape.

Longer than most files: a recording is one JAX trace, with a method for each kind of call that JAX hands to it.

NOTE [Two kinds of recording]
``Recorder`` knows the values of its inputs (arrays, or tracers of an outer trace), so Python can branch on values: the
part of the tape that one depends on then runs under the outer trace, and recording continues.  An operation with no
argument that is being recorded is not recorded; it runs under the outer trace at once, as under ``jax.grad``.
``Stager`` knows only types (templates, ``make_graph``, ``jit``) and records everything.

NOTE [The tape]
A tape entry is an operation with its input numbers.  Inputs, constants and literals are entries too, so the entries are
a complete key of the program's structure and types: recordings with equal keys are the same program.  Operations hash
by identity (see NOTE [Interned operations]), which makes the key cheap.  The entries are stored in flat lists
(operations; all input numbers in a row) instead of tuples: the garbage collector scans every tuple again and again,
which made a long recording more than twice as expensive per operation as a short one.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import jax
import numpy as np

import fgrad.graph.reductions  # noqa: F401  (it defines the rule of lax.reduce)
from fgrad import errors
from fgrad.graph.graph import Builder, Const, Graph, evaluate
from fgrad.graph.hijax import label, of_arrays
from fgrad.graph.importing import (
    IMPORTERS,
    from_jaxpr,
    import_equation,
)
from fgrad.graph.op import Op, intern
from fgrad.graph.references import MAKERS, THREADED
from fgrad.graph.regions import Deferred, PythonCall
from fgrad.graph.source import RawSource, Source, here, is_hidden, visible
from fgrad.jaxcore import (
    ShapedArray,
    bind_custom_jvp,
    bind_custom_vjp,
    copied,
    current_scope,
    current_trace,
    folds_constants,
    is_evaluating,
    is_high,
    name_of,
    set_trace,
    typeof,
)
from fgrad.jaxtypes import is_inexact, is_reference
from fgrad.record import refusals
from fgrad.record.configuration import configuration
from fgrad.record.custom import custom_jvp_call, custom_vjp_call
from fgrad.record.origin import Call
from fgrad.record.references import is_own, reference_call, with_last_tokens, with_references
from fgrad.record.tracer import Tracer
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


def new_tracer(trace: Any, type: ShapedArray, number: int) -> Tracer:
    """A tracer of a value that ``trace`` has recorded under ``number``."""
    tracer = object.__new__(Tracer)
    tracer._trace = trace
    tracer.aval = type
    tracer.number = number
    return tracer


class Recording(TakesGraphs):
    """The common part of both kinds: the tape, lifting of values, inlining of calls."""

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
        "excluded",
        "used_later",
    )

    #: what is done with the recorded function, for messages
    purpose = "differentiated"

    def __init__(self) -> None:
        super().__init__()
        #: JAX's extensions arrive unexpanded, with their rules
        self.requires_low = False
        self.order: int = next(_order)
        self.open: bool = True
        #: the function that is being recorded, for messages
        self.call: Call | None = None
        #: references that are passed as arguments, which the function must not also close over
        self.excluded: Sequence[Any] = ()
        #: the references created here that backward rules use: NOTE [References in backward rules]
        self.used_later: list[Any] = []
        self.configuration: tuple[Any, ...] = configuration()
        #: the operations, all their input numbers in a row, and the user's code object and offset for each
        self.ops: list[Op] = []
        self.args: list[int] = []
        self.codes: list[Any] = []
        #: whether JAX's named scopes are kept: only if XLA compiles the graph
        self.scoped: bool = True
        self.offsets: list[int] = []
        #: the user's code that called the fast lane last, recognised without a look-up
        self.code: CodeType | None = None
        self.count = 0
        #: lifted values of enclosing scopes, by identity (kept alive, so it stays unique): number, value, type
        self.lifted: dict[int, tuple[int, Any, ShapedArray]] = {}
        self.consts: list[Any] = []

    @property
    def main(self) -> Any:
        """What tells tracers of ``jax.jvp`` apart: None here would make constants of all values, silently."""
        raise refusals.not_of_jax()

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, op: Op, inputs: tuple[int, ...], source: RawSource | Source | None) -> int:
        """Append one operation; the number of its first output."""
        number = self.count
        self.ops.append(op)
        self.args.extend(inputs)
        if source is None:
            self.codes.append(None)
            self.offsets.append(0)
        else:
            self.note(source)
        self.count = number + len(op.out_types)
        return number

    def position(self, frame: FrameType) -> RawSource | None:
        """The user's line in a frame, or if that is one of JAX's, the line that called JAX."""
        if is_hidden(frame.f_code):
            return visible(frame)
        if not self.scoped:
            self.code = frame.f_code
        return frame.f_code, frame.f_lasti

    def note(self, source: Any) -> None:
        """Append the source of an operation: a raw position, or the ``Source`` of a spliced node."""
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
        """The number of a value on this tape; values from outside become constants, and NumPy arrays are copied."""
        if type(value) is Tracer and value._trace is self:
            return value.number
        # a weak array is JAX's own, made from a Python number, and a copy of it would be strong
        weak = getattr(value, "weak_type", False)
        if isinstance(value, np.ndarray) and value.dtype != jax.dtypes.float0 and not weak:
            value = copied(value)
        entry = self.lifted.get(id(value))
        if entry is None:
            if type(value) is Tracer and (known := value._trace.seen_from(self, value)) is not value:
                return self.number(known)
            entry = self.lifted[id(value)] = (self.lift(value), value, typeof(value))
        return entry[0]

    def lift(self, value: Any) -> int:
        kind = typeof(value)
        self.consts.append(value)
        return self.append(_leaf(CONST, kind, kind), (), None)

    def outputs(self, values: Sequence[Any]) -> list[int]:
        """The numbers of the values that are the results of the recording."""
        if self.used_later:
            values = with_last_tokens(self, values)
        return list(map(self.number, values))

    def constant(self, const: Const) -> int:
        """The number of a graph's constant: arrays are lifted, so that another array needs no other program."""
        if type(const.value) is Tracer:
            return self.number(const.value)
        if not np.ndim(const.value) or is_reference(const.type):
            return self.literal(const)
        entry = self.lifted.get(id(const))
        if entry is None:
            entry = self.lifted[id(const)] = (self.lift(const.value), const, const.type)
        return entry[0]

    def literal(self, const: Const) -> int:
        """The number of a constant that is part of the program."""
        entry = self.lifted.get(id(const))
        if entry is None:
            number = self.append(_leaf(LITERAL, const, const.type), (), None)
            entry = self.lifted[id(const)] = (number, const, const.type)
        return entry[0]

    def emit(self, op: Op, args: Sequence[Any], source: RawSource | Source | None) -> list[Any]:
        """Record ``op`` on values; the tracers of its outputs."""
        if op.effects:
            if isinstance(op.primitive, PythonCall):
                with set_trace(self):
                    return list(op.bind(args))
            # a pull-back may read and write references that were created here
            if op.name in THREADED and any(is_own(self, x) for x in args):
                results = reference_call(self, op.primitive, args, op.params)
                return list(results) if op.primitive.multiple_results else [results]
        first = self.append(op, tuple(map(self.number, args)), source)
        return [new_tracer(self, t, first + i) for i, t in enumerate(op.out_types)]

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> list[Any]:
        """Record a graph applied to values; its outputs, which for inputs are the values themselves.

        ``source`` is the line of nodes without one of their own, the call of a function of JAX's.
        """
        numbers = [self.number(x) for x in args]
        n = len(numbers)
        for const in graph.consts:
            numbers.append(self.constant(const))
        if not graph.effects and not graph.closing:
            ops, inputs, count = self.ops, self.args, self.count
            for node in graph.nodes:
                op = node.op
                ops.append(op)
                inputs.extend(map(numbers.__getitem__, node.inputs))
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
        for position, node in enumerate(graph.nodes):
            inputs = [values[i] for i in node.inputs]
            if position in graph.closing:
                with set_trace(self):  # JAX makes the tracers arguments of the call
                    values += node.op.primitive.run(node.op.params, inputs)
            else:
                values += self.emit(node.op, inputs, node.source or source)
        return [values[i] for i in graph.outputs]

    # -- reading ------------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[Op, tuple[int, ...], Source | None]]:
        """Every entry of the tape: operation, input numbers, the user's line."""
        stop = 0
        sources: dict[tuple[int, int], Source] = {}
        for op, code, offset in zip(self.ops, self.codes, self.offsets, strict=True):
            start, stop = stop, stop + len(op.in_types)
            source = code
            if code is not None and type(code) is not Source:
                source = sources.get((id(code), offset))
                if source is None:
                    source = sources[id(code), offset] = Source(code, offset)
            yield op, tuple(self.args[start:stop]), source

    def key(self) -> tuple[Any, ...]:
        """Equal for recordings of the same program."""
        return tuple(self.ops), tuple(self.args)

    def lines(self) -> tuple[Any, ...]:
        """Equal for recordings from the same source lines."""
        return tuple(self.codes), tuple(self.offsets)

    def graph(self, outputs: Sequence[int]) -> tuple[Graph, list[Any]]:
        """The graph of the tape with the user's constants as trailing inputs, and those constants."""
        builder = Builder()
        lifted: dict[int, None] = {}

        def lift(value: Any, type: ShapedArray) -> int:
            number = builder.input(type)
            lifted[number] = None
            return number

        numbers = self._write(builder, lift)
        inputs = [i for i in builder.inputs if i not in lifted]
        return builder.finish([numbers[i] for i in outputs], [*inputs, *lifted]), self.consts

    def closed_graph(self, outputs: Sequence[int]) -> Graph:
        """The graph of the tape with the user's constants embedded."""
        builder = Builder()
        numbers = self._write(builder, lambda value, _: builder.const(Const.of(without_tracers(value))))
        return builder.finish([numbers[i] for i in outputs])

    def as_constant(self, tracer: Tracer) -> Any:
        """The value of a tracer of this recording, if it is known and no derivative passes; else the tracer."""
        return tracer

    def seen_from(self, other: Any, tracer: Tracer) -> Any:
        """What a tracer of this recording stands for in another trace: itself in those inside, and elsewhere a value.

        Raises:
          LeakedTracerError: this recording is over, and the value is not known or a derivative passes through it.
        """
        if not self.open:
            return self.value_after_end(tracer)
        inside = isinstance(other, Recording) and other.order > self.order
        return tracer if inside else self.as_constant(tracer)

    def value_after_end(self, tracer: Tracer) -> Any:
        """What a tracer stands for when this recording is over: the value, if it is known and no derivative passes.

        Raises:
          LeakedTracerError: otherwise.
        """
        raise refusals.leaked(tracer)

    def _write(self, builder: Builder, lift: Callable[[Any, ShapedArray], int]) -> list[int]:
        """Emit the tape into a builder; the numbers of its values there.  ``lift`` adds the user's constants."""
        numbers: list[int] = []
        consts = iter(self.consts)
        for op, args, source in self.steps():
            if op.primitive is INPUT:
                numbers.append(builder.input(op.out_types[0]))
            elif op.primitive is CONST:
                numbers.append(lift(next(consts), op.out_types[0]))
            elif op.primitive is LITERAL:
                numbers.append(builder.const(op.params["key"]))
            else:
                first = builder.emit(op, tuple(map(numbers.__getitem__, args)), source)
                numbers.extend(range(first, first + len(op.out_types)))
        return numbers

    def source_of(self, number: int) -> Source | None:
        """The line that computed a value."""
        count = 0
        for op, _, source in self.steps():
            count += len(op.out_types)
            if number < count:
                return source
        return None

    # -- JAX's side ---------------------------------------------------------------------------------------------------

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict[str, Any], /) -> Any:
        if primitive.name in THREADED:
            if getattr(params.get("jaxpr"), "consts", None):
                args, params = with_references(args, params)
            if primitive.name in MAKERS or any(is_reference(typeof(x)) for x in args):
                return reference_call(self, primitive, args, params)
        if not self.records(args):
            return self.outside(primitive, args, params)
        types = [typeof(x) for x in args]
        if is_high(primitive, types, params) and not of_arrays(primitive, params):
            known = self.without_undifferentiated(args)
            if not self.records(known):
                return self.outside(primitive, known, params)
            raise errors.high_type(label(primitive, params))
        if name_of(primitive) in IMPORTERS:
            imported = import_equation(primitive, params, types)
        else:
            imported = intern(primitive, params, types)
        source = here(2)
        outs = self.emit(imported, args, source) if isinstance(imported, Op) else self.splice(imported, args, source)
        return outs if primitive.multiple_results else outs[0]

    def stage_value(self, value: Any) -> Any:
        """A value as an array; values from outside are recorded when an operation reads them."""
        return value if isinstance(value, jax.Array) else copied(value)

    def process_call(self, primitive: Any, f: Any, args: Sequence[Any], params: dict[str, Any], /) -> Any:
        with set_trace(self):
            return f.call_wrapped(*args)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], /, *, symbolic_zeros: Any
    ) -> Any:
        if any(self.threads(x) for x in args):
            return self._staged(
                lambda *args: bind_custom_jvp(current_trace(), primitive, fun, jvp, args, symbolic_zeros), args
            )
        if any(is_reference(typeof(x)) for x in args):
            args = self.without_undifferentiated(args)

        def outside(values: Sequence[Any]) -> Any:
            return bind_custom_jvp(self.outer(), primitive, fun, jvp, values, symbolic_zeros)

        if not self._records_call(args):
            return outside(args)
        return custom_jvp_call(self, fun, jvp, args, symbolic_zeros, outside)

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
        if any(self.threads(x) for x in args):
            return self._staged(
                lambda *args: bind_custom_vjp(
                    current_trace(), primitive, fun, fwd, bwd, args, out_trees, symbolic_zeros
                ),
                args,
            )
        if any(is_reference(typeof(x)) for x in args):
            args = self.without_undifferentiated(args)

        def outside(values: Sequence[Any]) -> Any:
            return bind_custom_vjp(self.outer(), primitive, fun, fwd, bwd, values, out_trees, symbolic_zeros)

        if not self._records_call(args):
            return outside(args)
        return custom_vjp_call(self, fun, fwd, bwd, args, out_trees, symbolic_zeros, outside)

    def _records_call(self, args: Sequence[Any]) -> bool:
        """Whether a call of a function with a custom rule is recorded.

        The function may close over values that are recorded here.  An outer trace that stages it does not know these.
        """
        return self.records(args) or not (is_evaluating(self.outer()) or folds_constants())

    def _staged(self, bind: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Record a call of a function with a custom rule, for the references that it takes to be threaded through."""
        with set_trace(self):
            return jax.jit(bind)(*args)

    def process_shard_map(self, primitive: Any, fun: Any, args: Sequence[Any], **params: Any) -> Any:
        jaxpr, results = _traced_shard_map(primitive, fun, args, params)
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

    def may_be_differentiated(self, value: Any) -> bool:
        """Whether a derivative may pass through a value, in this recording or an enclosing one."""
        return is_inexact(typeof(value))

    def threads(self, value: Any) -> bool:
        """Whether a value is a reference that is threaded through calls of functions with a custom rule."""
        return is_own(self, value)

    def read_outside(self, reference: Any) -> Any:
        """The value in a reference that was not created here."""
        raise NotImplementedError

    def write_outside(self, reference: Any, value: Any) -> None:
        raise NotImplementedError

    def inner(self, function: Any, args: Sequence[Any]) -> tuple[Graph, list[Any]]:
        """The graph of a function called on values of this recording, and the outside values that it closes over."""
        raise NotImplementedError

    def body(self, function: Any, args: Sequence[Any]) -> tuple[Graph, list[Any], bool]:
        """``inner`` for a function that has a custom rule, which may run in its place: no reference is written.

        The third result says whether the function accesses references from outside.
        """
        return *self.inner(function, args), False

    def accessed(self, reference: Any) -> Any:
        """The reference to be read and written in place of this one."""
        return reference

    def rule(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        make: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
    ) -> Deferred:
        """The custom rule ``make(graph, outs, live)``: ``outs`` are the outputs of ``function`` for ``args`` and values
        of the types ``others``, and ``graph`` is their graph.

        With ``by_zeros`` there is one for each pattern of live inputs, which ``function`` gets as ``live=``.
        """
        raise NotImplementedError

    def recorded_rule(self, rule: Deferred) -> Graph | None:
        """The graph of a custom rule, if it can be recorded now; it may be that very rule which is being recorded."""
        return None

    #: ``rule`` on types alone
    staged_rule: Callable[..., Deferred]
    staged_graph: Callable[..., Graph]

    def rule_run_now(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        make: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
    ) -> Deferred:
        """``rule`` for a ``function`` that reads and writes references, so that it is to run once, now if it can."""
        return self.staged_rule(key, function, args, others, make, by_zeros)

    def without_undifferentiated(self, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments of a call, with values from outside in place of those known not to be differentiated."""
        return args

    def concrete(self, number: int) -> Any:
        return None


def without_tracers(value: Any) -> Any:
    """A value without the tracers of recordings whose derivatives do not pass through it."""
    while type(value) is Tracer:
        known = value._trace.as_constant(value)
        if known is value:
            break
        value = known
    return value


def _traced_shard_map(primitive: Any, fun: Any, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
    """The jaxpr of a ``shard_map`` call, and its results in the form that JAX expects, to be updated."""
    results: list[Any] = []

    def call(*xs: Any) -> list[Any]:
        results.append(current_trace().process_shard_map(primitive, fun, xs, **params))
        return list(results[0])

    return jax.make_jaxpr(call)(*map(typeof, args)), results[0]
