"""Captured calls as programs: recorded, guarded, compiled by XLA, checked by recording again.

NOTE [Nothing stale]
What a capture cannot see (a global of a library, a random branch, a number in a slot of C's) is checked: graphs are
values, so the second call of a program, and every n-th after that, records the function again and compares.  Where the
two differ, the new one is taken, and a warning says once which line differs.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from attrs import define, field, frozen

from fgrad.api.graphs import Graph
from fgrad.errors import CaptureError
from fgrad.graph.graph import evaluate
from fgrad.jaxcore import widely
from fgrad.mutable.capture.capture import Capture, Cell, Drawn, Number, Stream
from fgrad.mutable.capture.world import World
from fgrad.mutable.operation.capture import flatten, is_tensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.effects import Effects, Irregular, effects_of
from fgrad.torch.compiler.guards import Guards, guards_of
from fgrad.torch.compiler.reached import world_of
from fgrad.torch.compiler.step import Step


@frozen(eq=False)
class Source:
    """Where a program's input comes from at each call."""

    read: Callable[[Sequence[Any]], Any]
    name: str


@define(eq=False)
class Program:
    """One captured call: what it is for, what it computes, what it leaves behind.

    Attributes:
      guards: what has to be as it was.
      refused: why the call runs as uncompiled, if it does.
      graph: from the inputs that are read to the outputs.
      sources: where the inputs come from.
      draws: random numbers that are drawn before it runs.
      calls: how often it was called.
      seconds: what recording took.
    """

    guards: Guards
    refused: str | None
    graph: Any = None
    names: tuple[str, ...] = ()
    out_names: tuple[str, ...] = ()
    effects: Effects | None = None
    find: Any = None
    sources: list[Source] = field(factory=list)
    draws: list[Drawn] = field(factory=list)
    streams: list[tuple[Any, int]] = field(factory=list)
    calls: int = 0
    seconds: float = 0.0
    _xla: Any = None

    def run(self, found: Sequence[Tensor]) -> Any:
        """Run on the tensors of a call, and leave the effects behind; the result."""
        effects = self.effects
        assert effects is not None
        if not self.draws and not self.streams:
            return effects.apply(found, self.compute([source.read(found) for source in self.sources]))
        generators = {id(s): s for draw in self.draws for s in draw.sources} | {id(s): s for s, _ in self.streams}
        before = [(source, source.saved()) for source in generators.values()]
        try:
            drawn = {id(draw): draw.draw(()) for draw in self.draws}
            outs = self.compute([source.read((found, drawn)) for source in self.sources])
            for source, output in self.streams:
                source.restore(np.ascontiguousarray(outs[output]))
            return effects.apply(found, outs)
        except BaseException:
            for source, state in before:
                source.restore(state)
            raise

    def compute(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run XLA's program."""
        program = self._xla
        if program is None:
            graph = self.graph
            program = self._xla = jax.jit(lambda *flat: tuple(evaluate(graph, flat)))
        return widely(program, *values) if self.graph.wide else program(*values)

    def named(self) -> Graph:
        """The graph with its names."""
        structures = [
            jax.tree_util.tree_structure(tree)
            for tree in (((0,) * len(self.names), {}), (0,) * len(self.graph.outputs))
        ]
        return Graph(self.graph, *structures, self.names, self.out_names)

    def same_as(self, other: "Program") -> bool:
        """Whether another recording of the same call computes and leaves behind the same."""
        if self.refused is not None or other.refused is not None:
            return self.refused == other.refused
        assert self.effects is not None and other.effects is not None
        return (
            self.graph == other.graph
            and self.names == other.names
            and self.effects.signature() == other.effects.signature()
        )


def record(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], strict: bool) -> Program:
    """Capture a call as a program; nothing has been changed then.

    Arguments:
      strict: raise what says that the function cannot be captured, instead of noting it.

    Raises:
      CaptureError: the function needs a number, and ``strict``.
    """
    start = time.perf_counter()
    arguments = [x for x in flatten((args, kwargs))[0] if is_tensor(x)]
    capture = Capture(world_of(function, args, kwargs), ahead=True)
    refused: str | None = None
    effects: Effects | None = None
    made: Any = None
    try:
        step = Step(capture, World(), capture.run(function, args, kwargs))
        step.after = world_of(function, args, kwargs)
        effects = effects_of(step, arguments)
        made = _written(step, effects)
    except Irregular as reason:
        refused = str(reason)
    except CaptureError as error:
        if strict:
            raise
        refused = str(error)
    except Exception as error:  # the call itself says what is wrong with it
        refused = f"{type(error).__name__}: {error}"
    finally:
        capture.put_back()
    if made is None or effects is None:
        return Program(guards_of(capture, None, function), refused, seconds=time.perf_counter() - start)
    graph, ins, names, out_names, streams = made
    program = Program(guards_of(capture, effects, function), None, graph, names, out_names, effects)
    program.find = effects.located.finder()
    program.draws = capture.draws_ahead
    program.streams = streams
    lent = bool(program.draws or streams)
    program.sources = [Source(_reader(x, effects, lent), name) for x, name in zip(ins, names, strict=True)]
    program.seconds = time.perf_counter() - start
    return program


def _written(step: Step, effects: Effects) -> Any:
    """The graph of a call, its inputs, the names, and the streams with their outputs."""
    tape = step.capture.tape
    streams = [(x.source, effects.output(x.value)) for x in step.capture.streams.values() if x.written]
    used = tape.used(effects.outputs)
    ins = [x for x in step.inputs if x.input.number in used]
    for x in ins:
        if isinstance(x, Cell):
            effects.located.of_storage(x.storage)
    graph = simplify(tape.closed([x.input for x in ins], effects.outputs))
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
    out_names = tuple([names.get(i, f"output[{i}]") for i in range(len(effects.outputs))])
    return graph, ins, tuple([x.place.path for x in ins]), out_names, streams


def _reader(x: Any, effects: Effects, lent: bool) -> Callable[[Any], Any]:
    """What reads an input at each call; where numbers are drawn ahead, these come beside the tensors."""
    if isinstance(x, Cell):
        at = effects.located.of_storage(x.storage)
        return (lambda found: found[0][at]._storage.array) if lent else (lambda found: found[at]._storage.array)
    if isinstance(x, Drawn):
        return lambda found: found[1][id(x)]
    if isinstance(x, Stream):
        return lambda found: x.source.saved()
    assert isinstance(x, Number)
    return lambda found: np.float64(x.holder[x.key])
