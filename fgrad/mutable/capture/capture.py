"""Capture: a function runs once on traced values; what it read and wrote become inputs and outputs of its graph.

Longer than most files: it is the one object that operations, draws and numbers ask while a call is recorded.

NOTE [Capture]
Nothing in a tensor is really mutated: an operation on a tensor that holds a traced value points its storage to another
traced value.  So a function that makes tensors, writes into views of them and calls ``backward`` is, run on traced
values, a pure function of those values.  State from outside is discovered as follows:

- A tensor from outside is *lifted* when the walk finds it (NOTE [What a function can reach]), or else when an operation
  or ``backward`` is about to read or write it: its storage gets a traced value, an input of the graph, and the old
  contents of the storage, its counter and the tensor's fields are remembered.  Operations ask inside a level anyway
  (``modes.level``, NOTE [Levels]), and tensors made inside bear that level; so nothing extra is asked outside of a
  capture, and inside no old tensor is taken for a new one.
- A generator of random numbers is lifted when numbers are drawn from it, or its state is read or set (by a seed, by
  ``checkpoint``).  Its state is an input; a draw is an operation that gives numbers and the next state.  The generator
  itself does not advance.  One that is made inside begins with a constant.
- When the function has returned, a storage that holds another value than its input has been written.  A second walk
  finds what was created: a first ``.grad``, an optimiser's state.  These are outputs.

Then everything is restored: storages, counters, fields, containers, generators, Python's random numbers.  So an error
in the middle leaves nothing behind, and capturing changes nothing.  Whoever wants the effects (a compiled call) applies
them with the values that the program gives.  Only Python's own effects on what the walk does not see (a file, a global
of another module) remain.  A call that turns out not to be one program can continue in pieces, with real effects
(NOTE [Pieces]).
"""

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
from attrs import define, field, frozen

from fgrad.mutable.capture.draws import draw_graph, trial_draw
from fgrad.mutable.capture.growing import Growing, growing
from fgrad.mutable.capture.held_numbers import Holding, settle
from fgrad.mutable.capture.mathematics import symbolic_mathematics
from fgrad.mutable.capture.pieces import CreatedTensors, LiveTape, Pieces, flag_of
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.capture.streams import Streams
from fgrad.mutable.capture.tape import Tape
from fgrad.mutable.context.modes import Scope, modes
from fgrad.mutable.tensor.lifted import lift, restore
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, type_of
from fgrad.mutable.transforms.levels import next_level
from fgrad.mutable.types.number_program import text_of
from fgrad.mutable.types.symbolic import SymbolicNumber, SymbolicNumbers, as_array
from fgrad.mutable.values.device_of_value import accelerator_of
from fgrad.mutable.values.evaluation import array_type, constant, is_abstract
from fgrad.seam import CaptureError, Source, Tracer, here, with_x64

COPIED = (
    "a part of a tensor that a 0-dimensional index tensor names is a view, and {}: then the number is needed. Way out: "
    "index by int(i), or write through the index (x[i] = ...)."
)
DRAWN = (
    "torch.capture: the function draws random numbers of Python or NumPy, which would be constants of the graph. Draw "
    "them outside of the function and pass them as an argument."
)
UNSUPPORTED_INPUT = "torch.capture: {} cannot be captured as an input of a graph: it {}."


@define(eq=False)
class StorageInput:
    """A storage from outside: its original array, and the traced input that stands for it."""

    storage: Storage
    array: Any
    input: Any
    location: Location
    #: the other fields that a resize changes
    layout: tuple[Any, ...]

    @property
    def value(self) -> Any:
        return self.storage.array

    @property
    def is_written(self) -> bool:
        return self.storage.array is not self.input


@define(eq=False)
class GeneratorInput:
    """A random generator from outside: its original state and its current, traced one."""

    generator: Any
    state: Any
    input: Any
    value: Any
    location: Location

    @property
    def is_written(self) -> bool:
        return self.value is not self.input


