"""One call of a function for questions: its graph and values, and that graph with gradients."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import jax
import numpy as np
from attrs import frozen

from fgrad import errors
from fgrad.api.arguments import flattened, leaves
from fgrad.api.names import argument_names
from fgrad.api.recorded import call, inexact_inputs
from fgrad.graph.graph import Builder, Const, Graph
from fgrad.graph.source import Source
from fgrad.jaxcore import Tracer, with_x64
from fgrad.jaxtypes import is_inexact
from fgrad.passes.local import tangent_type
from fgrad.passes.vjp import backward, forward
from fgrad.record import origin
from fgrad.run.interpreter import interpret
from fgrad.run.kernels.kernel import kernel_as_xla


@frozen(eq=False)
class Call:
    """A recorded call.

    Attributes:
      graph: from the leaves of the arguments, followed by closed-over values, to the flat results.
      values: those of these inputs.
      names: those of the arguments' leaves: ``params['w']``.
      outputs: the paths of the flat results.
    """

    graph: Graph
    values: tuple[Any, ...]
    names: tuple[str, ...]
    outputs: tuple[str, ...]


def check_known(values: Sequence[Any], names: Sequence[str], what: str) -> None:
    """Refuse arguments whose numbers are not known, and tensors."""
    for value, name in zip(values, names, strict=True):
        if isinstance(value, Tracer):
            raise TypeError(
                f"{what} looks at numbers, and those of {name} are not known here: it is being traced. "
                f"Way out: call {what}(f) outside of jit, vmap and grad, on the arguments that f was given."
            )
        if isinstance(value, jax.ShapeDtypeStruct):
            raise TypeError(
                f"{what} looks at numbers, and of {name} only the type was given. Way out: pass an array of that type."
            )
        if errors.is_tensor(value):
            raise errors.not_an_array(name, value, what)


def called(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], what: str) -> Call:
    """Record a call of a function on values."""
    values, _ = flattened((tuple(args), kwargs), "args", what)
    names = tuple(chain.from_iterable(argument_names(fun, args, kwargs)))
    check_known(values, names, what)
    flat = leaves((tuple(args), kwargs), "args", what, names)

    def on_leaves(tracers: Sequence[Any]) -> Any:
        positional, keywords = flat.unflatten(tracers)
        return fun(*positional, **keywords)

    user_call = call(on_leaves, flat.values, False, origin.Call(fun, what, flat.tree))
    paths = tuple([path.removeprefix("output") or "the result" for path in user_call.out.paths])
    recorded = user_call.recorded
    return Call(recorded.graph(), tuple(recorded.values), names, paths)


@frozen(eq=False)
class Joint:
    """The results of a call, followed by the cotangents of its values.

    Attributes:
      graph: a graph with the inputs of the call's.
      cotangents: the index of each value's cotangent among the outputs; a value has none if it does not depend
        differentiably on an argument, or no result on it.
    """

    graph: Graph
    cotangents: dict[int, int]


def with_gradients(of: Call) -> Joint:
    """The graph of a call's results and the cotangents of its values.

    For a result that is not a scalar, they are those of a weighted sum of its elements (``weights``).
    """
    graph = of.graph
    builder = Builder(graph.in_types)
    seeds = [(i, builder.const(Const.of(weights(graph.types[i])))) for i in graph.outputs if is_inexact(graph.types[i])]
    wrt = inexact_inputs(graph.in_types, len(of.names))
    walk = forward(builder, graph, builder.inputs, wrt, [i for i, _ in seeds])
    cts = backward(walk, seeds)
    index = {i: len(graph.outputs) + k for k, i in enumerate(cts)}
    return Joint(builder.finish([*(walk.numbers[i] for i in graph.outputs), *cts.values()]), index)


def weights(type: Any) -> Any:
    """The cotangent of a result: one for a scalar, else irregular numbers, so that no symmetry hides a difference."""
    like = tangent_type(type)
    values = np.ones(()) if not like.shape else 1 + np.sin(np.arange(like.size) * 1.7).reshape(like.shape) / 2
    return jax.numpy.asarray(values, like.dtype)


def evaluated(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, run operation by operation."""
    if graph.wide and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        return with_x64(interpret, graph, values, kernel_as_xla)
    return interpret(graph, values, kernel_as_xla)


def every_value(graph: Graph, values: Sequence[Any]) -> list[Any]:
    """All values of a graph, by number."""
    return evaluated(Graph(graph.in_types, graph.consts, graph.nodes, tuple(range(len(graph.types)))), values)


def line_of(source: Source | None) -> str:
    """A line of the user's code as answers show it: ``model.py:12``."""
    return "an unknown line" if source is None else str(Source(source.code, source.offset))
