"""The recorder: a recording that knows the values of its inputs, and computes others when Python needs them.

Longer than most files: the recorder is one object, whose methods JAX and the rules call in turn.

NOTE [Custom rules that need numbers]
A custom rule is first recorded on types, once for all calls.  One that needs concrete numbers is recorded again at each
call, with the values of its arguments (tangents have none, as in JAX).  It is identified by the resulting graph, so
calls that take the same branch share their programs.  A rule that calls its own function on its own arguments, as many
do, is recorded twice: first with a placeholder for itself, for the graph that identifies it, then with itself.  A
backward rule that needs numbers is called when the backward pass runs (``PythonCall``), since its cotangents are not
known earlier; likewise a forward-mode rule that needs the values of tangents.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import jax
import jax.ref
import numpy as np
from attrs import frozen

from fgrad import errors
from fgrad.graph.graph import Builder, Graph, applied
from fgrad.graph.op import Kept, Op, intern
from fgrad.graph.references import THREADED, accesses_reference
from fgrad.graph.regions import Deferred, DeferredByZeros, PythonCall, opaque
from fgrad.graph.silent import without_prints
from fgrad.graph.source import RawSource, Source
from fgrad.jaxcore import (
    ShapedArray,
    Tracer as JaxTracer,
    current_trace,
    for_want_of_numbers,
    is_concrete,
    is_evaluating,
    set_trace,
    typeof,
)
from fgrad.jaxtypes import is_inexact, is_reference
from fgrad.record import refusals
from fgrad.record.recording import CONST, INPUT, LITERAL, Recording
from fgrad.record.references import is_own, new_cell, reference_call
from fgrad.record.stager import staged_graph, staged_rule
from fgrad.record.tracer import Tracer
from fgrad.run.cache import Cache
from fgrad.run.executable import PROGRAM_LIMIT, run


@frozen(eq=False)
class Derivatives:
    """What a recorder asks of the derivatives of an operation, given its live inputs, through which derivatives pass.

    Attributes:
      passed_on: which of its results are live.
      values: the graph of its results, where forward rules run in place of their functions.
    """

    passed_on: Callable[[Op, tuple[bool, ...]], Sequence[bool]]
    values: Callable[[Op, tuple[bool, ...]], Graph]


#: ``Recorder.within`` in the body of a function that has a custom rule
_IN_BODY: tuple[Hashable, Deferred] = (None, Deferred(None, lambda: None))


def _concrete_value(value: Any) -> Any:
    """A known value without the tracers around it."""
    return value.to_concrete_value() if isinstance(value, JaxTracer) else value


def _carries(value: Any) -> bool:
    """Whether a derivative passes through a value of an enclosing scope."""
    if type(value) is Tracer and isinstance(value._trace, Recorder):
        return value._trace.carries(value.number)
    return isinstance(value, JaxTracer) and is_inexact(typeof(value))


def _is_over(trace: Any) -> bool:
    return isinstance(trace, Recording) and not trace.open


class _Unknown(Exception):
    """A value depends on an unknown input."""


#: which custom rules read or write references in the forward pass, by the key of the rule
_rule_accesses: Cache[Hashable, bool] = Cache(PROGRAM_LIMIT)

#: which custom rules need concrete numbers, by the key of the rule
_needs_numbers: Cache[Hashable, bool] = Cache(PROGRAM_LIMIT)


def _fails_on_types(rule: Deferred) -> bool:
    """Whether a rule cannot be recorded on types alone."""
    try:
        rule()
    except Exception as error:  # another one is raised again, with the user's line, where the rule is needed
        return for_want_of_numbers(error)
    return False


def _accesses_references(key: Hashable, rule: Deferred, live: tuple[bool, ...] | None) -> bool:
    """Whether a rule, or that for a pattern of live inputs, reads or writes references in the forward pass."""
    key = (key, live)
    accesses = _rule_accesses.get(key)
    if accesses is None:
        try:
            recorded = rule() if live is None else rule.of(live)
        except Exception:  # it is raised again where the rule is needed
            return _rule_accesses.enter(key, False)
        graph = recorded if isinstance(recorded, Graph) else recorded.forward
        accesses = _rule_accesses.enter(key, any(map(accesses_reference, graph.nodes)))
    return accesses


def _never(value: Any) -> bool:
    return False


class _LiveValues:
    """The values through which derivatives pass, among the part of the tape visited so far."""

    __slots__ = ("numbers", "visited")

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        #: how many operations, inputs and values
        self.visited: tuple[int, int, int] = (0, 0, 0)


@frozen(eq=False)
class _RuleOnValues:
    """A custom rule and the values of its arguments: see NOTE [Custom rules that need numbers]."""

    recorder: "Recorder"
    key: Hashable
    function: Callable[..., Any]
    #: the arguments under the outer trace, and their concrete values
    outside: Sequence[Any]
    values: Sequence[Any]
    others: Sequence[ShapedArray]
    make: Callable[[Graph, Sequence[Any], Any], Any]

    def graph(self, own: Deferred, live: Sequence[bool] | None) -> tuple[Graph, Sequence[Any]]:
        """The rule on these values; if it calls its own function on them, with ``own`` as the rule of that call."""
        recorder, outside = self.recorder, self.outside
        with set_trace(recorder.parent):
            # the rule is differentiated by the enclosing recordings, but not by this one
            is_live: Callable[[int], bool] = lambda i: i >= len(outside) or _carries(outside[i])  # noqa: E731
            child = Recorder(self.values, is_live, recorder.derivatives)
        child.within = (self.key, own)
        options = {} if live is None else {"live": live}
        return child.finished(lambda *tracers: self.function(*tracers, **options), self.others)

    def by_call(self, staged: Deferred) -> Deferred:
        """The rule for this call alone, recorded when needed."""
        rule = Deferred(Kept(self.values), lambda: self.make(*self.graph(rule, None), None))
        rule.function = staged.function
        return rule

    def by_zeros(self, staged: Deferred) -> Deferred:
        """The same for each pattern of zeros; on types, if the rule turns out not to need numbers."""

        def make(live: Sequence[bool] | None) -> Any:
            if not _needs_numbers.get(self.key):
                try:
                    on_types = staged() if live is None else staged.of(tuple(live))
                    _needs_numbers.enter(self.key, False)
                    return on_types
                except Exception as error:
                    if not for_want_of_numbers(error):
                        raise
                    _needs_numbers.enter(self.key, True)
            return self.make(*self.graph(rule, live), live)

        dense = Deferred(Kept(self.values), lambda: make(None))
        dense.function = staged.function
        rule = DeferredByZeros(dense, make)
        return rule

    def by_branch(self, staged: Deferred) -> Deferred:
        """The rule recorded now, and identified by the branch that it takes."""
        own = Deferred(("own", self.key), staged)
        try:
            graph, outs = self.graph(own, None)
        except Exception as error:
            if not for_want_of_numbers(error):
                raise
            return staged  # it needs the numbers of ``others``: forward mode will call it, reverse mode refuses
        rule_of_branch = self.make(graph, outs, None)
        if not any(node.op.params.get("rule") == own for node in graph.nodes):
            return Deferred((self.key, rule_of_branch), lambda: rule_of_branch)
        # again, now that the branch identifies the rule; it is completed before anyone else gets it
        rule = Deferred((self.key, rule_of_branch), lambda: self.make(*self.graph(rule, None), None))
        rule()
        return rule


class Recorder(Recording):
    """Records a function on values; see NOTE [Two kinds of recording]."""

    __slots__ = ("parent", "inputs", "known", "within", "is_live", "derivatives", "live_values", "copies")

    def __init__(self, inputs: Sequence[Any], is_live: Callable[[int], bool], derivatives: Derivatives):
        super().__init__()
        self.parent: Any = current_trace()
        self.scoped: bool = self.parent.scoped if isinstance(self.parent, Recording) else not is_evaluating(self.parent)
        self.inputs: list[Any] = list(inputs)
        #: values computed on demand, by number
        self.known: dict[int, Any] = {}
        #: the custom rule that is being recorded, if any: its key, and the rule itself
        self.within: tuple[Hashable, Deferred] | None = None
        #: whether derivatives pass through an input
        self.is_live: Callable[[int], bool] = is_live
        self.derivatives: Derivatives = derivatives
        #: in the body of a function that has a custom rule: the references from outside that it accesses, by identity,
        #: and the copies that it gets of them
        self.copies: dict[int, tuple[Any, Any]] | None = None
        #: the values through which derivatives pass, by the predicate for constants
        self.live_values: dict[Callable[[Any], bool], _LiveValues] = {}

    def start(self) -> list[Tracer]:
        tracers = list(map(self.new_input, map(typeof, self.inputs)))
        self.known.update(enumerate(self.inputs))
        return tracers

    def finished(
        self, function: Callable[..., Sequence[Any]], others: Sequence[ShapedArray] = ()
    ) -> tuple[Graph, Sequence[Any]]:
        """The graph of a function called on the inputs and unknown ones of the types ``others``, and its outputs."""
        tracers = [*self.start(), *map(self.new_input, others)]
        try:
            with set_trace(self):
                outs = function(*tracers)
            return self.closed_graph(self.outputs(outs)), outs
        finally:
            self.open = False

    def graph_of(self, function: Callable[..., Sequence[Any]]) -> tuple[Graph, list[Any]]:
        """The graph of a function called on the inputs, and the outside values that it closes over."""
        tracers = self.start()
        try:
            with set_trace(self):
                outs = function(*tracers)
            return self.graph(self.outputs(outs))
        finally:
            self.open = False

    def lift(self, value: Any) -> int:
        number = super().lift(value)
        self.known[number] = value
        return number

    def records(self, args: Sequence[Any]) -> bool:
        return any(type(x) is Tracer and x._trace is self for x in args)

    def outer(self) -> Any:
        return self.parent

    def outside(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with set_trace(self.parent):
            return primitive.bind(*args, **params)

    def cur_qdd(self, value: Any) -> Any:
        """The type of what a mutable value of a hijax type holds; JAX asks."""
        return self.parent.cur_qdd(value)

    def stage_value(self, value: Any) -> Any:
        if np.ndim(value) or isinstance(value, JaxTracer) or is_evaluating(self.parent):
            return super().stage_value(value)
        # numbers are staged by the parent, so that it can combine them
        return self.parent.stage_value(value)

    def read_outside(self, reference: Any) -> Any:
        with set_trace(self.parent):
            return jax.ref.get(reference)

    def write_outside(self, reference: Any, value: Any) -> None:
        if type(value) is Tracer and value._trace is self:
            # derivatives taken by enclosing recordings are kept
            if is_inexact(value.aval) and self._is_live(_never, value.number):
                raise errors.written_outside()
            try:
                (value,) = self.values([value.number], self._as_differentiated)
            except _Unknown:
                raise errors.written_outside() from None
        with set_trace(self.parent):
            jax.ref.set(reference, (), value)

    def emit(self, op: Op, args: Sequence[Any], source: RawSource | Source | None) -> list[Any]:
        if not op.effects or isinstance(op.primitive, PythonCall):
            return super().emit(op, args, source)
        if any(map(is_reference, op.in_types)):
            if op.name not in THREADED:
                raise errors.mutable_reference(op.name)
            results = reference_call(self, op.primitive, args, op.params)
            return list(results) if op.primitive.multiple_results else [results]
        # a print or a callback runs once, now; its results are then values from outside
        numbers = [self.number(x) for x in args]
        try:
            values = self.values(numbers)
        except _Unknown:
            return super().emit(op, args, source)
        with set_trace(self.parent):
            results = list(op.bind(values))
        if not any(map(is_inexact, op.out_types)) or not any(map(is_inexact, op.in_types)):
            return results
        if (silent := without_prints(op)) is not None:
            return super().emit(silent, args, source)
        # a derivative through it must be refused, not be silently zero
        inputs = [*results, *args]
        link = intern(opaque, {"count": len(results), "of": op.name}, [typeof(x) for x in inputs])
        return super().emit(link, inputs, source)

    # inner recordings know the same values, so their functions can branch on them

    def inner(self, function: Any, args: Sequence[Any]) -> tuple[Graph, list[Any]]:
        with set_trace(self):
            return Recorder(args, range(len(args)).__contains__, self.derivatives).graph_of(function)

    def body(self, function: Any, args: Sequence[Any]) -> tuple[Graph, list[Any], bool]:
        with set_trace(self):
            child = Recorder(args, _never, self.derivatives)
        child.within, child.copies = _IN_BODY, {}
        return *child.graph_of(function), bool(child.copies)

    def as_constant(self, tracer: Tracer) -> Any:
        # a rule may close over a mask, say, and outlive the recording
        if self._is_live(_never, tracer.number):
            return tracer
        try:
            return self.values([tracer.number])[0]
        except _Unknown:
            return tracer

    def value_after_end(self, tracer: Tracer) -> Any:
        # JAX has a mask, say, as a plain array, which may be kept
        try:
            return self._values_after_end([tracer.number])[0]
        except _Unknown:
            raise refusals.leaked(tracer) from None

    def settle(self, numbers: Sequence[int]) -> None:
        """Keep these values of a recording that is over and drop the rest of it, if ``value_after_end`` has them."""
        outer = self.parent
        while isinstance(outer, Recorder) and not outer.open:
            outer = outer.parent
        if not is_evaluating(outer):
            return
        try:
            values = self._values_after_end(numbers)
        except Exception:  # raised where one of them is read
            return
        self.known = dict(zip(numbers, values, strict=True))
        self.inputs, self.consts, self.lifted, self.live_values = [], [], {}, {}
        self.ops, self.args, self.codes, self.offsets = [], [], [], []

    def _values_after_end(self, numbers: Sequence[int]) -> list[Any]:
        is_live_const = _carries if _is_over(self.parent) else _never
        # in the body of a function with a rule nothing is kept
        if self.is_live is _never or any(self._is_live(is_live_const, i) for i in numbers):
            raise _Unknown
        self._leave_ended()
        return self.values(numbers)

    def _leave_ended(self) -> None:
        """Replace the tracers of enclosing recordings that are over by their values."""
        parent = self.parent
        if not _is_over(parent):
            return
        if not isinstance(parent, Recorder):
            raise _Unknown
        self._is_live(_carries, 0)  # found now, while the tracers are there
        parent._leave_ended()
        theirs = [(i, x.number) for i, x in self.known.items() if type(x) is Tracer and x._trace is parent]
        values = parent.values([number for _, number in theirs])
        self.known.update({i: value for (i, _), value in zip(theirs, values, strict=True)})
        self.parent = parent.parent

    def accessed(self, reference: Any) -> Any:
        if self.copies is None or is_own(self, reference) or is_own(self.parent, reference):
            return reference
        if id(reference) not in self.copies:
            copy = new_cell(self, typeof(reference), self.read_outside(reference))
            self.copies[id(reference)] = reference, copy
        return self.copies[id(reference)][1]

    staged_rule: Callable[..., Deferred] = staticmethod(staged_rule)
    staged_graph: Callable[..., Graph] = staticmethod(staged_graph)

    def rule(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        make: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
    ) -> Deferred:
        staged = self.staged_rule(key, function, args, others, make, by_zeros)
        needs_numbers = _needs_numbers.get(key)
        if needs_numbers is None:
            if self.within is _IN_BODY:
                return staged  # a rule inside a function with a rule of its own is rarely used
            if not by_zeros:
                needs_numbers = _needs_numbers.enter(key, _fails_on_types(staged))
        if not needs_numbers and (others or not by_zeros) and self._uses_references(key, staged, args):
            return self.rule_run_now(key, function, args, others, make, by_zeros)
        if needs_numbers is False or not self._knows_numbers():
            return staged
        numbers = [self.number(x) for x in args]
        within = self.within
        if within is not None and within[0] == key and numbers == [*range(len(args))]:
            return within[1]  # the rule calls its own function on the same values
        try:
            outside = self.values(numbers)
        except _Unknown:
            return staged
        on_values = _RuleOnValues(self, key, function, outside, [_concrete_value(x) for x in outside], others, make)
        # a nested rule may be called on ever new values, and a rule with symbolic zeros may branch on their pattern:
        # these are recorded when needed, and identified by the call
        if by_zeros:
            return on_values.by_zeros(staged)
        return on_values.by_branch(staged) if within is None else on_values.by_call(staged)

    def rule_run_now(
        self,
        key: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        others: Sequence[ShapedArray],
        make: Callable[[Graph, Sequence[Any], Any], Any],
        by_zeros: bool,
    ) -> Deferred:
        staged = self.staged_rule(key, function, args, others, make, by_zeros)
        if self.copies is not None:
            return staged
        numbers = [self.number(x) for x in args]
        try:
            outside = self.values(numbers)
        except _Unknown:
            return staged
        # derivatives that enclosing recordings take pass through the values themselves
        with set_trace(self.parent):
            child = Recorder(outside, _never, self.derivatives)
        live = {"live": [self._is_live(_never, i) for i in numbers]} if by_zeros else {}
        graph, outs = child.finished(lambda *tracers: function(*tracers, **live), others)
        if by_zeros:
            dense = Deferred(Kept(child), lambda: make(graph, outs, None))
            return DeferredByZeros(dense, lambda live: make(graph, outs, live))
        rule = make(graph, outs, None)
        return Deferred((key, rule), lambda: rule)

    def recorded_rule(self, rule: Deferred) -> Graph | None:
        if self.within is not None:
            return None  # it may be that very rule which is being recorded
        try:
            return rule()
        except Exception:  # raised again, with the user's line, where the rule is needed
            return None

    def _uses_references(self, key: Hashable, rule: Deferred, args: Sequence[Any]) -> bool:
        """Whether a custom rule will run, and reads or writes references."""
        if self.copies is not None:
            return False
        by_zeros = isinstance(rule, DeferredByZeros)
        if not by_zeros and not _accesses_references(key, rule, None):
            return False
        live = tuple([self._is_live(_never, self.number(x)) for x in args])
        return any(live) and (not by_zeros or _accesses_references(key, rule, live))

    def without_undifferentiated(self, args: Sequence[Any]) -> Sequence[Any]:
        traced = [i for i, x in enumerate(args) if self.records([x])]
        others = [i for i in traced if not self._is_live(_never, args[i].number)]
        try:
            values = self.values([args[i].number for i in others])
        except _Unknown:
            return args
        known = dict(zip(others, values, strict=True))
        return [known.get(i, x) for i, x in enumerate(args)]

    def _knows_numbers(self) -> bool:
        return all(map(is_concrete, self.inputs))

    def concrete(self, number: int) -> Any:
        if not self._knows_numbers():
            return None
        try:
            (value,) = self.values([number])
        except _Unknown:
            return None
        return value if is_concrete(value) else None

    def may_be_differentiated(self, value: Any) -> bool:
        return _carries(value)

    def carries(self, number: int) -> bool:
        """Whether derivatives pass through a value, in this recording or an enclosing one."""
        return self._is_live(_carries, number)

    def _is_live(self, is_live_const: Callable[[Any], bool], number: int) -> bool:
        """Whether derivatives pass through a value, given the constants through which they do."""
        live_values = self.live_values.get(is_live_const)
        if live_values is None:
            live_values = self.live_values[is_live_const] = _LiveValues()
        # each part of the tape is visited only once
        (position, end, first), numbers = live_values.visited, live_values.numbers
        for op in itertools.islice(self.ops, position, None):
            start, end = end, end + len(op.in_types)
            if op.primitive is INPUT:
                live: Iterable[bool] = (is_inexact(op.out_types[0]) and self.is_live(first),)
            elif op.primitive is CONST:
                live = (is_live_const(self.known[first]),)
            else:
                live = self.derivatives.passed_on(op, tuple([i in numbers for i in self.args[start:end]]))
            numbers.update([first + k for k, is_live in enumerate(live) if is_live])
            first += len(op.out_types)
        live_values.visited = len(self.ops), end, first
        return number in numbers

    def _as_differentiated(self, op: Op, ins: tuple[int, ...]) -> Graph:
        """An operation of the tape with forward rules in place of their functions where derivatives pass through."""
        live = tuple([self._is_live(_never, i) for i in ins])
        return self.derivatives.values(op, live) if any(live) else applied(op)

    def values(
        self, numbers: Sequence[int], graph_of: Callable[[Op, tuple[int, ...]], Graph] | None = None
    ) -> list[Any]:
        """The values with these numbers; the part of the tape that they depend on runs under the outer trace.

        With ``graph_of``, by the graph that it gives for an operation and its input numbers.
        """
        known = self.known
        missing = {i for i in numbers if i not in known}
        if missing:
            # walk back only as far as needed, so that an iteration of a long Python loop costs only its own length
            steps: list[tuple[int, Op, tuple[int, ...]]] = []
            wanted, position, end, first = set(missing), len(self.ops), len(self.args), self.count
            while wanted:
                position -= 1
                op = self.ops[position]
                start = end - len(op.in_types)
                first -= len(op.out_types)
                outs = range(first, first + len(op.out_types))
                if not wanted.isdisjoint(outs):
                    if op.primitive is INPUT:
                        raise _Unknown
                    wanted.difference_update(outs)
                    ins = tuple(self.args[start:end])
                    wanted.update([i for i in ins if i not in known])
                    steps.append((first, op, ins))
                end = start
            self._evaluate(reversed(steps), graph_of)
        return [known[i] for i in numbers]

    def _evaluate(
        self,
        steps: Iterable[tuple[int, Op, tuple[int, ...]]],
        graph_of: Callable[[Op, tuple[int, ...]], Graph] | None,
    ) -> None:
        """Run some operations of the tape, whose other inputs are known, and store their results."""
        known = self.known
        builder = Builder()
        new: dict[int, int] = {}
        args: list[Any] = []
        produced: list[int] = []
        for first, op, ins in steps:
            if op.primitive is LITERAL:
                new[first] = builder.const(op.params["key"])
                known[first] = op.params["key"].value
                continue
            for i in ins:
                if i not in new:
                    new[i] = builder.input(typeof(known[i]))
                    args.append(known[i])
            numbers = tuple([new[i] for i in ins])
            if graph_of is None:
                number = builder.emit(op, numbers)
                outs: Sequence[int] = range(number, number + len(op.out_types))
            else:
                outs = builder.splice(graph_of(op, ins), numbers)
            for k, number in enumerate(outs, first):
                new[k] = number
                produced.append(k)
        if produced:
            with set_trace(self.parent):
                results = run(builder.finish([new[i] for i in produced]), args)
            known.update(zip(produced, results, strict=True))
