"""Captured calls as programs: recorded, guarded, compiled by XLA, checked by recording again.

NOTE [Nothing stale]
What a capture cannot see (a global of a library, a random branch, a number in a slot of C's) is checked: graphs are
values, so the second call of a program, and every n-th after that, records the function again and compares.  Where the
two differ, the new one is taken, and a warning says once which line differs.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from fgrad.api.graphs import Graph, flat_function
from fgrad.errors import CaptureError
from fgrad.graph.graph import Graph as FlatGraph
from fgrad.graph.source import here
from fgrad.mutable.capture.capture import Capture, Cell, Drawn, Number, Stream
from fgrad.mutable.capture.world import World
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.owned import Owner
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.passes.partition import partition
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.containers import take_apart
from fgrad.torch.compiler.differentiated import BackwardProgram, Cut, Derivative, derivative_of
from fgrad.torch.compiler.effects import Effects, Irregular, effects_of
from fgrad.torch.compiler.executed import Execution
from fgrad.torch.compiler.guards import Guards, guards_of, guards_of_arguments, guards_of_refused
from fgrad.torch.compiler.reached import world_of
from fgrad.torch.compiler.steady import Steady, can_be_steady, gradients_of
from fgrad.torch.compiler.step import Step
from fgrad.torch.compiler.straight import Fitting, Leaving, reading
from fgrad.torch.nn.modules.module import Module


@define(eq=False)
class Program:
    """One captured call: what it is for, what it computes, what it leaves behind.

    Attributes:
      guards: what has to be as it was.
      refused: why the call is not one program, if it is not.
      breaks: the reasons for which the call runs in pieces, if it does (NOTE [Pieces]).
      pieces: the graphs of these.
      graph: from the inputs that are read to the outputs.
      reads: the inputs: numbers of tensors, and functions of the numbers that are drawn ahead.
      execution: runs it.
      fitting, reading, leaving: what else is done at each call (NOTE [Straight lines]).
      steady: how a call goes on from the last one, where it can.
      draws: random numbers that are drawn before it runs.
      calls: how often it was called.
      seconds: what recording took.
    """

    guards: Guards
    refused: str | None = None
    graph: Any = None
    names: tuple[str, ...] = ()
    out_names: tuple[str, ...] = ()
    effects: Effects | None = None
    reads: list[int | Callable[[Any], Any]] = field(factory=list)
    execution: Execution | None = None
    fitting: Fitting | None = None
    reading: Any = None
    leaving: Leaving | None = None
    steady: Steady | None = None
    draws: list[Drawn] = field(factory=list)
    streams: list[tuple[Any, int]] = field(factory=list)
    backward: BackwardProgram | None = None
    calls: int = 0
    seconds: float = 0.0
    breaks: tuple[str, ...] = ()
    pieces: tuple[Graph, ...] = ()

    @classmethod
    def in_pieces(cls, breaks: Sequence[str], graphs: Sequence[FlatGraph]) -> "Program":
        """What stands for a call that runs in pieces."""
        shown = tuple([flat_function(graph, (), ()) for graph in graphs])
        return cls(Guards(), breaks[0], breaks=tuple(breaks), pieces=shown)

    def call(self, arguments: Sequence[Tensor]) -> "Call | None":
        """What runs this program on the arguments of a call, if it may stand for the call."""
        guards, effects = self.guards, self.effects
        if not guards.hold():
            return None
        if effects is None:
            return Call(self, arguments) if guards.fit(arguments) else None
        steady = self.steady
        if steady is not None and steady.owner is not None:
            others = steady.fits(arguments)
            if others is not None:
                return SteadyCall(self, others, arguments, steady)
            steady.end()
        found = None if self.fitting is None else self.fitting(arguments)
        if found is not None:
            return self._call(found, arguments)
        found = effects.located.find(arguments)
        return self._first_call(found, arguments) if guards.fit(found) else None

    def first_call(self, arguments: Sequence[Tensor]) -> "Call":
        """What runs this program on arguments that it fits, of which it knows nothing else yet."""
        assert self.effects is not None
        return self._first_call(self.effects.located.find(arguments), arguments)

    def _first_call(self, found: Sequence[Tensor], arguments: Sequence[Tensor]) -> "Call":
        effects = self.effects
        assert effects is not None
        if self.fitting is None:
            self._prepare(effects, len(found))
        assert self.fitting is not None
        self.fitting.know(found)
        return self._call(found, arguments)

    def _prepare(self, effects: Effects, tensors: int) -> None:
        """Make what each call needs."""
        graph, guards = self.graph, self.guards
        is_atomic = not (self.streams or graph.effects or self.backward)
        if is_atomic and can_be_steady(effects, guards):
            inputs = {guards.shared[x]: i for i, x in enumerate(self.reads) if isinstance(x, int)}
            written = [inputs.get(guards.shared[at]) for at, _ in effects.writes]
            gradients = [effects.made[value.place].output for _, _, value in gradients_of(effects)]
            others = [x for i, x in enumerate(self.reads) if i not in written]
            self.execution = Execution(graph, written, [x for x in gradients if x is not None])
        else:
            others = self.reads
            self.execution = Execution(graph)
        owned = [at for at, _ in effects.writes] if others is not self.reads else []
        self.reading = reading(owned, tensors), reading(others, tensors)
        self.leaving = Leaving(effects, len(graph.outputs))
        self.fitting = Fitting(effects, guards)
        if others is not self.reads:
            self.steady = Steady(effects, guards, others, self.leaving, self.execution)

    def _call(self, found: Sequence[Tensor], arguments: Sequence[Tensor]) -> "Call":
        steady = self.steady
        others = None if steady is None else steady.begin(found)
        return Call(self, found) if others is None or steady is None else SteadyCall(self, others, arguments, steady)

    def run(self, call: "Call") -> Any:
        """Make a call: run on its tensors, and leave the effects behind; the result."""
        if not self.draws and not self.streams:
            return call.made(None)
        generators = {id(s): s for draw in self.draws for s in draw.sources} | {id(s): s for s, _ in self.streams}
        before = [(source, source.saved()) for source in generators.values()]
        try:
            return call.made({id(draw): draw.draw(()) for draw in self.draws})
        except BaseException:
            if not call.is_made:
                for source, state in before:
                    source.restore(state)
            raise

    def rest(self) -> None:
        """Own nothing until the next call."""
        if self.steady is not None:
            self.steady.rest()

    def named(self) -> Graph:
        """The graph with its names."""
        return flat_function(self.graph, self.names, self.out_names)

    def let_go(self, capture: Capture) -> None:
        """Keep nothing of the recorded call alive: its tensors have other arrays soon."""
        capture.let_go()
        if self.effects is not None:
            self.effects.located.let_go()

    def same_as(self, other: "Program") -> bool:
        """Whether another recording of the same call computes and leaves behind the same."""
        if self.refused is not None or other.refused is not None:
            return self.refused == other.refused
        assert self.effects is not None and other.effects is not None
        return (
            self.graph == other.graph
            and self.effects.located.key() == other.effects.located.key()
            and self.effects.signature() == other.effects.signature()
            and (self.backward and self.backward.graph) == (other.backward and other.backward.graph)
        )


class Call:
    """One call of a program, on the tensors that it finds."""

    __slots__ = ("program", "found")

    def __init__(self, program: Program, found: Sequence[Tensor]):
        self.program = program
        self.found = found

    #: whether it has left its effects behind, though it raises an error
    is_made: bool = False

    def __call__(self) -> Any:
        return self.program.run(self)

    def made(self, drawn: Any) -> Any:
        """Run with random numbers, and leave the effects behind; the result, with its history."""
        program = self.program
        assert program.execution is not None and program.leaving is not None  # else the program is none
        written, others = program.reading
        outs = program.execution(tuple(written(self.found, None)), others(self.found, drawn))
        for source, output in program.streams:
            source.restore(np.ascontiguousarray(outs[output]))
        made, result = program.leaving(self.found, outs)
        if program.backward is not None:
            program.backward.attach(self.found, made, outs, here(2))
        return result


class SteadyCall(Call):
    """A call that goes on from the last one, of which it has only the tensors that the program does not own."""

    __slots__ = ("arguments", "steady", "owner", "calls")

    def __init__(self, program: Program, found: Sequence[Tensor], arguments: Sequence[Tensor], steady: Steady):
        super().__init__(program, found)
        self.arguments = arguments
        self.steady = steady
        assert steady.owner is not None
        self.owner: Owner = steady.owner
        self.calls: int = self.owner.calls

    @property
    def is_made(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.owner.calls != self.calls

    def made(self, drawn: Any) -> Any:
        owner, program = self.owner, self.program
        assert program.effects is not None and program.execution is not None
        outs = owner.go_on(program.execution, self.steady.others(self.found, drawn))
        if outs is None:  # somebody has written to a tensor, or read a gradient, since this call began
            return Call(program, self._all()).made(drawn)
        if owner.released:  # the handler of a signal has done so while it ran
            return program.effects.apply(self._all(), program.execution.flat(outs))[1]
        return self.steady.returned(self.found, outs[2])

    def _all(self) -> Sequence[Tensor]:
        """All tensors of the call."""
        assert self.program.effects is not None
        return self.program.effects.located.find(self.arguments)


@frozen(eq=False)
class Done:
    """A call that was made while it was recorded, and what it returned."""

    result: Any


def record(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], strict: bool, trial: bool = False
) -> tuple[Program, Done | None, Capture]:
    """Capture a call as a program.

    Where it turns out that it is none, the call has been made; else nothing has been changed.  A program that stays has
    to let go of its capture.

    Arguments:
      strict: raise what says that the function cannot be captured, instead of noting it.
      trial: change nothing in any case.

    Raises:
      CaptureError: the function needs a number, and ``strict``.
    """
    start = time.perf_counter()
    leaves: list[Any] = []
    take_apart((args, kwargs), leaves)
    arguments = [x for x in leaves if is_tensor(x)]
    given = guards_of_arguments(arguments)
    capture = Capture(world_of(function, args, kwargs), ahead=True, trial=trial)
    program, done = Program(Guards()), None
    states = [(source, source.saved()) for source in capture.world.streams]
    try:
        program, result = _recorded(capture, function, args, kwargs, arguments, strict)
        done = None if capture.pieces is None else Done(result)
    finally:
        refused = program.refused is not None
        if refused:
            program.guards = guards_of_refused(capture, given)
        if capture.pieces is None or trial:
            capture.put_back()
        if trial:
            for source, state in states:
                source.restore(state)
    if program.effects is not None:
        program.guards = guards_of(capture, program.effects)
    program.seconds = time.perf_counter() - start
    return program, done, capture


def _recorded(
    capture: Capture,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arguments: Sequence[Tensor],
    strict: bool,
) -> tuple[Program, Any]:
    """The program of a call, without its guards, and what the call returned; nothing is put back yet."""
    result: Any = None
    try:
        check_hooks(capture)
        cut = Cut()
        cut.off(capture)
        capture.breakable = not cut.tensors and not strict
        result = capture.run(function, args, kwargs)
        if capture.pieces is not None:
            return Program.in_pieces(capture.pieces.breaks, capture.pieces.ran), result
        step = Step(capture, World(), result)
        breakable, capture.breakable = capture.breakable, False  # what comes now is no call of the user's
        derivative = capture.inside(derivative_of, capture, [x for _, x in step.results()], cut)
        cut.give_back()
        capture.breakable = breakable and derivative is None
        step.after = world_of(function, args, kwargs)
        return _program(step, effects_of(step, arguments), derivative), result
    except Irregular as reason:
        if not capture.breakable:
            return Program.in_pieces([str(reason)], []), None
        pieces = capture.go_on(str(reason))
        pieces.finish()
        return Program.in_pieces(pieces.breaks, pieces.ran), result
    except CaptureError as error:
        if strict:
            raise
        return Program.in_pieces([str(error)], []), None
    except Exception as error:
        if capture.pieces is not None:
            raise  # as the call itself has
        # the call itself says what is wrong with it
        return Program(Guards(), f"{type(error).__name__}: {error}"), None


def _program(step: Step, effects: Effects, derivative: Derivative | None) -> Program:
    """The program of a captured call."""
    graph, ins, names, out_names, streams, backward = _written(step, effects, derivative)
    program = Program(Guards(), None, graph, names, out_names, effects)
    program.draws = step.capture.draws_ahead
    program.streams, program.backward = streams, backward
    program.reads = [_reader(x, effects) for x in ins]
    return program


def check_hooks(capture: Capture) -> None:
    """Raise ``Irregular`` if a tensor or a module has hooks: they are Python's, and fire at each call."""
    if any(x._tensor_hooks or x._post_accumulate_grad_hooks for x in capture.world.tensors):
        raise Irregular("a tensor has hooks")
    for place, held in capture.world.objects.values():
        if isinstance(held, Module) and not held._is_unhooked():
            raise Irregular(f"the module {place.path} has hooks")


