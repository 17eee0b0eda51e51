"""The recorder: a recording that knows the values of its inputs, and works out others when Python asks for them.

NOTE [Custom rules that ask for numbers]
A custom rule is tried on types when its function is first met, and kept for all calls.  One that asks for a number is
recorded again for each call, on the numbers of its arguments (tangents have none, as in JAX), and told apart by the
graph that came of it, so that calls that take the same branch share their programs.  A rule that calls its own function
on its own arguments, as many do, is recorded twice: first with a stand-in for itself, which gives the graph it is told
apart by, then with itself.  A backward rule that asks is called when the backward pass runs (``PythonCall``), for its
cotangents are not known before; so is a forward-mode rule that asks for numbers of tangents, when forward mode runs.
"""

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import jax
import jax.ref
import numpy as np
from attrs import frozen

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Kept, Op, intern
from fgrad.graph.references import THREADED
from fgrad.graph.regions import Deferred, DeferredByZeros, PythonCall, opaque
from fgrad.graph.silent import without_prints
from fgrad.graph.source import RawSource, Source
from fgrad.jaxcore import (
    ShapedArray,
    Tracer as JaxTracer,
    current_trace,
    is_concrete,
    is_evaluating,
    is_inexact,
    is_reference,
    set_trace,
    typeof,
)
from fgrad.record.recording import CONST, INPUT, LITERAL, Recording
from fgrad.record.references import reference_call
from fgrad.record.stager import staged_rule
from fgrad.record.tracer import Tracer
from fgrad.run.cache import Cache
from fgrad.run.executable import PROGRAM_LIMIT, run

#: of an operation, some of whose inputs a derivative passes through: whether it passes through each of its results
PassedOn: TypeAlias = Callable[[Op, tuple[bool, ...]], Sequence[bool]]

#: in the body of a function that has a custom rule
_ELSEWHERE: tuple[Hashable, Deferred] = (None, Deferred(None, lambda: None))


def _numbers_of(value: Any) -> Any:
    """A value whose numbers are known, without the tracers around it."""
    while isinstance(value, JaxTracer):
        value = value.to_concrete_value()
    return value


def _carries(value: Any) -> bool:
    """Whether a derivative passes through a value of an enclosing scope."""
    if type(value) is Tracer and isinstance(value._trace, Recorder):
        return value._trace.carries(value.number)
    return isinstance(value, JaxTracer) and is_inexact(typeof(value))


class _Unknown(Exception):
    """A value depends on an input whose value is unknown."""


#: which custom rules ask for the numbers behind their arguments, by the key of the rule
_asks: Cache[Hashable, bool] = Cache(PROGRAM_LIMIT)


def _asks_for_numbers(rule: Deferred) -> bool:
    """Whether a rule cannot be recorded on types alone."""
    try:
        rule()
    except errors.CONCRETIZATIONS:
        return True
    except Exception:  # it will be raised again, with the user's line, where the rule is needed
        pass
    return False


def _carries_nothing(value: Any) -> bool:
    return False


class _Survey:
    """The values through which a derivative passes, and up to which operation, input and value they are known."""

    __slots__ = ("reached", "varied")

    def __init__(self) -> None:
        self.varied: set[int] = set()
        self.reached: tuple[int, int, int] = (0, 0, 0)


