"""``torch.compiler.explain``: what a compiled call consists of."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import field, frozen

from fgrad.api.graphs import Graph
from fgrad.graph.answer import Answer, Table
from fgrad.graph.source import Source
from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.capture.scopes import namespace_of
from fgrad.mutable.values.device_of_value import CPU, place_of
from fgrad.torch.compiler.number_arguments import number_arguments
from fgrad.torch.compiler.originals import original_of
from fgrad.torch.compiler.programs import Program
from fgrad.torch.compiler.recording import record


@frozen(repr=False)
class Explanation(Answer):
    """What ``torch.compile`` makes of a call.

    Attributes:
      graphs: the graphs that run: one, one for each piece, or none if the call runs uncompiled.
      inputs, outputs: their names.
      guards: what must be unchanged for the program to be used again.
      breaks: why the call is not one graph, each with its line.
      seconds: what recording and running took, by name.
    """

    graphs: tuple[Graph, ...] = field(eq=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    guards: tuple[str, ...]
    breaks: tuple[str, ...]
    seconds: dict[str, float] = field(eq=False)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.breaks)

    def findings(self) -> Sequence[Any]:
        return self.graphs or self.breaks

    def parts(self) -> Iterable[str | Table]:
        for graph in self.graphs:
            yield f"One program of {len(graph)} operations."
        for reason in self.breaks:
            yield f"{'Runs in pieces' if self.graphs else 'Runs as uncompiled'}: {reason}"
        for title, names in (("inputs", self.inputs), ("outputs", self.outputs), ("guards", self.guards)):
            if names:
                yield Table((title,), [(name,) for name in names])
        yield Table(("time", "ms"), [(name, round(seconds * 1e3, 1)) for name, seconds in self.seconds.items()])


#: so many more recordings find the numbers that are inputs and the lists that grow
_RECORDINGS = 3


def explain(function: Callable[..., Any]) -> Callable[..., Explanation]:
    """A function that reports what ``torch.compile`` makes of a call, and changes nothing.

    Arguments:
      function: the function, compiled or not.

    Returns:
      A function of the same arguments that gives an ``Explanation``.

    >>> import fgrad.torch as torch
    >>> def halves(x):
    ...     return x * 2 if x.sum() > 1 else x
    >>> found = torch.compiler.explain(halves)(torch.ones(2))
    >>> found.graph_count, found.graph_break_count
    (2, 1)
    """
    function = original_of(function)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        numbers = [place for place, _ in number_arguments(args, kwargs)]
        program, _, capture = record(function, args, kwargs, strict=False, trial=True, symbolic=numbers)
        if numbers and program.refused is not None:
            numbers = []
            program, _, capture = record(function, args, kwargs, strict=False, trial=True)
        held, growing = list[Holding](), list[Holding]()
        for _ in range(_RECORDINGS):
            if program.refused is None or not (program.changed or program.grown):
                break
            held, growing = [*held, *program.changed], [*growing, *program.grown]
            again, _, found = record(
                function, args, kwargs, strict=False, trial=True, symbolic=numbers, held=held, growing=growing
            )
            if again.refused is None or again.changed or again.grown:
                program, capture = again, found
        seconds = {"recording": program.seconds}
        if program.refused is not None:
            return Explanation(program.pieces, (), (), (), program.breaks or (program.refused,), seconds)
        return Explanation((program.named(),), program.names, program.out_names, _guards(program, capture), (), seconds)

    return explained


def _guards(program: Program, capture: Capture) -> tuple[str, ...]:
    guards, effects = program.guards, program.effects
    assert effects is not None
    snapshot = effects.external.capture.snapshot
    lines = []
    for tensor in effects.external.tensors:
        location = snapshot.tensors[tensor]
        device = place_of(tensor._storage.array)
        place = "" if device == CPU else f", on {device}"
        leaf = ", requires grad" if tensor._requires_grad else ""
        lines.append(f"{location.path}: {tensor._type}{place}{leaf}")
    locations = {id(namespace_of(obj)): location for location, obj in snapshot.objects.values()}
    locations |= {id(obj): location for location, obj in snapshot.objects.values()}
    for container in guards.checked():
        location = locations.get(id(container))
        if location is not None:
            lines.append(f"{location.path}: the same attributes or entries")
    lines += [f"{name}: the same object" for _, name, _ in guards.variables if name]
    for condition, raw in program.numbers.conditions(capture.symbolic_paths):
        line = None if raw is None else Source(*raw)
        lines.append(condition if line is None else f"{condition}, for {line.file}:{line.line} (in {line.function})")
    return tuple(dict.fromkeys(lines))
