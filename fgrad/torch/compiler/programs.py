"""Captured calls as programs: recorded, guarded, compiled by XLA, checked by recording again.

NOTE [Nothing stale]
Changes that guards cannot see (a library's global, a file, a number in a C struct) are found by recording
again: graphs are values, so the second call of a program, and every n-th after that, records the function again and
compares.  If the two differ, the new program is used, and a warning names the line, once.

NOTE [Expectations]
``GradScaler`` skips a step whose gradients are not finite.  Whether they are, nobody knows while a call is
recorded; but nearly always they are.  So the usual case is recorded, and the flag is an output of the program.  If the
flag turns out to be another, the results are dropped, and the call runs in pieces.  Such a program donates nothing.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from fgrad.api.graphs import Graph, flat_function
from fgrad.errors import CaptureError
from fgrad.graph.graph import Graph as FlatGraph
from fgrad.graph.source import here
from fgrad.mutable.capture.capture import Capture, DrawInput, GeneratorInput, NumberInput, StorageInput, SymbolicInput
from fgrad.mutable.capture.held_numbers import HeldNumber, changed_numbers, held_in, settle
from fgrad.mutable.capture.snapshot import Snapshot
from fgrad.mutable.capture.streams import is_iterator
from fgrad.mutable.capture.tape import Tape
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.owned import Owner
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.symbolic import NumberProgram
from fgrad.passes.partition import partition
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.codegen import FastEffects, FastGuards, NumberAt, NumberIn, Read, reader
from fgrad.torch.compiler.containers import take_apart
from fgrad.torch.compiler.differentiated import BackwardProgram, Cut, Derivative, derivative_of
from fgrad.torch.compiler.effects import Effects, NotReplayable, effects_of
from fgrad.torch.compiler.execution import Execution
from fgrad.torch.compiler.external_tensors import ExternalTensors
from fgrad.torch.compiler.guards import Guards, guards_of, guards_of_arguments, guards_of_refused
from fgrad.torch.compiler.number_arguments import Place, with_symbolic_numbers, without_symbols
from fgrad.torch.compiler.placement import HERE, Placement, placement_of
from fgrad.torch.compiler.reachable import snapshot_of
from fgrad.torch.compiler.steady import Steady, can_be_steady, gradients_of
from fgrad.torch.compiler.step import Input, Step
from fgrad.torch.compiler.windows import Window, views_of_arguments, with_window
from fgrad.torch.nn.modules.module import Module


@define(eq=False)
class Program:
    """One captured call: when it applies, what it computes, and its effects.

    Attributes:
      guards: the conditions under which it applies.
      refused: the reason, if the call cannot be one program.
      breaks: the reasons, if it runs in pieces (NOTE [Pieces]).
      pieces: the graphs of the pieces.
      graph: from the inputs that are read to the outputs.
      reads: for each input of the graph, the index of a tensor, a window, or a function of the numbers in ``draws``.
      placement: where it runs.
      execution: runs the graph.
      fast_guards, readers, fast_effects: the generated functions of a call (NOTE [Generated code]).
      steady: ownership from call to call, where possible.
      numbers: the arithmetic on the numbers that are inputs (NOTE [Symbolic numbers]), first those among the arguments.
      held: the other numbers that are inputs (NOTE [Held numbers]).
      changed: the numbers outside of the arguments that the call has changed and that are no inputs.
      draws: random numbers that are drawn before it runs.
      expected: outputs with the values that they must have for the results to count.
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
    held: Sequence[HeldNumber] = ()
    changed: Sequence[HeldNumber] = ()
    draws: list[DrawInput] = field(factory=list)
    expected: list[tuple[int, bool]] = field(factory=list)
    generators: list[tuple[Any, int]] = field(factory=list)
    backward: BackwardProgram | None = None
    calls: int = 0
    seconds: float = 0.0
    breaks: tuple[str, ...] = ()
    pieces: tuple[Graph, ...] = ()

    @classmethod
    def in_pieces(cls, breaks: Sequence[str], graphs: Sequence[FlatGraph]) -> "Program":
        """The record of a call that runs in pieces."""
        pieces = tuple([flat_function(graph, (), ()) for graph in graphs])
        return cls(Guards(), breaks[0], breaks=tuple(breaks), pieces=pieces)

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
                return SteadyCall(self, others, numbers, arguments, steady)
            steady.give_up()
        tensors = None if self.fast_guards is None else self.fast_guards(arguments)
        if tensors is not None:
            return self._call(tensors, numbers, arguments)
        tensors = effects.external.find(arguments)
        return self._first_call(tensors, numbers, arguments) if guards.match(tensors) else None

    def numbers_at(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """All numbers of a call, from those among its arguments; None if a guarded one is another."""
        if self.held:
            inputs = [*inputs, *[number.read() for number in self.held]]
        return self.numbers.at(inputs) if inputs else inputs

    def unusable_numbers(self) -> Sequence[HeldNumber]:
        """The numbers outside of the arguments that the call changes although their values are guarded.

        With these as inputs the program could not be used again.
        """
        if self.effects is None:
            return ()
        entries = {HeldNumber(container, key).place: value for container, key, value in self.effects.entries}
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
        is_atomic = not (self.generators or graph.effects or self.backward or self.expected)
        if is_atomic and can_be_steady(effects, guards, self.placement):
            inputs = {guards.shared[x]: i for i, x in enumerate(self.reads) if isinstance(x, int)}
            written = [inputs.get(guards.shared[at]) for at, _ in effects.writes]
            gradients = [effects.new_tensors[value.index].output for _, _, value in gradients_of(effects)]
            others = [x for i, x in enumerate(self.reads) if i not in written]
            self.execution = Execution(graph, written, [x for x in gradients if x is not None], self.placement)
        else:
            others = self.reads
            self.execution = Execution(graph, placement=self.placement)
        owned = [at for at, _ in effects.writes] if others is not self.reads else []
        self.readers = reader(owned, count), reader(others, count)
        self.fast_effects = FastEffects(effects, len(graph.outputs))
        self.fast_guards = FastGuards(effects, guards)
        if others is not self.reads:
            self.steady = Steady(effects, guards, others, self.fast_effects, self.execution)

    def _call(self, tensors: Sequence[Tensor], numbers: Sequence[Any], arguments: Sequence[Tensor]) -> "Call":
        steady = self.steady
        others = None if steady is None else steady.take_ownership(tensors)
        if others is None or steady is None:
            return Call(self, tensors, numbers)
        return SteadyCall(self, others, numbers, arguments, steady)

    def run(self, call: "Call") -> Any:
        """Run on the tensors of a call and apply the effects; returns the result."""
        if not self.draws and not self.generators:
            return call.execute(None)
        generators = {id(s): s for draw in self.draws for s in draw.generators} | {id(s): s for s, _ in self.generators}
        before = [(source, source.saved()) for source in generators.values()]
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

    def same_as(self, other: "Program") -> bool:
        """Whether another recording of the same call has the same graph and effects."""
        if self.refused is not None or other.refused is not None:
            return self.refused == other.refused
        assert self.effects is not None and other.effects is not None
        return (
            self.graph == other.graph
            and self.effects.external.key() == other.effects.external.key()
            and self.effects.signature() == other.effects.signature()
            and self.windows == other.windows
            and self.expected == other.expected
            and self.numbers.signature() == other.numbers.signature()
            and (self.backward and self.backward.graph) == (other.backward and other.backward.graph)
        )


class Call:
    """One call of a program, with its tensors."""

    __slots__ = ("program", "tensors", "numbers")

    def __init__(self, program: Program, tensors: Sequence[Tensor], numbers: Sequence[Any]):
        self.program = program
        self.tensors = tensors
        self.numbers = numbers

    #: whether its effects have been applied, even if it raises an error
    is_applied: bool = False

    def __call__(self) -> Any:
        return self.program.run(self)

    def execute(self, drawn: Any) -> Any:
        """Run with early draws and apply the effects; returns the result, with its history."""
        program = self.program
        assert program.execution is not None and program.fast_effects is not None  # else the program is none
        written, others = program.readers
        outs = program.execution(tuple(written(self.tensors, None, ())), others(self.tensors, drawn, self.numbers))
        if any(bool(outs[output]) is not value for output, value in program.expected):
            raise Unexpected
        for source, output in program.generators:
            source.restore(np.ascontiguousarray(outs[output]))
        new_tensors, result = program.fast_effects(self.tensors, outs, self.numbers)
        if program.backward is not None:
            program.backward.attach(self.tensors, new_tensors, outs, here(2))
        return result


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
    def is_applied(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.owner.calls != self.calls

    def execute(self, drawn: Any) -> Any:
        owner, program = self.owner, self.program
        assert program.effects is not None and program.execution is not None
        stores = () if self.steady.stores is None else self.steady.stores(self.numbers)
        outs = owner.run_next(program.execution, self.steady.read_inputs(self.tensors, drawn, self.numbers), stores)
        if outs is None:  # a tensor was written, or a gradient read, since this call began
            return Call(program, self._all(), self.numbers).execute(drawn)
        if owner.released:  # by a signal handler while it ran
            return program.effects.apply(self._all(), program.execution.flat(outs), self.numbers)[1]
        return self.steady.make_result(self.tensors, program.execution.returned(outs[2]), self.numbers)

    def _all(self) -> Sequence[Tensor]:
        """All tensors of the call."""
        assert self.program.effects is not None
        return self.program.effects.external.find(self.arguments)


class Unexpected(Exception):
    """What a program takes for granted does not hold; nothing has changed."""


@frozen(eq=False)
class EagerCall:
    """The result of a call that took effect while it was recorded."""

    result: Any


def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    strict: bool,
    trial: bool = False,
    symbolic: Collection[Place] = (),
    held: Sequence[HeldNumber] = (),
) -> tuple[Program, EagerCall | None, Capture]:
    """Capture a call as a program.

    If it continued in pieces, the call has taken effect; otherwise nothing has changed.  A program that is kept has to
    release its capture.

    Arguments:
      strict: raise an error if the function cannot be captured, instead of noting it.
      trial: change nothing in any case.
      symbolic: the places of numbers among the arguments that are inputs.  Such a call does not continue in pieces.
      held: numbers outside of the arguments that are inputs, too.

    Raises:
      CaptureError: the function needs a number, and ``strict``.
    """
    start = time.perf_counter()
    leaves: list[Any] = []
    take_apart((args, kwargs), leaves)
    arguments = [x for x in leaves if is_tensor(x)]
    guards = guards_of_arguments(arguments)
    capture = Capture(snapshot_of(function, args, kwargs), draws_early=True, may_expect=True, trial=trial)
    program, done = Program(Guards()), None
    args, kwargs = with_symbolic_numbers(capture, args, kwargs, symbolic)
    held = [] if capture.snapshot.asks_type else [number for number in held if held_in(capture.snapshot, number)]
    states = [(source, source.saved()) for source in capture.snapshot.generators]
    try:
        for number in held:
            capture.hold(number)
        program, result = _recorded(capture, function, args, kwargs, arguments, strict)
        done = None
        if capture.pieces is not None:
            done = EagerCall(without_symbols(result))
            if held:
                settle(snapshot_of(function, args, kwargs))
    finally:
        refused = program.refused is not None
        program.held, program.numbers = held, capture.symbolic.recorded()
        if refused:  # Python runs at each call, and may use the numbers
            program.numbers = program.numbers.outcomes()
        program.changed = [x for x in changed_numbers(capture.snapshot) if x.place not in capture.held]
        if refused:
            program.guards = guards_of_refused(capture, guards)
        if capture.pieces is None or trial:
            capture.restore()
        if trial:
            for source, state in states:
                source.restore(state)
    if program.effects is not None:
        program.guards = guards_of(capture, program.effects, program.windows)
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
    """The program of a call, without its guards, and what the call returned; nothing is restored yet."""
    result: Any = None
    try:
        _check_reachable(capture)
        if capture.symbolic.inputs and capture.snapshot.asks_type:
            raise NotReplayable("the function asks for the class of a number by type()")
        cut = Cut()
        cut.apply(capture)
        capture.breakable = not cut.tensors and not strict and capture.symbolic.inputs == len(capture.held)
        result = capture.run(function, args, kwargs)
        if capture.pieces is not None:
            return Program.in_pieces(capture.pieces.breaks, capture.pieces.graphs), result
        step = Step(capture, Snapshot(), result)
        breakable, capture.breakable = capture.breakable, False  # what follows is not the user's code
        derivative = capture.call_traced(derivative_of, capture, [x for _, x in step.results()], cut)
        cut.undo()
        capture.breakable = breakable and derivative is None
        step.after = snapshot_of(function, args, kwargs)
        return _program(step, effects_of(step, arguments), derivative), result
    except NotReplayable as reason:
        if not capture.breakable:
            return Program.in_pieces([str(reason)], []), None
        pieces = capture.continue_in_pieces(str(reason))
        pieces.finish()
        return Program.in_pieces(pieces.breaks, pieces.graphs), result
    except CaptureError as error:
        if strict:
            raise
        return Program.in_pieces([str(error)], []), None
    except Exception as error:
        if capture.pieces is not None:
            raise  # the call itself has failed
        # uncompiled, the call raises its own error
        return Program(Guards(), f"{type(error).__name__}: {error}"), None


def _program(step: Step, effects: Effects, derivative: Derivative | None) -> Program:
    """The program of a captured call."""
    # the outputs are listed before the graph is made
    expected = [(effects.output(flag._value()), value) for flag, value in step.capture.expected]
    graph, ins, windows, names, out_names, generators, backward, placement = _program_parts(step, effects, derivative)
    program = Program(Guards(), None, graph, names, out_names, effects, placement=placement)
    program.draws = step.capture.early_draws
    program.generators, program.backward, program.expected = generators, backward, expected
    program.reads = [windows.get(x) or _reader(x, effects) for x in ins]
    return program


def _check_reachable(capture: Capture) -> None:
    """Raise ``NotReplayable`` if what the function can reach runs Python functions, or differs, at each call."""
    check_hooks(capture)
    for location, obj in capture.snapshot.objects.values():
        if is_iterator(obj):
            raise NotReplayable(f"the function can reach an iterator, {location.path}")


def check_hooks(capture: Capture) -> None:
    """Raise ``NotReplayable`` if a tensor or a module has hooks: Python functions that run at each call."""
    if any(x._tensor_hooks or x._post_accumulate_grad_hooks for x in capture.snapshot.tensors):
        raise NotReplayable("a tensor has hooks")
    for location, obj in capture.snapshot.objects.values():
        if isinstance(obj, Module) and not obj._is_unhooked():
            raise NotReplayable(f"the module {location.path} has hooks")


def _program_parts(step: Step, effects: Effects, derivative: Derivative | None) -> Any:
    """The graph of a call, its inputs and windows, all names, the advanced generators, and the backward."""
    tape = step.capture.tape
    generators = [(x.generator, effects.output(x.value)) for x in step.capture.generators.values() if x.is_written]
    outputs = [*effects.outputs, *([] if derivative is None else derivative.gradients)]
    used = tape.used(outputs)
    ins = [x for x in step.inputs if x.input.number in used]
    traced = [x.input for x in ins] + ([] if derivative is None else derivative.cotangents)
    joint, windows, bases = _with_windows(simplify(tape.closed(traced, outputs)), ins, step.capture, effects.external)
    effects.external.index_all(bases)
    placement = placement_of(tape, [x.input for x in ins], effects.outputs)
    graph, backward = joint, None
    if derivative is not None:
        graph, backward = _forward_and_backward(joint, ins, effects, derivative, tape)
    names: dict[int, str] = {}
    for at, output in effects.writes:
        names[output] = f"{step.capture.snapshot.tensors[effects.external.tensors[at]].path} (written)"
    outputs_of = {id(m.like): m.output for m in effects.new_tensors}
    for tensor, location in step.after.tensors.items():
        if outputs_of.get(id(tensor)) is not None:
            names.setdefault(outputs_of[id(tensor)], f"{location.path} (written)")  # type: ignore[arg-type]
    for name, tensor in step.results():
        if outputs_of.get(id(tensor)) is not None:
            names[outputs_of[id(tensor)]] = name  # type: ignore[index]
    for _, output in generators:
        names[output] = "generator (written)"
    out_names = tuple([names.get(i, f"residual[{i}]") for i in range(len(graph.outputs))])
    return graph, ins, windows, tuple([x.location.path for x in ins]), out_names, generators, backward, placement


def _with_windows(
    graph: FlatGraph, ins: Sequence[Input], capture: Capture, external: ExternalTensors
) -> tuple[FlatGraph, dict[Input, Window], list[Tensor]]:
    """The graph with windows (NOTE [Windows]), these by their inputs, and the bases that it does not depend on."""
    windows, bases = dict[Input, Window](), list[Tensor]()
    possible = views_of_arguments(capture, external.arguments)
    for number, x in enumerate(ins):
        if not isinstance(x, StorageInput):
            continue
        views = possible.get(x.storage)
        found = None if views is None else with_window(graph, number, views, external.index)
        if views is None or found is None:
            external.index_of_storage(x.storage)
        else:
            graph, windows[x] = found
            bases += views.bases
    return graph, windows, bases


def _forward_and_backward(
    joint: FlatGraph, ins: Sequence[Any], effects: Effects, derivative: Derivative, tape: Tape
) -> Any:
    """The forward graph and the backward program: see NOTE [Forward and backward]."""
    count, known_count = len(ins), len(effects.outputs)
    late = range(count, count + len(derivative.cotangents))
    keep = [False] * known_count + [True] * len(derivative.gradients)
    halves = partition(joint, late, keep)
    external = effects.external
    residuals = list(range(known_count, len(halves.known.outputs)))
    saved = [external.index(x) for x in derivative.saved]
    results = [effects.new_index(x) for x in derivative.results]
    targets = [external.index(x) for x in derivative.targets]
    types = [x._type for x in derivative.results]
    target_types = [x._type for x in derivative.targets]
    placement = placement_of(tape, derivative.cotangents, derivative.gradients)
    placement = evolve(placement, inputs=tuple([len(residuals) + i for i in placement.inputs]))
    return halves.known, BackwardProgram(
        halves.unknown, results, types, targets, target_types, derivative.strides, residuals, saved, placement
    )


def _reader(x: Any, effects: Effects) -> int | NumberIn | NumberAt | Callable[[Any], Any]:
    """What reads an input at each call: the index of a tensor or of a number, or a function of the early draws."""
    match x:
        case StorageInput():
            return effects.external.index_of_storage(x.storage)
        case DrawInput():
            return lambda drawn: drawn[id(x)]
        case GeneratorInput():
            return lambda drawn: x.generator.saved()
        case NumberInput():
            return NumberIn(x.holder, x.key)
        case SymbolicInput():
            return NumberAt(x.index)
    raise TypeError(x)
