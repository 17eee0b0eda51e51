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

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import Kept, Op, intern
from fgrad.graph.references import THREADED, is_reference
from fgrad.graph.regions import Deferred, DeferredByZeros, PythonCall, is_inexact, opaque
from fgrad.graph.silent import without_prints
from fgrad.graph.source import RawSource, Source
from fgrad.jaxcore import ShapedArray, Tracer as JaxTracer, current_trace, is_concrete, is_evaluating, set_trace, typeof
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
        #: the values through which a derivative passes, by the question whether one passes through a constant
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
        # a number becomes what it is outside, so that what is done there with two of them goes on together
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
        values = [_numbers_of(x) for x in outside]

        def moving(i: int) -> bool:
            # the rule is not differentiated by this recording, but by those around it
            return i >= len(outside) or _carries(outside[i])

        def on_values(own: Deferred, live: Sequence[bool] | None = None) -> tuple[Graph, Sequence[Any]]:
            """The rule on these values; where it calls its own function on them, the rule there is ``own``."""
            with set_trace(self.parent):
                child = Recorder(values, moving, self.passed_on)
            child.within = (key, own)
            tracers = child.start()
            tracers += [child.new_input(t) for t in others]
            try:
                with set_trace(child):
                    outs = function(*tracers) if live is None else function(*tracers, live=live)
                return child.closed_graph([child.number(x) for x in outs]), outs
            finally:
                child.open = False

        def by_pattern(live: Sequence[bool] | None) -> Any:
            if asks is None:
                try:
                    made = staged() if live is None else staged.of(tuple(live))
                    _asks.enter(key, False)
                    return made
                except errors.CONCRETIZATIONS:
                    _asks.enter(key, True)
            return make(*on_values(rule, live), live)

        rule: Deferred
        if within is not None or by_zeros:
            # a rule may call functions on ever other values, and one that is told of zeros may take another branch for
            # each pattern of them: these wait until they are asked for, and are told apart by the call
            rule = Deferred(Kept(values), lambda: by_pattern(None))
            rule.function = staged.function
            if by_zeros:
                rule = DeferredByZeros(rule, by_pattern)
            return rule
        own = Deferred(("own", key), staged)
        try:
            graph, outs = on_values(own)
        except errors.CONCRETIZATIONS:
            return staged  # it asks for the numbers of the others: forward mode will call it, reverse mode refuses
        made = make(graph, outs, None)
        rule = Deferred((key, made), lambda: made)
        if any(node.op.params.get("rule") == own for node in graph.nodes):
            # once more, now that the rule is known by the branch that it took; nobody gets it before it is complete
            rule = Deferred(rule.key, lambda: make(*on_values(rule), None))
            rule()
        return rule

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
        """Whether a derivative passes through a value, if one passes through the constants of which that is said."""
        survey = self.surveys.get(constant)
        if survey is None:
            survey = self.surveys[constant] = _Survey()
        # the tape is gone through once, however often somebody asks
        (at, end, first), varied = survey.reached, survey.varied
        for op in itertools.islice(self.ops, at, None):
            start, end = end, end + len(op.in_types)
            if op.primitive is INPUT:
                live: Iterable[bool] = (is_inexact(op.out_types[0]) and self.moving(first),)
            elif op.primitive is CONST:
                live = (constant(self.known[first]),)
            else:
                live = self.passed_on(op, tuple([i in varied for i in self.args[start:end]]))
            varied.update([first + k for k, yes in enumerate(live) if yes])
            first += len(op.out_types)
        survey.reached = len(self.ops), end, first
        return number in varied

    def values(self, numbers: Sequence[int]) -> list[Any]:
        """The values with these numbers: the part of the tape that they need runs under the outer trace, once."""
        known = self.known
        missing = {i for i in numbers if i not in known}
        if missing:
            # walk back only as far as something is wanted, so that a long Python loop costs each step its own length
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
            self._work_out(reversed(steps))
        return [known[i] for i in numbers]

    def _work_out(self, steps: Iterable[tuple[int, Op, tuple[int, ...]]]) -> None:
        """Run some operations of the tape, whose other inputs are known, and keep their results."""
        known = self.known
        builder = Builder()
        new: dict[int, int] = {}
        args: list[Any] = []
        made: list[int] = []
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
                made.append(first + k)
        if made:
            with set_trace(self.parent):
                results = run(builder.finish([new[i] for i in made]), args)
            known.update(zip(made, results, strict=True))
