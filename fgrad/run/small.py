"""Graphs of a few elementwise operations on small arrays, as one function of NumPy arrays.

NOTE [NumPy runs what is small]
Handing two matrices of 32x32 to a compiled program and taking its result costs ten times what NumPy takes to multiply
them.  Where it is said that graphs are run one by one as the user's statements come (the mutable layer), and not whole,
a graph of a few elementwise operations and sums therefore becomes a line of NumPy each.  The results keep subnormal
numbers, as PyTorch's do, and functions such as ``exp`` may differ from XLA's in the last bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.graph.graph import Graph
from fgrad.graph.op import Op
from fgrad.jaxcore import Tracer
from fgrad.run.numbers import BOOL, FLOATS, INTEGERS, REALS, aligned, movement

#: of flat arrays, the flat results; nobody may write to them
Small = Callable[[Sequence[np.ndarray]], list[np.ndarray]]

#: so many operations at most
LENGTH_LIMIT = 12
#: so many elements at most in any value
SIZE_LIMIT = 1 << 12

_ANY = REALS | {BOOL}

#: a computation on arrays, and whether it is one of each element, so that it goes along with NumPy's broadcasting
_Line = tuple[Callable[..., Any], bool]
_Entry = Callable[[Op], _Line | None]


def small(graph: Graph) -> Small | None:
    """A graph as a function of NumPy arrays; None where it is too long, too large, or does anything else."""
    if (
        not graph.nodes
        or len(graph.nodes) > LENGTH_LIMIT
        or any(t.dtype not in _ANY or t.size > SIZE_LIMIT for t in graph.types)
        or any(isinstance(const.value, Tracer) for const in graph.consts)
    ):
        return None
    first = len(graph.in_types) + len(graph.consts)
    consts = [np.asarray(const.value, const.type.dtype) for const in graph.consts]
    # the shapes that values have so far: NumPy's broadcasting brings them to their own where they meet others
    shapes = [t.shape for t in graph.types[:first]]
    lines: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
    for node in graph.nodes:
        line = _line(node.op)
        if line is None:
            return None
        compute, elementwise = line
        have = [shapes[i] for i in node.inputs]
        if elementwise:
            shapes.append(np.broadcast_shapes(*have))
        elif any(shape != t.shape for shape, t in zip(have, node.op.in_types, strict=True)):
            return None
        else:
            shapes.append(aligned(node.op) if node.op.name == "broadcast_in_dim" else node.op.out_types[0].shape)
        lines.append((compute, node.inputs))
    if any(shapes[i] != graph.types[i].shape for i in graph.outputs):
        return None
    return _function(lines, consts, len(graph.in_types), graph.outputs)


def _function(
    lines: Sequence[tuple[Callable[..., Any], tuple[int, ...]]],
    consts: Sequence[np.ndarray],
    inputs: int,
    outputs: Sequence[int],
) -> Small:
    """The lines as a function: spelt out as Python, since walking over them would take as long as they do."""
    first = inputs + len(consts)
    known = {f"f{k}": compute for k, (compute, _) in enumerate(lines)}
    known |= {f"v{inputs + k}": const for k, const in enumerate(consts)}
    text = ["def run(values):"]
    if inputs:
        text.append(f"    {', '.join(f'v{i}' for i in range(inputs))}, = values")
    for k, (_, places) in enumerate(lines):
        text.append(f"    v{first + k} = f{k}({', '.join(f'v{i}' for i in places)})")
    for i in outputs:
        if i >= first:
            # NumPy gives a scalar for an array without axes, and what is transposed lies so in memory
            text.append(f"    v{i} = asarray(v{i}, order='C')")
            text.append(f"    v{i}.setflags(write=False)")
    text.append(f"    return [{', '.join(f'v{i}' for i in outputs)}]")
    scope: dict[str, Any] = {**known, "asarray": np.asarray}
    exec("\n".join(text), scope)
    return scope["run"]


def _line(op: Op) -> _Line | None:
    """How NumPy computes an operation; None where it does not, or not fast."""
    if op.effects or len(op.out_types) != 1:
        return None
    entry = _TABLE.get(op.name)
    if entry is not None:
        return entry(op)
    moved = movement(op)
    return None if moved is None else (moved, False)


def _elementwise(function: Callable[..., Any], dtypes: frozenset[np.dtype]) -> _Entry:
    return lambda op: (function, True) if all(t.dtype in dtypes for t in op.in_types) else None


def _broadcast(op: Op) -> _Line | None:
    if len(op.in_types) != 1:
        return None
    below = aligned(op)
    return (lambda x: x.reshape(below)), False


def _convert(op: Op) -> _Line | None:
    old, new = op.in_types[0].dtype, op.out_types[0].dtype
    if old in FLOATS and new not in FLOATS:
        return None
    return (lambda x: x.astype(new)), True


def _integer_pow(op: Op) -> _Line | None:
    powers: dict[int, Callable[..., Any]] = {2: np.square, 3: lambda x: x * x * x}
    compute = powers.get(op.params["y"])
    return None if compute is None or op.in_types[0].dtype not in REALS else (compute, True)


def _select(op: Op) -> _Line | None:
    if op.in_types[0].dtype != BOOL or len(op.in_types) != 3:
        return None
    return (lambda which, no, yes: np.where(which, yes, no)), True


def _sum(op: Op) -> _Line | None:
    dtype, axes = op.in_types[0].dtype, tuple(op.params["axes"])
    if dtype not in REALS:
        return None
    if len(axes) == op.in_types[0].ndim:
        return (lambda x: np.add.reduce(x, None, dtype)), False
    return (lambda x: np.add.reduce(x, axes, dtype)), False


_TABLE: dict[str, _Entry] = {
    "abs": _elementwise(np.abs, REALS),
    "add": _elementwise(np.add, REALS),
    "add_any": _elementwise(np.add, REALS),
    "and": _elementwise(np.bitwise_and, INTEGERS | {BOOL}),
    "broadcast_in_dim": _broadcast,
    "ceil": _elementwise(np.ceil, FLOATS),
    "convert_element_type": _convert,
    "div": _elementwise(np.divide, FLOATS),
    "eq": _elementwise(np.equal, _ANY),
    "exp": _elementwise(np.exp, frozenset({np.dtype("float64")})),
    "floor": _elementwise(np.floor, FLOATS),
    "ge": _elementwise(np.greater_equal, _ANY),
    "gt": _elementwise(np.greater, _ANY),
    "integer_pow": _integer_pow,
    "le": _elementwise(np.less_equal, _ANY),
    "lt": _elementwise(np.less, _ANY),
    "max": _elementwise(np.maximum, REALS),
    "min": _elementwise(np.minimum, REALS),
    "mul": _elementwise(np.multiply, REALS),
    "ne": _elementwise(np.not_equal, _ANY),
    "neg": _elementwise(np.negative, REALS),
    "not": _elementwise(np.invert, INTEGERS | {BOOL}),
    "or": _elementwise(np.bitwise_or, INTEGERS | {BOOL}),
    "reduce_sum": _sum,
    "select_n": _select,
    "sqrt": _elementwise(np.sqrt, FLOATS),
    "square": _elementwise(np.square, REALS),
    "sub": _elementwise(np.subtract, REALS),
    "tanh": _elementwise(np.tanh, FLOATS),
    "xor": _elementwise(np.bitwise_xor, INTEGERS | {BOOL}),
}
