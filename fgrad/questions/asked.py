"""The function of a question: its graph for some arguments, with values and names."""

import inspect
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax import tree_util

from fgrad.api.arguments import Argnums, argnums_tuple, check_function, flattened, leaves, resolve, with_positions
from fgrad.api.names import argument_names, differentiation_of, result_names
from fgrad.api.recorded import close, record
from fgrad.api.staging import Jitted, is_staged
from fgrad.graph.graph import Graph
from fgrad.graph.names import value_names
from fgrad.graph.source import boundary
from fgrad.jaxtypes import is_inexact
from fgrad.questions.call import check_known

#: the name of a closed-over value without a variable
CLOSED_OVER = "a value closed over"


@frozen(eq=False)
class Asked:
    """A function's graph for some arguments.

    Attributes:
      graph: (the arguments' leaves, values closed over) to the leaves of the output.
      values: the numbers of its inputs.
      arguments: how many of these are arguments.
      names: the user's name of each of its values, by number.
      outputs: the name of each output.
      loss: the outputs whose sum is differentiated, by position: the first of several if that is a scalar, else all.
      wrt: the inputs with respect to which it is differentiated.
      derivative: whether the function is itself a derivative, at least in part.
    """

    graph: Graph
    values: list[Any]
    arguments: int
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    loss: tuple[int, ...]
    wrt: tuple[int, ...]
    derivative: bool

    @property
    def is_scalar(self) -> bool:
        """Whether one scalar is differentiated."""
        return len(self.loss) == 1 and self.graph.out_types[self.loss[0]].shape == ()

    @property
    def loss_name(self) -> str:
        """The user's name of what is differentiated."""
        if len(self.loss) != 1:
            return "the sum of the outputs"
        return self.outputs[self.loss[0]]


def asked(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any, what: str) -> Asked:
    """Record a function on numbers.

    ``argnums`` are the positional arguments to differentiate with respect to; None for all of them.

    Raises:
      TypeError: an argument or the output is not made of arrays, or its numbers are not known, as inside ``jit``.
    """
    check_function(fun, what)
    fun = _plain(fun)
    of = differentiation_of(fun) if getattr(fun, "__code__", None) is _derived else None
    if of is not None and differentiation_of(of.fun) is None:
        # for a gradient, the question is about its function, forward and backward
        inner = _asked(of.fun, args, kwargs, of.argnums if argnums is None else argnums, what)
        if inner.is_scalar:
            return inner
    return _asked(fun, args, kwargs, argnums, what)


#: the code of functions that fgrad derives; a user's function that decorates one has other code
_derived = boundary(lambda: None).__code__


def _asked(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], argnums: Any, what: str) -> Asked:
    positions = _positions(args, argnums, what)
    flat, tree = flattened((tuple(args), kwargs), "args", what)
    all_names = list(chain.from_iterable(argument_names(fun, args, kwargs)))
    owners = [k for k, x in enumerate([*args, kwargs]) for _ in range(tree_util.tree_structure(x).num_leaves)]
    inputs = [i for i, x in enumerate(flat) if _is_input(x, owners[i] in positions)]
    check_known(flat, all_names, what)

    def call(tracers: Sequence[Any]) -> Any:
        new_args, new_kwargs = tree_util.tree_unflatten(tree, with_positions(flat, inputs, tracers))
        return fun(*new_args, **new_kwargs)

    recorder, result = record(
        call, leaves([flat[i] for i in inputs], "args", what, [all_names[i] for i in inputs]).values
    )
    try:
        out = leaves(result, "output", f"{what}: the function's output")
        recorded = close(recorder, out.values)
    finally:
        recorder.open = False
    graph = recorded.graph()
    names = [all_names[i] for i in inputs]
    names += [_closed_over(fun, value) for value in recorded.values[len(names) :]]
    return Asked(
        graph,
        recorded.values,
        len(inputs),
        value_names(graph, names),
        result_names(fun, args, out.tree),
        _loss(graph, out.tree),
        tuple([k for k, i in enumerate(inputs) if owners[i] in positions]),
        any(node.source is not None and node.source.of for node in graph.nodes),
    )


def _plain(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a jitted one."""
    while hasattr(fun, "__wrapped__") and (isinstance(fun, jax.stages.Wrapped | Jitted) or is_staged(fun)):
        fun = fun.__wrapped__  # type: ignore[attr-defined]
    return fun


def _closed_over(fun: Callable[..., Any], value: Any) -> str:
    """The closed-over or global variable that has a value."""
    try:
        scopes = inspect.getclosurevars(fun)
    except (TypeError, ValueError):
        return CLOSED_OVER
    variables = {**scopes.globals, **scopes.nonlocals}
    return next((name for name, x in variables.items() if x is value), CLOSED_OVER)


def _loss(graph: Graph, tree: Any) -> tuple[int, ...]:
    types = graph.out_types
    if types and types[0].shape == () and is_inexact(types[0]):
        children = tree.children()
        # a scalar, alone or as the first of several with auxiliary results after it
        if tree_util.treedef_is_leaf(tree) or (children and tree_util.treedef_is_leaf(children[0])):
            return (0,)
    return tuple([k for k, type in enumerate(types) if is_inexact(type)])


def _positions(args: Sequence[Any], argnums: Argnums | None, what: str) -> Sequence[int]:
    """The chosen positional arguments."""
    return range(len(args)) if argnums is None else resolve(argnums_tuple(argnums, what), len(args), what)


def _is_input(x: Any, chosen: bool) -> bool:
    """Whether a leaf of the arguments is an input: an array with derivatives, or a number in a chosen argument.

    Everything else (sizes, switches, functions) is passed on unchanged, as by ``grad``.
    """
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        return jax.dtypes.issubdtype(x.dtype, np.inexact)
    return chosen and isinstance(x, float | complex)
