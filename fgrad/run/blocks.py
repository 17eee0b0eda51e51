"""Lines of a NumPy program, and the fusion of elementwise ones into loops over blocks.

NOTE [Blocks]
NumPy makes a pass over an array for each operation, and allocates its result: for arrays larger than the cache, each
operation is bound by memory.  So consecutive elementwise lines, as in an optimiser's step, are fused into one loop,
which takes one block of elements after the other through all of them and stores only the results read afterwards.
The loop has one thread: arithmetic on a block takes less than threads lose when they pass Python's lock on.

NOTE [Reused buffers]
Allocating a large array costs more than writing to it, because of page faults.  So an elementwise line writes its
result to the buffer of an operand that no other line reads.  Such an operand has no views, because a view is the result
of a line that reads it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.graph.source import function_of
from fgrad.run.kernels.kernel import Compute

#: the elements of a block, and of the smallest array that does not fit in the cache
BLOCK, LARGE = 1 << 15, 1 << 17


@frozen
class Line:
    """A line of the program: the numbers of its results, the primitive, its computation, and its operands."""

    values: tuple[int, ...]
    primitive: str
    compute: Compute
    operands: tuple[int, ...]
    #: the shape of its result, if it is elementwise
    elementwise_shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None
    #: the operand whose buffer gets the result: see NOTE [Reused buffers]
    buffer: int | None = None


#: marks the end of the lines
END = Line((), "", lambda: None, ())


def in_blocks(lines: Sequence[Line], shapes: Sequence[tuple[int, ...]], outputs: Sequence[int]) -> list[Line]:
    """The lines, with chains of elementwise ones fused.

    Arguments:
      shapes: those of all values.
      outputs: the values that are read afterwards.
    """
    lines = _with_reused_buffers(lines, shapes, outputs)
    last = dict.fromkeys(outputs, len(lines))
    for position in range(len(lines) - 1, -1, -1):
        for i in lines[position].operands:
            last.setdefault(i, position)
    fused: list[Line] = []
    chain: list[Line] = []
    for position, line in enumerate([*lines, END]):
        if chain and line.elementwise_shape != chain[0].elementwise_shape:
            computed = {other.values[0] for other in chain}
            if line.elementwise_shape == () and computed.isdisjoint(line.operands):
                fused.append(line)  # a scalar, which the rest of the chain may read
                continue
            kept = {i for i in computed if last.get(i, -1) >= position}
            fused += chain if len(chain) == 1 else [_fused(chain, kept, shapes)]
            chain = []
        if line.elementwise_shape is not None and math.prod(line.elementwise_shape) >= LARGE:
            chain.append(line)
        else:
            fused.append(line)
    return fused[:-1]


def _with_reused_buffers(
    lines: Sequence[Line], shapes: Sequence[tuple[int, ...]], outputs: Sequence[int]
) -> list[Line]:
    """The lines, each with the operand whose buffer it may reuse."""
    reads = Counter([*outputs, *[i for line in lines for i in line.operands]])
    #: by value, the line that allocated it for a single reader
    owned: dict[int, Line] = {}
    new_lines = []
    for line in lines:
        shape = shapes[line.values[0]]
        if shape and isinstance(line.compute, np.ufunc):
            if line.compute.signature is None:
                usable = [
                    i for i in line.operands if i in owned and shapes[i] == shape and owned[i].dtype == line.dtype
                ]
                line = evolve(line, buffer=usable[0] if usable else None)
            allocates = True
        else:
            allocates = line.primitive == "dot_general"
        if allocates and reads[line.values[0]] == 1:
            owned[line.values[0]] = line
        new_lines.append(line)
    return new_lines


def _fused(chain: Sequence[Line], kept: set[int], shapes: Sequence[tuple[int, ...]]) -> Line:
    """A chain of lines as one loop, which stores the results in ``kept``."""
    shape = chain[0].elementwise_shape
    assert shape is not None
    computed = [line.values[0] for line in chain]
    operands = list(dict.fromkeys([i for line in chain for i in line.operands if i not in computed]))
    scope: dict[str, Any] = {"empty": np.empty}
    setup, block, results = [], [], []
    for i in operands:
        if shapes[i] == shape:
            setup.append(f"    a{i} = v{i}.reshape(-1)")
            block.append(f"        v{i} = a{i}[i:j]")
        else:
            setup.append(f"    v{i} = v{i}.reshape(())")
    for number, line in zip(computed, chain, strict=True):
        name = f"{line.primitive}_{number}"
        scope[name] = line.compute
        read = ", ".join([f"v{i}" for i in line.operands])
        if number not in kept:
            out = "" if line.buffer is None else f", out=v{line.buffer}"
            block.append(f"        v{number} = {name}({read}{out})")
            continue
        scope[f"dtype_{number}"] = line.dtype
        setup.append(f"    r{number} = empty({math.prod(shape)}, dtype_{number})")
        results.append(f"r{number}.reshape({shape})")
        if isinstance(line.compute, np.ufunc):
            block.append(f"        v{number} = {name}({read}, out=r{number}[i:j])")
        else:
            block.append(f"        v{number} = r{number}[i:j] = {name}({read})")
    text = [
        f"def run({', '.join([f'v{i}' for i in operands])}):",
        *setup,
        f"    for i in range(0, {math.prod(shape)}, {BLOCK}):",
        f"        j = i + {BLOCK}",
        *block,
        f"    return {', '.join(results)}",
    ]
    numbers = tuple([i for i in computed if i in kept])
    return Line(numbers, "chain", function_of(text, scope, "NumPy program"), tuple(operands))
