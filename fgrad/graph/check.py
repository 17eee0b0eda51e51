"""The checker: a graph is well formed when its numbers are in scope and every type follows from its operation.

A value's number is its position, so each is assigned once by construction; what can be wrong is a number that is read
before it is there, or a type that is not what the operation gives.  Types are worked out afresh, not looked up.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad import errors
from fgrad.graph.graph import Graph, Node
from fgrad.graph.op import Op, Region
from fgrad.graph.regions import VjpRule
from fgrad.graph.text import node_text, subgraphs, type_text
from fgrad.jaxcore import ShapedArray
from fgrad.jaxtypes import is_inexact

Types = Sequence[ShapedArray]


class Misfit(Exception):
    """What is wrong with a node; ``check`` says where."""


def check(graph: Graph) -> Graph:
    """The graph itself, if it is well formed.

    Raises:
      InvalidGraphError: a number is out of scope, a type does not follow from the operation, or a graph inside a
        node does not fit its operands.  The message shows the node and the user's line that it came from.

    >>> import jax, jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> len(check(from_jaxpr(jax.make_jaxpr(jnp.sin)(1.0))))
    1
    """
    check_each([graph])
    return graph


def check_each(graphs: Sequence[Graph]) -> None:
    """``check`` of several graphs that share operations, each of which is looked at once."""
    done: set[int] = set()
    for graph in graphs:
        _check(graph, "graph", done)


def _check(graph: Graph, where: str, done: set[int]) -> None:
    """``done``: operations (by identity) that need no second look."""
    types = [*graph.in_types, *(const.type for const in graph.consts)]
    for i, node in enumerate(graph.nodes):
        try:
            _check_node(node, types, done)
        except Misfit as misfit:
            raise errors.invalid_graph(where, str(misfit), node_text(graph, i, source=False), node.source) from misfit
        for name, inner in subgraphs(node):
            if id(inner) not in done:
                done.add(id(inner))
                _check(inner, f"{where}, {name} of node {i} ({node.op.name})", done)
        types += node.op.out_types
    for k, number in enumerate(graph.outputs):
        if not _in_scope(number, len(types)):
            raise errors.invalid_graph(where, f"output {k} is the value %{number}, which does not exist", None, None)


def _in_scope(number: Any, count: int) -> bool:
    return type(number) is int and 0 <= number < count


def _check_node(node: Node, types: Types, done: set[int]) -> None:
    op = node.op
    if len(node.inputs) != len(op.in_types):
        raise Misfit(f"it reads {len(node.inputs)} values and its operation takes {len(op.in_types)}")
    for number, expected in zip(node.inputs, op.in_types, strict=True):
        if not _in_scope(number, len(types)):
            raise Misfit(f"it reads %{number} before that is assigned (values %0 to %{len(types) - 1} are)")
        if not same(types[number], expected):
            raise Misfit(f"%{number} has type {type_text(types[number])} and its operation takes {type_text(expected)}")
    if id(op) in done:
        return
    done.add(id(op))
    for k, (got, expected) in enumerate(zip(op.out_types, infer(op), strict=False)):
        if not same(got, expected):
            raise Misfit(f"output {k} is said to have type {type_text(got)} and has {type_text(expected)}")
    fit = FITS.get(op.name)
    if fit is not None and isinstance(op.primitive, Region):
        fit(op.params, op.in_types)


def same(a: ShapedArray, b: ShapedArray) -> bool:
    """Equal in shape and dtype.

    Weak types and shardings are advice to later operations; passes may strengthen a weak type.
    """
    return a.shape == b.shape and a.dtype == b.dtype


def infer(op: Op) -> Types:
    """The output types of an operation, worked out afresh.

    Raises:
      Misfit: its type rule refuses the parameters or input types, or gives another number of outputs.
    """
    try:
        if isinstance(op.primitive, Region):
            out_types: Any = op.primitive.infer(op.params, op.in_types)
        else:
            out_types, _ = op.primitive.abstract_eval(*op.in_types, **op.params)
            out_types = out_types if op.primitive.multiple_results else (out_types,)
    except NameError:
        return op.out_types  # a collective outside its axis (shard_map): nothing to check it against
    except Exception as error:  # a type rule may raise anything on parameters that make no sense
        raise Misfit(f"its type rule refuses it: {error}") from error
    if len(out_types) != len(op.out_types):
        raise Misfit(f"it has {len(op.out_types)} outputs and its operation gives {len(out_types)}")
    return out_types


# --------------------------------------------------------------------------------------------------------------------
# graphs inside regions: their inputs against the operands, their outputs against each other


def fits(name: str, got: Types, expected: Types) -> None:
    """Raise ``Misfit`` where one list of types is not the other."""
    if len(got) != len(expected):
        raise Misfit(f"{name} has {len(got)} types where {len(expected)} are expected")
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        if not same(a, b):
            raise Misfit(f"{name} {k} has type {type_text(a)} where {type_text(b)} is expected")


def _count(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise Misfit(f"{name}={value!r} does not fit its {most} operands")
    return value


def _scan(params: dict[str, Any], operands: Types) -> None:
    nc = _count("num_consts", params["num_consts"], len(operands))
    nk = _count("num_carry", params["num_carry"], len(operands) - nc)
    body, length = params["body"], params["length"]
    for k, x in enumerate(operands[nc + nk :]):
        if not x.shape or x.shape[0] != length:
            raise Misfit(f"operand {nc + nk + k} of type {type_text(x)} has no leading axis of length {length}")
    if (
        type(length) is not int
        or length < 0
        or type(params["reverse"]) is not bool
        or not isinstance(params["unroll"], int)
    ):
        raise Misfit(
            f"length={length!r}, reverse={params['reverse']!r}, unroll={params['unroll']!r} are not int, bool, int"
        )
    slices = [ShapedArray(x.shape[1:], x.dtype) for x in operands[nc + nk :]]
    fits("body input", body.in_types, [*operands[: nc + nk], *slices])
    fits("carry output", body.out_types[:nk], operands[nc : nc + nk])


def _cond(params: dict[str, Any], operands: Types) -> None:
    branches = params["branches"]
    if not operands or operands[0].shape != () or operands[0].dtype.kind not in "iub":
        raise Misfit("the index must be an integer scalar")
    for i, branch in enumerate(branches):
        fits(f"input of branch {i}", branch.in_types, operands[1:])
        fits(f"output of branch {i}", branch.out_types, branches[0].out_types)


def _while(params: dict[str, Any], operands: Types) -> None:
    nc = _count("cond_consts", params["cond_consts"], len(operands))
    nb = _count("body_consts", params["body_consts"], len(operands) - nc)
    carry = operands[nc + nb :]
    fits("cond input", params["cond"].in_types, [*operands[:nc], *carry])
    fits("body input", params["body"].in_types, operands[nc:])
    fits("body output", params["body"].out_types, carry)
    if [(t.shape, t.dtype.kind) for t in params["cond"].out_types] != [((), "b")]:
        raise Misfit("the condition must give one boolean scalar")


def _custom(params: dict[str, Any], operands: Types) -> None:
    _count("num_consts", params["num_consts"], len(operands))
    fits("input of the call", params["call"].in_types, operands)


def _body(params: dict[str, Any], operands: Types) -> None:
    fits("body input", params["body"].in_types, operands)


def _call(params: dict[str, Any], operands: Types) -> None:
    fits("input of the call", params["call"].in_types, operands)


def _linear_solve(params: dict[str, Any], operands: Types) -> None:
    lengths = params["lengths"]
    names = ("matvec", "vecmat", "solve", "transpose_solve")
    if len(lengths) != len(names):
        raise Misfit(f"lengths={lengths!r} must have {len(names)} numbers")
    at = 0
    rest = sum([_count("lengths", n, len(operands)) for n in lengths])
    for name, n in zip(names, lengths, strict=True):
        if params[name] is not None:
            fits(f"{name} input", params[name].in_types, [*operands[at : at + n], *operands[rest:]])
            fits(f"{name} output", params[name].out_types, operands[rest:])
        at += n


def _only_transposed(params: dict[str, Any], operands: Types) -> None:
    n = _count("num_consts", params["num_consts"], min(len(operands), len(params["backward"].in_types)))
    fits("backward input", params["backward"].in_types[:n], operands[:n])
    fits("backward output", params["backward"].out_types, operands[n:])


#: the calls whose rules are graphs, which a file holds
WITH_RULES = ("custom_jvp", "custom_vjp", "linear_call")


def check_rule(op: Op, rule: Any) -> None:
    """Whether the rule of one of ``WITH_RULES`` fits its call.

    Raises:
      Misfit: it does not.
    """
    call, n = op.params["call"], op.params["num_consts"]
    if not isinstance(rule, VjpRule if op.name == "custom_vjp" else Graph):
        raise Misfit(f"the rule of a {op.name} cannot be a {type(rule).__name__}")
    primals, outs = call.in_types[n:], call.out_types
    live_in, live_out = [[t for t in types if is_inexact(t)] for types in (primals, outs)]
    if isinstance(rule, VjpRule):
        residuals = len(rule.forward.outputs) - len(outs)
        if residuals < 0 or not all(_in_scope(i, len(primals)) for i in rule.wrt):
            raise Misfit("its forward or backward rule has another number of outputs than its call asks for")
        fits("input of the forward rule", rule.forward.in_types, primals)
        fits("output of the forward rule", rule.forward.out_types[residuals:], outs)
        fits("input of the backward rule", rule.backward.in_types, [*rule.forward.out_types[:residuals], *live_out])
        fits("output of the backward rule", rule.backward.out_types, [primals[i] for i in rule.wrt])
    elif op.name == "linear_call":
        fits("input of the transpose", rule.in_types, [*call.in_types[:n], *outs])
        fits("output of the transpose", rule.out_types, primals)
    else:
        fits("input of the rule", rule.in_types, [*primals, *live_in])
        fits("output of the rule", rule.out_types, [*outs, *live_out])


FITS: dict[str, Callable[[dict[str, Any], Types], None]] = {
    "scan": _scan, "cond": _cond, "while": _while, "custom_jvp": _custom, "custom_vjp": _custom, "remat": _body,
    "custom_vmap": _call, "custom_linear_solve": _linear_solve, "linear_call": _custom,
    "only_transposed": _only_transposed,
}  # fmt: skip


def expanded(graph: Graph, limit: int) -> int:
    """How many operations a graph comes to when each graph inside is counted wherever it is called; or over ``limit``.

    Graphs that call each other twice, level by level, are short to write and endless to trace.
    """
    counts: dict[int, int] = {}

    def count(graph: Graph) -> int:
        if id(graph) not in counts:
            total = 0
            for node in graph.nodes:
                total += 1 + sum([count(inner) for _, inner in subgraphs(node)])
                if total > limit:
                    break
            counts[id(graph)] = total
        return counts[id(graph)]

    return count(graph)