def _written(step: Step, effects: Effects, derivative: Derivative | None) -> Any:
    """The graph of a call, its inputs, the names, the streams with their outputs, and the backward."""
    tape = step.capture.tape
    streams = [(x.source, effects.output(x.value)) for x in step.capture.streams.values() if x.written]
    outputs = [*effects.outputs, *([] if derivative is None else derivative.gradients)]
    used = tape.used(outputs)
    ins = [x for x in step.inputs if x.input.number in used]
    for x in ins:
        if isinstance(x, Cell):
            effects.located.of_storage(x.storage)
    effects.located.number_all()
    traced = [x.input for x in ins]
    if derivative is None:
        graph, backward = simplify(tape.closed(traced, effects.outputs)), None
    else:
        whole = simplify(tape.closed([*traced, *derivative.cotangents], outputs))
        graph, backward = _halves(whole, ins, effects, derivative)
    names: dict[int, str] = {}
    for at, output in effects.writes:
        names[output] = f"{step.capture.world.tensors[effects.located.tensors[at]].path} (written)"
    made = {id(m.like): m.output for m in effects.made}
    for tensor, place in step.after.tensors.items():
        if made.get(id(tensor)) is not None:
            names.setdefault(made[id(tensor)], f"{place.path} (written)")  # type: ignore[arg-type]
    for name, tensor in step.results():
        if made.get(id(tensor)) is not None:
            names[made[id(tensor)]] = name  # type: ignore[index]
    for _, output in streams:
        names[output] = "generator (written)"
    out_names = tuple([names.get(i, f"residual[{i}]") for i in range(len(graph.outputs))])
    return graph, ins, tuple([x.place.path for x in ins]), out_names, streams, backward


