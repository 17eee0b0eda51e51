"""Recording a call as a program.

NOTE [Nothing stale]
Changes that guards cannot see (a library's global, a file, a number in a C struct) are found by recording
again: graphs are values, so the second call of a program, and every n-th after that, records the function again and
compares.  If the two differ, the new program is used, and a warning names the line, once.
"""

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import evolve, frozen

from fgrad.errors import CaptureError
from fgrad.graph.graph import Graph as FlatGraph
from fgrad.mutable.capture.capture import Capture, DrawInput, GeneratorInput, NumberInput, StorageInput, SymbolicInput
from fgrad.mutable.capture.growing import can_grow, grown_lists, holders_of, is_hidden
from fgrad.mutable.capture.held_numbers import Holding, changed_numbers, held_in, settle, settled
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.capture.streams import is_iterator
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.passes.partition import partition
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.backward_program import BackwardProgram, Gradients, HigherOrder
from fgrad.torch.compiler.codegen import NumberAt, NumberIn
from fgrad.torch.compiler.containers import new_objects, take_apart
from fgrad.torch.compiler.differentiated import Cut, Derivative, check_leaves, derivatives_of
from fgrad.torch.compiler.effects import GREW, Effects, effects_of
from fgrad.torch.compiler.escapes import Escape, check_escapes
from fgrad.torch.compiler.guards import Guards, guards_of, guards_of_arguments, guards_of_refused
from fgrad.torch.compiler.new_tensors import NewTensor, NewView, NotReplayable
from fgrad.torch.compiler.number_arguments import Place, with_symbolic_numbers
from fgrad.torch.compiler.placement import Placement, placement_of
from fgrad.torch.compiler.programs import Program
from fgrad.torch.compiler.reachable import snapshot_of
from fgrad.torch.compiler.requirements import requirement_of
from fgrad.torch.compiler.running import recording
from fgrad.torch.compiler.step import Input, Step, arrays_in_memory, put_back
from fgrad.torch.compiler.switches import Switches
from fgrad.torch.compiler.values import ExternalRef
from fgrad.torch.compiler.windows import Window, views_of_arguments, with_window
from fgrad.torch.nn.modules.module import Module


@frozen(eq=False)
class EagerCall:
    """The result of a call that took effect while it was recorded."""

    result: Any


@recording
def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    strict: bool,
    trial: bool = False,
    symbolic: Collection[Place] = (),
    held: Sequence[Holding] = (),
    growing: Sequence[Holding] = (),
    order: int = 1,
) -> tuple[Program, EagerCall | None, Capture]:
    """Capture a call as a program.

    If it continued in pieces, the call has taken effect; otherwise nothing has changed.  A program that is kept has to
    release its capture.

    Arguments:
      strict: raise an error if the function cannot be captured, instead of noting it.
      trial: change nothing in any case.
      symbolic: the places of numbers among the arguments that are inputs.  Such a call does not continue in pieces.
      held: numbers outside of the arguments that are inputs, too.
      growing: lists outside of the arguments that only grow.  Nor does such a call continue in pieces.
      order: up to which the results are differentiated.

    Raises:
      CaptureError: the function needs a number, and ``strict``.
    """
    start = time.perf_counter()
    leaves: list[Any] = []
    take_apart((args, kwargs), leaves)
    arguments = [x for x in leaves if is_tensor(x)]
    guards = guards_of_arguments(arguments)
    snapshot, growing = _with_growing_lists(function, args, kwargs, growing)
    capture = Capture(snapshot, draws_early=True, may_expect=True, trial=trial)
    program, done, switches = Program(Guards()), None, Switches.now()
    args, kwargs = with_symbolic_numbers(capture, args, kwargs, symbolic)
    held = [] if capture.snapshot.asks_type else [number for number in held if held_in(capture.snapshot, number)]
    states = [(source, source.saved()) for source in capture.snapshot.generators]
    try:
        for number in held:
            capture.hold(number)
        for holding in growing:
            capture.grow(holding)
        program, result = _recorded(capture, function, args, kwargs, arguments, strict, switches, order)
        done = None
        if capture.pieces is not None:
            done = EagerCall(settled(result))
    finally:
        try:
            if capture.pieces is not None and capture.symbolic.steps:
                left = sys.exc_info()[1] if done is None else done.result
                roots = [] if left is None else [(Location("result", ("result",)), left)]
                settle(snapshot_of(function, args, kwargs).walk(roots))
            refused = program.refused is not None
            program.held, program.growing, program.numbers = held, growing, capture.symbolic.recorded()
            if refused:  # Python runs at each call, and may use the numbers
                program.numbers = program.numbers.outcomes()
            program.changed = [x for x in changed_numbers(capture.snapshot) if x.place not in capture.held]
            if program.breaks == (GREW,):
                program.grown = [*grown_lists(capture.snapshot)]
            if refused:
                program.guards = guards_of_refused(capture, guards)
        finally:
            if capture.pieces is None or trial:
                put_back(capture, switches, states)
    if program.effects is not None:
        program.guards = guards_of(capture, program.effects, program.windows)
    program.seconds = time.perf_counter() - start
    return program, done, capture


