"""The tape of a capture: a stager whose entries know the user's line, the module, and the node that backward ran."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.context.modes import modes
from fgrad.mutable.values.evaluation import array_type
from fgrad.seam import (
    CONST,
    INPUT,
    LITERAL,
    Builder,
    CaptureError,
    Const,
    Graph,
    Op,
    RawSource,
    ShapedArray,
    Source,
    Stager,
    here,
    stored_names,
    with_x64,
)


class Tape(Stager):
    """Records what runs on its values, by types alone; inputs come as they are met.

    What depends on no input is not recorded: it runs at once, and is a constant of the graph.
    """

    __slots__ = ("sources", "paths", "places", "tracers", "asked")
    purpose = "captured"
    #: gives the concrete value behind a traced one, or raises; set by whoever runs a function on values of the tape
    asked: Callable[[int], Any]

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[Any, Source | None] = {}
        #: paths of modules, by the identity of the scope, which is kept alive
        self.paths: dict[int, tuple[Any, str]] = {}
        #: the numbers of the inputs, in the order in which they were met
        self.places: list[int] = []
        #: the traced values that may still be referred to
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
        """Track the traced values that may be referred to from now on."""
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

    def number(self, value: Any) -> int:
        if value.__class__ is not np.ndarray or value.shape:
            return super().number(value)
        # offsets of views are part of the program, as scalars are
        held = self.lifted.get(id(value))
        if held is None:
            held = self.lifted[id(value)] = super().number(value[()]), value, array_type((), value.dtype)
        return held[0]

    def input(self, type: ShapedArray) -> Any:
        """A new input, as it is met."""
        tracer = self.new_input(type)
        self.places.append(tracer.number)
        self.tracers.append(weakref.ref(tracer))
        return tracer

    def concrete(self, number: int) -> Any:
        """The concrete value behind a traced one, or an error if only types are known."""
        return self.asked(number)

    def refusal(self, number: int) -> CaptureError:
        """The error when a number is asked for and cannot be given."""
        source, raw = self.source_of(number), here(3)
        return CaptureError(_asked(source, None if raw is None else Source(*raw)))

    def closed(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
        """The graph from some inputs to some values, in the order given; unrecorded values become constants."""
        return with_x64(self._closed, inputs, outputs)

    def _closed(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
        wanted = [self.number(x) for x in outputs]
        builder, numbers = Builder(), list[int]()
        consts = iter(self.consts)
        for op, args, source in self.steps():
            if op.primitive is INPUT:
                numbers.append(builder.input(op.out_types[0]))
            elif op.primitive is CONST:
                numbers.append(builder.const(Const.of(next(consts))))
            elif op.primitive is LITERAL:
                numbers.append(builder.const(op.params["key"]))
            else:
                first = builder.emit(op, tuple([numbers[i] for i in args]), source)
                numbers.extend(range(first, first + len(op.out_types)))
        return builder.finish([numbers[i] for i in wanted], [numbers[x.number] for x in inputs])

    def used(self, outputs: Sequence[Any]) -> set[int]:
        """The numbers of the inputs that some values, or effects, depend on."""
        alive = {with_x64(self.number, x) for x in outputs}
        first, end = self.count, len(self.args)
        for op in reversed(self.ops):
            first -= len(op.out_types)
            start = end - len(op.in_types)
            if op.effects or not alive.isdisjoint(range(first, first + len(op.out_types))):
                alive.update(self.args[start:end])
            end = start
        return alive.intersection(self.places)


def _asked(source: Source | None, asked: Source | None) -> str:
    """The message when a number is asked for: which value, where it comes from, and the ways out."""
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
