"""The graph of a function as a value: to read, compare, draw, save, differentiate and run."""

import html
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import jax
import numpy as np
from attrs import evolve, field, frozen
from jax import tree_util

from fgrad import errors
from fgrad.api import reverse
from fgrad.api.arguments import Argnums, check_function, leaves
from fgrad.api.forward import jvp
from fgrad.api.names import argument_names, result_names
from fgrad.graph.check import check
from fgrad.graph.drawing import to_dot, to_mermaid
from fgrad.graph.encoding import NoCode, decode_tree, encode_tree, shape_of
from fgrad.graph.graph import Const, Graph as FlatGraph, Node
from fgrad.graph.pages import to_html, to_svg
from fgrad.graph.saving import File, dump, encoded, read
from fgrad.graph.text import render, type_text
from fgrad.jaxcore import ShapedArray, Tracer, as_typed, copied, primitive, tangent_dtype, typeof, widely
from fgrad.passes.simplify import simplify
from fgrad.record.recording import stage_closed
from fgrad.run.executable import run

#: how many nodes ``repr`` and notebooks show
SHOWN_NODES = 60


@frozen
class Graph:
    """The graph of a function: an immutable value with inputs, nodes and outputs, which is called as the function was.

    Graphs are equal, and hash equal, when they do the same operations on the same constants and take and return the
    same pytrees; source lines and names of inputs do not count.  ``make_graph`` makes one, ``load`` reads one.

    Attributes:
      core: the flat graph.
      in_tree: the structure of ``(args, kwargs)``.
      out_tree: the structure of the result.
      names: the path of every flat input, for people.
      out_names: the name of every flat output: ``loss``, ``d loss / d params['w']``.

    >>> import fgrad, jax.numpy as jnp
    >>> from fgrad.api.graphs import make_graph
    >>> graph = make_graph(lambda x: jnp.sin(x) * 2.0)(1.0)
    >>> print(graph.to_text(source=False))
    graph(%0 x: ~f32[]) -> ~f32[]:
        %2: ~f32[] = sin %0
        %3: ~f32[] = mul %2 2.0
        return %3
    >>> graph(0.0)
    Array(0., dtype=float32, weak_type=True)
    """

    core: FlatGraph
    in_tree: Any
    out_tree: Any
    names: tuple[str, ...] = field(eq=False)
    out_names: tuple[str, ...] = field(eq=False)

    # -- what it is made of --

    @property
    def in_types(self) -> tuple[ShapedArray, ...]:
        return self.core.in_types

    @property
    def out_types(self) -> tuple[ShapedArray, ...]:
        return self.core.out_types

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the inputs."""
        return tuple(range(len(self.core.in_types)))

    @property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of the outputs."""
        return self.core.outputs

    @property
    def consts(self) -> tuple[Const, ...]:
        return self.core.consts

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The operations in order, each with ``primitive``, ``params``, ``inputs``, ``out_types`` and ``source``."""
        return self.core.nodes

    def __len__(self) -> int:
        return len(self.core.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.core.nodes)

    def __bool__(self) -> bool:
        return True

    # -- running it --

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph on arrays, or under any transformation of fgrad or JAX.

        Raises:
          GraphArgumentError: an argument has another structure, shape or dtype than the graph was made for; the
            message names its path.

        >>> make_graph(lambda x: x * x)(1.0)(jax.numpy.ones(3))
        Traceback (most recent call last):
        fgrad.errors.GraphArgumentError: The argument x has another type than the graph was made for.
          expected: ~f32[]
          got:      f32[3]
        Ways out: convert it (x.astype, jnp.reshape), or make another graph for this type with make_graph.
        """
        flat, tree = tree_util.tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise errors.graph_structure(self.in_tree, tree)
        values = [_fitted(*each) for each in zip(flat, self.core.in_types, self.names, strict=True)]
        return tree_util.tree_unflatten(self.out_tree, run(self.core, values))

    # -- other graphs made from it --

    def grad(self, argnums: Argnums = 0) -> "Graph":
        """The graph of the gradient, as ``fgrad.grad`` of this graph.

        >>> graph = make_graph(lambda x: jax.numpy.sum(jax.numpy.sin(x)))(jax.numpy.zeros(3)).grad()
        >>> print(graph.to_text(source=False))
        graph(%0 x: f32[3]) -> f32[3]:
            %1: f32[3] = cos %0
            return %1
        """
        return self._derived(reverse.grad(self, argnums))

    def value_and_grad(self, argnums: Argnums = 0) -> "Graph":
        """The graph of ``(value, gradient)``."""
        return self._derived(reverse.value_and_grad(self, argnums))

    def vjp(self) -> "Graph":
        """The graph ``(primals, cotangent of the output) -> (output, cotangents of the primals)``.

        >>> make_graph(jax.numpy.sin)(1.0).vjp()((0.0,), 2.0)
        (Array(0., dtype=float32, weak_type=True), (Array(2., dtype=float32),))
        """

        def function(primals: Any, cotangent: Any) -> Any:
            output, pull = reverse.vjp(self, *primals)
            return output, pull(cotangent)

        primals = self._examples("vjp")
        cotangent = tree_util.tree_unflatten(self.out_tree, list(map(_tangent, self.out_types)))
        cotangents = [f"cotangent of {name}" for name in (*self.out_names, *self.names)]
        made, count = make_graph(function)(primals, cotangent), len(self.out_names)
        return evolve(made, names=(*self.names, *cotangents[:count]), out_names=(*self.out_names, *cotangents[count:]))

    def jvp(self) -> "Graph":
        """The graph ``(primals, tangents) -> (output, tangent of the output)``.

        >>> make_graph(jax.numpy.sin)(1.0).jvp()((0.0,), (3.0,))
        (Array(0., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))
        """
        primals = self._examples("jvp")
        tangents = tree_util.tree_map(_tangent, primals)
        made = make_graph(lambda primals, tangents: jvp(self, primals, tangents))(primals, tangents)
        names, out_names = [
            (*given, *[f"tangent of {name}" for name in given]) for given in (self.names, self.out_names)
        ]
        return evolve(made, names=names, out_names=out_names)

    def simplify(self) -> "Graph":
        """An equal function with no more nodes: common sub-expressions, trivial algebra and dead code are gone."""
        return Graph(simplify(self.core), self.in_tree, self.out_tree, self.names, self.out_names)

    def check(self) -> "Graph":
        """The graph itself, if it is well formed.

        Raises:
          InvalidGraphError: it is not; the message shows the node and the user's line.
        """
        check(self.core)
        return self

    def _derived(self, function: Callable[..., Any]) -> "Graph":
        args, kwargs = tree_util.tree_unflatten(self.in_tree, list(map(shape_of, self.in_types)))
        made = make_graph(function)(*args, **kwargs)
        return Graph(made.core, made.in_tree, made.out_tree, self.names, made.out_names)

    def _examples(self, what: str) -> Any:
        args, kwargs = tree_util.tree_unflatten(self.in_tree, list(map(shape_of, self.in_types)))
        if kwargs:
            raise TypeError(
                f"{what} takes the arguments by position, and this graph was made with the keywords {tuple(kwargs)}. "
                "Way out: make the graph of a function that takes them by position."
            )
        return args

    # -- seeing and keeping it --

    def to_text(self, source: bool = True, limit: int | None = None) -> str:
        """The listing, one line per node; ``source`` adds the user's lines, ``limit`` leaves out the middle."""
        return render(self.core, self.names, source, limit, self.out_names)

    def to_dot(self) -> str:
        """The drawing in Graphviz's DOT language."""
        return to_dot(self.core, self.names)

    def to_mermaid(self) -> str:
        """The drawing as a Mermaid flowchart, for Markdown pages."""
        return to_mermaid(self.core, self.names)

    def to_svg(self, path: str | os.PathLike[str] | None = None) -> str:
        """The drawing as an SVG image, also written to ``path``; nothing needs to be installed for it."""
        return _written(to_svg(self.core, self.names), path)

    def to_html(self, path: str | os.PathLike[str] | None = None, title: str = "graph") -> str:
        """One HTML page with the drawing, whole and by function, and the listing, also written to ``path``."""
        return _written(to_html(self.core, self.names, title), path)

    def to_json(self) -> str:
        """The JSON document that ``save`` writes; arrays stand in it by their fingerprints."""
        return json.dumps({**encoded(self.core)[0], "extra": self._extra()}, indent=1)

    def save(self, path: File) -> None:
        """Write the graph to one file of JSON and arrays (no pickle), which ``load`` reads.

        Raises:
          GraphFileError: something in the graph has no place in a file: a Python callback, a traced value, a
            sharding, or a pytree class other than tuple, list and dict; the message names it.

        >>> file = io.BytesIO()
        >>> graph = make_graph(lambda p: p["w"] * 2.0)({"w": 1.0})
        >>> graph.save(file)
        >>> load(file) == graph
        True
        """
        dump(self.core, path, self._extra())

    def _extra(self) -> dict[str, Any]:
        try:
            return {
                "in": encode_tree(self.in_tree),
                "out": encode_tree(self.out_tree),
                "names": list(self.names),
                "out_names": list(self.out_names),
            }
        except NoCode as error:
            raise errors.unsaveable("its arguments and results", str(error)) from error

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text(limit=SHOWN_NODES)

    def _repr_html_(self) -> str:
        text = f"<pre>{html.escape(repr(self))}</pre>"
        if len(self) > SHOWN_NODES:
            return text
        return f"{to_svg(self.core, self.names)}<details><summary>listing</summary>{text}</details>"

    def __copy__(self) -> "Graph":
        return self

    def __deepcopy__(self, memo: Any) -> "Graph":
        return self

    def __reduce__(self) -> Any:
        # the trees go as pytrees of numbers, so that pickle can find the user's own classes
        trees = [tree_util.tree_unflatten(t, range(t.num_leaves)) for t in (self.in_tree, self.out_tree)]
        file = io.BytesIO()
        dump(self.core, file)
        return _unpickled, (file.getvalue(), *trees, self.names, self.out_names)