@define(eq=False)
class DrawInput:
    """Random numbers drawn before the graph runs, and the function's draw that gives them."""

    draw: Callable[..., np.ndarray]
    generators: tuple[Any, ...]
    input: Any
    location: Location

    is_written: ClassVar[bool] = False


@define(eq=False)
class NumberInput:
    """A Python number from outside that an operation reads, and what holds it: a dict, or a tuple in a dict."""

    holder: Any
    key: Any
    value: float
    input: Any
    location: Location

    is_written: ClassVar[bool] = False


@define(eq=False)
class SymbolicInput:
    """A symbolic number that an operation reads, by its index among all of a call (NOTE [Symbolic numbers])."""

    index: int
    input: Any
    location: Location

    is_written: ClassVar[bool] = False


@frozen
class TupleElements:
    """The elements of a tuple in a dict, readable and writable."""

    holder: dict[Any, Any]
    key: Any

    def __getitem__(self, index: int) -> Any:
        return self.holder[self.key][index]

    def __setitem__(self, index: int, value: Any) -> None:
        elements = self.holder[self.key]
        self.holder[self.key] = (*elements[:index], value, *elements[index + 1 :])


@define(eq=False)
class Capture:
    """One run of a function on traced values.

    Attributes:
      tape: what was recorded.
      snapshot: what the function could reach before.
      storages: the lifted storages.
      counters: the version counters of lifted tensors, with their original values and writes.
      generators: the generators that were drawn from, or whose states were read or set.
      local_generators: those made inside, whose states are not inputs.
      streams: the random generators of Python and NumPy, whose numbers would be constants.
      numbers: the Python numbers that became inputs, by their holder, key, and index in a tuple.
      symbolic: the symbolic numbers of the call, and the paths of those that are inputs.
      symbolic_inputs: those that operations read.
      held, held_before: those outside of the arguments, by their places, and what was there (NOTE [Held numbers]).
      lists, growing: the lists outside that only grow, and what is recorded of them, by their places
        (NOTE [Growing lists]).
      expected: flags that the recording takes for granted, as tensors.
      may_expect: whether there may be such flags (NOTE [Expectations]).
      draws_early: whether random numbers without traced parameters are inputs, drawn before the graph runs.
      early_draws: these draws, in order.
      side_effects: the function's Python side effects, which no graph can express.
      created: the tensors made inside, and their storages.
      breakable: whether the call may continue in pieces when it asks for a number (NOTE [Pieces]).
      pieces: the rest of the call, in pieces.
      trial: whether everything is restored in that case, too.
      position_is_read: whether the function asks where a tensor lies in its memory.
      copies: the tensors that are views where an index is known, weakly, with their storages and those that they view.
    """

    snapshot: Snapshot
    tape: Tape = field(factory=Tape)
    storages: dict[Storage, StorageInput] = field(factory=dict)
    counters: dict[VersionCounter, tuple[int, Any]] = field(factory=dict)
    generators: dict[Any, GeneratorInput] = field(factory=dict)
    local_generators: dict[Any, GeneratorInput] = field(factory=dict)
    numbers: dict[tuple[int, Any, int | None], NumberInput] = field(factory=dict)
    streams: Streams = field(init=False)
    symbolic: SymbolicNumbers = field(init=False)
    symbolic_paths: list[str] = field(factory=list)
    symbolic_inputs: list[SymbolicInput] = field(factory=list)
    held: dict[tuple[int, Any], SymbolicNumber] = field(factory=dict)
    held_before: list[tuple[Holding, Any]] = field(factory=list)
    growing: dict[tuple[int, Any], Growing] = field(factory=dict)
    lists: list[Holding] = field(factory=list)
    expected: list[Tensor] = field(factory=list)
    may_expect: bool = False
    draws_early: bool = False
    early_draws: list[DrawInput] = field(factory=list)
    side_effects: list[str] = field(factory=list)
    created: CreatedTensors = field(factory=CreatedTensors)
    breakable: bool = False
    pieces: Pieces | None = None
    trial: bool = False
    position_is_read: bool = False
    copies: list[tuple["weakref.ref[Tensor]", Storage, Storage]] = field(factory=list)
    level: int = field(factory=next_level)
    #: the generators used by the draw being tried out, with their original states
    trial_states: dict[Any, Any] | None = None
    _unnamed: Any = field(factory=itertools.count)

    def __attrs_post_init__(self) -> None:
        self.symbolic = SymbolicNumbers(self._symbolic_input, self.tape.as_number, self._ask_for_late_numbers)
        self.streams = Streams.of([x for _, x in self.snapshot.objects.values()])

    # -- tensors from outside ----------------------------------------------------------------------------------------

    def lift_tensor(self, tensor: Tensor) -> None:
        """Make a tensor from outside an input of the graph, the first time it is read or written."""
        if tensor._level >= self.level:
            return
        if tensor not in self.snapshot.tensors:
            if tensor._storage in self.storages or self._is_traced(tensor):
                return  # made inside by detach(), as a view or a copy, so it has the level of the other tensor
            self.lift_reachable(tensor, tensor._label or f"outside[{next(self._unnamed)}]")
        counter = tensor._counter
        if counter not in self.counters:
            self.counters[counter] = counter.value, None if counter.writes is None else counter.writes.copy()
        storage = tensor._storage
        if storage in self.storages:
            return
        array, location = storage.array, self.snapshot.tensors[tensor]
        if self._is_traced(tensor):
            return  # the tensor got a storage made inside
        layout = storage.strides, storage.home
        if self.pieces is not None:
            self.storages[storage] = StorageInput(storage, array, None, location, layout)
            return
        if is_abstract(array) and not isinstance(array, Tracer):
            raise RuntimeError(UNSUPPORTED_INPUT.format(location.path, "is on the device meta, or mapped"))
        traced = self.tape.input(array_type(tuple(array.shape), array.dtype), accelerator_of(array))
        self.storages[storage] = StorageInput(storage, array, traced, location, layout)
        lift(storage, traced)

    def _is_traced(self, tensor: Tensor) -> bool:
        return getattr(tensor._storage.array, "_trace", None) is self.tape

    def note_created(self, tensor: Tensor) -> None:
        """Note a tensor that is made inside."""
        self.created.note_created(tensor)

    def exported_value(self, value: Any) -> Any:
        """The value of memory exported to NumPy: still traced, as no number is known here."""
        return value

    def lift_reachable(self, value: Any, name: str) -> None:
        """Lift an object that the walk has not found, and everything it holds."""
        count = len(self.snapshot.tensors)
        self.snapshot.walk([(Location(name, (name,)), value)])
        for tensor in [*self.snapshot.tensors][count:]:
            self.lift_tensor(tensor)

    def lift_operands(self, operands: Iterable[Any]) -> None:
        """Lift those operands of an operation that come from outside."""
        for x in operands:
            if isinstance(x, Tensor) and x._level < self.level:
                self.lift_tensor(x)

    def note_change(self, container: dict[Any, Any]) -> None:
        """Note the contents of a dict that is about to change and that no walk finds, such as a node's hooks."""
        self.snapshot.track(container)

    def note_position(self) -> None:
        """Note that Python reads where a tensor lies in its memory."""
        self.position_is_read = True

    def gives_number(self, x: Tensor) -> bool:
        """No: the number would be a constant of the graph."""
        return False

    def note_copy(self, copy: Tensor, viewed: Tensor) -> None:
        """Note a tensor that is a copy here, and a view where the number of an index is known (``t[step]``)."""
        self.copies.append((weakref.ref(copy), copy._storage, viewed._storage))

    def note_write(self, tensor: Tensor) -> None:
        """Refuse the write to such a copy, or to what it would be a view of."""
        for ref, *storages in self.copies:
            if tensor._storage in storages and ref() is not None:
                raise self.refusal(COPIED.format("it or the tensor is written"))

    def check_copies(self, outputs: Iterable[Tensor]) -> None:
        """Refuse such a copy among the outputs, unless what it would be a view of is of no use then."""
        storages = {x._storage for x in outputs}
        for _, copied, viewed in self.copies:
            if copied in storages and (viewed in storages or viewed in self.storages):
                raise self.refusal(COPIED.format("it outlives the function"))

    def usually(self, flag: Tensor, usual: bool) -> bool:
        """Whether a tensor of one element is not zero: the usual case is recorded, if the caller can check it later."""
        if not self.may_expect:
            return bool(flag)
        as_expected: Any = flag != 0 if usual else flag == 0
        self.expected.append(as_expected)
        return usual

    def is_met(self, requirement: Tensor) -> bool:
        """Take for granted that a tensor of one element is not zero; the caller can check it later, or nobody does."""
        return self.usually(requirement, True) if self.may_expect else True

    def expect(self, requirement: Callable[[], Any]) -> None:
        """Take for granted that a tensor has no zeros, if the caller can check it later."""
        flag = flag_of(requirement, self.tape) if self.may_expect else None
        if flag is not None:
            self.expected.append(flag)

    def note_side_effect(self, what: str) -> None:
        """Note a Python side effect that no graph can express."""
        self.side_effects.append(what)

    # -- Python numbers ----------------------------------------------------------------------------------------------

    def number(self, holder: dict[Any, Any], key: Any) -> Any:
        """The value under a key of a dict from outside; floats, alone or in a tuple, become tensors that are inputs."""
        if isinstance(symbol := holder[key], SymbolicNumber) and symbol.__class__ is float:
            traced = as_array(symbol, NUMBER_TYPES[float].array.dtype)
            return new_tensor(traced, type_of(traced))
        value: Any = holder[key]
        _, before = self.snapshot.containers.get(id(holder), (None, {}))
        if before.get(key) is not value:
            return value  # set by the function itself
        location = self.snapshot.objects[id(holder)][0].item(key)
        if value.__class__ is float:
            return self._number((id(holder), key, None), holder, key, location)
        if value.__class__ is tuple and all(x.__class__ is float for x in value):
            elements = TupleElements(holder, key)
            return tuple([self._number((id(holder), key, i), elements, i, location.item(i)) for i in range(len(value))])
        return value

    def _number(self, slot: tuple[int, Any, int | None], holder: Any, key: Any, location: Location) -> Tensor:
        entry = self.numbers.get(slot)
        if entry is None:
            traced = self.tape.input(NUMBER_TYPES[float].array)
            entry = self.numbers[slot] = NumberInput(holder, key, holder[key], traced, location)
        return new_tensor(entry.input, type_of(entry.input))

    def symbolic_number(self, value: Any, path: str) -> SymbolicNumber:
        """A symbolic number in the place of one of the arguments."""
        self.symbolic_paths.append(path)
        return self.symbolic.input(value)

    def hold(self, number: Holding) -> None:
        """Put a symbolic number in the place of one outside of the arguments, until everything is restored."""
        self.held_before.append((number, number.read()))
        symbol = self.symbolic_number(number.read(), number.location(self.snapshot).path)
        self.held[number.place] = number.container[number.key] = symbol

    def grow(self, holding: Holding) -> None:
        """Put a growing list in the place of one outside of the arguments, until everything is restored."""
        self.lists.append(holding)
        self.growing[holding.place] = holding.container[holding.key] = growing(holding.read())

    def late_number(self, value: Any, kind: type) -> SymbolicNumber | None:
        """The number of a class that is the one element of a traced value; None if Python needs it at once.

        See NOTE [Late numbers].
        """
        if not self.may_expect or self.snapshot.asks_type or getattr(value, "_trace", None) is not self.tape:
            return None
        return self.symbolic.result(kind, value)

    def _ask_for_late_numbers(self, traced: Any) -> None:
        if self.pieces is None:
            self._concrete(traced.number)

    def _symbolic_input(self, index: int, dtype: np.dtype[Any]) -> Any:
        if self.pieces is not None:
            return constant(np.asarray(self.symbolic.steps[index].value, dtype))
        traced = self.tape.input(array_type((), dtype))
        path = text_of(self.symbolic.steps, self.symbolic.inputs, index, self.symbolic_paths)
        self.symbolic_inputs.append(SymbolicInput(index, traced, Location(path, (path,))))
        return traced

    # -- random numbers ----------------------------------------------------------------------------------------------

    def note_draw(self, generator: Any) -> None:
        """Note that numbers are about to be drawn from a generator, or that Python reads its state.

        Raises:
          RuntimeError: no operation draws them, so they would be the same at every run.
        """
        if self.trial_states is None and self.breakable:
            raw = here()
            at = "an unknown line" if raw is None else Source(*raw)
            self.continue_in_pieces(f"Random numbers, or the state of a generator, are read into Python at {at}.")
            return
        if self.trial_states is None:
            raise RuntimeError(
                "torch.capture: random numbers, or the state of a generator, are read into Python here, and would be "
                "constants of the graph. Draw them outside of the function and pass them as an argument."
            )
        if generator not in self.trial_states:
            self.trial_states[generator] = generator.saved()

    def draw(self, draw: Callable[..., np.ndarray], *parameters: Any) -> Any:
        """The traced result of ``draw`` for arrays: an operation on the states of the generators it uses."""
        sample, used = trial_draw(self, draw, parameters)
        if not used:
            return sample
        if (
            self.draws_early
            and not parameters
            and not any(generator in self.generators or generator in self.local_generators for generator in used)
        ):
            traced = self.tape.input(array_type(sample.shape, sample.dtype))
            self.early_draws.append(DrawInput(draw, used, traced, Location("drawn", ("drawn",))))
            return traced
        inputs = [self.generator(generator) for generator in used]
        graph = draw_graph(draw, used, parameters, sample)
        value, *states = with_x64(self.tape.splice, graph, [*parameters, *(each.value for each in inputs)])
        for each, state in zip(inputs, states, strict=True):
            each.value = state
        return value

    def add_local_generator(self, generator: Any) -> None:
        """Note a generator made inside: its state is not an input."""
        state = constant(generator.saved())
        location = Location("generator", ("generator",))
        self.local_generators[generator] = GeneratorInput(generator, state, state, state, location)

    def generator_state(self, generator: Any) -> Any:
        """The traced state of a generator."""
        return self.generator(generator).value

    def set_generator_state(self, generator: Any, state: Any) -> None:
        """Set a generator's state, to a traced one or to one that is the same at each run."""
        self.generator(generator).value = state
        if generator in self.local_generators and not isinstance(state, Tracer):
            generator.restore(np.ascontiguousarray(state))  # the generator may outlive this call

    def generator(self, generator: Any) -> GeneratorInput:
        """The entry of a generator; one from outside becomes an input the first time."""
        entry = self.local_generators.get(generator) or self.generators.get(generator)
        if entry is None:
            state = generator.saved()
            traced = self.tape.input(array_type(state.shape, state.dtype))
            location = self.snapshot.generators.get(generator, Location("generator", ("generator",)))
            entry = self.generators[generator] = GeneratorInput(generator, state, traced, traced, location)
        return entry

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the function on traced values and return its result.

        Raises:
          CaptureError: it asked for a number, or drew some of Python's or NumPy's random numbers.
        """
        self.tape.concrete_value = self._concrete
        self.tape.root_path = self._module_path
        for tensor in list(self.snapshot.tensors):
            self.lift_tensor(tensor)
        try:
            with symbolic_mathematics() if self.symbolic.inputs or self.may_expect else nullcontext():
                result = self.call_traced(function, *args, **kwargs)
            if self.pieces is None and self.streams.have_advanced():
                if not self.breakable:
                    raise self.refusal(DRAWN)
                self.continue_in_pieces(DRAWN)
            return result
        except BaseException:
            if self.pieces is not None:
                self.pieces.tape.mend()
            raise
        finally:
            if self.pieces is not None:
                self.pieces.finish()

    def call_traced(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as part of the capture."""
        with _Inside(self):
            return function(*args, **kwargs)

    def _module_path(self, module: Any) -> str:
        location, _ = self.snapshot.objects.get(id(module), (None, None))
        return "" if location is None else location.module_path

    def _concrete(self, number: int) -> Any:
        error = self.tape.refusal(number)
        if self.breakable:
            return self.continue_in_pieces(str(error)).value_of(number)
        self.note_side_effect(str(error))  # in case the function catches it
        raise error

    def leave_graph(self, reason: str) -> None:
        """Continue in pieces, since Python has to execute what follows at each call.

        Raises:
          CaptureError: the call may not.
        """
        if not self.breakable:
            raise self.refusal(reason)
        self.continue_in_pieces(reason)

    def refusal(self, reason: str) -> CaptureError:
        """The error for something that no graph can express."""
        self.note_side_effect(reason)
        return CaptureError(reason)

    def continue_in_pieces(self, reason: str) -> Pieces:
        """Continue in pieces, the first being what was recorded so far; in the end, effects are real.

        An interrupt before finds no pieces, and so everything is restored.
        """
        tape = LiveTape.of(self.tape)
        pieces = Pieces(tape, breaks=[reason], created=self.created, trial=self if self.can_be_undone else None)
        if modes.capturing is self:
            modes.capturing = pieces
        for each in self.storages.values():
            tape.known[each.input.number] = each.array
            pieces.storages[each.storage] = each.input
        for number in self.numbers.values():
            tape.known[number.input.number] = np.asarray(number.value)
        for number in self.symbolic_inputs:
            tape.known[number.input.number] = np.asarray(self.symbolic.steps[number.index].value)
        self.symbolic.are_settled = True
        for draw in self.early_draws:
            tape.known[draw.input.number] = np.ascontiguousarray(draw.draw(()))
        for each in self.generators.values():
            tape.known[each.input.number] = each.generator.saved()
        advanced = [each for each in (*self.generators.values(), *self.local_generators.values()) if each.is_written]
        if advanced or self.symbolic.results:
            pieces.run()
        for each in advanced:
            pieces.set_generator_state(each.generator, each.value)
        self.symbolic.learn(lambda traced: tape.known[traced.number])
        settle(self.snapshot)
        self.pieces = pieces
        return pieces

    @property
    def can_be_undone(self) -> bool:
        """Whether a call that has continued in pieces can be undone.

        It holds symbolic numbers, which C code and ``type`` tell from others, although their values are known by then.
        If that leads to an error, it is none of the user's, and the call is made again, uncompiled.
        """
        return self.trial or bool(self.symbolic.steps)

    def restore(self) -> None:
        """Restore everything from outside, and end the recording."""
        self.tape.open = False
        for each in self.storages.values():
            each.storage.strides, each.storage.home = each.layout
            restore(each.storage, each.array)
        for counter, (value, writes) in self.counters.items():
            counter.value, counter.writes = value, writes
        self.snapshot.restore()
        self.streams.restore()

    def clear(self) -> None:
        """Drop all references to what was lifted: traced values, which a program keeps, lead here."""
        self.snapshot, self.streams = Snapshot(), Streams([])
        for entries in (self.storages, self.counters, self.generators, self.local_generators, self.numbers):
            entries.clear()
        self.symbolic_inputs.clear()
        self.held.clear()
        self.held_before.clear()
        self.growing.clear()
        self.lists.clear()
        self.expected.clear()


class _Inside(Scope):
    """A block that runs on traced values."""

    def __init__(self, capture: Capture):
        self.capture = capture

    def values(self) -> dict[str, Any]:
        return {"level": self.capture.level, "capturing": self.capture}
