"""Residuals: a row for each saved value, with its bytes, the line that computed it and the rules that read it.

NOTE [What is kept]
``vjp`` cuts the graph of values and derivatives in two (``passes/partition.py``); the values of the first half that the
second reads are the residuals.  Where a value was computed and what reads it follows from the nodes on both sides of
the cut, or for a loop or a rematerialised block, from those of its body.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from attrs import frozen
from jax import tree_util

from fgrad.api.arguments import Argnums, argnums_tuple, check_function, flattened, leaves, resolve, with_positions
from fgrad.api.graph_arguments import type_of
from fgrad.api.names import argument_names
from fgrad.api.recorded import call, split_aux
from fgrad.api.reverse import Split, split
from fgrad.graph.answer import Answer, Table
from fgrad.graph.graph import Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.regions import remat, scan
from fgrad.graph.source import Source, boundary
from fgrad.graph.text import bytes_of, dtype_text
from fgrad.passes.dependence import rule_of_name
from fgrad.record.origin import Call
from fgrad.record.stager import stage_closed
from fgrad.rules.kinds import Elementwise


@frozen
class Reader:
    """A reader of a residual.

    Attributes:
      rule: the operation whose derivative reads it.
      source: the user's line that ran that operation.
      module: the path of the module in which it ran, if any.
    """

    rule: str
    source: Source | None
    module: str | None = None

    def __str__(self) -> str:
        return f"{self.rule}, {where(self.source)}" if self.source is not None else self.rule


@frozen
class Residual:
    """A value that is saved for backward.

    Attributes:
      name: the user's name for it.
      shape: its shape.
      dtype: its type, in short: ``f32``.
      bytes: the memory that it adds: none if an earlier row has the same memory.
      kind: whose memory it is. ``argument``: of an argument, a parameter or a closed-over value, which exists anyway;
        ``constant``: of a number or an array in the program's text; ``output``: of the result; ``intermediate``: saved
        only for backward.
      made: the user's line that computed it; None for inputs.
      read: the rules that read it.
      view: for a view, its base tensor.
      shared: the earlier row with the same memory, if any.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    kind: str
    made: Source | None
    read: tuple[Reader, ...]
    view: str | None = None
    shared: str | None = None

    @property
    def type(self) -> str:
        """Its type and shape: ``f32[5,2]``."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def memory(self) -> str:
        """Whose memory it is, in words."""
        view = f", view of {self.view}" if self.view is not None else ""
        shared = f", counted with {self.shared}" if self.shared is not None else ""
        return f"{self.kind}{view}{shared}"


@frozen(repr=False)
class Residuals(Answer):
    """The values that are saved for backward.

    Attributes:
      rows: a ``Residual`` for each value, the largest first.
      by_function: the bytes saved for the operations of each function; a value counts for its first reader.
      by_module: the same by the path of the module; empty without modules.
    """

    rows: tuple[Residual, ...]

    @property
    def bytes(self) -> int:
        """The total memory."""
        return sum(row.bytes for row in self.rows)

    @property
    def bytes_for_backward(self) -> int:
        """The memory that is used only for backward, without that of arguments, constants and outputs."""
        return sum(row.bytes for row in self.rows if row.kind == "intermediate")

    @property
    def by_function(self) -> dict[str, int]:
        return self._totals(lambda reader: reader.source.function if reader.source is not None else "?")

    @property
    def by_module(self) -> dict[str, int]:
        totals = self._totals(lambda reader: reader.module or "")
        return totals if any(totals) else {}

    def _totals(self, key: Callable[[Reader], str]) -> dict[str, int]:
        totals: dict[str, int] = {}
        for row in self.rows:
            name = key(row.read[0]) if row.read else "?"
            totals[name] = totals.get(name, 0) + row.bytes
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Residual]:
        return iter(self.rows)

    def findings(self) -> Sequence[Residual]:
        return [row for row in self.rows if row.kind != "constant"]

    def parts(self) -> Iterator[str | Table]:
        if not self:
            yield "Nothing is kept for backward."
            return
        values = "1 value" if len(self.rows) == 1 else f"{len(self.rows)} values"
        alone = self.bytes_for_backward
        yield f"Kept for backward: {values}, {self.bytes:,} bytes; {alone:,} of them for backward alone."
        yield Table(
            ("name", "type", "bytes", "memory", "made at", "read by"),
            [
                (
                    row.name,
                    row.type,
                    row.bytes,
                    row.memory,
                    where(row.made),
                    "; ".join(dict.fromkeys(map(str, row.read))),
                )
                for row in self.rows
            ],
        )
        for title, totals in (("function", self.by_function), ("module", self.by_module)):
            if len(totals) > 1:
                rows = [(name or "(none)", size) for name, size in totals.items()]
                yield Table((title, "bytes"), rows, f"By {title} whose operations keep them:")


def where(source: Source | None) -> str:
    """A line in short, with its function."""
    return "" if source is None else f"{Source(source.code, source.offset)}, in {source.function}"


def residuals(
    fun: Callable[..., Any], argnums: Argnums | None = None, has_aux: bool = False
) -> Callable[..., Residuals]:
    """The values saved for the backward pass of a function, with their sizes, where they are computed and read.

    Arguments:
      fun: takes and returns pytrees of arrays.
      argnums: which positional arguments are differentiated; by default all that have derivatives, as in ``vjp``.
      has_aux: ``fun`` also returns auxiliary data.

    Returns:
      A function of the same arguments that returns the ``Residuals``.  Nothing is computed, so arguments may also be
      ``jax.ShapeDtypeStruct``.  These are the residuals of ``vjp``; a gradient that is compiled whole may need fewer.

    Raises:
      TypeError, ValueError: as ``vjp`` does.

    >>> import fgrad, jax.numpy as jnp
    >>> def loss(w, x):
    ...     h = x @ w
    ...     return jnp.sum(h * h)
    >>> saved = fgrad.residuals(loss)(jnp.ones((3, 2)), jnp.ones((5, 3)))
    >>> [(row.name, row.type, row.bytes, row.kind) for row in saved]
    [('x', 'f32[5,3]', 60, 'argument'), ('h', 'f32[5,2]', 40, 'intermediate'), ('w', 'f32[3,2]', 24, 'argument')]

    Source: `jax.ad_checkpoint.print_saved_residuals
    <https://docs.jax.dev/en/latest/gradient-checkpointing.html>`_.
    """
    check_function(fun, "residuals")

    @boundary
    def residuals_fun(*args: Any, **kwargs: Any) -> Residuals:
        wanted = tuple(range(len(args))) if argnums is None else argnums_tuple(argnums, "residuals")
        return Residuals(tuple(_rows(*_cut(fun, args, kwargs, resolve(wanted, len(args), "residuals"), has_aux))))

    return residuals_fun


def _cut(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], positions: Sequence[int], has_aux: bool
) -> tuple[Split, list[str | None]]:
    """The graph of a call cut for reverse mode, and the names of its inputs, those to differentiate first.

    Inputs that come from the program's text have no name.
    """
    everything, tree = flattened((args, kwargs), "args", "residuals")
    all_names = [name for names in argument_names(fun, args, kwargs) for name in names]
    indices = tree_util.tree_unflatten(tree, range(len(everything)))
    wanted = tree_util.tree_leaves([indices[0][i] for i in positions])
    # arguments without values are inputs too
    traced = [*wanted, *(i for i, x in enumerate(everything) if _is_type(x) and i not in wanted)]
    inputs, names = [everything[i] for i in traced], [all_names[i] for i in traced]

    def function(tracers: Sequence[Any]) -> Any:
        new_args, new_kwargs = tree_util.tree_unflatten(tree, with_positions(everything, traced, tracers))
        return fun(*new_args, **new_kwargs)

    if not any(map(_is_type, inputs)):
        flat = leaves(tuple(inputs), "args", "residuals")
        called = call(function, flat.values, has_aux, Call(fun, "residuals", flat.tree))
        known = {**_closed_over(fun), **dict(zip(map(id, everything), all_names, strict=True))}
        lifted = [known.get(id(x)) for x in called.recorded.values[len(inputs) :]]
        return split(called.recorded.graph(), called.count, len(wanted)), [*names, *lifted]
    counts: list[int] = []

    def flat_function(*tracers: Any) -> list[Any]:
        output, _ = split_aux(function(tracers), has_aux, "residuals")
        outputs = leaves(output, "output", "residuals: the function's output")
        counts.append(len(outputs.values))
        return outputs.values

    types = [type_of(x, name) for x, name in zip(inputs, names, strict=True)]
    graph = stage_closed(flat_function, types)
    return split(graph, counts[0], len(wanted)), names


def _is_type(x: Any) -> bool:
    return isinstance(x, jax.ShapeDtypeStruct)


def _closed_over(fun: Callable[..., Any]) -> dict[int, str]:
    """The names of the arrays in the variables that a function closes over, by identity."""
    if not hasattr(fun, "__globals__"):  # not a Python function
        return {}
    code = fun.__code__
    cells = dict(zip(code.co_freevars, fun.__closure__ or (), strict=True))
    variables = {name: fun.__globals__[name] for name in code.co_names if name in fun.__globals__}
    variables.update({name: cell.cell_contents for name, cell in cells.items() if _is_filled(cell)})
    return {
        id(leaf): name + tree_util.keystr(path)
        for name, value in variables.items()
        for path, leaf in tree_util.tree_flatten_with_path(value)[0]
    }


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # a variable that was not assigned yet
        return False
    return True


def _rows(cut: Split, names: Sequence[str | None]) -> Sequence[Residual]:
    known, unknown, count = cut.halves.known, cut.halves.unknown, cut.halves.num_residuals
    first = len(known.outputs) - count
    named = value_names(known, [name or "a constant" for name in names])
    producers = producers_of(known)
    outputs = set(known.outputs[:first])
    counts: dict[str, int] = {}
    rows = []
    for k, number in enumerate(known.outputs[first:]):
        type = known.types[number]
        if number < len(known.in_types):
            name, made, kind = named[number], None, "constant" if names[number] is None else "argument"
        else:
            node, output = producers[number]
            inner, producer = inside(node, output)
            made = node.source if producer is None else producer.source
            kind = "output" if number in outputs else "intermediate"
            # a loop or block with several results may not be stored in the variable of its line
            stored = producer is None or (inner is None and len(node.op.out_types) == 1)
            name = named[number] if stored and not named[number].startswith("%") else _name(inner, producer or node)
        readers = tuple(dict.fromkeys(readers_of(unknown, k)))
        dtype = dtype_text(type.dtype)
        rows.append(Residual(numbered(name, counts), type.shape, dtype, bytes_of(type), kind, made, readers))
    return sorted(rows, key=lambda row: -row.bytes)


def numbered(name: str, counts: dict[str, int]) -> str:
    """A unique name: the second value with a name is ``h#2``."""
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name}#{counts[name]}"


