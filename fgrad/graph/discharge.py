"""The primitives that take references, with these threaded through: NOTE [References are threaded through]."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from attrs import evolve
from jax import tree_util

from fgrad import errors
from fgrad.graph.graph import Builder, Graph, applied
from fgrad.graph.importing import IMPORTERS, staged, threaded, zeros_const
from fgrad.graph.op import Op, intern
from fgrad.graph.references import THREADED, Threaded, read_at, retyped, token_type, value_type, write_at
from fgrad.graph.regions import cond, scan, while_
from fgrad.jaxcore import ShapedArray, scan_counts
from fgrad.jaxtypes import is_reference


def _staged(function: Callable[..., Any], types: Sequence[Any]) -> Graph:
    return staged(function, [value_type(t) for t in types])


# --------------------------------------------------------------------------------------------------------------------
# reading and writing


def _get(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    return Threaded(_staged(lambda value, *indices: read_at(value, _indexers(params, indices)), types), ())


def _swap(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    def function(value: Any, new: Any, *indices: Any) -> Any:
        indexers = _indexers(params, indices)
        return read_at(value, indexers), write_at(value, indexers, new)

    return Threaded(_staged(function, types), (0,))


def _addupdate(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    def function(value: Any, update: Any, *indices: Any) -> Any:
        indexers = _indexers(params, indices)
        return write_at(value, indexers, read_at(value, indexers) + update)

    return Threaded(_staged(function, types), (0,))


def _indexers(params: dict[str, Any], indices: Sequence[Any]) -> Sequence[Any]:
    return tree_util.tree_unflatten(params["tree"], indices)


def _identity(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    return Threaded(_staged(lambda value: value, types), ())


def _empty_ref(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    type = params["ty"]
    return Threaded(_staged(lambda: jax.numpy.empty(type.shape, type.dtype), types), ())


def _free(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    return Threaded(_staged(lambda value: (), types), ())


# --------------------------------------------------------------------------------------------------------------------
# calls, loops and branches


def _inlined(name: str) -> Callable[..., Threaded]:
    return lambda params, types, names: threaded(params[name])


def _remat(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    body = threaded(params["jaxpr"])
    op = IMPORTERS["remat"](params, [value_type(t) for t in types])
    assert isinstance(op, Op)
    call = intern(op.primitive, {**op.params, "body": body.graph}, body.graph.in_types)
    return evolve(body, graph=applied(call))


def _reordered(graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """A graph with its inputs and outputs in another order."""
    builder = Builder([graph.in_types[i] for i in inputs])
    position = {i: k for k, i in enumerate(inputs)}
    outs = builder.splice(graph, [position[i] for i in range(len(inputs))])
    return builder.finish([outs[k] for k in outputs])


def _with_carry_types(graph: Graph, types: Sequence[ShapedArray]) -> Graph:
    """A body whose first outputs have the types of the carry."""
    builder = Builder(graph.in_types)
    outs = builder.splice(graph, builder.inputs)
    return builder.finish([*map(lambda k, t: retyped(builder, k, t), outs, types), *outs[len(types) :]])


def _scan(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    body = threaded(params["jaxpr"])
    n, (nc, nk) = len(types), scan_counts(params)
    changed = (*body.written, *body.later)
    count = len(body.graph.outputs) - len(changed)
    # constants that are written become part of the carry, sequences that are written also outputs
    carried = [i for i in body.written if i < nc]
    sequences = [i for i in body.written if i >= nc + nk]
    new = {i: count + k for k, i in enumerate(body.written)}
    # so are their tokens
    values = [*map(value_type, types), *(token_type(types[i]) for i in body.later)]
    new |= {n + k: count + len(body.written) + k for k in range(len(body.later))}
    for k, i in enumerate(body.later, n):
        (carried if i < nc else sequences).append(k)
    ins = [*[i for i in range(nc) if i not in carried], *carried, *range(nc, n), *[i for i in sequences if i >= n]]
    outs = [*[new[i] for i in carried], *range(count), *[new[i] for i in sequences]]
    op = intern(
        scan,
        {
            "body": _with_carry_types(_reordered(body.graph, ins, outs), [values[i] for i in carried]),
            "num_consts": nc - len([i for i in carried if i < nc]), "num_carry": nk + len(carried),
            "length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"],
        },
        [values[i] for i in ins],
    )  # fmt: skip
    order = {out: k for k, out in enumerate(outs)}
    graph = _reordered_call(op, ins, values, [order[k] for k in range(len(outs))])
    return Threaded(graph, body.written, body.later)


def _reordered_call(op: Op, ins: Sequence[int], types: Sequence[ShapedArray], outs: Sequence[int]) -> Graph:
    """The graph of an operation on some of the inputs, its outputs reordered."""
    builder = Builder(types)
    first = builder.emit(op, tuple(ins))
    return builder.finish([first + k for k in outs])


def _cond(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    branches = [threaded(b) for b in params["branches"]]
    written = sorted({i for branch in branches for i in branch.written})
    later = sorted({i for branch in branches for i in branch.later})
    operands = [value_type(t) for t in types[1:]]
    tokens = {i: len(operands) + k for k, i in enumerate(later)}
    in_types = [*operands, *(token_type(types[i + 1]) for i in later)]
    graphs = []
    for branch in branches:
        builder = Builder(in_types)
        ins = builder.inputs
        outs = builder.splice(branch.graph, [*ins[: len(operands)], *(ins[tokens[i]] for i in branch.later)])
        changed = [*branch.written, *(tokens[i] for i in branch.later)]
        count = len(outs) - len(changed)
        new = dict(zip(changed, outs[count:], strict=True))
        finals = [retyped(builder, new.get(i, ins[i]), in_types[i]) for i in (*written, *tokens.values())]
        graphs.append(builder.finish([*outs[:count], *finals]))
    op = intern(cond, {"branches": tuple(graphs)}, [value_type(types[0]), *in_types])
    return Threaded(applied(op), tuple([i + 1 for i in written]), tuple([i + 1 for i in later]))


def without_tokens(threaded: Threaded) -> Threaded:
    """A call whose backward rules do not run: one in a loop without a backward pass, or in a function with a rule."""
    if not threaded.later:
        return threaded
    types, k = threaded.graph.in_types, len(threaded.later)
    builder = Builder(types[:-k])
    tokens = [builder.const(zeros_const(t)) for t in types[-k:]]
    outs = builder.splice(threaded.graph, [*builder.inputs, *tokens])
    return Threaded(builder.finish(outs[:-k]), threaded.written)


def _while(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    test, body = without_tokens(threaded(params["cond_jaxpr"])), without_tokens(threaded(params["body_jaxpr"]))
    if test.written:
        raise errors.undefined("while", "its condition writes into a reference.")
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    values, n = [value_type(t) for t in types], len(types)
    carry = range(nc + nb, n)
    written = [nc + i for i in body.written]
    # by constant of the condition, that of the body which is the same reference and is written
    aliases = {i: k for i in range(nc) for k in written if is_reference(types[i]) and names[i] is names[k]}
    consts = [i for i in range(nc + nb) if i not in written and i not in aliases]
    cond_consts, body_consts = [i for i in consts if i < nc], [i for i in consts if i >= nc]
    new_carry = [*written, *carry]

    builder = Builder([values[i] for i in (*cond_consts, *new_carry)])
    position = {i: k for k, i in enumerate((*cond_consts, *new_carry))}
    inputs = [position[aliases.get(i, i)] for i in (*range(nc), *carry)]
    condition = builder.finish(builder.splice(test.graph, inputs))

    builder = Builder([values[i] for i in (*body_consts, *new_carry)])
    position = {i: k for k, i in enumerate((*body_consts, *new_carry))}
    outs = builder.splice(body.graph, [position[i] for i in range(nc, n)])
    step = builder.finish([*outs[len(carry) :], *outs[: len(carry)]])

    op = intern(
        while_,
        {
            "cond": condition, "body": _with_carry_types(step, [values[i] for i in written]),
            "cond_consts": len(cond_consts), "body_consts": len(body_consts),
        },
        [values[i] for i in (*consts, *new_carry)],
    )  # fmt: skip
    outs = [*range(len(written), len(new_carry)), *range(len(written))]
    outs += [written.index(k) for k in aliases.values()]
    return Threaded(_reordered_call(op, [*consts, *new_carry], values, outs), (*written, *aliases))


THREADED.update({
    "get": _get, "swap": _swap, "addupdate": _addupdate,
    "new_ref": _identity, "freeze": _identity, "empty_ref": _empty_ref, "free_ref": _free,
    "jit": _inlined("jaxpr"), "pjit": _inlined("jaxpr"), "closed_call": _inlined("call_jaxpr"),
    "core_call": _inlined("call_jaxpr"), "call": _inlined("call_jaxpr"),
    "remat": _remat, "remat2": _remat, "checkpoint": _remat,
    "scan": _scan, "cond": _cond, "while": _while,
})  # fmt: skip