def _unpickled(data: bytes, in_tree: Any, out_tree: Any, names: tuple[str, ...], out_names: tuple[str, ...]) -> Graph:
    structure = tree_util.tree_structure
    return Graph(read(io.BytesIO(data))[0], structure(in_tree), structure(out_tree), names, out_names)


def make_graph(fun: Callable[..., Any], static_argnums: int | Sequence[int] = ()) -> Callable[..., Graph]:
    """A function that gives the graph of ``fun`` for arguments of some types.

    Arguments:
      fun: takes and returns pytrees of arrays.
      static_argnums: which positional arguments are part of the program rather than inputs of the graph; the graph is
        then called without them.

    Returns:
      A function of the same arguments; arrays, numbers and ``jax.ShapeDtypeStruct`` will do, since only their types
      count.

    Raises:
      NotConcreteError: ``fun`` asks for the number behind a value (``if x > 0``); the message names the line.
      ArgumentTypeError: an argument or result is not made of arrays; the message names its path.

    >>> import jax.numpy as jnp
    >>> graph = make_graph(lambda p, n: p["w"] @ p["w"] ** n, static_argnums=1)({"w": jnp.zeros(3)}, 2)
    >>> graph.names, len(graph)
    (("p['w']",), 2)
    >>> graph({"w": jnp.ones(3)})
    Array(3., dtype=float32)

    Source: `jax.make_jaxpr <https://docs.jax.dev/en/latest/_autosummary/jax.make_jaxpr.html>`_.
    """
    check_function(fun, "make_graph")
    statics = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    def graph_of(*args: Any, **kwargs: Any) -> Graph:
        fixed = {i % len(args) for i in statics if -len(args) <= i < len(args)}
        dynamic = tuple([x for i, x in enumerate(args) if i not in fixed])
        flat, in_tree = tree_util.tree_flatten((dynamic, kwargs))
        every = argument_names(fun, args, kwargs)
        names = tuple(chain.from_iterable([each for i, each in enumerate(every) if i not in fixed]))
        types = [type_of(x, name) for x, name in zip(flat, names, strict=True)]
        out_trees = []

        def function(*tracers: Any) -> list[Any]:
            some, keywords = tree_util.tree_unflatten(in_tree, tracers)
            rest = iter(some)
            out = fun(*[x if i in fixed else next(rest) for i, x in enumerate(args)], **keywords)
            found = leaves(out, "output", "make_graph: the function's output")
            out_trees.append(found.tree)
            return found.values

        graph = stage_closed(function, types)
        return Graph(graph, in_tree, out_trees[0], names, result_names(fun, args, out_trees[0]))

    graph_of.__name__ = f"graph_of_{getattr(fun, '__name__', 'function')}"
    return graph_of