@frozen(eq=False)
class _RuleOnValues:
    """A custom rule and the values of its arguments: see NOTE [Custom rules that ask for numbers]."""

    recorder: "Recorder"
    key: Hashable
    function: Callable[..., Any]
    #: the arguments outside of this recording, and their numbers
    outside: Sequence[Any]
    values: Sequence[Any]
    others: Sequence[ShapedArray]
    make: Callable[[Graph, Sequence[Any], Any], Any]

    def graph(self, own: Deferred, live: Sequence[bool] | None) -> tuple[Graph, Sequence[Any]]:
        """The rule on these values; where it calls its own function on them, the rule there is ``own``."""
        recorder, outside = self.recorder, self.outside
        with set_trace(recorder.parent):
            # the rule is not differentiated by this recording, but by those around it
            moving: Callable[[int], bool] = lambda i: i >= len(outside) or _carries(outside[i])  # noqa: E731
            child = Recorder(self.values, moving, recorder.passed_on)
        child.within = (self.key, own)
        tracers = child.start()
        tracers += [child.new_input(t) for t in self.others]
        try:
            with set_trace(child):
                outs = self.function(*tracers) if live is None else self.function(*tracers, live=live)
            return child.closed_graph([child.number(x) for x in outs]), outs
        finally:
            child.open = False

    def by_call(self, staged: Deferred) -> Deferred:
        """The rule recorded when it is asked for, for this call alone."""
        rule = Deferred(Kept(self.values), lambda: self.make(*self.graph(rule, None), None))
        rule.function = staged.function
        return rule

    def by_zeros(self, staged: Deferred) -> Deferred:
        """The same, recorded for each pattern of zeros; on types, where it turns out that it asks for no numbers."""

        def made(live: Sequence[bool] | None) -> Any:
            if not _asks.get(self.key):
                try:
                    on_types = staged() if live is None else staged.of(tuple(live))
                    _asks.enter(self.key, False)
                    return on_types
                except errors.CONCRETIZATIONS:
                    _asks.enter(self.key, True)
            return self.make(*self.graph(rule, live), live)

        dense = Deferred(Kept(self.values), lambda: made(None))
        dense.function = staged.function
        rule = DeferredByZeros(dense, made)
        return rule

    def by_branch(self, staged: Deferred) -> Deferred:
        """The rule recorded now, told apart by the branch that it takes."""
        own = Deferred(("own", self.key), staged)
        try:
            graph, outs = self.graph(own, None)
        except errors.CONCRETIZATIONS:
            return staged  # it asks for the numbers of the others: forward mode will call it, reverse mode refuses
        rule_of_branch = self.make(graph, outs, None)
        if not any(node.op.params.get("rule") == own for node in graph.nodes):
            return Deferred((self.key, rule_of_branch), lambda: rule_of_branch)
        # once more, now that the rule is known by the branch that it took; nobody gets it before it is complete
        rule = Deferred((self.key, rule_of_branch), lambda: self.make(*self.graph(rule, None), None))
        rule()
        return rule


