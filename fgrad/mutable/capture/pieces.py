"""Pieces: a call runs with real effects; its recorded operations run as one program whenever a value is needed.

NOTE [Pieces]
Where Python asks for a number (``if loss > 3``, ``print(loss)``), a graph cannot say what comes next.  So such a call
runs with real effects: Python's statements are executed, and its operations on tensors are recorded.  Whenever a number
is asked for, and at the end, all that was recorded since the last time runs as one program, cached by its structure,
and everything that can still be reached gets its value: the *live* values are those whose tracers are alive.

- Tensors hold arrays again after each piece, so that whatever looks at one (printing, a view of memory for NumPy) sees
  what it would see uncompiled.  The next piece meets them anew.  One whose memory NumPy looks at holds an array all the
  time.
- Random numbers are drawn at once, so each stream is where it would be uncompiled; what is recorded of the parameters
  of a draw runs first.
- A traced value that somebody else holds (a node that saved a number) stays: its tape knows what it is.
- An error leaves what was recorded before it done, as uncompiled.

A capture that asks for a number hands over what it has recorded so far: nothing runs twice.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any

import numpy as np
from attrs import define, field, frozen

from fgrad.mutable.capture.tape import Tape
from fgrad.mutable.context.modes import Scope
from fgrad.mutable.tensor.exported import Shared
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, type_of
from fgrad.mutable.transforms.levels import next_level
from fgrad.mutable.values.device_of_value import CPU, place_of
from fgrad.mutable.values.evaluation import Routine, array_type, constant, is_abstract
from fgrad.mutable.values.fusion import STRUCTURES_KEPT
from fgrad.seam import (
    CONST,
    INPUT,
    LITERAL,
    Builder,
    Cache,
    Graph,
    RawSource,
    Source,
    Tracer as JaxTracer,
    simplify,
    with_x64,
)


@define(eq=False)
class MadeInside:
    """The tensors made inside, and their storages, which may outlive them in others (``p.data = x * 2``)."""

    tensors: list[weakref.ref[Tensor]] = field(factory=list)
    storages: list[weakref.ref[Storage]] = field(factory=list)

    def note(self, tensor: Tensor) -> None:
        self.tensors.append(weakref.ref(tensor))
        self.storages.append(weakref.ref(tensor._storage))

    def only_alive(self) -> None:
        """Forget those that have been collected."""
        self.tensors = [ref for ref in self.tensors if ref() is not None]
        self.storages = [ref for ref in self.storages if ref() is not None]


@define(eq=False)
class Pieces:
    """One call that runs in pieces.

    Attributes:
      tape: what was recorded since the last piece.
      storages: those whose array is replaced by a traced value.
      made: the tensors made inside, and their storages.
      ran: the graph of each piece that has run.
      breaks: why each piece but the last ended.
    """

    tape: "LiveTape"
    storages: dict[Storage, Any] = field(factory=dict)
    numbers: dict[tuple[int, Any], tuple[float, Any]] = field(factory=dict)
    made: MadeInside = field(factory=MadeInside)
    #: called with each tensor that is met, if everything is to be restored
    noting: Callable[[Tensor], Any] | None = None
    ran: list[Graph] = field(factory=list)
    breaks: list[str] = field(factory=list)
    #: every tensor is asked about: those made in an earlier piece are met again
    level: float = inf

    def __attrs_post_init__(self) -> None:
        self.tape.asked = self.number_of

    # -- what operations ask, as they do of a capture -----------------------------------------------------------------

    def meet(self, tensor: Tensor) -> None:
        """Replace a tensor's array by a traced value."""
        storage = tensor._storage
        array = storage.array
        if is_abstract(array) or place_of(array) != CPU:
            return
        if self.noting is not None:
            self.noting(tensor)
        if isinstance(storage, Shared):
            return  # exported to NumPy: see ``shown``
        storage.array = self.storages[storage] = self.tape.given(array)

    def note(self, tensor: Tensor) -> None:
        """Note a tensor that is made inside."""
        self.made.note(tensor)

    def shown(self, value: Any) -> Any:
        """The value of memory exported to NumPy: concrete numbers, for which the recorded operations run."""
        return self._known(value)

    def reach(self, value: Any, name: str) -> None:
        """Nothing to do: names matter to captures only."""

    def operands(self, operands: Sequence[Any]) -> None:
        for x in operands:
            if isinstance(x, Tensor):
                self.meet(x)

    def effect(self, what: str) -> None:
        """Nothing to do: side effects happen at each call."""

    def number(self, holder: dict[Any, Any], key: Any) -> Any:
        """The value of a dict under a key; a float as a tensor, so that another float needs no new program."""
        value = holder[key]
        if value.__class__ is not float:
            return value
        found = self.numbers.get((id(holder), key))
        if found is None or found[0] != value:
            traced = self.tape.given(np.asarray(value, NUMBER_TYPES[float].dtype.numpy))
            found = self.numbers[id(holder), key] = value, traced
        return new_tensor(found[1], type_of(found[1]))

    def draws(self, source: Any) -> None:
        """Nothing to do: numbers are drawn at once, so a stream is always where it would be uncompiled."""

    def begin(self, source: Any) -> None:
        """Nothing to do for a stream made inside."""

    def state(self, source: Any) -> Any:
        """The state of a stream."""
        return constant(source.saved())

    def set_state(self, source: Any, state: Any) -> None:
        """Set the state of a stream."""
        source.restore(np.ascontiguousarray(self._known(state)))

    def drawn(self, draw: Callable[..., np.ndarray], *parameters: Any) -> Any:
        """The result of ``draw`` for concrete parameters; recorded operations on them run first."""
        arrays = [np.asarray(self._known(x)) for x in parameters]
        return self.tape.given(np.ascontiguousarray(draw(*arrays) if parameters else draw(())))

    def _known(self, value: Any) -> Any:
        if getattr(value, "_trace", None) is not self.tape:
            return value
        number = value.number
        return self.tape.known[number] if number in self.tape.known else self.number_of(number)

    # -- running -----------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the function with real effects; everything holds arrays afterwards, whatever happens."""
        try:
            with _Inside(self):
                return function(*args, **kwargs)
        finally:
            self.finish()

    def number_of(self, number: int) -> Any:
        """The concrete value with this number, for which the recorded operations run."""
        reason, ran = str(self.tape.refusal(number)), len(self.ran)
        value = self.value_of(number)
        if len(self.ran) > ran:
            self.breaks.append(reason)
        return value

    def value_of(self, number: int) -> Any:
        """The same, given why the piece ends.

        It ends in any case: the caller may look into a tensor's memory, which must then hold an array.
        """
        self.run()
        return self.tape.known[number]

    def run(self) -> None:
        """Run what was recorded since the last piece, and give all live values to their storages."""
        tape = self.tape
        live = [tracer for ref in tape.tracers if (tracer := ref()) is not None]
        numbers = dict.fromkeys([x.number for x in live if x.number not in tape.known])
        if numbers:
            piece, args = tape.piece(list(numbers))
            tape.known.update(zip(numbers, piece.run(args), strict=True))
            self.ran.append(piece.graph)
        self._give()
        tape.begin_anew(live)

    def _give(self) -> None:
        """Store arrays in storages."""
        self.made.only_alive()
        made = [storage for ref in self.made.storages if (storage := ref()) is not None]
        for storage in (*self.storages, *made):
            value = storage.array
            if getattr(value, "_trace", None) is self.tape:
                storage.array = self.tape.known[value.number]
        self.storages.clear()
        self.numbers.clear()

    def finish(self) -> None:
        """Run what is left; from now on operations on leftover traced values run at once."""
        try:
            self.run()
        except BaseException:
            # an interrupt, most likely: complete what the statements have done before it is raised
            with suppress(Exception):
                self.run()
            raise
        finally:
            self.tape.over = True
            for ref in self.made.tensors:
                tensor = ref()
                if tensor is not None:
                    vars(tensor).pop("_level", None)


