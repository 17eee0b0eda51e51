"""One captured call: its inputs and outputs by name, and its graph."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import define, field

from fgrad.api.graphs import Graph, flat_function
from fgrad.errors import CaptureError
from fgrad.mutable.capture.capture import Capture, DrawInput, GeneratorInput, NumberInput, StorageInput, SymbolicInput
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.containers import Objects, named_leaves, new_objects
from fgrad.torch.compiler.reachable import snapshot_of
from fgrad.torch.compiler.switches import Switches

HIDDEN = (
    "{path} is a {name} that holds tensors, and no container whose tensors could be outputs of a graph. Ways out: "
    "return them in a tuple or a dict, or register the class with torch.utils._pytree or jax.tree_util."
)
SHOWN = (
    "{path} is a NumPy array in the memory of a tensor that the function writes. Its elements would be constants of "
    "the graph. Ways out: read the tensor in its place, or copy the array."
)
Input = StorageInput | GeneratorInput | NumberInput | SymbolicInput | DrawInput


@define(eq=False)
class Step:
    """A function that has run on traced values, before anything is restored.

    Attributes:
      capture: what it read and wrote.
      after: what the function could reach when it had returned.
      result: what it returned, with traced tensors.
      objects: the objects in the result that are containers, by id (NOTE [Objects in results]).
    """

    capture: Capture
    after: Snapshot
    result: Any
    objects: Objects = field(factory=dict)

    @property
    def inputs(self) -> list[Input]:
        """The inputs, in order."""
        capture = self.capture
        inputs = [
            *capture.storages.values(),
            *capture.generators.values(),
            *capture.numbers.values(),
            *capture.symbolic_inputs,
            *capture.early_draws,
        ]
        return sorted(inputs, key=lambda each: each.input.number)

    def created(self) -> list[tuple[Tensor, Location]]:
        """The tensors that can be reached now and could not before."""
        outside, storages, created = self.capture.storages, set(), []
        for tensor, location in self.after.tensors.items():
            if tensor not in self.capture.snapshot.tensors and tensor._storage not in outside:
                if tensor._storage not in storages and not _is_of_the_call(location):
                    created.append((tensor, location))
                storages.add(tensor._storage)
        return created

    def written(self) -> list[StorageInput | GeneratorInput]:
        """The inputs that were written and can still be reached."""
        reachable = {tensor._storage for tensor in self.after.tensors}
        written = [x for x in self.inputs if isinstance(x, StorageInput | GeneratorInput) and x.is_written]
        return [x for x in written if isinstance(x, GeneratorInput) or x.storage in reachable]

    def left(self) -> list[Tensor]:
        """The new tensors that the function has left in what it can reach."""
        appended = [x for each in self.capture.growing.values() for x in each.appended if is_tensor(x)]
        return [x for x in (*self.after.tensors, *appended) if x not in self.capture.snapshot.tensors]

    def results(self) -> list[tuple[str, Tensor]]:
        """The tensors among the results, with their paths."""
        leaves = named_leaves(self.result, Location("result", ("result",)), self.objects)
        return [(location.path, x) for location, x in leaves if is_tensor(x)]

    def graph(self) -> Graph:
        """The graph of the whole call."""
        outs = [(name, x._value()) for name, x in self.results()]
        outs += [(f"{x.location.path} (written)", x.value) for x in self.written()]
        outs += [(f"{location.path} (written)", tensor._storage.array) for tensor, location in self.created()]
        tape = self.capture.tape
        values = [value for _, value in outs]
        used = tape.used(values)
        ins = [x for x in self.inputs if x.input.number in used]
        flat = simplify(tape.closed([x.input for x in ins], values))
        return flat_function(flat, tuple([x.location.path for x in ins]), tuple([name for name, _ in outs]))


def step_of(
    capture: Capture,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    result: Any,
    objects: Objects = MappingProxyType({}),
) -> Step:
    """A step whose function has returned a result, of which some objects are containers.

    Raises:
      CaptureError: the result has tensors in an object that is no container, or a NumPy array shows what was written.
    """
    check_shown(capture)
    step = Step(capture, snapshot_of(function, args, kwargs), result, objects)
    for location, x in named_leaves(result, Location("result", ("result",)), objects):
        is_new = not is_tensor(x) and id(x) not in step.after.objects
        if is_new and Snapshot(uses_any=True).walk([(location, x)]).tensors:
            raise CaptureError(HIDDEN.format(path=location.path, name=type(x).__name__))
    return step


def arrays_in_memory(capture: Capture, storages: Iterable[Storage]) -> Iterator[Location]:
    """The NumPy arrays that a function can reach in the memory of storages."""
    memories = [x.memory.bytes for x in storages if x.memory is not None]
    for location, obj in capture.snapshot.objects.values() if memories else ():
        if isinstance(obj, np.ndarray) and any(np.may_share_memory(obj, memory) for memory in memories):
            yield location


def check_shown(capture: Capture) -> None:
    """Raise ``CaptureError`` if the function has written the memory of a NumPy array that it can reach."""
    for location in arrays_in_memory(capture, [x.storage for x in capture.storages.values() if x.is_written]):
        raise CaptureError(SHOWN.format(path=location.path))


def _is_of_the_call(location: Location) -> bool:
    return location.keys[0] in ("args", "kwargs")


def captured(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    use: Callable[[Step], Any],
    draws_early: bool = False,
) -> Any:
    """The result of ``use`` for a captured call; afterwards everything is restored, whatever happens."""
    capture, switches = Capture(snapshot_of(function, args, kwargs), draws_early=draws_early), Switches.now()
    try:
        result = capture.run(function, args, kwargs)
        return use(step_of(capture, function, args, kwargs, result, new_objects(result, capture.snapshot)))
    finally:
        put_back(capture, switches)


def put_back(capture: Capture, switches: Switches, states: Sequence[tuple[Any, Any]] = ()) -> None:
    """Restore everything from outside, the switches, and the states of some generators.

    A signal may interrupt this: then it is done anew before the signal's error goes on.
    """
    try:
        _put_back(capture, switches, states)
    except BaseException:
        _put_back(capture, switches, states)
        raise


def _put_back(capture: Capture, switches: Switches, states: Sequence[tuple[Any, Any]]) -> None:
    capture.restore()
    switches.restore()
    for source, state in states:
        source.restore(state)
