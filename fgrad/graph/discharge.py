"""The primitives that take references, one by one, as calls without them; NOTE [References are threaded through]."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import tree_util

from fgrad import errors
from fgrad.graph.graph import Builder, Graph, applied
from fgrad.graph.importing import IMPORTERS, from_jaxpr, threaded
from fgrad.graph.op import Op, intern
from fgrad.graph.references import THREADED, Threaded, held_type, put, retyped, taken
from fgrad.graph.regions import cond, scan, while_
from fgrad.jaxcore import ShapedArray, is_reference, scan_counts, with_x64_for


def _staged(function: Callable[..., Any], types: Sequence[Any]) -> Graph:
    held = [held_type(t) for t in types]
    return from_jaxpr(with_x64_for(held, lambda: jax.make_jaxpr(function)(*held)))


# --------------------------------------------------------------------------------------------------------------------
# reading and writing


def _get(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    return Threaded(_staged(lambda value, *at: taken(value, _indexers(params, at)), types), ())


def _swap(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    def function(value: Any, new: Any, *at: Any) -> Any:
        indexers = _indexers(params, at)
        return taken(value, indexers), put(value, indexers, new)

    return Threaded(_staged(function, types), (0,))


def _addupdate(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    def function(value: Any, more: Any, *at: Any) -> Any:
        indexers = _indexers(params, at)
        return put(value, indexers, taken(value, indexers) + more)

    return Threaded(_staged(function, types), (0,))


def _indexers(params: dict[str, Any], at: Sequence[Any]) -> Sequence[Any]:
    return tree_util.tree_unflatten(params["tree"], at)


def _same(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    return Threaded(_staged(lambda value: value, types), ())


def _empty(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    type = params["ty"]
    return Threaded(_staged(lambda: jax.numpy.empty(type.shape, type.dtype), types), ())


def _freed(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    return Threaded(_staged(lambda value: (), types), ())


# --------------------------------------------------------------------------------------------------------------------
# calls, loops and branches


def _called(name: str) -> Callable[..., Threaded]:
    return lambda params, types, names: threaded(params[name])


def _remat(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    body = threaded(params["jaxpr"])
    op = IMPORTERS["remat"](params, [held_type(t) for t in types])
    assert isinstance(op, Op)
    return Threaded(applied(intern(op.primitive, {**op.params, "body": body.graph}, op.in_types)), body.written)


def _reordered(graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """A graph with its inputs and outputs in another order."""
    builder = Builder([graph.in_types[i] for i in inputs])
    place = {i: k for k, i in enumerate(inputs)}
    outs = builder.splice(graph, [place[i] for i in range(len(inputs))])
    return builder.finish([outs[k] for k in outputs])


def _carried(graph: Graph, types: Sequence[ShapedArray]) -> Graph:
    """A body whose first outputs have the types of what is carried."""
    builder = Builder(graph.in_types)
    outs = builder.splice(graph, builder.inputs)
    return builder.finish([*map(lambda k, t: retyped(builder, k, t), outs, types), *outs[len(types) :]])


def _scan(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    body = threaded(params["jaxpr"])
    n, (nc, nk) = len(types), scan_counts(params)
    count = len(body.graph.outputs) - len(body.written)
    kept = [i for i in body.written if i < nc]
    rows = [i for i in body.written if i >= nc + nk]
    new = {i: count + k for k, i in enumerate(body.written)}
    ins = [*[i for i in range(nc) if i not in kept], *kept, *range(nc, n)]
    outs = [*[new[i] for i in kept], *range(count), *[new[i] for i in rows]]
    held = [held_type(t) for t in types]
    op = intern(
        scan,
        {
            "body": _carried(_reordered(body.graph, ins, outs), [held[i] for i in kept]),
            "num_consts": nc - len(kept), "num_carry": nk + len(kept),
            "length": params["length"], "reverse": params["reverse"], "unroll": params["unroll"],
        },
        [held[i] for i in ins],
    )  # fmt: skip
    order = {out: k for k, out in enumerate(outs)}
    return Threaded(_called_on(op, ins, held, [order[k] for k in range(len(outs))]), body.written)


def _called_on(op: Op, ins: Sequence[int], types: Sequence[ShapedArray], outs: Sequence[int]) -> Graph:
    """The graph of an operation on some of the inputs, its outputs reordered."""
    builder = Builder(types)
    first = builder.emit(op, tuple(ins))
    return builder.finish([first + k for k in outs])


def _cond(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    branches = [threaded(b) for b in params["branches"]]
    written = sorted({i for branch in branches for i in branch.written})
    held = [held_type(t) for t in types]
    graphs = []
    for branch in branches:
        builder = Builder(held[1:])
        outs = builder.splice(branch.graph, builder.inputs)
        count = len(outs) - len(branch.written)
        new = dict(zip(branch.written, outs[count:], strict=True))
        finals = [retyped(builder, new.get(i, builder.inputs[i]), held[1 + i]) for i in written]
        graphs.append(builder.finish([*outs[:count], *finals]))
    op = intern(cond, {"branches": tuple(graphs)}, held)
    return Threaded(applied(op), tuple([i + 1 for i in written]))


def _while(params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    test, body = threaded(params["cond_jaxpr"]), threaded(params["body_jaxpr"])
    if test.written:
        raise errors.undefined("while", "its condition writes into a reference.")
    nc, nb = params["cond_nconsts"], params["body_nconsts"]
    held, n = [held_type(t) for t in types], len(types)
    carry = range(nc + nb, n)
    kept = [nc + i for i in body.written]
    # the condition reads what the body has written
    seen = {i: k for i in range(nc) for k in kept if is_reference(types[i]) and names[i] is names[k]}
    ins = [i for i in range(nc + nb) if i not in kept and i not in seen]
    first, second = [i for i in ins if i < nc], [i for i in ins if i >= nc]
    moving = [*kept, *carry]

    builder = Builder([held[i] for i in (*first, *moving)])
    place = {i: k for k, i in enumerate((*first, *moving))}
    inputs = [place[seen.get(i, i)] for i in (*range(nc), *carry)]
    goes_on = builder.finish(builder.splice(test.graph, inputs))

    builder = Builder([held[i] for i in (*second, *moving)])
    place = {i: k for k, i in enumerate((*second, *moving))}
    outs = builder.splice(body.graph, [place[i] for i in range(nc, n)])
    step = builder.finish([*outs[len(carry) :], *outs[: len(carry)]])

    op = intern(
        while_,
        {
            "cond": goes_on, "body": _carried(step, [held[i] for i in kept]),
            "cond_consts": len(first), "body_consts": len(second),
        },
        [held[i] for i in (*ins, *moving)],
    )  # fmt: skip
    outs = [*range(len(kept), len(moving)), *range(len(kept))]
    written = [*kept, *seen]
    outs += [kept.index(k) for k in seen.values()]
    return Threaded(_called_on(op, [*ins, *moving], held, outs), tuple(written))


THREADED.update({
    "get": _get, "swap": _swap, "addupdate": _addupdate,
    "new_ref": _same, "freeze": _same, "empty_ref": _empty, "free_ref": _freed,
    "jit": _called("jaxpr"), "pjit": _called("jaxpr"), "closed_call": _called("call_jaxpr"),
    "core_call": _called("call_jaxpr"), "call": _called("call_jaxpr"),
    "remat": _remat, "remat2": _remat, "checkpoint": _remat,
    "scan": _scan, "cond": _cond, "while": _while,
})  # fmt: skip