def _with_growing_lists(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], growing: Sequence[Holding]
) -> tuple[Snapshot, Sequence[Holding]]:
    """What a call can reach, and those of some lists that it reaches in one way each; these are not walked."""
    growing = [x for x in growing if can_grow(x.read())]
    snapshot = snapshot_of(function, args, kwargs, [x.read() for x in growing])
    usable = [] if snapshot.asks_type else [x for x in growing if _is_only_holder(x, snapshot)]
    return (snapshot, growing) if len(usable) == len(growing) else _with_growing_lists(function, args, kwargs, usable)


def _is_only_holder(holding: Holding, snapshot: Snapshot) -> bool:
    found = holding.read()
    return [x.place for x in holders_of(found, snapshot)] == [holding.place] and not is_hidden(found, snapshot)


def _recorded(
    capture: Capture,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arguments: Sequence[Tensor],
    strict: bool,
    switches: Switches,
    order: int,
) -> tuple[Program, Any]:
    """The program of a call, without its guards, and what the call returned; nothing is restored yet."""
    result: Any = None
    try:
        _check_memory(capture)
        _check_reachable(capture)
        if capture.symbolic.inputs and capture.snapshot.asks_type:
            raise NotReplayable("the function asks for the class of a number by type()")
        cut = Cut()
        cut.apply(capture)
        capture.breakable = not cut.tensors and not strict and capture.symbolic.inputs == len(capture.held)
        capture.breakable &= not capture.growing
        result = capture.run(function, args, kwargs)
        if capture.pieces is not None:
            return Program.in_pieces(capture.pieces.breaks, capture.pieces.graphs), result
        if changed := switches.changed():
            raise NotReplayable(f"the function leaves a mode changed: {changed}")
        objects = new_objects(result, capture.snapshot)
        step = Step(capture, snapshot_of(function, args, kwargs), result, objects)
        check_escapes(step, outside=cut.stand_ins.values())
        outputs = [*[x for _, x in step.results()], *step.left()]
        check_leaves(capture, [*outputs, *[x._view.base for x in outputs if x._view is not None]], cut)
        breakable, capture.breakable = capture.breakable, False  # what follows is not the user's code
        capture.check_copies(outputs)
        values, draws = {x: x.value for x in _written_inputs(capture)}, len(capture.early_draws)
        derivatives, chains = capture.call_traced(derivatives_of, capture, outputs, cut, order)
        cut.undo()
        _check_backward(step, values, draws)
        capture.breakable = breakable and not derivatives
        return _program(step, effects_of(step, arguments, chains), derivatives), result
    except MemoryIsShown as reason:
        return Program(Guards(), str(reason), shows_memory=True), None
    except NotReplayable as reason:
        escapes = isinstance(reason, Escape)
        if not capture.breakable:
            return Program.in_pieces([str(reason)], [], escapes), None
        pieces = capture.continue_in_pieces(str(reason))
        pieces.finish()
        return Program.in_pieces(pieces.breaks, pieces.graphs, escapes), result
    except CaptureError as error:
        if strict:
            raise
        return Program.in_pieces([str(error)], []), None
    except Exception as error:
        if capture.pieces is not None:
            if not (capture.can_be_undone and _may_be_of_symbols(error)):
                raise  # the call itself has failed
            capture.pieces = None
        # uncompiled, the call raises its own error
        return Program(Guards(), f"{type(error).__name__}: {error}"), None


def _may_be_of_symbols(error: Exception) -> bool:
    """Whether an error may be that of a number of a class ``Symbolic...`` where one of Python's is needed."""
    return isinstance(error, TypeError) or "Symbolic" in str(error)