def _halves(whole: FlatGraph, ins: Sequence[Any], effects: Effects, derivative: Derivative) -> Any:
    """The forward graph and the backward program: see NOTE [Forward and backward]."""
    count, known = len(ins), len(effects.outputs)
    late = range(count, count + len(derivative.cotangents))
    kept = [False] * known + [True] * len(derivative.gradients)
    halves = partition(whole, late, kept)
    located = effects.located
    residuals = list(range(known, len(halves.known.outputs)))
    saved = [located.number(x) for x in derivative.saved]
    places = [effects.place_of(x) for x in derivative.results]
    wanted = [located.number(x) for x in derivative.wanted]
    types = [x._type for x in derivative.results]
    given = [x._type for x in derivative.wanted]
    return halves.known, BackwardProgram(
        halves.unknown, places, types, wanted, given, derivative.strides, residuals, saved
    )


def _reader(x: Any, effects: Effects) -> int | Callable[[Any], Any]:
    """What reads an input at each call: a tensor by its number, or a function of the numbers that are drawn ahead."""
    match x:
        case Cell():
            return effects.located.of_storage(x.storage)
        case Drawn():
            return lambda drawn: drawn[id(x)]
        case Stream():
            return lambda drawn: x.source.saved()
        case Number():
            return lambda drawn: np.float64(x.holder[x.key])
    raise TypeError(x)
