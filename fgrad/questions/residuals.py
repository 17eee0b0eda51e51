"""What is kept for backward: a row for each value, with its bytes, the line that made it and the rules that read it.

NOTE [What is kept]
``vjp`` cuts the graph of values and derivatives in two (``passes/partition.py``): what the second half reads of the
first is kept, and nothing else.  The rows are just these values.  Where a value was made and what reads it stands in
the nodes on both sides of the cut; for a loop or a rematerialised block, in those of its body.
"""

import math
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
from fgrad.graph.text import dtype_text
from fgrad.jaxcore import ShapedArray
from fgrad.passes.dependence import rule_of_name
from fgrad.record.origin import Call
from fgrad.record.stager import stage_closed
from fgrad.rules.kinds import Elementwise


@frozen
class Reader:
    """What reads a value in backward.

    Attributes:
      rule: the operation whose derivative reads it.
      source: the user's line that ran that operation.
      module: the path of the module in which it ran, where there is one.
    """

    rule: str
    source: Source | None
    module: str | None = None

    def __str__(self) -> str:
        return f"{self.rule}, {where(self.source)}" if self.source is not None else self.rule


@frozen
class Residual:
    """A value that is kept for backward.

    Attributes:
      name: what the user calls it.
      shape: its shape.
      dtype: its type, in short: ``f32``.
      bytes: what it adds to the memory that is held: nothing where an earlier row holds the same memory.
      kind: whose memory it is. ``argument``: an argument's, a parameter's or a closed-over value's, which is there in
        any case; ``constant``: a number or an array of the program's text; ``output``: the result's; ``intermediate``:
        it is there for backward alone.
      made: the user's line that made it; None for what the program was given.
      read: the rules that read it.
      view: for a view, the tensor of which it is one.
      shared: the earlier row that holds the same memory, if there is one.
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
    """What is kept for backward.

    Attributes:
      rows: a ``Residual`` for each value, those first that hold most memory.
      by_function: the bytes that the operations of each function keep: a value counts for its first reader.
      by_module: the same by the path of the module; empty where there are none.
    """

    rows: tuple[Residual, ...]

    @property
    def bytes(self) -> int:
        """The memory that is held in all."""
        return sum(row.bytes for row in self.rows)

    @property
    def bytes_for_backward(self) -> int:
        """The memory that is held for backward alone: not that of arguments, numbers and outputs."""
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
    """What is kept for the backward pass of a function: each value with its bytes, who made it and who reads it.

    Arguments:
      fun: takes and returns pytrees of arrays.
      argnums: which positional arguments are differentiated; left out, all that have derivatives, as in ``vjp``.
      has_aux: ``fun`` also returns auxiliary data.

    Returns:
      A function of the same arguments, which gives the ``Residuals``.  Nothing is computed: the arguments may also be
      ``jax.ShapeDtypeStruct``.  The bytes are those of what ``vjp`` keeps; a gradient that is compiled as a whole may
      make do with less.

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
    """The graph of a call cut for reverse mode, and the names of its inputs: those of the wanted arguments first.

    What the recording lifted out of the program's text has no name.
    """
    everything, tree = flattened((args, kwargs), "args", "residuals")
    all_names = [name for each in argument_names(fun, args, kwargs) for name in each]
    place = tree_util.tree_unflatten(tree, range(len(everything)))
    wanted = tree_util.tree_leaves([place[0][i] for i in positions])
    # what has no value yet is an input too
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
    if not hasattr(fun, "__globals__"):  # no function of Python's
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
    makers = makers_of(known)
    given = set(known.outputs[:first])
    counts: dict[str, int] = {}
    rows = []
    for k, number in enumerate(known.outputs[first:]):
        type = known.types[number]
        if number < len(known.in_types):
            name, made, kind = named[number], None, "constant" if names[number] is None else "argument"
        else:
            node, output = makers[number]
            inner, at = inside(node, output)
            made, kind = at.source if at is not None else node.source, "output" if number in given else "intermediate"
            # of a loop or block, only a lone result is sure to be what the line stores
            stored = at is None or (inner is None and len(node.op.out_types) == 1)
            name = named[number] if stored and not named[number].startswith("%") else _name(inner, at or node)
        readers = tuple(dict.fromkeys(readers_of(unknown, k)))
        dtype = dtype_text(type.dtype)
        rows.append(Residual(numbered(name, counts), type.shape, dtype, size_of(type), kind, made, readers))
    return sorted(rows, key=lambda row: -row.bytes)


def numbered(name: str, counts: dict[str, int]) -> str:
    """A name that is used once: the second value of one name is ``h#2``."""
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name}#{counts[name]}"


def size_of(type: ShapedArray) -> int:
    """The bytes of an array of a type."""
    return math.prod(type.shape) * type.dtype.itemsize


def _name(name: str | None, node: Node) -> str:
    """What to call a value that no variable holds: by its operation, or as the slope of another operation."""
    of = node.source.of if node.source is not None else None
    if of is None:
        return name or node.op.name
    return f"slope of {of}" if isinstance(rule_of_name(of), Elementwise) else f"{node.op.name} for {of}"


def makers_of(graph: Graph) -> dict[int, tuple[Node, int]]:
    """The node that makes each value, and which of its outputs it is."""
    makers: dict[int, tuple[Node, int]] = {}
    number = len(graph.in_types) + len(graph.consts)
    for node in graph.nodes:
        for k in range(len(node.op.out_types)):
            makers[number] = node, k
            number += 1
    return makers


def inside(node: Node, output: int) -> tuple[str | None, Node | None]:
    """For an output of a loop or a block: the name there, and the node, of the value in its body."""
    name, maker = None, None
    while isinstance(body := node.op.params.get("body"), Graph) and output < len(body.outputs):
        number = body.outputs[output]
        made = makers_of(body).get(number)
        if made is None:
            return (f"carry of {node.op.name}" if maker is None else name), node
        node, output = made
        name, maker = value_names(body)[number], node
        name = None if name.startswith("%") else name
    return name, maker


def readers_of(graph: Graph, value: int) -> Iterator[Reader]:
    """What reads an input of the second half; in a loop, what reads it in the body."""
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
