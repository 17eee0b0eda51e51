"""Graphs as text: a typed listing with one line per node.

Everything printed follows from the graph's structure, but for source comments and the names given to inputs: equal
graphs print the same.
"""

import enum
import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from fgrad.graph.graph import Const, Graph, Node
from fgrad.graph.importing import from_jaxpr
from fgrad.graph.names import value_names
from fgrad.graph.op import Kept
from fgrad.graph.regions import Deferred
from fgrad.graph.remat_policies import POLICIES
from fgrad.jaxcore import ShapedArray, Tracer, eval_context, is_closed_jaxpr, is_open_jaxpr
from fgrad.jaxtypes import extended_rules, is_reference

#: the column in which source comments begin, where the line is short enough
COMMENT_COLUMN = 56
#: a header longer than this is broken into one input per line
HEADER_WIDTH = 110
#: how many elements of a constant are shown
SHOWN_ELEMENTS = 6
INDENT = "    "


def render(
    graph: Graph,
    names: Sequence[str] | None = None,
    source: bool = True,
    limit: int | None = None,
    out_names: Sequence[str] | None = None,
) -> str:
    """The listing of a graph.

    Arguments:
      names: what to call the inputs, beside their numbers.
      source: whether to say where in the user's code each node comes from, and the names that its values have there.
      limit: how many nodes of one graph to print; the middle of a longer one is left out.
      out_names: what to call the outputs, in a comment.

    >>> import jax.numpy as jnp, jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> graph = from_jaxpr(jax.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(jnp.zeros(3)))
    >>> print(render(graph, ["x"], source=False))
    graph(%0 x: f32[3]) -> f32[3]:
        %2: f32[3] = sin %0
        %3: f32[3] = mul %2 2.0
        return %3
    """
    return "\n".join([*_lines(graph, "graph", names, source, limit), *_returned(graph, (source and out_names) or ())])


def node_text(graph: Graph, index: int, source: bool = True) -> str:
    """The line of one node, without the graphs inside it; errors show it."""
    number = len(graph.in_types) + len(graph.consts) + sum(len(n.op.out_types) for n in graph.nodes[:index])
    return node_line(graph.nodes[index], number, literals_of(graph), source)


def type_text(type: Any) -> str:
    """A type in short: ``f32[3,4]``; with ``~`` in front where it is weak.

    >>> import jax.numpy as jnp
    >>> type_text(jax.typeof(jnp.zeros((3, 4)))), type_text(jax.typeof(1.0))
    ('f32[3,4]', '~f32[]')
    """
    if not isinstance(type, ShapedArray):
        return str(type)
    shape = ",".join(str(n) for n in type.shape)
    return f"{'~' if type.weak_type else ''}{dtype_text(type.dtype)}[{shape}]"


def dtype_text(dtype: Any) -> str:
    """``f32`` for float32, ``bf16``, ``i64``, ``u8``, ``c64``, ``f8_e4m3fn``; others by their own name."""
    if dtype == jax.dtypes.float0:
        return "float0"
    match = re.fullmatch(r"(bfloat|float|uint|int|complex)(\d+)(_\w+)?", dtype.name)
    if match is None:
        return dtype.name
    kind, bits, rest = match.groups()
    return {"bfloat": "bf", "float": "f", "uint": "u", "int": "i", "complex": "c"}[kind] + bits + (rest or "")


# --------------------------------------------------------------------------------------------------------------------
# lines


def bytes_of(type: ShapedArray) -> int:
    """The memory of an array of a type."""
    rules = extended_rules(type)
    if rules is None:
        return math.prod(type.shape) * type.dtype.itemsize
    return math.prod(type.shape) * bytes_of(rules.physical_element_aval(type.dtype))


def _lines(graph: Graph, title: str, names: Sequence[str] | None, source: bool, limit: int | None) -> Iterator[str]:
    yield from _header(graph, title, names)
    literals = literals_of(graph)
    called = value_names(graph, names or ()) if source else ()
    number = len(graph.in_types)
    for const in graph.consts:
        if number not in literals:
            yield f"{INDENT}%{number}: {type_text(const.type)} = const {const_text(const)}"
        number += 1
    left_out = _left_out(len(graph.nodes), limit)
    for i, node in enumerate(graph.nodes):
        if i == left_out.start and left_out:
            yield f"{INDENT}... {len(left_out):,} nodes left out ..."
        if i not in left_out:
            yield INDENT + node_line(node, number, literals, source, called)
            for name, inner in subgraphs(node):
                for line in (*_lines(inner, name, None, source, limit), *_returned(inner)):
                    yield INDENT * 2 + line
        number += len(node.op.out_types)


def _returned(graph: Graph, names: Sequence[str] = ()) -> Iterator[str]:
    """The line that says what is returned; one for each output where they have names."""
    literals = literals_of(graph)
    values = [_value(i, literals) for i in graph.outputs]
    if not names or tuple(names) == ("output",):
        yield f"{INDENT}return {', '.join(values)}".rstrip()
    elif len(values) == 1:
        yield f"{INDENT + 'return ' + values[0]:<{COMMENT_COLUMN + len(INDENT)}}  # {names[0]}"
    else:
        yield f"{INDENT}return ("
        for value, name in zip(values, names, strict=True):
            yield f"{INDENT * 2 + value + ',':<{COMMENT_COLUMN + len(INDENT)}}  # {name}"
        yield f"{INDENT})"


