"""The tape of a capture: a staging whose entries know the user's line, the module, and the node that backward ran."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.seam import (
    Builder,
    CaptureError,
    Graph,
    Op,
    RawSource,
    ShapedArray,
    Source,
    Stager,
    here,
    stored_names,
    widely,
)


class Tape(Stager):
    """Records what runs on its values, by types alone; inputs come as they are met.

    Nothing is recorded of what depends on none of them: that runs at once, and is a constant of the graph.
    """

    __slots__ = ("sources", "paths", "places", "tracers", "asked")
    purpose = "captured"
    #: what gives the number behind a value, or raises an error; set by who runs a function on values of the tape
    asked: Callable[[int], Any]

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[Any, Source | None] = {}
        #: paths of modules, by identity of the scope, which is held
        self.paths: dict[int, tuple[Any, str]] = {}
        #: the numbers of the inputs, in the order in which they were met
        self.places: list[int] = []
        #: the traced values that somebody may hold
        self.tracers: list[weakref.ref[Any]] = []

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> list[Any]:
        outs = super().splice(graph, args, (self._source(), 0))  # type: ignore[arg-type]
        self.watch(outs)
        return outs

    def emit(self, op: Op, args: Sequence[Any], source: RawSource | Source | None) -> list[Any]:
        outs = super().emit(op, args, source)
        self.watch(outs)
        return outs

    def watch(self, values: Sequence[Any]) -> None:
        """Note the traced values that somebody may hold from now on."""
        self.tracers += [weakref.ref(x) for x in values if getattr(x, "_trace", None) is self]

    def _source(self) -> Source | None:
        """The user's line that runs, or whose backward runs, and the module it is in."""
        node = modes.evaluating
        plan = getattr(node, "plan", None)
        raw: Any = here(4) if plan is None else node.source
        scope = modes.module if plan is None else node.scope
        of = None if plan is None else plan.operation.name
        key = raw, id(scope), of
        found = self.sources.get(key)
        if found is None and raw is not None:
            found = self.sources[key] = Source(*raw, of=of, module=self._path(scope))
        return found

    def _path(self, scope: Any) -> str:
        """The path of a module from the outermost one that was called."""
        if scope is None:
            return ""
        kept = self.paths.get(id(scope))
        if kept is None:
            names = []
            around = scope
            while around is not None and around[1] is not None:
                inner, outer = around[0](), around[1][0]()
                names.append(next((n for n, m in outer.named_modules() if m is inner and n), type(inner).__name__))
                around = around[1]
            kept = self.paths[id(scope)] = scope, ".".join(reversed(names))
        return kept[1]

    def input(self, type: ShapedArray) -> Any:
        """A new input, as it is met."""
        tracer = self.new_input(type)
        self.places.append(tracer.number)
        self.tracers.append(weakref.ref(tracer))
        return tracer

    def concrete(self, number: int) -> Any:
        """The number behind a value, or an error where only types are known."""
        return self.asked(number)

    def refusal(self, number: int) -> CaptureError:
        """The error where a number is asked for and cannot be given."""
        source, raw = self.source_of(number), here(3)
        return CaptureError(_asked(source, None if raw is None else Source(*raw)))

    def closed(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
        """The graph from some inputs to some values, in the order given; what is from nowhere is a constant of it."""
        graph = widely(self._whole, outputs)
        builder = Builder(graph.in_types)
        outs = builder.splice(graph, builder.inputs)
        places = {number: place for place, number in enumerate(self.places)}
        return builder.finish(outs, [places[x.number] for x in inputs])

    def _whole(self, outputs: Sequence[Any]) -> Graph:
        return self.closed_graph([self.number(x) for x in outputs])

    def used(self, outputs: Sequence[Any]) -> set[int]:
        """The numbers of the inputs that some values depend on."""
        graph = widely(self._whole, outputs)
        read = {i for node in graph.nodes for i in node.inputs}.union(graph.outputs)
        return {number for place, number in enumerate(self.places) if place in read}


def _asked(source: Source | None, asked: Source | None) -> str:
    """What is said where a number is asked for: which value, where it comes from, and the ways out."""
    names = () if source is None else stored_names(source)
    value = f"'{names[0]}'" if len(names) == 1 and names[0] else "a tensor"
    made = "outside of the function" if source is None else f"{source.file}:{source.line} (in {source.function})"
    where = "an unknown line" if asked is None else f"{asked.file}:{asked.line} (in {asked.function})"
    return (
        f"The number behind {value} is needed at {where}, and the function is being captured as one graph: only types "
        f"are known there.\nThe value comes from {made}.\n"
        "Ways out: return the tensor from the function and read it after the call; torch.where, torch.clamp and masks "
        "instead of Python's if; torch.compile without fullgraph=True, which runs such a call in pieces; or take "
        "the line out of the function."
    )
