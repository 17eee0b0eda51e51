"""The graph of a function as a value that can be read, compared, drawn, saved, differentiated and run."""

import html
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import jax  # noqa: F401  (the examples use it)
from attrs import evolve, field, frozen
from jax import tree_util

from fgrad import errors
from fgrad.api import reverse
from fgrad.api.arguments import Argnums, check_function, flattened, leaves
from fgrad.api.forward import jvp
from fgrad.api.graph_arguments import fitted, tangent_of, type_of
from fgrad.api.graph_source import python_program
from fgrad.api.names import argument_names, result_names
from fgrad.graph import drawing
from fgrad.graph.check import check
from fgrad.graph.difference import Difference, difference
from fgrad.graph.encoding import NoCode, encode_tree, shape_of
from fgrad.graph.graph import Const, Graph as FlatGraph, Node
from fgrad.graph.outline import CompileCost, Outline, compile_cost, outline
from fgrad.graph.saving import File, dump, encoded, read
from fgrad.graph.text import render
from fgrad.graph.values import Values, replaced, replacement_of
from fgrad.jaxcore import ShapedArray, with_x64_for
from fgrad.passes.descriptions import rule_texts
from fgrad.passes.simplify import simplify
from fgrad.record.stager import stage_closed
from fgrad.run.executable import run
from fgrad.run.summaries import summaries

#: how many nodes ``repr`` and notebooks show
SHOWN_NODES = 60


