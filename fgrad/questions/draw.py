"""``draw``: a function and its derivative in one drawing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from jax import tree_util

from fgrad import errors
from fgrad.api.arguments import Argnums, argnums_tuple, check_function, flattened, leaves, resolve
from fgrad.api.graphs import make_graph
from fgrad.graph.answer import Answer, Table
from fgrad.graph.drawing.drawing import Drawing as AnyDrawing
from fgrad.graph.drawing.folding import Detail, blocks, folded, visible
from fgrad.graph.drawing.ladder import Row
from fgrad.graph.drawing.units import results, unit, wired
from fgrad.graph.graph import Graph
from fgrad.jaxcore import with_x64_for
from fgrad.jaxtypes import is_inexact
from fgrad.passes.descriptions import rule_texts
from fgrad.passes.ladder import ladder
from fgrad.questions.call import called
from fgrad.run.summaries import summaries


@frozen(repr=False)
class Drawing(AnyDrawing, Answer):
    """Forward and backward side by side: forward runs down on the left, backward up on the right.

    It prints as a table, is shown as a picture in notebooks, and written by ``to_svg``, ``to_html``, ``to_dot`` and
    ``to_mermaid``.
    """

    def findings(self) -> Sequence[Row]:
        return self.ladder.rows

    def parts(self) -> Iterator[Table]:
        yield self.table()

    def table(self, detail: Detail | None = None) -> Table:
        """The drawing as a table of texts."""
        wiring = wired(self.ladder)
        roots = blocks(wiring.ladder)
        units = [*[unit(wiring, b) for b in visible(roots, folded(roots, detail))], *results(wiring)]
        rows: list[tuple[str, ...]] = []
        for shown in units:
            arguments = [a.title for a, _ in shown.pairs if a is not None]
            gradients = [g.title + f" {g.note}" * (g.kind == "zero") for _, g in shown.pairs if g is not None]
            saved = [pill.text for pill in shown.pills]
            boxes = [[box.title] if box is not None else [] for box in (shown.forward, shown.backward)]
            columns = (arguments, boxes[0], saved, boxes[1], gradients)
            for k in range(max(map(len, columns))):
                rows.append(tuple([column[k] if k < len(column) else "" for column in columns]))
        return Table(("arguments", "forward", "saved", "backward", "gradients"), rows)

    def _repr_html_(self) -> str:
        return self.to_svg()


def draw(fun: Callable[..., Any], argnums: Argnums | None = None) -> Callable[..., Drawing]:
    """A drawing of a function and of its reverse mode, with each operation next to its derivative.

    Forward runs down on the left, backward up on the right.  Between them are the residuals of ``vjp``, with their
    bytes.  Arguments are shown with their gradients.  In a large drawing the operations of a line or a function, and
    repeated blocks, are folded.

    Arguments:
      fun: takes and returns pytrees of arrays.
      argnums: which positional arguments are differentiated; by default all that have derivatives.

    Returns:
      A function of the same arguments that returns a ``Drawing``.

    Raises:
      TypeError, ValueError: as ``make_graph`` does, and ``argnums`` out of range.

    >>> import fgrad, jax.numpy as jnp
    >>> def loss(w, x):
    ...     h = jnp.tanh(w * x)
    ...     return jnp.sum(h)
    >>> drawing = fgrad.draw(loss)(jnp.ones(3), jnp.ones(3))
    >>> print(drawing)
    arguments  forward     saved                backward         gradients
    w          mul         w  12 B              d mul            d loss / d w
    x                      x  12 B                               d loss / d x
               tanh        slope of tanh  12 B  d tanh
               reduce_sum                       d reduce_sum
               loss                             d loss / d loss
    >>> _ = drawing.to_svg("loss.svg")
    """
    check_function(fun, "draw")

    def draw_fun(*args: Any, **kwargs: Any) -> Drawing:
        positions = range(len(args)) if argnums is None else resolve(argnums_tuple(argnums, "draw"), len(args), "draw")
        flat, tree = flattened((args, kwargs), "args", "draw")
        numbered = tree_util.tree_unflatten(tree, range(len(flat)))[0]
        wrt = tree_util.tree_leaves([numbered[i] for i in positions])
        try:
            graph = make_graph(fun)(*args, **kwargs)
        except errors.NotConcreteError:  # it branches on a number: draw the branch that is taken here
            return drawing_of(*_recorded(fun, args, kwargs), wrt, _name(fun))
        return drawing_of(graph.core, graph.names, graph.out_names, wrt, _name(fun))

    return draw_fun


def _recorded(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Graph, Sequence[str], Sequence[str]]:
    """The graph of one call, and the names of its inputs and outputs; closed-over values are inputs too."""
    recorded = called(fun, args, kwargs, "draw")
    closed_over = len(recorded.graph.in_types) - len(recorded.names)
    names = (*recorded.names, *[f"constant {k}" for k in range(closed_over)])
    return recorded.graph, names, [f"{_name(fun)}{path.removeprefix('the result')}" for path in recorded.outputs]


def drawing_of(graph: Graph, names: Sequence[str], out_names: Sequence[str], wrt: Sequence[int], title: str) -> Drawing:
    """The drawing of a graph and of its reverse mode in the inputs ``wrt``."""
    wanted = [i for i in wrt if is_inexact(graph.in_types[i])]
    drawn = with_x64_for(graph.in_types, ladder, graph, wanted, names, out_names)

    def numbers(core: Graph, args: Sequence[Any]) -> Mapping[int, str]:
        values = leaves(tuple(args), "args", "to_html").values
        seeds = [np.ones(t.shape, t.dtype) for t in core.in_types[len(values) :]]
        return summaries(core, [*values, *seeds])

    return Drawing(drawn, title, rule_texts(graph), numbers)


def _name(fun: Callable[..., Any]) -> str:
    name = getattr(fun, "__name__", "function")
    return "function" if name == "<lambda>" else name
