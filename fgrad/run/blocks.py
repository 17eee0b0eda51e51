"""Lines of a NumPy program, and chains of elementwise ones block by block.

NOTE [Blocks]
NumPy makes a pass over an array for each operation, and allocates a result: for arrays larger than the processor's
cache each operation is bound by memory.  So consecutive elementwise lines, as in an optimiser's step, are fused into
one: it takes the elements through all of them block by block, and writes to memory only what is read afterwards.

NOTE [Written over]
Allocating a large array costs more than writing to it, because of page faults.  So an elementwise line writes its
result over an operand that an earlier line has made for it alone.  Views of such an operand cannot exist, since a view
would have been made by another line that reads it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.graph.source import function_of
from fgrad.run.kernels.kernel import Compute

#: the elements of a block, and the smallest size of an array that does not fit in the cache
BLOCK, MANY = 1 << 15, 1 << 17


@frozen
class Line:
    """A line of the program: the numbers of its results, the primitive, its computation, and its operands."""

    values: tuple[int, ...]
    primitive: str
    compute: Compute
    operands: tuple[int, ...]
    #: the shape of its result, if it is elementwise
    each: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None
    #: the operand over which it writes its result: see NOTE [Written over]
    over: int | None = None


#: after the last line
END = Line((), "", lambda: None, ())


def in_blocks(lines: Sequence[Line], shapes: Sequence[tuple[int, ...]], outputs: Sequence[int]) -> list[Line]:
    """The lines, with chains of elementwise ones fused.

    Arguments:
      shapes: those of all values.
      outputs: the values that are read afterwards.
    """
    lines = _written_over(lines, shapes, outputs)
    last = dict.fromkeys(outputs, len(lines))
    for place in range(len(lines) - 1, -1, -1):
        for i in lines[place].operands:
            last.setdefault(i, place)
    found: list[Line] = []
    chain: list[Line] = []
    for place, line in enumerate([*lines, END]):
        if chain and line.each != chain[0].each:
            made = {other.values[0] for other in chain}
            if line.each == () and made.isdisjoint(line.operands):
                found.append(line)  # a scalar, which the rest of the chain may read
                continue
            kept = {i for i in made if last.get(i, -1) >= place}
            found += chain if len(chain) == 1 else [_chain(chain, kept, shapes)]
            chain = []
        if line.each is not None and math.prod(line.each) >= MANY:
            chain.append(line)
        else:
            found.append(line)
    return found[:-1]


def _written_over(lines: Sequence[Line], shapes: Sequence[tuple[int, ...]], outputs: Sequence[int]) -> list[Line]:
    """The lines, each with the operand over which it may write."""
    reads = Counter([*outputs, *[i for line in lines for i in line.operands]])
    fresh: dict[int, Line] = {}
    found = []
    for line in lines:
        shape = shapes[line.values[0]]
        if shape and isinstance(line.compute, np.ufunc):
            if line.compute.signature is None:
                own = [i for i in line.operands if i in fresh and shapes[i] == shape and fresh[i].dtype == line.dtype]
                line = evolve(line, over=own[0] if own else None)
            made = True
        else:
            made = line.primitive == "dot_general"
        if made and reads[line.values[0]] == 1:
            fresh[line.values[0]] = line
        found.append(line)
    return found


def _chain(chain: Sequence[Line], kept: set[int], shapes: Sequence[tuple[int, ...]]) -> Line:
    """Some lines fused into one, which keeps some of their results."""
    each = chain[0].each
    assert each is not None
    made = [line.values[0] for line in chain]
    operands = list(dict.fromkeys([i for line in chain for i in line.operands if i not in made]))
    scope: dict[str, Any] = {"empty": np.empty}
    given, block, results = [], [], []
    for i in operands:
        if shapes[i] == each:
            given.append(f"    a{i} = v{i}.reshape(-1)")
            block.append(f"        v{i} = a{i}[i:j]")
        else:
            given.append(f"    v{i} = v{i}.reshape(())")
    for number, line in zip(made, chain, strict=True):
        name = f"{line.primitive}_{number}"
        scope[name] = line.compute
        read = ", ".join([f"v{i}" for i in line.operands])
        if number not in kept:
            into = "" if line.over is None else f", out=v{line.over}"
            block.append(f"        v{number} = {name}({read}{into})")
            continue
        scope[f"dtype_{number}"] = line.dtype
        given.append(f"    r{number} = empty({math.prod(each)}, dtype_{number})")
        results.append(f"r{number}.reshape({each})")
        if isinstance(line.compute, np.ufunc):
            block.append(f"        v{number} = {name}({read}, out=r{number}[i:j])")
        else:
            block.append(f"        v{number} = r{number}[i:j] = {name}({read})")
    text = [
        f"def run({', '.join([f'v{i}' for i in operands])}):",
        *given,
        f"    for i in range(0, {math.prod(each)}, {BLOCK}):",
        f"        j = i + {BLOCK}",
        *block,
        f"    return {', '.join(results)}",
    ]
    numbers = tuple([i for i in made if i in kept])
    return Line(numbers, "chain", function_of(text, scope, "NumPy program"), tuple(operands))
