"""One captured call: its inputs and outputs by name, and its graph."""

from collections.abc import Callable
from typing import Any

from attrs import define

from fgrad.api.graphs import Graph, flat_function
from fgrad.mutable.capture.capture import Capture, Cell, Drawn, Number, Stream
from fgrad.mutable.capture.world import Place, World
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.containers import named_leaves
from fgrad.torch.compiler.reached import world_of

Input = Cell | Stream | Number | Drawn


@define(eq=False)
class Step:
    """A function that has run on traced values, before anything is put back.

    Attributes:
      capture: what was met.
      after: what the function could reach when it had returned.
      result: what it returned, with traced tensors.
    """

    capture: Capture
    after: World
    result: Any

    @property
    def inputs(self) -> list[Input]:
        """What was met, in that order."""
        capture = self.capture
        found = [
            *capture.cells.values(),
            *capture.streams.values(),
            *capture.numbers.values(),
            *capture.draws_ahead,
        ]
        return sorted(found, key=lambda each: each.input.number)

    def made(self) -> list[tuple[Tensor, Place]]:
        """The tensors that can be reached now and could not before."""
        cells, seen, found = self.capture.cells, set(), []
        for tensor, place in self.after.tensors.items():
            if tensor not in self.capture.world.tensors and tensor._storage not in cells:
                if tensor._storage not in seen and not _is_of_the_call(place):
                    found.append((tensor, place))
                seen.add(tensor._storage)
        return found

    def written(self) -> list[Cell | Stream]:
        """What was met and holds something else now, and can be reached still."""
        reached = {tensor._storage for tensor in self.after.tensors}
        written = [x for x in self.inputs if isinstance(x, Cell | Stream) and x.written]
        return [x for x in written if isinstance(x, Stream) or x.storage in reached]

    def results(self) -> list[tuple[str, Tensor]]:
        """The tensors among the results, with their paths."""
        leaves = named_leaves(self.result, Place("result", ("result",)))
        return [(place.path, x) for place, x in leaves if is_tensor(x)]

    def graph(self) -> Graph:
        """The graph of the whole call."""
        outs = [(name, x._value()) for name, x in self.results()]
        outs += [(f"{x.place.path} (written)", x.value) for x in self.written()]
        outs += [(f"{place.path} (written)", tensor._storage.array) for tensor, place in self.made()]
        tape = self.capture.tape
        values = [value for _, value in outs]
        used = tape.used(values)
        ins = [x for x in self.inputs if x.input.number in used]
        flat = simplify(tape.closed([x.input for x in ins], values))
        return flat_function(flat, tuple([x.place.path for x in ins]), tuple([name for name, _ in outs]))


def _is_of_the_call(place: Place) -> bool:
    return place.keys[0] in ("args", "kwargs")


def captured(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    use: Callable[[Step], Any],
    ahead: bool = False,
) -> Any:
    """What ``use`` makes of a captured call; everything is put back then, whatever happens."""
    capture = Capture(world_of(function, args, kwargs), ahead=ahead)
    try:
        result = capture.run(function, args, kwargs)
        return use(Step(capture, world_of(function, args, kwargs), result))
    finally:
        capture.put_back()