def load(path: File) -> Graph:
    """The graph in a file that ``Graph.save`` wrote, checked; nothing in the file is ever executed.

    >>> import fgrad, tempfile, os
    >>> graph = fgrad.make_graph(lambda x: x * x)(3.0)
    >>> path = os.path.join(tempfile.mkdtemp(), "square.fgrad")
    >>> graph.save(path)
    >>> fgrad.load(path) == graph
    True

    Raises:
      GraphFileError: the file is damaged, of another version, or not what it claims; the message says where.
      OSError: it cannot be opened.
    """
    graph, extra = read(path)
    name = str(path) if isinstance(path, str | os.PathLike) else f"<{type(path).__name__}>"
    if extra is None:  # a flat graph
        names = tuple([f"args[{i}]" for i in range(len(graph.in_types))])
        out_names = tuple([f"output[{i}]" for i in range(len(graph.outputs))])
        return Graph(graph, *_flat_trees(graph), names, out_names)
    try:
        in_tree, out_tree = decode_tree(extra["in"]), decode_tree(extra["out"])
        names, out_names = [tuple(map(str, extra[what])) for what in ("names", "out_names")]
    except Exception as error:
        raise errors.bad_graph_file(name, f"its pytrees: {error}") from error
    counts = in_tree.num_leaves, out_tree.num_leaves, len(names), len(out_names)
    if counts != (len(graph.in_types), len(graph.outputs)) * 2 or not _is_call(in_tree):
        raise errors.bad_graph_file(name, "its pytrees do not fit its inputs and outputs")
    return Graph(graph, in_tree, out_tree, names, out_names)


