"""Capture: a function runs once on traced values; what it read and wrote become inputs and outputs of its graph.

NOTE [Capture]
Nothing in a tensor is really mutated: an operation on a tensor that holds a traced value points its storage to another
traced value.  So a function that makes tensors, writes into views of them and calls ``backward`` is, run on traced
values, a pure function of those values.  State from outside is discovered as follows:

- A tensor from outside is *met* when the walk finds it (NOTE [The world of a function]), or else when an operation or
  ``backward`` is about to read or write it.  Then its storage is given a traced value, an input of the graph, and what
  the storage, its counter and the tensor's own fields were is noted.  Operations ask inside a level anyway
  (``modes.level``, NOTE [Levels]), and tensors made inside bear that level: outside of a capture nothing is asked that
  was not asked before, and inside nobody takes an old tensor for a new one.
- A stream of random numbers is met when numbers are drawn from it, or its state is read or set (by a seed, by
  ``checkpoint``).  Its state is an input; a draw is an operation that gives numbers and the next state, and a state
  that is read or set is a traced value like others.  The stream itself stays where it is.  One that is made inside
  begins with a constant.
- When the function has returned, a storage that holds another value than its input was written.  A second walk finds
  what was made: a first ``.grad``, an optimiser's state.  These are outputs.

Then everything is put back: storages, counters, fields, containers, streams.  So an error in the middle leaves nothing
behind, and capturing changes nothing.  Who wants the effects (a compiled call) carries them out with the values that
the program gives.  Only Python's own effects outside of the world (a file, a global of another module) are as they are.
Where a call turns out to be no program, a capture can go on in pieces instead, for good (NOTE [Pieces]).
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from attrs import define, field, frozen

from fgrad.mutable.capture.draws import draw_graph, tried
from fgrad.mutable.capture.pieces import LiveTape, MadeInside, Pieces
from fgrad.mutable.capture.tape import Tape
from fgrad.mutable.capture.world import Place, World
from fgrad.mutable.context.modes import Scope, modes
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, type_of
from fgrad.mutable.transforms.levels import next_level
from fgrad.mutable.values.device_of_value import CPU, place_of
from fgrad.mutable.values.evaluation import array_type, constant, is_abstract
from fgrad.seam import CaptureError, Source, Tracer, here

NOT_HERE = "torch.capture: {} cannot be captured as an input of a graph: it {}."


@define(eq=False)
class Cell:
    """A storage from outside: its original value, and the input that stands for it."""

    storage: Storage
    array: Any
    input: Any
    place: Place
    #: the other fields that a resize changes
    layout: tuple[Any, ...]

    @property
    def value(self) -> Any:
        return self.storage.array

    @property
    def written(self) -> bool:
        return self.storage.array is not self.input


@define(eq=False)
class Stream:
    """A random stream from outside: its original state and its current, traced one."""

    source: Any
    state: Any
    input: Any
    value: Any
    place: Place

    @property
    def written(self) -> bool:
        return self.value is not self.input


@define(eq=False)
class Drawn:
    """Random numbers drawn before the graph runs, and the function's draw that gives them."""

    draw: Callable[..., np.ndarray]
    sources: tuple[Any, ...]
    input: Any
    place: Place

    written: ClassVar[bool] = False


@define(eq=False)
class Number:
    """A Python number from outside that an operation reads: where it is held, in a dict or in a tuple of a dict."""

    holder: Any
    key: Any
    value: float
    input: Any
    place: Place

    written: ClassVar[bool] = False


@frozen
class Elements:
    """The elements of a tuple in a dict, readable and writable."""

    holder: dict[Any, Any]
    key: Any

    def __getitem__(self, place: int) -> Any:
        return self.holder[self.key][place]

    def __setitem__(self, place: int, value: Any) -> None:
        held = self.holder[self.key]
        self.holder[self.key] = (*held[:place], value, *held[place + 1 :])