def _program(step: Step, effects: Effects, derivatives: Sequence[Derivative]) -> Program:
    """The program of a captured call."""
    # the outputs are listed before the graph is made
    required, flag = requirement_of(step.capture, effects.external)
    expected = None if flag is None else effects.output(flag._value())
    results = {number: effects.output(traced) for number, traced in step.capture.symbolic.results.items()}
    graph, ins, windows, names, out_names, generators, backward, placement = _program_parts(step, effects, derivatives)
    items = {output: f"item[{i}]" for i, output in enumerate(results.values())}
    if expected is not None:
        items[expected] = "what is required holds"
    out_names = tuple([items.get(i) or name for i, name in enumerate(out_names)])
    program = Program(Guards(), None, graph, names, out_names, effects, placement=placement)
    program.draws = step.capture.early_draws
    program.generators, program.backward, program.results = generators, backward, results
    program.required, program.expected = required, expected
    program.reads = [windows.get(x) or _reader(x, effects) for x in ins]
    return program


def _written_inputs(capture: Capture) -> list[StorageInput | GeneratorInput]:
    """The inputs that a function may write."""
    return [*capture.storages.values(), *capture.generators.values()]


def _check_backward(step: Step, values: Mapping[StorageInput | GeneratorInput, Any], draws: int) -> None:
    """Raise ``NotReplayable`` if the backward that was recorded has effects; they are due when a backward runs.

    Arguments:
      values: of the inputs, before that backward.
      draws: how many draws there were.
    """
    after, fields = step.after, {id(fields_of(x)) for x in step.after.tensors}
    changed = any(id(container) not in fields for container, _ in after.changed())
    if changed or any(True for _ in after.rebound()):
        raise NotReplayable("backward changes a Python value")
    are_written = any(x.value is not values.get(x, x.input) for x in _written_inputs(step.capture))
    if are_written or len(step.capture.early_draws) != draws:
        raise NotReplayable("backward writes a tensor from outside, or draws random numbers")


def _check_reachable(capture: Capture) -> None:
    """Raise ``NotReplayable`` if what the function can reach runs Python functions, or differs, at each call."""
    check_hooks(capture)
    for location, obj in capture.snapshot.objects.values():
        if is_iterator(obj):
            raise NotReplayable(f"the function can reach an iterator, {location.path}")


class MemoryIsShown(Exception):
    """NumPy sees each write to a tensor at once, which no recording can do."""


def _check_memory(capture: Capture) -> None:
    """Raise ``MemoryIsShown`` if the function can reach a NumPy array in the memory of a tensor that it can reach."""
    for location in arrays_in_memory(capture, {x._storage for x in capture.snapshot.tensors}):
        raise MemoryIsShown(f"{location.path} is a NumPy array in the memory of a tensor")


def check_hooks(capture: Capture) -> None:
    """Raise ``NotReplayable`` if a tensor or a module has hooks: Python functions that run at each call."""
    if any(x._tensor_hooks or x._post_accumulate_grad_hooks for x in capture.snapshot.tensors):
        raise NotReplayable("a tensor has hooks")
    for location, obj in capture.snapshot.objects.values():
        if isinstance(obj, Module) and not obj._is_unhooked():
            raise NotReplayable(f"the module {location.path} has hooks")


def _program_parts(step: Step, effects: Effects, derivatives: Sequence[Derivative]) -> Any:
    """The graph of a call, its inputs and windows, all names, the advanced generators, and the backward."""
    tape = step.capture.tape
    generators = [(x.generator, effects.output(x.value)) for x in step.capture.generators.values() if x.is_written]
    outputs = [*effects.outputs, *[value for each in derivatives for value in each.values]]
    used = tape.used(outputs)
    ins = [x for x in step.inputs if x.input.number in used]
    traced = [*[x.input for x in ins], *[x for each in derivatives for x in _arrays(each.cotangents)]]
    joint, windows, bases = _with_windows(simplify(tape.closed(traced, outputs)), ins, step.capture, effects)
    effects.external.index_all(bases)
    placement = placement_of(tape, [x.input for x in ins], effects.outputs)
    graph, backward = joint, None
    if derivatives:
        graph, backward = _forward_and_backward(joint, ins, effects, derivatives, step.capture)
    names: dict[int, str] = {}
    for at, output in effects.writes:
        names[output] = f"{step.capture.snapshot.tensors[effects.external.tensors[at]].path} (written)"
    outputs_of = {id(x.like): x.output for x in effects.new_tensors if isinstance(x, NewTensor)}
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
    graph: FlatGraph, ins: Sequence[Input], capture: Capture, effects: Effects
) -> tuple[FlatGraph, dict[Input, Window], list[Tensor]]:
    """The graph with windows (NOTE [Windows]), these by their inputs, and the bases that it does not depend on."""
    windows, bases, external = dict[Input, Window](), list[Tensor](), effects.external
    shared = [base for x in effects.new_tensors for base in x.bases if isinstance(base, ExternalRef)]
    places = {external.tensors[x.index]._storage for x in shared}  # the new tensors lie at places in these
    possible = views_of_arguments(capture, external.arguments)
    possible = {storage: views for storage, views in possible.items() if storage not in places}
    for number, x in enumerate(ins):
        if not isinstance(x, StorageInput):
            continue
        views = possible.get(x.storage)
        found = None if views is None else with_window(graph, number, views, external.index)
        if views is None or found is None:
            external.index_of(x.storage)
        else:
            graph, windows[x] = found
            bases += views.bases
    return graph, windows, bases


