"""Captured calls as programs: when they apply, and how they run.

NOTE [Expectations]
``GradScaler`` skips a step whose gradients are not finite, a distribution raises an error if its parameters violate
their constraints, and so does an operation if an index is out of range.  Whether it is so, nobody knows while a call is
recorded; but it nearly never is.  So the usual case is recorded.  What depends on the call's own tensors is checked
before the program runs; otherwise whether it holds is an output of the program.  If not, the results are dropped, and
the call runs uncompiled.  A program that overwrites arrays gives the old ones then.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import define, evolve, field

from fgrad.api.graphs import Graph, flat_function
from fgrad.graph.graph import Graph as FlatGraph
from fgrad.graph.source import here
from fgrad.mutable.capture.capture import Capture, DrawInput
from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.tensor.owned import Owner, Unexpected
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.number_program import NumberProgram
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.backward_program import BackwardProgram, DifferentiatedCall, HigherOrder
from fgrad.torch.compiler.codegen import FastEffects, FastGuards, NumberAt, NumberIn, Read, reader
from fgrad.torch.compiler.effects import Effects
from fgrad.torch.compiler.execution import Execution
from fgrad.torch.compiler.guards import Guards
from fgrad.torch.compiler.placement import HERE, Placement
from fgrad.torch.compiler.requirements import Requirement
from fgrad.torch.compiler.steady import Steady, can_be_steady, gradients_of
from fgrad.torch.compiler.turns import Turns
from fgrad.torch.compiler.windows import Window

CHANGED = (
    "The gradients of a compiled call are to be differentiated, for which torch.compile records the function again. "
    "That is not possible: {}. Way out: call the function uncompiled where its gradients are differentiated."
)


@define(eq=False)
class Program:
    """One captured call: when it applies, what it computes, and its effects.

    Attributes:
      guards: the conditions under which it applies.
      refused: the reason, if the call cannot be one program.
      breaks: the reasons, if it runs in pieces (NOTE [Pieces]).
      pieces: the graphs of the pieces.
      escapes: whether it does because of what it leaves where no walk finds it (NOTE [Escapes]).
      shows_memory: whether it runs uncompiled because NumPy arrays show the memory of tensors.
      turns: the ways to run it then (NOTE [Pieces take turns]).
      graph: from the inputs that are read to the outputs.
      reads: for each input of the graph, the index of a tensor, a window, or a function of the numbers in ``draws``.
      placement: where it runs.
      execution: runs the graph.
      fast_guards, readers, fast_effects: the generated functions of a call (NOTE [Generated code]).
      steady: ownership from call to call, where possible.
      numbers: the arithmetic on the numbers that are inputs (NOTE [Symbolic numbers]), first those among the arguments.
      held: the other numbers that are inputs (NOTE [Held numbers]).
      growing: the lists outside of the arguments that only grow (NOTE [Growing lists]).
      changed: the numbers outside of the arguments that the call has changed and that are no inputs.
      grown: the lists that it has changed, if that is why it cannot be one program.
      draws: random numbers that are drawn before it runs.
      required: what is checked before it runs, and what reads the arrays for that (NOTE [Expectations]).
      expected: the output that says whether the results count.
      results: the late numbers that are elements of outputs, with these (NOTE [Late numbers]).
      generators: those whose state it advances, with the outputs that are their new states.
      calls: how often it was called.
      seconds: what recording took.
    """

    guards: Guards
    refused: str | None = None
    graph: Any = None
    names: tuple[str, ...] = ()
    out_names: tuple[str, ...] = ()
    effects: Effects | None = None
    reads: list[Read] = field(factory=list)
    placement: Placement = HERE
    execution: Execution | None = None
    fast_guards: FastGuards | None = None
    readers: Any = None
    fast_effects: FastEffects | None = None
    steady: Steady | None = None
    numbers: NumberProgram = field(factory=NumberProgram)
    held: Sequence[Holding] = ()
    growing: Sequence[Holding] = ()
    changed: Sequence[Holding] = ()
    grown: Sequence[Holding] = ()
    draws: list[DrawInput] = field(factory=list)
    required: Requirement | None = None
    read_required: Any = None
    expected: int | None = None
    results: dict[int, int] = field(factory=dict)
    generators: list[tuple[Any, int]] = field(factory=list)
    backward: BackwardProgram | None = None
    calls: int = 0
    seconds: float = 0.0
    breaks: tuple[str, ...] = ()
    pieces: tuple[Graph, ...] = ()
    escapes: bool = False
    shows_memory: bool = False
    turns: Turns = field(factory=Turns)

    @classmethod
    def in_pieces(cls, breaks: Sequence[str], graphs: Sequence[FlatGraph], escapes: bool = False) -> "Program":
        """The record of a call that runs in pieces."""
        pieces = tuple([flat_function(graph, (), ()) for graph in graphs])
        return cls(Guards(), breaks[0], breaks=tuple(breaks), pieces=pieces, escapes=escapes)

    def call(self, arguments: Sequence[Tensor], inputs: Sequence[Any] = ()) -> "Call | None":
        """A call of this program on these arguments, and numbers among them that are inputs, if it applies to them."""
        guards, effects = self.guards, self.effects
        numbers = self.numbers_at(inputs)
        if numbers is None or not guards.hold():
            return None
        if effects is None:
            return Call(self, arguments, numbers) if guards.match(arguments) else None
        steady = self.steady
        if steady is not None and steady.owner is not None:
            others = steady.match(arguments)
            if others is not None:
                return self._steady_call(others, numbers, arguments, steady)
            steady.give_up()
        tensors = None if self.fast_guards is None else self.fast_guards(arguments)
        if tensors is not None:
            return self._call(tensors, numbers, arguments)
        tensors = effects.external.find(arguments)
        return self._first_call(tensors, numbers, arguments) if guards.match(tensors) else None

    def numbers_at(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """All numbers of a call, from those among its arguments; None if a guarded one is another.

        Late numbers are not known yet.
        """
        if self.held:
            inputs = [*inputs, *[number.read() for number in self.held]]
        return self.numbers.at(inputs) if inputs or self.results else inputs

    def completed(self, numbers: Sequence[Any], outs: Sequence[Any], indices: Any) -> Sequence[Any]:
        """All numbers of a call after it has run, from some of its outputs, by their indices.

        Raises:
          Unexpected: one is an error, or of another class than it was.
        """
        results = {number: outs[indices[output]] for number, output in self.results.items()}
        complete = self.numbers.completed(numbers, results)
        if complete is None:
            raise Unexpected
        return complete

    def unusable_numbers(self) -> Sequence[Holding]:
        """The numbers outside of the arguments that the call changes although their values are guarded.

        With these as inputs the program could not be used again.
        """
        if self.effects is None:
            return ()
        entries = {Holding(container, key).place: value for container, key, value in self.effects.entries}
        steps, first = self.numbers.steps, self.numbers.inputs - len(self.held)
        recorded = [x.value for x in steps]
        after = [
            entries[x.place]([], [], recorded) if x.place in entries else recorded[i]
            for i, x in enumerate(self.held, first)
        ]
        determined = self.numbers.determined([*recorded[:first], *after])
        return [x for i, x in enumerate(self.held, first) if i in determined and x.place in entries]

    def first_call(self, arguments: Sequence[Tensor], inputs: Sequence[Any] = ()) -> "Call":
        """A call of this program on arguments that it is known to apply to."""
        numbers = self.numbers_at(inputs)
        assert self.effects is not None and numbers is not None
        return self._first_call(self.effects.external.find(arguments), numbers, arguments)

    def _first_call(self, tensors: Sequence[Tensor], numbers: Sequence[Any], arguments: Sequence[Tensor]) -> "Call":
        effects = self.effects
        assert effects is not None
        if self.fast_guards is None:
            self._prepare(effects, len(tensors))
        assert self.fast_guards is not None
        self.fast_guards.remember(tensors)
        return self._call(tensors, numbers, arguments)

    def _prepare(self, effects: Effects, count: int) -> None:
        """Generate the functions that each call needs."""
        graph, guards = self.graph, self.guards
        is_atomic = not (self.generators or graph.effects or self.backward)
        is_atomic &= self.numbers.always_completes
        if is_atomic and can_be_steady(effects, guards, self.placement):
            inputs = {guards.shared[x]: i for i, x in enumerate(self.reads) if isinstance(x, int)}
            written = [inputs.get(guards.shared[at]) for at, _ in effects.writes]
            gradients = [effects.new_tensors[value.index].output for _, _, value in gradients_of(effects)]
            others = [x for i, x in enumerate(self.reads) if i not in written]
            new_gradients = [x for x in gradients if x is not None]
            self.execution = Execution(graph, written, new_gradients, self.placement, self.expected)
        else:
            others = self.reads
            self.execution = Execution(graph, placement=self.placement)
        owned = [at for at, _ in effects.writes] if others is not self.reads else []
        self.readers = reader(owned, count), reader(others, count)
        required = [] if self.required is None else self.required.reads
        self.read_required = reader(required, count)
        self.fast_effects = FastEffects(effects, len(graph.outputs))
        if others is not self.reads:
            late = self.numbers.late
            self.steady = Steady(effects, guards, others, self.fast_effects, self.execution, late, required)
        self.fast_guards = FastGuards(effects, guards)  # last: a signal may interrupt this, and then all is made anew

    def _call(self, tensors: Sequence[Tensor], numbers: Sequence[Any], arguments: Sequence[Tensor]) -> "Call":
        steady = self.steady
        others = None if steady is None else steady.take_ownership(tensors)
        if others is None or steady is None:
            return Call(self, tensors, numbers)
        return self._steady_call(others, numbers, arguments, steady)

    def _steady_call(
        self, others: Sequence[Tensor], numbers: Sequence[Any], arguments: Sequence[Tensor], steady: Steady
    ) -> "SteadyCall":
        kind = UnfinishedCall if steady.stores_later else SteadyCall
        return kind(self, others, numbers, arguments, steady)

    def run(self, call: "Call") -> Any:
        """Run on the tensors of a call and apply the effects; returns the result."""
        if not self.draws and not self.generators:
            return call.execute(None)
        generators = {id(s): s for draw in self.draws for s in draw.generators} | {id(s): s for s, _ in self.generators}
        before = [(source, source.saved()) for source in generators.values()]
        call.states = before
        try:
            return call.execute({id(draw): draw.draw(()) for draw in self.draws})
        except BaseException:
            if not call.is_applied:
                for source, state in before:
                    source.restore(state)
            raise

    @property
    def windows(self) -> list[Window]:
        """The windows that it reads."""
        return [x for x in self.reads if isinstance(x, Window)]

    def disown(self) -> None:
        """Give up ownership until the next call."""
        if self.steady is not None:
            self.steady.release()

    def named(self) -> Graph:
        """The graph with its names."""
        return flat_function(self.graph, self.names, self.out_names)

    def release(self, capture: Capture) -> None:
        """Keep nothing of the recorded call alive."""
        capture.clear()
        if self.effects is not None:
            self.effects.external.release()

    def drawn_again(self, values: Sequence[Any], states: Sequence[tuple[Any, Any]]) -> dict[int, Any]:
        """The random numbers that are missing among what a call has read, by their indices.

        Arguments:
          states: of the generators, before the call.
        """
        missing = [i for i, value in enumerate(values) if value is None]
        if not missing:
            return {}
        now = [(source, source.saved()) for source, _ in states]
        try:
            for source, state in states:
                source.restore(state)
            drawn = {id(draw): draw.draw(()) for draw in self.draws}
        finally:
            for source, state in now:
                source.restore(state)
        return {i: read(drawn) for i in missing if callable(read := self.reads[i])}

    def higher_order(self, order: int, again: Callable[[int], "Program"]) -> HigherOrder | None:
        """The gradients of an order, which are recorded if need be; None if those before have no history.

        Arguments:
          again: records the call again, up to an order.

        Raises:
          RuntimeError: the function does something else now, or cannot be captured up to this order.
        """
        backward = self.backward
        assert backward is not None
        if backward.order < order:
            recorded = again(order)
            if not self._has_same_call(recorded):
                reason = recorded.refused or "called again it does something else than it did at the call"
                raise RuntimeError(CHANGED.format(reason))
            backward.higher, backward.order = [] if recorded.backward is None else recorded.backward.higher, order
        return backward.higher[order - 2] if len(backward.higher) > order - 2 else None

    def _has_same_call(self, other: "Program") -> bool:
        """Whether another recording computes the same and has the same effects, apart from gradients."""
        if self.effects is None or other.effects is None:
            return False
        kinds = (int, Window, NumberIn, NumberAt)
        one, two = ([x if isinstance(x, kinds) else None for x in each.reads] for each in (self, other))
        count = len(self.effects.outputs)
        one_graph, two_graph = (
            simplify(evolve(each.graph, outputs=each.graph.outputs[:count])) for each in (self, other)
        )
        return one == two and one_graph == two_graph and self._has_same_effects(other)

    def same_as(self, other: "Program") -> bool:
        """Whether another recording of the same call has the same graph and effects."""
        if self.refused is not None or other.refused is not None:
            return self.refused == other.refused
        gradients = [each.backward and each.backward.gradients.graph for each in (self, other)]
        return self.graph == other.graph and gradients[0] == gradients[1] and self._has_same_effects(other)

    def _has_same_effects(self, other: "Program") -> bool:
        assert self.effects is not None and other.effects is not None
        return (
            self.effects.external.key() == other.effects.external.key()
            and self.effects.signature() == other.effects.signature()
            and self.windows == other.windows
            and self.expected == other.expected
            and (self.required and self.required.graph) == (other.required and other.required.graph)
            and self.numbers.signature() == other.numbers.signature()
            and (self.backward and self.backward.targets) == (other.backward and other.backward.targets)
        )


class Call:
    """One call of a program, with its tensors."""

    __slots__ = ("program", "tensors", "numbers", "again", "states", "has_effects")

    def __init__(self, program: Program, tensors: Sequence[Tensor], numbers: Sequence[Any]):
        self.program = program
        self.tensors = tensors
        self.numbers = numbers
        #: records it again, up to an order of gradients; set if its results may have a history
        self.again: Callable[[int], Program] | None = None
        #: of the generators, before it
        self.states: Sequence[tuple[Any, Any]] = ()
        #: set in the moment in which its effects are applied one by one
        self.has_effects: bool = False

    @property
    def is_applied(self) -> bool:
        """Whether its effects have been applied, even if it raises an error."""
        return self.has_effects

    def __call__(self) -> Any:
        return self.program.run(self)

    def _check(self, read: Callable[..., Sequence[Any]]) -> None:
        required = self.program.required
        if required is not None and not required.holds(read(self.tensors, None, ())):
            raise Unexpected

    def execute(self, drawn: Any) -> Any:
        """Run with early draws and apply the effects; returns the result, with its history."""
        program = self.program
        assert program.execution is not None and program.fast_effects is not None  # else the program is none
        written, others = program.readers
        self._check(program.read_required)
        inputs = others(self.tensors, drawn, self.numbers)
        try:
            outs = program.execution(tuple(written(self.tensors, None, ())), inputs)
            usual = program.expected is None or bool(outs[program.expected])
        except Exception as error:
            if program.expected is None:
                raise
            raise Unexpected from error  # what is not as expected may be refused by what follows
        if not usual:
            raise Unexpected
        numbers = self.numbers
        if program.results:
            numbers = program.completed(numbers, outs, range(len(outs)))
        for source, output in program.generators:
            source.restore(np.ascontiguousarray(outs[output]))
        new_tensors, result = program.fast_effects(self.tensors, outs, numbers, self)
        if program.backward is not None:
            call = self._differentiated(inputs, drawn)
            program.backward.attach(self.tensors, new_tensors, outs, here(2), call)
        return result

    def _differentiated(self, inputs: Sequence[Any], drawn: Any) -> DifferentiatedCall:
        """What its node needs to know of it."""
        program, again = self.program, self.again
        assert again is not None
        numbers = {id(x) for x in (drawn or {}).values()}
        values = [None if id(x) in numbers else x for x in inputs]
        missing = partial(program.drawn_again, values, self.states)
        return DifferentiatedCall(values, missing, lambda order: program.higher_order(order, again))


class SteadyCall(Call):
    """A call that continues from the last one; its ``tensors`` are those that the program does not own."""

    __slots__ = ("arguments", "steady", "owner", "calls")

    def __init__(
        self,
        program: Program,
        tensors: Sequence[Tensor],
        numbers: Sequence[Any],
        arguments: Sequence[Tensor],
        steady: Steady,
    ):
        super().__init__(program, tensors, numbers)
        self.arguments = arguments
        self.steady = steady
        assert steady.owner is not None
        self.owner: Owner = steady.owner
        self.calls: int = self.owner.calls

    @property
    def is_applied(self) -> bool:
        return self.owner.calls != self.calls

    def execute(self, drawn: Any) -> Any:
        return self._executed(drawn, deque(maxlen=1))

    def _executed(self, drawn: Any, kept: deque[Any]) -> Any:
        owner, program = self.owner, self.program
        assert program.execution is not None
        self._check(self.steady.read_required)
        stores = () if self.steady.stores is None else self.steady.stores(self.numbers)
        undo = () if program.expected is None else self.steady.undo()
        inputs = self.steady.read_inputs(self.tensors, drawn, self.numbers)
        outs = owner.run_next(program.execution, inputs, stores, kept, undo)
        if outs is None:  # a tensor was written, or a gradient read, since this call began
            return Call(program, self._all(), self.numbers).execute(drawn)
        return self._result(outs)

    def _result(self, outs: Any) -> Any:
        owner, program = self.owner, self.program
        assert program.effects is not None and program.execution is not None
        numbers, rest = self.numbers, program.execution.returned(outs[2])
        if program.results:
            numbers = program.completed(numbers, rest, program.execution.rest)
        if owner.released:  # by a signal handler while it ran
            return program.effects.apply(self._all(), program.execution.flat(outs), numbers, self)[1]
        return self._returned(rest, numbers)

    def _returned(self, rest: Sequence[Any], numbers: Sequence[Any]) -> Any:
        return self.steady.make_result(self.tensors, rest, numbers)

    def _all(self) -> Sequence[Tensor]:
        """All tensors of the call."""
        assert self.program.effects is not None
        return self.program.effects.external.find(self.arguments)


class UnfinishedCall(SteadyCall):
    """One whose late numbers are stored, or whose lists grow, when its program has run.

    If a signal interrupts that, it is completed before the signal's error goes on.
    """

    __slots__ = ("_finished",)

    def execute(self, drawn: Any) -> Any:
        kept: deque[Any] = deque(maxlen=1)
        self._finished: Any = None
        try:
            return self._executed(drawn, kept)
        except BaseException:
            outs = kept[0] if kept else self.owner.latest[0][0]
            if self.is_applied and len(outs) == _GROUPS:
                self._result(outs)
            raise

    def _returned(self, rest: Sequence[Any], numbers: Sequence[Any]) -> Any:
        if self._finished is None:
            self._finished = self.steady.make_result(self.tensors, rest, numbers)
        result, stores = self._finished
        deque(stores, 0)  # nothing interrupts this, and a second time nothing is left to store
        return result


#: the groups of a program's results: what it overwrites, gradients and the rest, which the owner drops
_GROUPS = 3