class LiveTape(Tape):
    """A tape whose inputs have values, and that starts afresh after each piece."""

    __slots__ = ("known", "base", "over")

    def __init__(self) -> None:
        super().__init__()
        #: values by number
        self.known: dict[int, Any] = {}
        #: the number of the first value on the tape
        self.base: int = 0
        #: whether recording is over
        self.over: bool = False
        self.scoped = False

    @staticmethod
    def of(tape: Tape) -> "LiveTape":
        """A live tape that takes over what another has recorded."""
        live = LiveTape()
        for name in ("ops", "args", "codes", "offsets", "count", "lifted", "consts", "tracers", "sources", "paths"):
            setattr(live, name, getattr(tape, name))
        consts, first = iter(live.consts), 0
        for op in live.ops:
            if op.primitive is CONST:
                live.known[first] = next(consts)
            first += len(op.out_types)
        for ref in live.tracers:
            tracer = ref()
            if tracer is not None:
                tracer._trace = live
        return live

    def given(self, value: Any) -> Any:
        """A new input with its value."""
        tracer = self.input(array_type(tuple(value.shape), value.dtype))
        self.known[tracer.number] = value
        return tracer

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> list[Any]:
        if self.over:
            known = [self.known[x.number] if getattr(x, "_trace", None) is self else x for x in args]
            return list(Routine(graph)(known))
        return super().splice(graph, args, source)

    def number(self, value: Any) -> int:
        # numbers are inputs of a piece, so that another number runs the same program
        if isinstance(value, JaxTracer) and value._trace is self:
            return super().number(value)
        if not hasattr(value, "dtype"):
            value = np.asarray(value)
        held = self.lifted.get(id(value))
        if held is None:
            held = self.lifted[id(value)] = (self.lift(value), value, array_type(tuple(value.shape), value.dtype))
        return held[0]

    def lift(self, value: Any) -> int:
        number: int = self.given(value).number
        return number

    def carries(self, number: int) -> bool:
        """Always false: no derivative of the functional layer passes through here."""
        return False

    def source_of(self, number: int) -> Source | None:
        return super().source_of(number - self.base) if number >= self.base else None

    def piece(self, numbers: Sequence[int]) -> tuple["Piece", list[Any]]:
        """The program from the recorded operations to the values with these numbers, and the values it reads."""
        base, known = self.base, self.known
        key = tuple(self.ops), tuple([i - base for i in self.args]), tuple([i - base for i in numbers])
        found = _pieces.get(key)
        if found is None:
            found = _pieces.enter(key, self._piece(numbers), len(self.ops))
        return found, [known[i + base] for i in found.reads]

    def _piece(self, numbers: Sequence[int]) -> "Piece":
        builder = Builder()
        places: dict[int, int] = {}
        reads: list[int] = []
        first = self.base
        for op, ins, source in self.steps():
            if op.primitive is LITERAL:
                places[first] = builder.const(op.params["key"])
            elif op.primitive is not INPUT and op.primitive is not CONST:
                for i in ins:
                    if i not in places:
                        value = self.known[i]
                        places[i] = builder.input(array_type(tuple(value.shape), value.dtype))
                        reads.append(i - self.base)
                at = builder.emit(op, tuple([places[i] for i in ins]), source)
                places.update({first + k: at + k for k in range(len(op.out_types))})
            first += len(op.out_types)
        graph = with_x64(builder.finish, [places[i] for i in numbers], builder.inputs)
        return Piece(graph, Routine(simplify(graph)), reads)

    def begin_anew(self, live: Sequence[Any]) -> None:
        """Forget what was recorded, except the values of live tracers."""
        self.known = {x.number: self.known[x.number] for x in live}
        self.tracers[:] = map(weakref.ref, live)
        self.base = self.count
        for entries in (self.ops, self.args, self.codes, self.offsets, self.lifted, self.consts, self.places):
            entries.clear()


class _Inside(Scope):
    """A block whose operations are recorded in pieces."""

    def __init__(self, pieces: Pieces):
        self.pieces = pieces

    def values(self) -> dict[str, Any]:
        return {"level": next_level(), "capturing": self.pieces}


@frozen(eq=False)
class Piece:
    """A program: its graph, how it runs, and the values that it reads by their numbers from its beginning."""

    graph: Graph
    routine: Routine
    reads: list[int]

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        return self.routine(values)


_pieces: Cache[Any, Piece] = Cache(STRUCTURES_KEPT)