def _name(name: str | None, node: Node) -> str:
    """A name for a value without a variable: that of its operation, or as the slope of another operation."""
    of = node.source.of if node.source is not None else None
    if of is None:
        return name or node.op.name
    return f"slope of {of}" if isinstance(rule_of_name(of), Elementwise) else f"{node.op.name} for {of}"


def producers_of(graph: Graph) -> dict[int, tuple[Node, int]]:
    """The node that computes each value, and the index of the value among its outputs."""
    producers: dict[int, tuple[Node, int]] = {}
    number = len(graph.in_types) + len(graph.consts)
    for node in graph.nodes:
        for k in range(len(node.op.out_types)):
            producers[number] = node, k
            number += 1
    return producers


def inside(node: Node, output: int) -> tuple[str | None, Node | None]:
    """For an output of a loop or a block, the name and the node of that value in the body."""
    name, producer = None, None
    while isinstance(body := node.op.params.get("body"), Graph) and output < len(body.outputs):
        number = body.outputs[output]
        produced_by = producers_of(body).get(number)
        if produced_by is None:
            return (f"carry of {node.op.name}" if producer is None else name), node
        node, output = produced_by
        name, producer = value_names(body)[number], node
        name = None if name.startswith("%") else name
    return name, producer


def readers_of(graph: Graph, value: int) -> Iterator[Reader]:
    """The readers of an input of the second half; for a loop, those in its body."""
    for node in graph.nodes:
        for k, i in enumerate(node.inputs):
            if i != value:
                continue
            body = node.op.params.get("body")
            rule = "a sum of gradients" if node.source is None else node.source.of or node.op.name
            if isinstance(body, Graph) and node.op.primitive is scan:
                yield from readers_of(body, k)
            elif node.op.primitive is remat:
                yield Reader("checkpoint", node.source)
            else:
                yield Reader(rule, node.source)
