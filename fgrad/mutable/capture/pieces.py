"""Pieces: a call runs with real effects; its recorded operations run as one program whenever a value is needed.

NOTE [Pieces]
Where Python asks for a number (``if loss > 3``, ``print(loss)``), a graph cannot say what comes next.  So such a call
runs with real effects: Python's statements are executed, and its operations on tensors are recorded.  Whenever a number
is asked for, and at the end, everything recorded since the last time runs as one program, cached by its structure, and
the *live* values, those whose tracers are alive, get concrete values.

- Tensors hold arrays again after each piece, so that whatever looks at one (printing, a view of memory for NumPy) sees
  what it would see uncompiled.  The next piece lifts them again.  One whose memory is exported to NumPy always holds an
  array.
- Random numbers are drawn at once, so each generator is where it would be uncompiled; recorded operations on the
  parameters of a draw run first.
- A traced value held elsewhere (by a node that saved a number) stays: its tape knows its value.
- After an error, the operations recorded before it still run, as uncompiled.

A capture that needs a number hands over what it has recorded so far, so nothing runs twice.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from math import inf
from typing import Any

import numpy as np
from attrs import define, field, frozen

from fgrad.mutable.capture.scopes import MISSING
from fgrad.mutable.capture.tape import Tape
from fgrad.mutable.context.modes import Scope, no_grad
from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.exported import Shared
from fgrad.mutable.tensor.lifted import lift, restore, settle
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, type_of
from fgrad.mutable.transforms.levels import next_level
from fgrad.mutable.types.number_program import same_number
from fgrad.mutable.values.batched import unbatched
from fgrad.mutable.values.device_of_value import accelerator_of, at
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
    here,
    simplify,
    with_x64,
)


@define(eq=False)
class CreatedTensors:
    """The tensors made inside, and their storages, which may outlive them (``p.data = x * 2``)."""

    tensors: list[weakref.ref[Tensor]] = field(factory=list)
    storages: list[weakref.ref[Storage]] = field(factory=list)

    def note_created(self, tensor: Tensor) -> None:
        self.tensors.append(weakref.ref(tensor))
        self.storages.append(weakref.ref(tensor._storage))

    def only_alive(self) -> None:
        """Forget those that have been collected."""
        self.tensors = [ref for ref in self.tensors if ref() is not None]
        self.storages = [ref for ref in self.storages if ref() is not None]


def flag_of(requirement: Callable[[], Any], tape: Tape) -> Tensor | None:
    """Whether a tensor has no zeros, as a traced tensor of one element; None if it is known, or of another trace."""
    with no_grad():
        value = unbatched(requirement().all()._value())
    if getattr(value, "_trace", None) is not tape:
        return None
    flag = new_tensor(value, type_of(value))
    return flag.all() if value.shape else flag  # type: ignore[attr-defined]


#: the error where a piece has computed what an operation before refuses
_REFUSED = (
    "torch.compile: an operation got elements that it does not take (an index out of range, or the like), at {}. "
    "It has run as a part of a larger program; uncompiled it raises its own error."
)


@define(eq=False)
class Pieces:
    """One call that runs in pieces.

    Attributes:
      tape: what was recorded since the last piece.
      storages: those whose array is now a traced value.
      made: the tensors made inside, and their storages.
      ran: the graph of each piece that has run.
      breaks: why each piece but the last ended.
      trial: the capture that restores everything afterwards, if that is wanted.
    """

    tape: "LiveTape"
    storages: dict[Storage, Any] = field(factory=dict)
    numbers: dict[tuple[int, Any], tuple[float, Any]] = field(factory=dict)
    created: CreatedTensors = field(factory=CreatedTensors)
    trial: Any = None
    graphs: list[Graph] = field(factory=list)
    breaks: list[str] = field(factory=list)
    #: flags that an operation requires, with its line
    expected: list[tuple[Tensor, RawSource | None]] = field(factory=list)
    #: above all tensors' levels, so that those made in an earlier piece are lifted again
    level: float = inf

    def __attrs_post_init__(self) -> None:
        self.tape.concrete_value = self.concrete_with_reason

    # -- the methods that operations call, as on a capture ------------------------------------------------------------

    def lift_tensor(self, tensor: Tensor) -> None:
        """Replace a tensor's array by a traced value."""
        storage = tensor._storage
        array = storage.array
        accelerator = accelerator_of(array)
        if is_abstract(array) or accelerator not in (None, self.tape.home or accelerator):
            return
        if self.trial is not None:
            self.trial.lift_tensor(tensor)
        if isinstance(storage, Shared):
            return  # exported to NumPy: see ``shown``
        traced = self.storages[storage] = self.tape.known_input(array)
        lift(storage, traced)

    def note_created(self, tensor: Tensor) -> None:
        """Note a tensor that is made inside."""
        self.created.note_created(tensor)

    def exported_value(self, value: Any) -> Any:
        """The value of memory exported to NumPy: concrete numbers, for which the recorded operations run."""
        return self._concrete(value)

    def lift_reachable(self, value: Any, name: str) -> None:
        """Nothing to do: names matter to captures only."""

    def lift_operands(self, operands: Sequence[Any]) -> None:
        for x in operands:
            if isinstance(x, Tensor):
                self.lift_tensor(x)

    def note_change(self, container: dict[Any, Any]) -> None:
        """Note the contents of a dict that is about to change, if everything is to be restored."""
        if self.trial is not None:
            self.trial.note_change(container)

    def note_position(self) -> None:
        """Nothing to do: places in memory are those of this call."""

    def gives_number(self, x: Tensor) -> bool:
        """Whether a tensor holds a traced value of this call, which ends the piece."""
        return getattr(x._value(), "_trace", None) is self.tape

    def note_copy(self, copy: Tensor, viewed: Tensor) -> None:
        """Nothing to do: where an index has a number, there is a view."""

    def note_write(self, tensor: Tensor) -> None:
        """Nothing to do: see ``note_copy``."""

    def usually(self, flag: Tensor, usual: bool) -> bool:
        """Whether a tensor of one element is not zero: here its value is known."""
        return bool(flag)

    def is_met(self, requirement: Tensor) -> bool:
        """Whether a tensor of one element is not zero: here its value is known."""
        return bool(requirement)

    def late_number(self, value: Any, kind: type) -> None:
        """None: a number that is asked for ends the piece."""

    def expect(self, requirement: Callable[[], Any]) -> None:
        """Check, when the piece has run, that a tensor has no zeros."""
        flag = flag_of(requirement, self.tape)
        if flag is not None:
            self.expected.append((flag, here()))

    def leave_graph(self, reason: str) -> None:
        """Nothing to do: Python executes everything at each call."""

    def note_side_effect(self, what: str) -> None:
        """Nothing to do: side effects happen at each call."""

    def number(self, holder: dict[Any, Any], key: Any) -> Any:
        """The value of a dict under a key; a float as a tensor, so that another float needs no new program."""
        value = holder[key]
        if value.__class__ is not float:
            return value
        cached = self.numbers.get((id(holder), key))
        if cached is None or not same_number(cached[0], value):
            traced = self.tape.known_input(np.asarray(value, NUMBER_TYPES[float].dtype.numpy))
            cached = self.numbers[id(holder), key] = value, traced
        return new_tensor(cached[1], type_of(cached[1]))

    def note_draw(self, source: Any) -> None:
        """Nothing to do: numbers are drawn at once, so a generator is always where it would be uncompiled."""

    def add_local_generator(self, source: Any) -> None:
        """Nothing to do for a generator made inside."""

    def generator_state(self, source: Any) -> Any:
        """The state of a generator."""
        return constant(source.saved())

    def set_generator_state(self, source: Any, state: Any) -> None:
        """Set the state of a generator."""
        source.restore(np.ascontiguousarray(self._concrete(state)))

    def draw(self, draw: Callable[..., np.ndarray], *parameters: Any) -> Any:
        """The result of ``draw`` for concrete parameters; recorded operations on them run first."""
        arrays = [np.asarray(self._concrete(x)) for x in parameters]
        return self.tape.known_input(np.ascontiguousarray(draw(*arrays) if parameters else draw(())))

    def _concrete(self, value: Any) -> Any:
        if getattr(value, "_trace", None) is not self.tape:
            return value
        number = value.number
        return self.tape.known[number] if number in self.tape.known else self.concrete_with_reason(number)

    # -- running -----------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call the function with real effects; everything holds arrays afterwards, whatever happens."""
        try:
            with _Inside(self):
                return function(*args, **kwargs)
        except BaseException:
            self.tape.mend()
            raise
        finally:
            self.finish()

    def concrete_with_reason(self, number: int) -> Any:
        """The concrete value with this number; runs the recorded operations, and notes that it ended the piece."""
        reason, graphs = str(self.tape.refusal(number)), len(self.graphs)
        value = self.value_of(number)
        if len(self.graphs) > graphs:
            self.breaks.append(reason)
        return value

    def value_of(self, number: int) -> Any:
        """The same without noting it.

        The piece ends even if the value is known: the caller may look into a tensor's memory, which must then hold an
        array.
        """
        self.run()
        return self.tape.known[number]

    def run(self) -> None:
        """Run what was recorded since the last piece, and store all live values."""
        tape = self.tape
        live = tape.live()
        numbers = dict.fromkeys([x.number for x in live if x.number not in tape.known])
        if numbers:
            piece, args = tape.piece(list(numbers))
            values = [at(x, tape.accelerators.get(n)) for n, x in zip(numbers, piece.run(args), strict=True)]
            tape.known.update(zip(numbers, values, strict=True))
            self.graphs.append(piece.graph)
        expected, self.expected = self.expected, []
        failed: Any = next((raw for flag, raw in expected if not tape.known[flag._value().number]), MISSING)
        self._store_arrays()
        tape.reset(live)
        if failed is not MISSING:
            raise RuntimeError(_REFUSED.format("an unknown line" if failed is None else Source(*failed)))

    def _store_arrays(self) -> None:
        """Replace the traced values in storages by arrays."""
        self.created.only_alive()
        storages = [storage for ref in self.created.storages if (storage := ref()) is not None]
        for storage in (*self.storages, *storages):
            value = storage.array
            array = self.tape.known[value.number] if getattr(value, "_trace", None) is self.tape else value
            if value is self.storages.get(storage):
                restore(storage, array)  # it was only read
            elif array is not value or storage in self.storages:
                settle(storage, array)
        self.storages.clear()
        self.numbers.clear()

    def finish(self) -> None:
        """Run the rest; from now on, operations on leftover traced values run at once."""
        try:
            self.run()
        except BaseException:
            # most likely an interrupt: complete the statements' effects before raising it
            self.tape.mend()
            with suppress(Exception):
                self.run()
            raise
        finally:
            self.tape.end()
            for ref in self.created.tensors:
                tensor = ref()
                if tensor is not None:
                    fields_of(tensor).pop("_level", None)


