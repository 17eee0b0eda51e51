"""What an equation of ``einsum`` means for operands of given shapes: a plan of views, sums and matrix products.

A plan is made once for an equation and shapes.  The operations and their order are PyTorch's
(aten/src/ATen/native/Linear.cpp, einsum and sumproduct_pair).
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import opt_einsum
from attrs import frozen

from fgrad.mutable.layout.geometry import Ints
from fgrad.torch.ops.linalg.equations import labels_of

#: how many plans are kept
KEPT = 1024


@frozen
class Alignment:
    """How an operand gets its axes in the common order.

    Attributes:
      diagonals: pairs of axes with the same label, of which the diagonal is taken in turn.
      added: how many axes of size 1 are added at the end.
      order: the order of the axes then.
    """

    diagonals: tuple[tuple[int, int], ...]
    added: int
    order: Ints


@frozen
class MatrixProduct:
    """The sum of products of two operands as a batched matrix product.

    Attributes:
      swapped: whether the second operand is the left one.
      orders: the orders in which the left and the right operand have the axes of batch, rows and columns together.
      shapes: their shapes as batches of matrices.
      sizes: the sizes of the product in the order of the left operand.
      order: how its axes come into the common order.
    """

    swapped: bool
    orders: tuple[Ints, Ints]
    shapes: tuple[Ints, Ints]
    sizes: Ints
    order: Ints


@frozen
class Step:
    """The product of two operands, which replaces them.

    Attributes:
      pair: the positions of the operands, the smaller first.
      summed: the axes over which each of the two is summed before, since nobody else has them.
      matrices: how they are multiplied; None is element by element.
    """

    pair: tuple[int, int]
    summed: tuple[Ints, Ints]
    matrices: MatrixProduct | None


@frozen
class Plan:
    """The operations of an equation.

    Attributes:
      alignments: for each operand.
      summed: the axes over which a single operand is summed.
      steps: the products.
      sizes: the shape of the result, if the last product has more axes, of size 1; else None.
    """

    alignments: tuple[Alignment, ...]
    summed: Ints
    steps: tuple[Step, ...]
    sizes: Ints | None


@lru_cache(KEPT)
def plan_of(equation: str, shapes: tuple[Ints, ...]) -> Plan:
    """The plan of an equation.

    Raises:
      RuntimeError: the equation does not fit the operands.
    """
    inputs, output = labels_of(equation, len(shapes))
    hidden = _ellipsis_rank(inputs, shapes)
    counts = Counter([s for labels in inputs for s in labels if s != "..."])
    if output is None:
        output = ["...", *sorted([s for s, n in counts.items() if n == 1])]
    _check_output(output, counts)
    dots = [f".{i}" for i in range(hidden)]
    output_labels = [label for s in output for label in (dots if s == "..." else [s])]
    order = output_labels + [s for s in [*dots, *sorted(counts)] if s not in output_labels]
    kept, rank = len(output_labels), len(order)
    sizes: dict[str, int] = {}
    alignments: list[Alignment] = []
    aligned: list[Ints] = []
    for k, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        alignment, shape = _aligned(labels, shape, order, dots, sizes, k)
        alignments.append(alignment)
        aligned.append(shape)
    if len(aligned) == 1:
        return Plan(tuple(alignments), tuple(range(kept, rank)), (), None)
    steps, shape = _steps(aligned, kept, rank)
    return Plan(tuple(alignments), (), tuple(steps), shape[:kept] if kept < rank else None)


def _ellipsis_rank(inputs: list[list[str]], shapes: Sequence[Ints]) -> int:
    """The number of axes that the longest ellipsis covers.

    Raises:
      RuntimeError: an operand has another number of axes than labels.
    """
    hidden = 0
    for k, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        rank, named = len(shape), len([s for s in labels if s != "..."])
        if "..." in labels:
            if named > rank:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number of "
                    f"dimensions ({rank}) for operand {k}"
                )
            hidden = max(hidden, rank - named)
        elif named != rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions "
                f"({rank}) for operand {k} and no ellipsis was given"
            )
    return hidden


def _check_output(output: list[str], counts: Counter[str]) -> None:
    for s in output:
        if s != "..." and output.count(s) > 1:
            raise RuntimeError(f"einsum(): output subscript {s} appears more than once in the output")
        if s != "..." and s not in counts:
            raise RuntimeError(f"einsum(): output subscript {s} does not appear in the equation for any input operand")


def _aligned(
    labels: Sequence[str], shape: Ints, order: Sequence[str], dots: Sequence[str], sizes: dict[str, int], k: int
) -> tuple[Alignment, Ints]:
    """How an operand gets the axes in ``order``, of size 1 where it has none, and its shape then."""
    covered = len(shape) - len([s for s in labels if s != "..."])
    names = [label for s in labels for label in (dots[len(dots) - covered :] if s == "..." else [s])]
    lengths = list(shape)
    diagonals: list[tuple[int, int]] = []
    position = 0
    while position < len(names):
        first = names.index(names[position])
        if first < position:
            if lengths[first] != lengths[position]:
                raise RuntimeError(
                    f"einsum(): subscript {names[position]} is repeated for operand {k} but the sizes don't match, "
                    f"{lengths[position]} != {lengths[first]}"
                )
            diagonals.append((first, position))
            del names[position], lengths[position]
        else:
            position += 1
    for axis, (name, n) in enumerate(zip(names, lengths, strict=True)):
        if n != 1 and sizes.setdefault(name, n) != n:
            if name in dots:
                raise RuntimeError(
                    f"einsum(): dimension {axis} covered by ellipsis in operand {k}has size {n} which "
                    f"does not broadcast with previously seen ellipsis with size {sizes[name]} for the respective "
                    "dimension"
                )
            raise RuntimeError(
                f"einsum(): subscript {name} has size {n} for operand {k} which does not broadcast with previously "
                f"seen size {sizes[name]}"
            )
    missing = [name for name in order if name not in names]
    names += missing
    lengths += [1] * len(missing)
    axes = tuple([names.index(name) for name in order])
    return Alignment(tuple(diagonals), len(missing), axes), tuple([lengths[i] for i in axes])


def _path(shapes: Sequence[Ints]) -> list[tuple[int, ...]]:
    """The pairs of operands in the order in which to contract them."""
    if len(shapes) <= 2:
        return [(0, 1)]
    letters = [opt_einsum.get_symbol(i) for i in range(len(shapes[0]))]
    subscripts = ["".join([c for c, n in zip(letters, shape, strict=True) if n != 1]) for shape in shapes]
    sizes = [tuple([n for n in shape if n != 1]) for shape in shapes]
    path, _ = opt_einsum.contract_path(",".join(subscripts) + "->", *sizes, shapes=True, optimize="auto")
    return [tuple(step) for step in path if len(step) == 2]


def _steps(aligned: list[Ints], kept: int, rank: int) -> tuple[list[Step], Ints]:
    """The products of the operands, and the shape of the last.

    An axis from ``kept`` on is summed as soon as only one operand has it.
    """
    shapes = list(aligned)
    holders = [len([shape for shape in shapes if shape[i] != 1]) for i in range(rank)]
    path = _path(shapes)
    steps: list[Step] = []
    while len(shapes) > 1:
        i, j = sorted(path.pop(0)) if path else (0, 1)
        b, a = shapes.pop(j), shapes.pop(i)
        contracted: list[int] = []
        only_in: tuple[list[int], list[int]] = ([], [])
        for d in range(kept, rank):
            m, n = a[d], b[d]
            if m != 1 and n != 1:
                holders[d] -= 1
                if holders[d] == 1:
                    contracted.append(d)
                    holders[d] = 0
            elif holders[d] == 1 and (m != 1 or n != 1):
                only_in[0 if m != 1 else 1].append(d)
                holders[d] = 0
        a, b = (
            tuple([1 if d in axes else n for d, n in enumerate(x)]) for x, axes in zip((a, b), only_in, strict=True)
        )
        matrices = _matrix_product(a, b, contracted) if contracted else None
        steps.append(Step((i, j), (tuple(only_in[0]), tuple(only_in[1])), matrices))
        shapes.append(_with_ones([n if m == 1 else m for m, n in zip(a, b, strict=True)], contracted))
    return steps, shapes[0]


def _with_ones(shape: Sequence[int], axes: Sequence[int]) -> Ints:
    """A shape whose axes have size 1 where they are summed and kept."""
    return tuple([1 if d in axes else n for d, n in enumerate(shape)])


def _matrix_product(shape_a: Ints, shape_b: Ints, contracted: Sequence[int]) -> MatrixProduct:
    """How two operands are multiplied and summed over axes of both, which are kept with size 1."""
    batch: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    for i, (m, n) in enumerate(zip(shape_a, shape_b, strict=True)):
        if i not in contracted:
            (columns if m == 1 else rows if n == 1 else batch).append(i)
    swapped = bool(rows and columns and columns[-1] < rows[0])
    if swapped:
        # as in PyTorch, so that the axes of the product are in the order of the result
        shape_a, shape_b, rows, columns = shape_b, shape_a, columns, rows

    def size_of(shape: Ints, axes: Sequence[int]) -> int:
        return math.prod([shape[i] for i in axes])

    count, summed = size_of(shape_a, batch), size_of(shape_a, contracted)
    order = (*batch, *rows, *contracted, *columns)
    return MatrixProduct(
        swapped,
        (order, (*batch, *contracted, *columns, *rows)),
        ((count, size_of(shape_a, rows), summed), (count, summed, size_of(shape_b, columns))),
        tuple([1 if i in contracted else shape_b[i] if i in columns else shape_a[i] for i in order]),
        tuple([order.index(i) for i in range(len(order))]),
    )