class Recorder(Recording):
    """Records a function on values; see NOTE [Two kinds of recording]."""

    __slots__ = ("parent", "inputs", "known", "within", "moving", "passed_on", "surveys")

    def __init__(self, inputs: Sequence[Any], moving: Callable[[int], bool], passed_on: PassedOn):
        super().__init__()
        self.parent: Any = current_trace()
        self.scoped: bool = self.parent.scoped if isinstance(self.parent, Recording) else not is_evaluating(self.parent)
        self.inputs: list[Any] = list(inputs)
        #: values worked out on demand, by number
        self.known: dict[int, Any] = {}
        #: the custom rule that is being recorded, if one is: its key, and the rule itself
        self.within: tuple[Hashable, Deferred] | None = None
        #: whether a derivative passes through an input, and which results of an operation it then passes through
        self.moving: Callable[[int], bool] = moving
        self.passed_on: PassedOn = passed_on
        #: the values through which a derivative passes, by the predicate that says through which constants one does
        self.surveys: dict[Callable[[Any], bool], _Survey] = {}

    def start(self) -> list[Tracer]:
        tracers = list(map(self.new_input, map(typeof, self.inputs)))
        self.known.update(enumerate(self.inputs))
        return tracers

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

    def stage_value(self, value: Any) -> Any:
        if np.ndim(value) or isinstance(value, JaxTracer) or is_evaluating(self.parent):
            return super().stage_value(value)
        # the parent stages a number, so that two of them can be combined there
        return self.parent.stage_value(value)

    def read_outside(self, reference: Any) -> Any:
        with set_trace(self.parent):
            return jax.ref.get(reference)

    def write_outside(self, reference: Any, value: Any) -> None:
        if type(value) is Tracer and value._trace is self:
            # what runs outside keeps the derivatives that are taken there
            if is_inexact(value.aval) and self._passes(_carries_nothing, value.number):
                raise errors.written_outside()
            try:
                (value,) = self.values([value.number])
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
        # a print or a callback runs now and once; what it returns is then a value like any other from outside
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
        every = [*results, *args]
        link = intern(opaque, {"count": len(results), "of": op.name}, [typeof(x) for x in every])
        return super().emit(link, every, source)

    def inner(self, function: Any, args: Sequence[Any], moving: Collection[int]) -> tuple[Graph, list[Any]]:
        # the inner recording knows the same values, so that a function with a custom rule may branch on them too
        with set_trace(self):
            child = Recorder(args, moving.__contains__, self.passed_on)
        child.within = _ELSEWHERE
        tracers = child.start()
        try:
            with set_trace(child):
                outs = function(*tracers)
            return child.graph([child.number(x) for x in outs])
        finally:
            child.open = False

    staged_rule: Callable[..., Deferred] = staticmethod(staged_rule)

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
        asks = _asks.get(key)
        if asks is None:
            if self.within is _ELSEWHERE:
                return staged  # a rule within a function that has its own is hardly ever wanted
            if not by_zeros:
                asks = _asks.enter(key, _asks_for_numbers(staged))
        if asks is False or not self._knows_numbers():
            return staged
        numbers = [self.number(x) for x in args]
        within = self.within
        if within is not None and within[0] == key and numbers == [*range(len(args))]:
            return within[1]  # the rule calls its own function on the same values
        try:
            outside = self.values(numbers)
        except _Unknown:
            return staged
        on_values = _RuleOnValues(self, key, function, outside, [_numbers_of(x) for x in outside], others, make)
        # a rule may call functions on ever other values, and one that is told of zeros may take another branch for
        # each pattern of them: these wait until they are asked for, and are told apart by the call
        if by_zeros:
            return on_values.by_zeros(staged)
        return on_values.by_branch(staged) if within is None else on_values.by_call(staged)

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

    def carries(self, number: int) -> bool:
        """Whether a derivative passes through a value, in this recording or in one around it."""
        return self._passes(_carries, number)

    def _passes(self, constant: Callable[[Any], bool], number: int) -> bool:
        """Whether a derivative passes through a value, given the constants through which one does."""
        survey = self.surveys.get(constant)
        if survey is None:
            survey = self.surveys[constant] = _Survey()
        # each part of the tape is visited once, however often this is asked
        (at, end, first), varied = survey.reached, survey.varied
        for op in itertools.islice(self.ops, at, None):
            start, end = end, end + len(op.in_types)
            if op.primitive is INPUT:
                live: Iterable[bool] = (is_inexact(op.out_types[0]) and self.moving(first),)
            elif op.primitive is CONST:
                live = (constant(self.known[first]),)
            else:
                live = self.passed_on(op, tuple([i in varied for i in self.args[start:end]]))
            varied.update([first + k for k, is_live in enumerate(live) if is_live])
            first += len(op.out_types)
        survey.reached = len(self.ops), end, first
        return number in varied

    def values(self, numbers: Sequence[int]) -> list[Any]:
        """The values with these numbers: the part of the tape that they need runs under the outer trace, once."""
        known = self.known
        missing = {i for i in numbers if i not in known}
        if missing:
            # walk back only as far as needed, so that a step of a long Python loop costs no more than its own length
            steps: list[tuple[int, Op, tuple[int, ...]]] = []
            wanted, at, end, first = set(missing), len(self.ops), len(self.args), self.count
            while wanted:
                at -= 1
                op = self.ops[at]
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
            self._evaluate(reversed(steps))
        return [known[i] for i in numbers]

    def _evaluate(self, steps: Iterable[tuple[int, Op, tuple[int, ...]]]) -> None:
        """Run some operations of the tape, whose other inputs are known, and keep their results."""
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
            number = builder.emit(op, tuple([new[i] for i in ins]))
            for k in range(len(op.out_types)):
                new[first + k] = number + k
                produced.append(first + k)
        if produced:
            with set_trace(self.parent):
                results = run(builder.finish([new[i] for i in produced]), args)
            known.update(zip(produced, results, strict=True))
