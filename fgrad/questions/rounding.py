"""How far rounding can move each value of a program.

NOTE [Rounding is measured]
The result of each operation is multiplied by one plus or minus the precision of its type, element by element and at
random, and the program run again.  What comes of a value in a few such runs differs from it by about as much as
rounding can make of it, cancellation included: two ways to compute it differ by no more than a few times that.  (The
method is that of CESTAC: J. Vignes, "A stochastic arithmetic for reliable scientific computation", 1993.)
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fgrad.graph.graph import Builder, Const, Graph
from fgrad.graph.op import intern
from fgrad.jaxcore import primitive
from fgrad.jaxtypes import is_inexact, strong
from fgrad.questions.call import evaluated

#: how often a program is run with other roundings
RUNS = 3
#: types of half precision
HALF = ("float16", "bfloat16")


def precision(type: Any) -> float:
    """The distance of one from the next number of a type; 0 of integers."""
    return float(jax.numpy.finfo(type.dtype).eps) if is_inexact(type) else 0.0


def has_half(graph: Graph) -> bool:
    """Whether values are of half precision."""
    return any(type.dtype.name in HALF for type in graph.types)


def spread(graph: Graph, inputs: Sequence[Any], values: Sequence[Any], half: bool) -> list[float]:
    """By how much, in the Euclidean norm, each value may differ because of rounding.

    ``half`` says whether values of half precision are rounded too, or a change that the program makes on purpose.
    """
    distances = [0.0] * len(values)
    for seed in range(RUNS):
        moved = evaluated(_moved(graph, np.random.default_rng(seed), half), inputs)
        for i, (value, other) in enumerate(zip(values, moved, strict=True)):
            if is_inexact(graph.types[i]):
                distances[i] = max(distances[i], _distance(value, other))
    return distances


def _distance(value: Any, other: Any) -> float:
    one, two = [np.asarray(x) for x in (value, other)]
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        gap = one.astype(wide) - two.astype(wide)
    return float(np.linalg.norm(np.where(np.isfinite(gap), gap, 0.0)))


def _moved(graph: Graph, random: np.random.Generator, half: bool) -> Graph:
    """A graph of all values of a graph, each result rounded in another way."""
    builder = Builder(graph.in_types)

    def rounded(number: int) -> int:
        type = builder.types[number]
        if not is_inexact(type) or (type.dtype.name in HALF and not half):
            return number
        signs = random.integers(0, 2, type.shape) * 2 - 1
        factor = Const(np.asarray(1 + signs * precision(type), type.dtype), strong(type))
        return builder.emit(intern(primitive("mul"), {}, (type, factor.type)), (number, builder.const(factor)))

    numbers = [rounded(number) for number in builder.inputs]
    numbers += [builder.const(const) for const in graph.consts]
    for node in graph.nodes:
        first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
        numbers += [rounded(first + k) for k in range(len(node.op.out_types))]
    return builder.finish(numbers)