def _forward_and_backward(
    joint: FlatGraph, ins: Sequence[Input], effects: Effects, derivatives: Sequence[Derivative], capture: Capture
) -> tuple[FlatGraph, BackwardProgram]:
    """The forward graph and the backward program: see NOTE [Forward and backward]."""
    first, external, tape = derivatives[0], effects.external, capture.tape
    count, known = len(ins), len(effects.outputs)
    end, last = count + len(first.cotangents), known + len(first.values)
    both = joint if len(derivatives) == 1 else _part(joint, end, range(last))
    halves = partition(both, range(count, end), [i >= known for i in range(last)])
    residuals = list(range(known, len(halves.known.outputs)))
    placement = placement_of(tape, _arrays(first.cotangents), first.values)
    placement = evolve(placement, inputs=tuple([len(residuals) + i for i in placement.inputs]))
    gradients = _gradients(halves.unknown, first, placement)
    higher: list[HigherOrder] = []
    inputs = [*[x.input for x in ins], *_arrays(first.cotangents)]
    for before, each in pairwise(derivatives):
        inputs += _arrays(each.cotangents)
        outs = range(last, last + len(each.values))
        last = outs.stop
        of_each = each.error or _gradients(
            _part(joint, len(inputs), outs), each, placement_of(tape, inputs, each.values)
        )
        numbers = {x: i for i, x in enumerate((*before.targets, *before.cotangents))}
        saved = [i for i, x in enumerate(before.cotangents) if each.saves(x)]
        higher.append(HigherOrder(of_each, each.at, each.reached, [numbers[x] for x in each.targets], saved))
    memory = {(x._storage, x._counter): x for x in reversed(capture.snapshot.tensors)}
    return halves.known, BackwardProgram(
        gradients,
        [effects.new_index(x) for x in first.results],
        [external.index(x) for x in first.targets],
        residuals,
        [external.index(memory[x]) for x in first.memory if x in memory],
        [i for i, x in enumerate(effects.new_tensors) if isinstance(x, NewTensor) and first.saves(x.like)],
        {i: x for i, x in enumerate(effects.new_tensors) if isinstance(x, NewView) and x.begins_at_new},
        higher,
        len(derivatives),
    )


def _arrays(tensors: Sequence[Tensor]) -> list[Any]:
    return [x._storage.array for x in tensors]


def _part(graph: FlatGraph, inputs: int, outputs: range) -> FlatGraph:
    """The part of a graph that computes some outputs from the first inputs."""
    part = evolve(graph, outputs=graph.outputs[outputs.start : outputs.stop])
    late = range(inputs, len(graph.in_types))
    return simplify(partition(part, late, [False] * len(outputs)).known)


def _gradients(graph: FlatGraph, of: Derivative, placement: Placement) -> Gradients:
    """The program of the gradients of one order."""
    incoming, types = ([x._type for x in tensors] for tensors in (of.results, of.targets))
    return Gradients(graph, incoming, types, of.strides, of.versions, of.same, placement, of.delayed)


def _reader(x: Any, effects: Effects) -> int | NumberIn | NumberAt | Callable[[Any], Any]:
    """What reads an input at each call: the index of a tensor or of a number, or a function of the early draws."""
    match x:
        case StorageInput():
            return effects.external.index_of(x.storage)
        case DrawInput():
            return lambda drawn: drawn[id(x)]
        case GeneratorInput():
            return lambda drawn: x.generator.saved()
        case NumberInput():
            return NumberIn(x.holder, x.key)
        case SymbolicInput():
            return NumberAt(x.index)
    raise TypeError(x)