class LiveTape(Tape):
    """A tape whose inputs have values, and that is cleared after each piece."""

    __slots__ = ("known", "base", "finished")

    def __init__(self) -> None:
        super().__init__()
        #: values by number
        self.known: dict[int, Any] = {}
        #: the number of the first value on the tape
        self.base: int = 0
        #: whether recording is over
        self.finished: bool = False
        self.scoped = False

    @staticmethod
    def of(tape: Tape) -> "LiveTape":
        """A live tape that takes over another's recording."""
        live = LiveTape()
        for name in ("ops", "args", "codes", "offsets", "count", "lifted", "consts", "tracers", "sources", "paths"):
            setattr(live, name, getattr(tape, name))
        live.accelerators = tape.accelerators
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

    def known_input(self, value: Any) -> Any:
        """A new input with a known value."""
        tracer = self.input(array_type(tuple(value.shape), value.dtype), accelerator_of(value))
        self.known[tracer.number] = value
        return tracer

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> list[Any]:
        if self.finished:
            values = [self.known[x.number] if getattr(x, "_trace", None) is self else x for x in args]
            return list(Routine(graph)(values))
        return super().splice(graph, args, source)

    def number(self, value: Any) -> int:
        # numbers are inputs of a piece, so that another number reuses the program
        if isinstance(value, JaxTracer) and value._trace is self:
            return super().number(value)
        if not hasattr(value, "dtype"):
            value = np.asarray(value)
        entry = self.lifted.get(id(value))
        if entry is None:
            entry = self.lifted[id(value)] = (self.lift(value), value, array_type(tuple(value.shape), value.dtype))
        return entry[0]

    def lift(self, value: Any) -> int:
        number: int = self.known_input(value).number
        return number

    def carries(self, number: int) -> bool:
        """Always false: no derivative of the functional layer passes through here."""
        return False

    def source_of(self, number: int) -> Source | None:
        return super().source_of(number - self.base) if number >= self.base else None

    def piece(self, numbers: Sequence[int]) -> tuple["Piece", list[Any]]:
        """The program of the recorded operations that computes the values with these numbers, and its arguments."""
        base, known = self.base, self.known
        key = tuple(self.ops), tuple([i - base for i in self.args]), tuple([i - base for i in numbers])
        piece = _pieces.get(key)
        if piece is None:
            piece = _pieces.enter(key, self._piece(numbers), len(self.ops))
        return piece, [known[i + base] for i in piece.reads]

    def _piece(self, numbers: Sequence[int]) -> "Piece":
        builder = Builder()
        numbering: dict[int, int] = {}
        reads: list[int] = []
        first = self.base
        for op, ins, source in self.steps():
            if op.primitive is LITERAL:
                numbering[first] = builder.const(op.params["key"])
            elif op.primitive is not INPUT and op.primitive is not CONST:
                for i in ins:
                    if i not in numbering:
                        value = self.known[i]
                        numbering[i] = builder.input(array_type(tuple(value.shape), value.dtype))
                        reads.append(i - self.base)
                at = builder.emit(op, tuple([numbering[i] for i in ins]), source)
                numbering.update({first + k: at + k for k in range(len(op.out_types))})
            first += len(op.out_types)
        graph = with_x64(builder.finish, [numbering[i] for i in numbers], builder.inputs)
        return Piece(graph, Routine(simplify(graph)), reads)

    def live(self) -> list[Any]:
        """The tracers that are alive."""
        return [tracer for ref in self.tracers if (tracer := ref()) is not None]

    def mend(self) -> None:
        """Forget the operations that an interrupt has left half recorded, and inputs that have no value yet."""
        ops = self.ops[: min(len(self.ops), len(self.codes), len(self.offsets))]
        ends = [*accumulate([len(op.in_types) for op in ops])]
        del ops[sum(end <= len(self.args) for end in ends) :]
        del self.ops[len(ops) :], self.codes[len(ops) :], self.offsets[len(ops) :]
        del self.args[ends[len(ops) - 1] if ops else 0 :]
        numbers = [*accumulate([len(op.out_types) for op in ops], initial=self.base)]
        self.count = numbers[-1]
        unknown = {n for op, n in zip(ops, numbers, strict=False) if op.primitive is INPUT} - self.known.keys()
        self.tracers[:] = [weakref.ref(x) for x in self.live() if x.number < self.count and x.number not in unknown]

    def end(self) -> None:
        """Recording is over: from now on, values live as long as their tracers."""
        self.finished = True
        self.reset(self.live())
        known = self.known
        self.tracers[:] = [weakref.ref(x, lambda _, n=x.number: known.pop(n, None)) for x in self.live()]

    def reset(self, live: Sequence[Any]) -> None:
        """Forget what was recorded, except the values of live tracers."""
        self.known = {x.number: self.known[x.number] for x in live}
        self.accelerators = {n: accelerator for n, accelerator in self.accelerators.items() if n in self.known}
        self.tracers[:] = map(weakref.ref, live)
        self.base = self.count
        for entries in (self.ops, self.args, self.codes, self.offsets, self.lifted, self.consts, self.input_numbers):
            entries.clear()


class _Inside(Scope):
    """A block whose operations are recorded in pieces."""

    def __init__(self, pieces: Pieces):
        self.pieces = pieces

    def values(self) -> dict[str, Any]:
        return {"level": next_level(), "capturing": self.pieces}


@frozen(eq=False)
class Piece:
    """A program: its graph, its routine, and the values it reads, by their numbers relative to its first."""

    graph: Graph
    routine: Routine
    reads: list[int]

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        return self.routine(values)


_pieces: Cache[Any, Piece] = Cache(STRUCTURES_KEPT)
