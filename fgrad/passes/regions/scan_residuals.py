"""What a forward scan keeps for the backward one.

NOTE [Residuals of a scan]
A residual of the body is stacked, a value per step, only if nothing gives it for less.  The slices of the xs and the
ys are there anyway.  So is a carry whose next value is one of the ys: it is these ys, moved by one step.  What depends
on constants of the loop only is worked out once, outside.  And what takes no time to compute from values that are kept,
``1 - y * y`` of a ``tanh``, is computed again by the backward scan's body: that is quicker than to read it from memory.
"""

from collections.abc import Sequence

from attrs import frozen
from jax import Array, lax

from fgrad.graph.graph import Builder, Const, Graph, Node
from fgrad.graph.op import Op
from fgrad.passes.regions.scan_layout import ScanLayout
from fgrad.record.stager import stage_closed

#: elementwise primitives that are computed again rather than kept
_CHEAP = frozenset(
    ["abs", "add", "add_any", "and", "convert_element_type", "div", "eq", "ge", "gt", "integer_pow", "le", "lt", "max"]
    + ["min", "mul", "ne", "neg", "not", "or", "select_n", "sign", "square", "sub"]
)


@frozen(eq=False)
class Kept:
    """The values of a scan's body that its backward scan reads, by their numbers in the body.

    Attributes:
      stacked: those that the forward scan stacks.
      hoisted: those that are worked out once, before it.
      given: those that are ys, with the positions of these among the scan's outputs.
      carried: carries whose next value is one of the ys, with the position of that.
      leaves: all that is read, slices of the xs and constants of the loop too.
      constant: those of the leaves that are the same in every step.
      derived: the graph from the leaves to the residuals.
    """

    stacked: list[int]
    hoisted: list[int]
    given: dict[int, int]
    carried: dict[int, int]
    leaves: list[int]
    constant: set[int]
    derived: Graph


def kept_residuals(op: Op, known: Graph, residuals: Sequence[int]) -> Kept:
    """What to keep of a scan's body, ``known``, for its backward scan to have these of its values."""
    layout = ScanLayout.of(op)
    nc, nk, m = len(layout.consts), len(layout.carry), len(op.out_types)
    invariant = depends_only_on(known, nc)
    given = {known.outputs[k]: k for k in reversed(range(nk, m))}
    carried = {i: given[after] for i, after in zip(layout.carry, known.outputs[:nk], strict=True) if after in given}
    needed = set(residuals)
    stacked = [i for i in layout.carry if i in needed and i not in carried and i not in given]
    available = {*layout.xs, *invariant, *given, *carried, *stacked}
    cheap: dict[int, Node] = {}
    for node, outs in known.numbered():
        if node.op.name in _CHEAP and outs[0] not in available and available.issuperset(node.inputs):
            cheap[outs[0]] = node
            available.add(outs[0])
        more = [i for i in outs if i in needed and i not in available]
        stacked += more
        available.update(more)
    leaves, derived = _derived(known, residuals, cheap)
    read = set(leaves)
    return Kept(
        [i for i in stacked if i in read],
        [i for i in leaves if i in invariant and i >= nc],
        {i: k for i, k in given.items() if i in read and i not in layout.xs and i not in invariant},
        {i: k for i, k in carried.items() if i in read and i not in given},
        leaves,
        read & invariant,
        derived,
    )


def _derived(known: Graph, residuals: Sequence[int], cheap: dict[int, Node]) -> tuple[list[int], Graph]:
    """The values from which the cheap nodes give the residuals, and the graph of these nodes."""
    needed: set[int] = set()
    waiting = list(residuals)
    while waiting:
        i = waiting.pop()
        if i not in needed:
            needed.add(i)
            waiting += cheap[i].inputs if i in cheap else ()
    consts: dict[int, Const] = dict(enumerate(known.consts, len(known.in_types)))
    leaves = sorted(needed - cheap.keys() - consts.keys())
    builder = Builder([known.types[i] for i in leaves])
    numbers = dict(zip(leaves, builder.inputs, strict=True))
    numbers |= {i: builder.const(consts[i]) for i in sorted(needed & consts.keys())}
    for i, node in cheap.items():
        if i in needed:
            numbers[i] = builder.emit(node.op, tuple([numbers[j] for j in node.inputs]), node.source)
    return leaves, builder.finish([numbers[i] for i in residuals])


def depends_only_on(graph: Graph, n: int) -> set[int]:
    """The values that depend on the first ``n`` inputs (and constants) only."""
    early = {*range(n), *range(len(graph.in_types), len(graph.in_types) + len(graph.consts))}
    for node, outs in graph.numbered():
        if not node.op.effects and early.issuperset(node.inputs):
            early.update(outs)
    return early


def moved_by_one(builder: Builder, first: int, ys: int, reverse: bool) -> int:
    """Emit the values that a carry has before each step, from the first and those that it has after each."""
    types = [builder.types[first], builder.types[ys]]

    def move(first: Array, ys: Array) -> list[Array]:
        first = lax.expand_dims(first, (0,))
        if reverse:
            return [lax.concatenate([lax.slice_in_dim(ys, 1, None), first], 0)]
        return [lax.concatenate([first, lax.slice_in_dim(ys, 0, ys.shape[0] - 1)], 0)]

    (moved,) = builder.splice(stage_closed(move, types), [first, ys])
    return moved