def _flat_trees(graph: FlatGraph) -> tuple[Any, Any]:
    ins, outs = [(0,) * n for n in (len(graph.in_types), len(graph.outputs))]
    return tree_util.tree_structure((ins, {})), tree_util.tree_structure(outs)


def _is_call(tree: Any) -> bool:
    """Whether a structure is one of ``(args, kwargs)``."""
    value = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return (
        type(value) is tuple and [type(x) for x in value] == [tuple, dict] and all(isinstance(k, str) for k in value[1])
    )


# --------------------------------------------------------------------------------------------------------------------


def type_of(x: Any, path: str) -> ShapedArray:
    """The type of an example of an argument, of which nothing but the type is used."""
    if isinstance(x, jax.ShapeDtypeStruct | ShapedArray):
        return _canonical(x)
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        return typeof(x)
    (value,) = leaves((x,), path, "make_graph").values
    return typeof(value)


def _canonical(x: Any) -> ShapedArray:
    """The type of an abstract example, 64 bits wide only where JAX allows that."""
    if x.dtype == jax.dtypes.float0:
        return ShapedArray(x.shape, x.dtype)
    return ShapedArray(x.shape, jax.dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True), bool(x.weak_type))


def _tangent(x: Any) -> jax.ShapeDtypeStruct:
    """The type of tangents of values of a type."""
    return jax.ShapeDtypeStruct(x.shape, tangent_dtype(x.dtype))


def _fitted(value: Any, kind: ShapedArray, path: str) -> Any:
    """A value with exactly the type of its input: only weakness is adapted, and Python numbers to the dtype.

    An input of 64 bits takes what JAX makes of such an array where it has no such types.
    """
    narrow = jax.dtypes.canonicalize_dtype(kind.dtype, allow_extended_dtype=True)
    if narrow != kind.dtype and isinstance(value, Tracer | jax.Array | np.ndarray):
        given = typeof(as_typed(value))
        if given.dtype in (kind.dtype, narrow) and given.shape == kind.shape:
            return widely(jax.numpy.asarray, as_typed(value), kind.dtype)
    if not isinstance(value, Tracer | jax.Array):
        (value,) = leaves((value,), path, "a graph").values
    got = typeof(value)
    if got == kind:
        return value
    fits = got.shape == kind.shape and (
        got.dtype == kind.dtype or (got.weak_type and jax.numpy.promote_types(got.dtype, kind.dtype) == kind.dtype)
    )
    if not fits:
        raise errors.graph_argument(path, type_text(kind), type_text(got))
    if got.dtype == kind.dtype and got.weak_type == kind.weak_type:
        return value  # another sharding
    if not isinstance(value, Tracer | jax.Array):
        value = copied(np.asarray(value))
    return primitive("convert_element_type").bind(value, new_dtype=kind.dtype, weak_type=kind.weak_type, sharding=None)


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text