@define(eq=False)
class Capture:
    """One run of a function on traced values.

    Attributes:
      tape: what was recorded.
      world: what the function could reach before.
      cells: the storages that were met.
      counters: the version counters that were met, with what they said.
      streams: the streams that were drawn from, or whose states were read or set.
      begun: the streams that were made inside, which are no inputs.
      numbers: the Python numbers that became inputs, by their holder, key, and index in a tuple.
      ahead: whether random numbers without traced parameters are inputs, drawn before the graph runs.
      draws_ahead: these draws, in order.
      effects: the function's Python side effects, which no graph can express.
      made: the tensors that were made inside, and their storages.
      breakable: whether the call may continue in pieces when it asks for a number (NOTE [Pieces]).
      pieces: the rest of the call, in pieces.
      trial: whether everything is restored in that case, too.
    """

    world: World
    tape: Tape = field(factory=Tape)
    cells: dict[Storage, Cell] = field(factory=dict)
    counters: dict[VersionCounter, tuple[int, Any]] = field(factory=dict)
    streams: dict[Any, Stream] = field(factory=dict)
    begun: dict[Any, Stream] = field(factory=dict)
    numbers: dict[tuple[int, Any, int | None], Number] = field(factory=dict)
    ahead: bool = False
    draws_ahead: list[Drawn] = field(factory=list)
    effects: list[str] = field(factory=list)
    made: MadeInside = field(factory=MadeInside)
    breakable: bool = False
    pieces: Pieces | None = None
    trial: bool = False
    level: int = field(factory=next_level)
    #: the streams used by the draw being tried out, with their original states
    drawing: dict[Any, Any] | None = None
    _unnamed: Any = field(factory=itertools.count)

    # -- tensors from outside ----------------------------------------------------------------------------------------

    def meet(self, tensor: Tensor) -> None:
        """Make a tensor from outside an input, the first time it is met."""
        if tensor._level >= self.level:
            return
        if tensor not in self.world.tensors:
            if tensor._storage in self.cells:
                return  # a handle made inside, by detach() or as a view: it has the level of the other tensor
            self.reach(tensor, tensor._label or f"outside[{next(self._unnamed)}]")
        counter = tensor._counter
        if counter not in self.counters:
            self.counters[counter] = counter.value, None if counter.writes is None else counter.writes.copy()
        storage = tensor._storage
        if storage in self.cells:
            return
        array, place = storage.array, self.world.tensors[tensor]
        if getattr(array, "_trace", None) is self.tape:
            return  # the tensor has been given a storage made inside
        layout = storage.strides, storage.home
        if self.pieces is not None:
            self.cells[storage] = Cell(storage, array, None, place, layout)
            return
        if is_abstract(array) and not isinstance(array, Tracer):
            raise RuntimeError(NOT_HERE.format(place.path, "is on the device meta, or mapped"))
        if place_of(array) != CPU:
            raise RuntimeError(NOT_HERE.format(place.path, "is not on the CPU"))
        traced = self.tape.input(array_type(tuple(array.shape), array.dtype))
        self.cells[storage] = Cell(storage, array, traced, place, layout)
        storage.array = traced

    def note(self, tensor: Tensor) -> None:
        """Note a tensor that is made inside."""
        self.made.note(tensor)

    def shown(self, value: Any) -> Any:
        """The value of memory exported to NumPy: no number is known here."""
        return value

    def reach(self, value: Any, name: str) -> None:
        """Meet an object that the walk has not found, and everything it holds."""
        known = len(self.world.tensors)
        self.world.walk([(Place(name, (name,)), value)])
        for found in [*self.world.tensors][known:]:
            self.meet(found)

    def operands(self, operands: Iterable[Any]) -> None:
        """Meet those operands of an operation that come from outside."""
        for x in operands:
            if isinstance(x, Tensor) and x._level < self.level:
                self.meet(x)

    def effect(self, what: str) -> None:
        """Note a Python side effect that no graph can express."""
        self.effects.append(what)

    # -- Python numbers ----------------------------------------------------------------------------------------------

    def number(self, holder: dict[Any, Any], key: Any) -> Any:
        """The value of a dict from outside under a key; floats and tuples of floats as tensors that are inputs."""
        value = holder[key]
        _, before = self.world.containers.get(id(holder), (None, {}))
        if before.get(key) is not value:
            return value  # the function made it itself
        place = self.world.objects[id(holder)][0].item(key)
        if value.__class__ is float:
            return self._number((id(holder), key, None), holder, key, place)
        if value.__class__ is tuple and all(x.__class__ is float for x in value):
            elements = Elements(holder, key)
            return tuple([self._number((id(holder), key, i), elements, i, place.item(i)) for i in range(len(value))])
        return value

    def _number(self, known: tuple[int, Any, int | None], holder: Any, key: Any, place: Place) -> Tensor:
        found = self.numbers.get(known)
        if found is None:
            traced = self.tape.input(NUMBER_TYPES[float].array)
            found = self.numbers[known] = Number(holder, key, holder[key], traced, place)
        return new_tensor(found.input, type_of(found.input))

    # -- random numbers ----------------------------------------------------------------------------------------------

    def draws(self, source: Any) -> None:
        """Note that numbers are about to be drawn from a stream, or that Python reads its state.

        Raises:
          RuntimeError: they are not drawn by an operation, so they would be the same at every run.
        """
        if self.drawing is None and self.breakable:
            raw = here()
            at = "an unknown line" if raw is None else Source(*raw)
            self.go_on(f"Random numbers, or the state of their stream, come into Python at {at}.")
            return
        if self.drawing is None:
            raise RuntimeError(
                "torch.capture: random numbers are drawn into Python here, or the state of their stream is read into "
                "it, where they would be constants of the graph. Draw them outside of the function and pass them as "
                "an argument."
            )
        if source not in self.drawing:
            self.drawing[source] = source.saved()

    def drawn(self, draw: Callable[..., np.ndarray], *parameters: Any) -> Any:
        """The traced result of ``draw`` for arrays: an operation on the states of the streams it uses."""
        sample, drawn = tried(self, draw, parameters)
        if not drawn:
            return sample
        if (
            self.ahead
            and not parameters
            and not any(source in self.streams or source in self.begun for source in drawn)
        ):
            traced = self.tape.input(array_type(sample.shape, sample.dtype))
            self.draws_ahead.append(Drawn(draw, drawn, traced, Place("drawn", ("drawn",))))
            return traced
        streams = [self.stream(source) for source in drawn]
        graph = draw_graph(draw, drawn, parameters, sample)
        value, *states = self.tape.splice(graph, [*parameters, *(stream.value for stream in streams)])
        for stream, state in zip(streams, states, strict=True):
            stream.value = state
        return value

    def begin(self, source: Any) -> None:
        """Note a stream made inside: its state is not an input."""
        state = constant(source.saved())
        self.begun[source] = Stream(source, state, state, state, Place("generator", ("generator",)))

    def state(self, source: Any) -> Any:
        """The traced state of a stream."""
        return self.stream(source).value

    def set_state(self, source: Any, state: Any) -> None:
        """Set a stream's state, to a traced one or to one that is the same at each run."""
        stream = self.stream(source)
        stream.value = state
        if source in self.begun and not isinstance(state, Tracer):
            source.restore(np.ascontiguousarray(state))  # where a later call begins, if the stream outlives this one

    def stream(self, source: Any) -> Stream:
        """A stream; if it is from outside, its state becomes an input the first time it is met."""
        found = self.begun.get(source) or self.streams.get(source)
        if found is None:
            state = source.saved()
            traced = self.tape.input(array_type(state.shape, state.dtype))
            place = self.world.streams.get(source, Place("generator", ("generator",)))
            found = self.streams[source] = Stream(source, state, traced, traced, place)
        return found

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the function on traced values and return its result.

        Raises:
          CaptureError: it asked for a number.
        """
        self.tape.asked = self._asked
        for tensor in list(self.world.tensors):
            self.meet(tensor)
        try:
            return self.inside(function, *args, **kwargs)
        finally:
            if self.pieces is not None:
                self.pieces.finish()

    def inside(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as part of the capture."""
        with _Inside(self):
            return function(*args, **kwargs)

    def _asked(self, number: int) -> Any:
        error = self.tape.refusal(number)
        if self.breakable:
            return self.go_on(str(error)).value_of(number)
        self.effect(str(error))  # in case the function catches it
        raise error

    def refused(self, reason: str) -> CaptureError:
        """The error for something that no graph can express."""
        self.effect(reason)
        return CaptureError(reason)

    def go_on(self, reason: str) -> Pieces:
        """Continue in pieces, the first being what was recorded so far; from now on effects are real."""
        tape = LiveTape.of(self.tape)
        pieces = self.pieces = Pieces(tape, breaks=[reason], made=self.made, noting=self.meet if self.trial else None)
        if modes.capturing is self:
            modes.capturing = pieces
        for cell in self.cells.values():
            tape.known[cell.input.number] = cell.array
            pieces.storages[cell.storage] = cell.input
        for number in self.numbers.values():
            tape.known[number.input.number] = np.asarray(number.value)
        for drawn in self.draws_ahead:
            tape.known[drawn.input.number] = np.ascontiguousarray(drawn.draw(()))
        for stream in self.streams.values():
            tape.known[stream.input.number] = stream.source.saved()
        moved = [stream for stream in (*self.streams.values(), *self.begun.values()) if stream.written]
        if moved:
            pieces.run()
            for stream in moved:
                pieces.set_state(stream.source, stream.value)
        return pieces

    def put_back(self) -> None:
        """Restore everything from outside, and end the recording."""
        self.tape.open = False
        for cell in self.cells.values():
            cell.storage.strides, cell.storage.home = cell.layout
            cell.storage.array = cell.array
        for counter, (value, writes) in self.counters.items():
            counter.value, counter.writes = value, writes
        self.world.put_back()

    def let_go(self) -> None:
        """Drop all references to what was met: traced values, which a program keeps, lead here."""
        self.world = World()
        for met in (self.cells, self.counters, self.streams, self.begun, self.numbers):
            met.clear()


class _Inside(Scope):
    """A block that runs on traced values."""

    def __init__(self, capture: Capture):
        self.capture = capture

    def values(self) -> dict[str, Any]:
        return {"level": self.capture.level, "capturing": self.capture}
