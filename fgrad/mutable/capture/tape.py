"""The tape of a capture: a stager whose entries know the user's line, the module, and the node that backward ran."""

import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from fgrad.mutable.context.modes import modes
from fgrad.mutable.values.evaluation import array_type, recorded
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
    """Records operations on its values by their types; inputs are added on the way.

    Operations that depend on no input are not recorded: they run at once, and their results are constants.
    Its values have devices (NOTE [A value knows its device]).
    """

    __slots__ = ("sources", "paths", "input_numbers", "tracers", "accelerators", "concrete_value", "root_path")
    purpose = "captured"
    #: gives the concrete value behind a traced one, or raises; set by whoever runs a function on traced values
    concrete_value: Callable[[int], Any]
    #: the path of the outermost module that was called, in a larger one that is not called itself
    root_path: Callable[[Any], str]

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[Any, Source | None] = {}
        self.root_path = lambda module: ""
        #: paths of modules, by the id of the scope, which is kept alive
        self.paths: dict[int, tuple[Any, str]] = {}
        #: the numbers of the inputs, in order
        self.input_numbers: list[int] = []
        #: the traced values that may still be referred to
        self.tracers: list[weakref.ref[Any]] = []
        #: the JAX devices of the values that are on accelerators, by number
        self.accelerators: dict[int, Any] = {}

    def splice(self, graph: Graph, args: Sequence[Any], source: RawSource | None = None) -> list[Any]:
        outs = super().splice(graph, args, (self._source(), 0))  # type: ignore[arg-type]
        self.watch(outs)
        return outs

    def emit(self, op: Op, args: Sequence[Any], source: RawSource | Source | None) -> list[Any]:
        outs = super().emit(op, args, source)
        self.watch(outs)
        return outs

    def watch(self, values: Sequence[Any]) -> None:
        """Remember traced values that may still be referred to."""
        self.tracers += [weakref.ref(x) for x in values if getattr(x, "_trace", None) is self]

    def _source(self) -> Source | None:
        """The user's line that runs, or whose backward runs, and its module."""
        node = modes.evaluating
        plan = getattr(node, "plan", None)
        raw: Any = here(4) if plan is None else node._source
        scope = modes.module if plan is None else node._scope
        of = None if plan is None else plan.operation.name
        key = raw, id(scope), of
        source = self.sources.get(key)
        if source is None and raw is not None:
            source = self.sources[key] = Source(*raw, of=of, module=self._path(scope))
        return source

    def _path(self, scope: Any) -> str:
        """The path of a module in the outermost one that was called, or that holds this one."""
        if scope is None:
            return ""
        cached = self.paths.get(id(scope))
        if cached is None:
            names = []
            enclosing = scope
            while enclosing[1] is not None:
                inner, outer = enclosing[0](), enclosing[1][0]()
                names.append(next((n for n, m in outer.named_modules() if m is inner and n), type(inner).__name__))
                enclosing = enclosing[1]
            names += [root] if (root := self.root_path(enclosing[0]())) else []
            cached = self.paths[id(scope)] = scope, ".".join(reversed(names))
        return cached[1]

    def number(self, value: Any) -> int:
        if value.__class__ is not np.ndarray or value.shape:
            return super().number(value)
        # offsets of views are constants of the program, as scalars are
        entry = self.lifted.get(id(value))
        if entry is None:
            entry = self.lifted[id(value)] = super().number(value[()]), value, array_type((), value.dtype)
        return entry[0]

    def input(self, type: ShapedArray, accelerator: Any = None) -> Any:
        """A new input, on an accelerator or on the CPU."""
        tracer = self.new_input(type)
        self.input_numbers.append(tracer.number)
        self.tracers.append(weakref.ref(tracer))
        if accelerator is not None:
            self.accelerators[tracer.number] = accelerator
        return tracer

    @property
    def home(self) -> Any:
        """The accelerator that some value is on, the first one; None if all are on the CPU."""
        return next(iter(self.accelerators.values()), None)

    def copy_of(self, value: Any) -> Any:
        """Another traced value with the same elements, on the CPU."""
        (copy,) = with_x64(self.splice, _copying(array_type(tuple(value.shape), value.dtype)), [value])
        return copy

    def as_number(self, value: Any, dtype: Any) -> Any:
        """A traced value of one element as one of another type, without dimensions."""
        (number,) = with_x64(self.splice, _casting(array_type(tuple(value.shape), value.dtype), dtype), [value])
        return number

    def concrete(self, number: int) -> Any:
        """The concrete value behind a traced one, or an error if only types are known."""
        return self.concrete_value(number)

    def refusal(self, number: int) -> CaptureError:
        """The error when a concrete number is asked for."""
        source, raw = self.source_of(number), here(3)
        return CaptureError(_refusal_text(source, None if raw is None else Source(*raw)))

    def closed(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
        """The graph from some inputs to some values, in this order; unrecorded values become constants."""
        return with_x64(self._closed, inputs, outputs)

    def _closed(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
        output_numbers = [self.number(x) for x in outputs]
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
        return builder.finish([numbers[i] for i in output_numbers], [numbers[x.number] for x in inputs])

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
        return alive.intersection(self.input_numbers)


@lru_cache(1 << 10)
def _copying(type: ShapedArray) -> Graph:
    """The graph that copies a value."""
    return recorded(lambda x: (jnp.copy(x),), [type])


@lru_cache(1 << 10)
def _casting(type: ShapedArray, dtype: Any) -> Graph:
    """The graph that converts the one element of a value to another type."""
    return recorded(lambda x: (jnp.reshape(x, ()).astype(dtype),), [type])


def _refusal_text(source: Source | None, line: Source | None) -> str:
    """Which number was asked for, where it comes from, and the ways out."""
    names = () if source is None else stored_names(source)
    value = f"'{names[0]}'" if len(names) == 1 and names[0] else "a tensor"
    origin = "outside of the function" if source is None else f"{source.file}:{source.line} (in {source.function})"
    where = "an unknown line" if line is None else f"{line.file}:{line.line} (in {line.function})"
    return (
        f"The number behind {value} is needed at {where}, and the function is being captured as one graph: only types "
        f"are known there.\nThe value comes from {origin}.\n"
        "Ways out: return the tensor from the function and read it after the call; torch.where, torch.clamp and masks "
        "instead of Python's if; torch.compile without fullgraph=True, which runs such a call in pieces; or take "
        "the line out of the function."
    )
