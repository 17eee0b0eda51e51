"""Programs as ``compare`` takes them: each run as one graph of its results and its gradients, of which all is kept."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from attrs import evolve, frozen
from jax import tree_util

from fgrad.api.arguments import leaves
from fgrad.api.graphs import Graph as Program
from fgrad.api.names import argument_names
from fgrad.api.recorded import call
from fgrad.graph.graph import Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.source import Source, here
from fgrad.jaxcore import typeof
from fgrad.jaxtypes import is_inexact
from fgrad.questions.call import Call, called, every_value, with_gradients
from fgrad.questions.layers import Layer, layers
from fgrad.record import origin


@frozen(eq=False)
class Side:
    """One of two programs, run.

    Attributes:
      graph: from the arguments to the results and then the gradients.
      inputs: what it was run on.
      names: of all its values.
      values: all of them, by number.
      outputs: the results: their names and the numbers of their values.
      arguments: how many leaves the arguments have.
      gradients: those of the arguments, by name and in order, and then of what else the layer differentiates; None
        where it is zero since nothing leads to it.
      forward: the values that results are computed from; the others belong to backward.
    """

    graph: Graph
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    values: Sequence[Any]
    outputs: tuple[tuple[str, int], ...]
    arguments: int
    gradients: dict[str, int | None]
    forward: frozenset[int]

    def makers(self) -> list[Node | None]:
        """The node that made each value, None for inputs and constants."""
        makers: list[Any] = [None] * (len(self.graph.in_types) + len(self.graph.consts))
        for node in self.graph.nodes:
            makers += [node] * len(node.op.out_types)
        return makers


def run_side(program: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Side:
    """Run one side: a graph, a function of arrays, or a program of another layer."""
    layer = next((layer for layer in layers() if layer.is_program(program)), None)
    if layer is not None:
        return _of_layer(layer, program, args, kwargs)
    if isinstance(program, Program):
        return _of_function(program, args, kwargs, program)
    try:
        return _of_function(program, args, kwargs)
    except (TypeError, AttributeError, ValueError) as error:
        for layer in layers():
            try:
                return _of_layer(layer, program, args, kwargs)
            except Exception:  # the first error is about the function as it was given
                continue
        raise error


def _of_function(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], graph: Program | None = None
) -> Side:
    recorded = called(fun, args, kwargs, "compare")
    if graph is not None:
        single = len(graph.out_names) == 1
        recorded = evolve(recorded, names=graph.names, outputs=recorded.outputs if single else graph.out_names)
    joint = with_gradients(recorded)
    # what the graph of values and all cotangents has besides, nobody needs
    at = [joint.cotangents.get(i) for i in range(len(recorded.names))]
    kept = [k for k in at if k is not None]
    count = len(recorded.outputs)
    outputs = [joint.graph.outputs[k] for k in (*range(count), *kept)]
    numbers = [None if k is None else joint.graph.outputs[k] for k in at]
    return _side(joint.graph, recorded, outputs[:count], numbers, {})


def _of_layer(layer: Layer, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Side:
    pure = layer.differentiated(fun)
    flat = leaves((tuple(args), kwargs), "args", "compare")
    shapes: list[Any] = []

    def on_leaves(tracers: Sequence[Any]) -> Any:
        positional, keywords = flat.unflatten(tracers)
        results, gradients, others = pure(*positional, **keywords)
        paths = [tree_util.keystr(path) or "the result" for path, _ in tree_util.tree_flatten_with_path(results)[0]]
        shapes[:] = [paths, [g is not None for g in gradients], [k for k, g in others.items() if g is not None]]
        parameter_gradients = [g for g in gradients if g is not None]
        return tree_util.tree_leaves(results), parameter_gradients, [g for g in others.values() if g is not None]

    recorded = call(on_leaves, flat.values, False, origin.Call(fun, "compare", flat.tree)).recorded
    paths, there, others = shapes
    graph = _attributed(recorded.graph())
    count = len(paths)
    rest = iter(graph.outputs[count:])
    given = iter([next(rest) if is_there else None for is_there in there])
    numbers = [next(given) if is_inexact(typeof(x)) else None for x in flat.values]
    names = tuple(chain.from_iterable(argument_names(fun, args, kwargs)))
    parameter_gradients = Call(graph, tuple(recorded.values), names, tuple(paths))
    return _side(graph, parameter_gradients, graph.outputs[:count], numbers, dict(zip(others, rest, strict=True)))


def _attributed(graph: Graph) -> Graph:
    """A graph whose sums of gradients, which no line of the program asks for, have the line of what they add."""
    caller = here(3)
    makers: list[Source | None] = [None] * (len(graph.in_types) + len(graph.consts))
    nodes = []
    for node in graph.nodes:
        source = node.source
        if source is not None and (source.code, source.offset) == caller:
            source = next((makers[i] for i in reversed(node.inputs) if makers[i] is not None), None)
        nodes.append(Node(node.op, node.inputs, source))
        makers += [source] * len(node.op.out_types)
    return Graph(graph.in_types, graph.consts, tuple(nodes), graph.outputs)


def _side(
    graph: Graph, of: Call, outputs: Sequence[int], gradients: Sequence[int | None], others: dict[str, int | None]
) -> Side:
    forward = ancestors(graph, outputs)
    return Side(
        graph,
        of.values,
        _named(graph, of.names, forward, dict(zip(of.names, gradients, strict=True)) | others),
        every_value(graph, of.values),
        tuple(zip(of.outputs, outputs, strict=True)),
        len(of.names),
        dict(zip(of.names, gradients, strict=True)) | others,
        forward,
    )


def ancestors(graph: Graph, numbers: Sequence[int]) -> frozenset[int]:
    """The values that some are computed from, these among them."""
    reached = set(numbers)
    first = len(graph.types)
    for node in reversed(graph.nodes):
        count = len(node.op.out_types)
        first -= count
        if not reached.isdisjoint(range(first, first + count)):
            reached.update(node.inputs)
    return frozenset(reached)


def _named(
    graph: Graph, inputs: Sequence[str], forward: frozenset[int], gradients: dict[str, int | None]
) -> tuple[str, ...]:
    """The names of the values; of those of backward only the gradients have one: what their line stores is another."""
    names = [name if i in forward or i < len(inputs) else f"%{i}" for i, name in enumerate(value_names(graph, inputs))]
    for name, number in gradients.items():
        if number is not None:
            names[number] = f"d {name}"
    return tuple(names)


def as_numbers(value: Any) -> np.ndarray:
    """A value as an array of 64-bit floats, complex numbers as two of them."""
    array: Any = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    return array.astype(np.float64) if array.dtype.kind != "V" else np.zeros(array.shape)