@frozen
class Graph:
    """The graph of a function: an immutable value with inputs, nodes and outputs, which is called like the function.

    Graphs are equal, and hash equal, if they have the same operations on the same constants and take and return the
    same pytrees; source lines and names of inputs do not count.  ``make_graph`` makes one, ``load`` reads one.

    Attributes:
      core: the flat graph.
      in_tree: the structure of ``(args, kwargs)``.
      out_tree: the structure of the result.
      names: the path of every flat input, for display.
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

    @property
    def values(self) -> Values:
        """The values by name: ``graph.values["h"]`` says the number, type, node and readers of ``h``.

        >>> def f(x):
        ...     h = jax.numpy.sin(x)
        ...     return h * x
        >>> h = make_graph(f)(1.0).values["h"]
        >>> h.number, h.node.primitive, [reader.primitive for reader in h.readers]
        (1, sin, [mul])
        """
        return Values(self.core, self.names)

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
        return tree_util.tree_unflatten(self.out_tree, run(self.core, self._flat(args, kwargs)))

    # for JAX's messages, which would otherwise print the graph
    __name__ = "Graph"
    __code__: Any = __call__.__code__

    def _flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call as the flat graph takes them."""
        flat, tree = flattened((args, kwargs), "arguments", "A graph")
        if tree != self.in_tree:
            raise errors.graph_structure(self.in_tree, tree, self.names)
        return [fitted(*each) for each in zip(flat, self.in_types, self.names, strict=True)]

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
        cotangent = tree_util.tree_unflatten(self.out_tree, list(map(tangent_of, self.out_types)))
        cotangents = [f"cotangent of {name}" for name in (*self.out_names, *self.names)]
        derived, count = with_x64_for(self.in_types, make_graph(function), primals, cotangent), len(self.out_names)
        return evolve(
            derived, names=(*self.names, *cotangents[:count]), out_names=(*self.out_names, *cotangents[count:])
        )

    def jvp(self) -> "Graph":
        """The graph ``(primals, tangents) -> (output, tangent of the output)``.

        >>> make_graph(jax.numpy.sin)(1.0).jvp()((0.0,), (3.0,))
        (Array(0., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))
        """
        primals = self._examples("jvp")
        tangents = tree_util.tree_map(tangent_of, primals)
        pushed = make_graph(lambda primals, tangents: jvp(self, primals, tangents))
        derived = with_x64_for(self.in_types, pushed, primals, tangents)
        names, out_names = [
            (*primals, *[f"tangent of {name}" for name in primals]) for primals in (self.names, self.out_names)
        ]
        return evolve(derived, names=names, out_names=out_names)

    def simplify(self) -> "Graph":
        """An equivalent graph without common sub-expressions, trivial algebra and dead code."""
        return Graph(simplify(self.core), self.in_tree, self.out_tree, self.names, self.out_names)

    def replace(
        self, what: str | int | Mapping[str | int, Any], by: Callable[..., Any] | None = None, *of: str | int
    ) -> "Graph":
        """The graph with values replaced by functions of them.

        Arguments:
          what: the name or number of a value (see ``values``), or a dict from these to functions.
          by: a function of the value, or of the values named by ``of``, with a result of the value's shape and dtype.
            ``jax.lax.stop_gradient`` cuts, ``lambda h: h.clip(-1, 1)`` clips; another operation on the same operands is
            ``graph.replace("h", jnp.sin, "z")``.
          of: the values that ``by`` reads instead of the value itself, none computed after it.

        Raises:
          KeyError: no value has this name; the message lists similar ones.
          TypeError: the function's result has another type than the value.
          ValueError: a value that ``by`` should read is computed too late.

        >>> def f(x):
        ...     h = jax.numpy.sin(x)
        ...     return h * x
        >>> graph = make_graph(f)(1.0).replace("h", lambda h: h + 1.0)
        >>> print(graph.to_text(source=False))
        graph(%0 x: ~f32[]) -> ~f32[]:
            %2: ~f32[] = sin %0
            %3: ~f32[] = add %2 1.0
            %4: ~f32[] = mul %3 %0
            return %4
        """
        values, replacements = self.values, {}
        for name, function in what.items() if isinstance(what, Mapping) else [(what, by)]:
            if not isinstance(name, str | int):
                raise TypeError(f"replace: a value is named by a string or its number, not by {errors.shown(name)}")
            if not callable(function):
                raise TypeError(
                    f"{errors.shown(name)} is replaced by a function of the value, not by {errors.shown(function)}"
                )
            number = values.number(name)
            reads = [values.number(x) for x in of] or [number]
            for i in reads:
                if i > number:
                    raise ValueError(f"{values[i].name} is computed after {values[number].name}, which reads it")
            replacements[number] = replacement_of(self.core, partial(_staged, function), number, reads)
        return evolve(self, core=replaced(self.core, replacements))

    def diff(self, other: "Graph") -> Difference:
        """The differences to another graph: aligned by structure, printed as a unified diff with names and lines.

        Returns:
          A record with ``removed``, ``added`` and ``changed`` lines; false if the graphs are equal.

        >>> one, other = [make_graph(lambda x: f(x) * x)(1.0) for f in (jax.numpy.sin, jax.numpy.cos)]
        >>> bool(one.diff(one)), [(a.node.primitive, b.node.primitive) for a, b in one.diff(other).changed]
        (False, [(sin, cos)])
        """
        if not isinstance(other, Graph):
            raise TypeError(f"diff: the other must be a Graph (from make_graph or load), got {errors.shown(other)}.")
        return difference(self.core, other.core, (self.names, other.names))

    def outline(self) -> Outline:
        """The repeated blocks of operations, how often each repeats, and their lines; false if nothing repeats."""
        return outline(self.core)

    def compile_cost(self) -> CompileCost:
        """The cost of compiling this graph, as ``fgrad.compile_cost`` for a function."""
        return compile_cost(self.core)

    def check(self) -> "Graph":
        """The graph itself, if it is well formed.

        Raises:
          InvalidGraphError: it is not; the message shows the node and the user's line.
        """
        check(self.core)
        return self

    def _derived(self, function: Callable[..., Any]) -> "Graph":
        args, kwargs = tree_util.tree_unflatten(self.in_tree, list(map(shape_of, self.in_types)))
        derived = with_x64_for(self.in_types, partial(make_graph(function), **kwargs), *args)
        return Graph(derived.core, derived.in_tree, derived.out_tree, self.names, derived.out_names)

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
        if not isinstance(source, bool):
            raise TypeError(f"to_text: source must be a bool, got {errors.shown(source)}.")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise TypeError(f"to_text: limit is how many nodes to show, an int, or None; got {errors.shown(limit)}.")
        return render(self.core, self.names, source, limit, self.out_names)

    def to_dot(self, path: "drawing.Path | None" = None) -> str:
        """The drawing in Graphviz's DOT language, also written to ``path``."""
        return self._drawing().to_dot(path)

    def to_mermaid(self, path: "drawing.Path | None" = None) -> str:
        """The drawing as a Mermaid flowchart, for Markdown pages, also written to ``path``."""
        return self._drawing().to_mermaid(path)

    def to_svg(self, path: "drawing.Path | None" = None) -> str:
        """The drawing as an SVG image, also written to ``path``; nothing needs to be installed for it."""
        return self._drawing().to_svg(path)

    def to_html(
        self, path: "drawing.Path | None" = None, title: str = "graph", args: Sequence[Any] | None = None
    ) -> str:
        """A self-contained HTML page with the drawing and the listing, also written to ``path``.

        With ``args``, the arguments of a call, a click on a box also shows the numbers of its values.
        """
        return self._drawing(title).to_html(path, args=args)

    def _drawing(self, title: str = "graph") -> "drawing.Drawing":
        def numbers(core: FlatGraph, args: Sequence[Any]) -> dict[int, str]:
            flat = self._flat(tuple(args), {})
            return with_x64_for(self.in_types, lambda: summaries(core, flat))

        return drawing.Drawing(
            drawing.ladder_of(self.core, self.names, self.out_names), title, rule_texts(self.core), numbers
        )

    def to_python(self, name: str = "program", constants: dict[str, Any] | None = None) -> str:
        """Source of a function called ``name`` with the graph's arguments and results.

        ``make_graph`` of that function, for the same types, returns an equal graph.  Variables have the user's names,
        and a comment has the line of each operation.

        Arguments:
          name: the name of the function.
          constants: a dict to which whatever has no source is added by name: constants of more than a dozen elements,
            callbacks, calls with custom rules.  The source reads it as a global variable ``constants``.  Without one,
            functions with custom rules are written out, as functions of their own.

        Raises:
          ValueError: something has no source, and there is no dict for it; the message names it.

        >>> def f(x):
        ...     h = jax.numpy.sin(x)
        ...     return h * x
        >>> graph = make_graph(f)(1.0)
        >>> scope = {}
        >>> exec(graph.to_python(), scope)
        >>> make_graph(scope["program"])(1.0) == graph
        True
        """
        return python_program(self.core, self.in_tree, self.out_tree, self.names, name, constants)

    def to_json(self) -> str:
        """The JSON document that ``save`` writes, with fingerprints for arrays."""
        return json.dumps({**encoded(self.core)[0], "extra": self._extra()}, indent=1)

    def save(self, path: File) -> None:
        """Write the graph to one file of JSON and arrays (no pickle), which ``load`` reads.

        Raises:
          GraphFileError: something in the graph cannot be saved: a Python callback, a traced value, a sharding, or a
            pytree class other than tuple, list and dict; the message names it.

        >>> file = io.BytesIO()
        >>> graph = make_graph(lambda p: p["w"] * 2.0)({"w": 1.0})
        >>> graph.save(file)
        >>> import fgrad
        >>> fgrad.load(file) == graph
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
        return f"{self.to_svg()}<details><summary>listing</summary>{text}</details>"

    def __copy__(self) -> "Graph":
        return self

    def __deepcopy__(self, memo: Any) -> "Graph":
        return self

    def __reduce__(self) -> Any:
        # the trees as pytrees of numbers, so that pickle finds the user's own classes
        trees = [tree_util.tree_unflatten(t, range(t.num_leaves)) for t in (self.in_tree, self.out_tree)]
        file = io.BytesIO()
        dump(self.core, file)
        return _unpickled, (file.getvalue(), *trees, self.names, self.out_names)


def _unpickled(data: bytes, in_tree: Any, out_tree: Any, names: tuple[str, ...], out_names: tuple[str, ...]) -> Graph:
    structure = tree_util.tree_structure
    return Graph(read(io.BytesIO(data))[0], structure(in_tree), structure(out_tree), names, out_names)


def make_graph(fun: Callable[..., Any], static_argnums: int | Sequence[int] = ()) -> Callable[..., Graph]:
    """A function that returns the graph of ``fun`` for arguments of some types.

    Arguments:
      fun: takes and returns pytrees of arrays.
      static_argnums: the positional arguments that are part of the program and not inputs of the graph, which is then
        called without them.

    Returns:
      A function of the same arguments: arrays, numbers or ``jax.ShapeDtypeStruct``, since only their types count.

    Raises:
      NotConcreteError: ``fun`` needs the number behind a value (``if x > 0``); the message names the line.
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
        flat, in_tree = flattened((dynamic, kwargs), "arguments", "make_graph")
        by_argument = argument_names(fun, args, kwargs)
        names = tuple(chain.from_iterable([paths for i, paths in enumerate(by_argument) if i not in fixed]))
        types = [type_of(x, name) for x, name in zip(flat, names, strict=True)]
        out_trees = []

        def function(*tracers: Any) -> list[Any]:
            positional, keywords = tree_util.tree_unflatten(in_tree, tracers)
            rest = iter(positional)
            out = fun(*[x if i in fixed else next(rest) for i, x in enumerate(args)], **keywords)
            outputs = leaves(out, "output", "make_graph: the function's output")
            out_trees.append(outputs.tree)
            return outputs.values

        graph = stage_closed(function, types)
        return Graph(graph, in_tree, out_trees[0], names, result_names(fun, args, out_trees[0]))

    graph_of.__name__ = f"graph_of_{getattr(fun, '__name__', 'function')}"
    return graph_of


def flat_function(graph: FlatGraph, names: tuple[str, ...], out_names: tuple[str, ...]) -> Graph:
    """The graph of a function of separate arrays that returns a tuple of arrays."""
    ins, outs = [(0,) * n for n in (len(graph.in_types), len(graph.outputs))]
    return Graph(graph, tree_util.tree_structure((ins, {})), tree_util.tree_structure(outs), names, out_names)


# --------------------------------------------------------------------------------------------------------------------


def _staged(function: Callable[..., Any], types: Sequence[ShapedArray]) -> FlatGraph:
    """The flat graph of a function of some values."""
    return stage_closed(lambda *args: leaves(function(*args), "result", "replace: the function's result").values, types)