def _header(graph: Graph, title: str, names: Sequence[str] | None) -> Iterator[str]:
    inputs = [f"%{i}{' ' + names[i] if names else ''}: {type_text(t)}" for i, t in enumerate(graph.in_types)]
    outs = [type_text(t) for t in graph.out_types]
    result = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
    line = f"{title}({', '.join(inputs)}) -> {result}:"
    if len(line) <= HEADER_WIDTH:
        yield line
        return
    yield f"{title}("
    for text in inputs:
        yield f"{INDENT * 2}{text},"
    yield f") -> {result}:"


def _left_out(count: int, limit: int | None) -> range:
    if limit is None or count <= limit:
        return range(0)
    first = (limit + 1) // 2
    return range(first, count - (limit - first))


def node_line(node: Node, number: int, literals: dict[int, str], source: bool = True, names: Sequence[str] = ()) -> str:
    """The line of a node whose first output has this number, with the names of all values where they are given."""
    types = node.op.out_types
    outs = ", ".join(f"{_defined(number + k, names)}: {type_text(t)}" for k, t in enumerate(types))
    args = " ".join(_value(i, literals) for i in node.inputs)
    params = params_text(node)
    line = f"{outs}{' = ' if outs else ''}{node.op.name}{f'[{params}]' if params else ''}{' ' if args else ''}{args}"
    return f"{line:<{COMMENT_COLUMN}}  # {node.source}" if source and node.source else line


def _defined(number: int, names: Sequence[str]) -> str:
    name = names[number] if names else ""
    return f"%{number} {name}" if name and not name.startswith("%") else f"%{number}"


def _value(number: int, literals: dict[int, str]) -> str:
    return literals.get(number) or f"%{number}"


# --------------------------------------------------------------------------------------------------------------------
# constants


def literals_of(graph: Graph) -> dict[int, str]:
    """The scalar constants, which are written where they are used, by number."""
    first = len(graph.in_types)
    return {first + i: scalar_text(c) for i, c in enumerate(graph.consts) if is_scalar(c)}


def is_scalar(const: Const) -> bool:
    """Whether a constant is one known number."""
    type = const.type
    return (
        not isinstance(const.value, Tracer)
        and type.shape == ()
        and type.dtype != jax.dtypes.float0
        and not jax.dtypes.issubdtype(type.dtype, jax.dtypes.extended)
    )


def scalar_text(const: Const) -> str:
    return str(np.asarray(const.value).astype(const.type.dtype)[()])


def const_text(const: Const) -> str:
    """A constant in short: its first elements, and, if there are more, a fingerprint of all."""
    if isinstance(const.value, Tracer):
        return "a traced value"
    if is_reference(const.type):
        return "a reference"
    if const.type.dtype == jax.dtypes.float0:
        return "zeros"
    value = const.value
    if jax.dtypes.issubdtype(const.type.dtype, jax.dtypes.extended):
        with eval_context():
            value = jax.random.key_data(value)
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return "an array on several hosts"
    array = np.asarray(value)
    flat = array.reshape(-1)
    shown = ", ".join(str(x) for x in flat[:SHOWN_ELEMENTS])
    if flat.size <= SHOWN_ELEMENTS:
        return f"[{shown}]"
    return f"[{shown}, ...] #{hashlib.sha256(array.tobytes()).hexdigest()[:8]}"


# --------------------------------------------------------------------------------------------------------------------
# parameters


def subgraphs(node: Node) -> list[tuple[str, Graph]]:
    """The graphs among a node's parameters with their names (not the rules of custom calls: they are recorded late)."""
    graphs: list[tuple[str, Graph]] = []
    for name, value in sorted(node.params.items()):
        if isinstance(value, Graph):
            graphs.append((name, value))
        elif isinstance(value, tuple) and value and all(isinstance(x, Graph) for x in value):
            graphs += [(f"{name}[{i}]", x) for i, x in enumerate(value)]
        elif _is_jaxpr(value):
            graph = from_jaxpr(value)
            if len(graph) > 1:  # a reducer of one operation stands in the brackets
                graphs.append((name, graph))
    return graphs


def params_text(node: Node) -> str:
    """The parameters of a node that say something: graphs, rules and settings left alone are not among them."""
    texts = []
    for name, value in sorted(node.params.items()):
        if value is None or value is False or isinstance(value, Graph | Deferred):
            continue
        if isinstance(value, tuple) and all(isinstance(x, Graph) for x in value):  # the empty tuple too
            continue
        if _is_jaxpr(value):
            graph = from_jaxpr(value)
            if len(graph) > 1:
                continue
            value = graph.nodes[0].op.primitive if len(graph) else "identity"
        texts.append(f"{name}={value_text(value)}")
    return ", ".join(texts)


def _is_jaxpr(value: Any) -> bool:
    return is_open_jaxpr(value) or is_closed_jaxpr(value)


def value_text(value: Any) -> str:
    """A parameter in short, without memory addresses."""
    if isinstance(value, np.dtype):
        return dtype_text(value)
    if isinstance(value, enum.Enum):
        return value.name
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        return f"({', '.join(f'{k}={value_text(v)}' for k, v in zip(names, value, strict=True) if v != ())})"
    if isinstance(value, tuple | list):
        inner = ", ".join(map(value_text, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {value_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, np.ndarray):
        return const_text(Const.of(value))
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(value_text, value))) + "}"
    if isinstance(value, Kept):
        return value_text(value.value)
    kind, fields = POLICIES.get(type(value).__name__, (object, ()))
    if type(value) is kind:
        return f"{kind.__name__}({', '.join(f'{name}={value_text(getattr(value, name))}' for name in fields)})"
    if isinstance(value, str):
        return value if re.fullmatch(r"[\w.+-]+", value) else repr(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))
