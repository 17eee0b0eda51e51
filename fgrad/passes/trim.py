"""Dead code inside regions: outputs of a loop or a branch that are never read, and what computes only them."""

from collections.abc import Callable, Sequence

from attrs import frozen

from fgrad.graph.graph import Builder, Graph, Node
from fgrad.graph.op import Op, intern
from fgrad.graph.regions import cond, remat, scan, while_
from fgrad.graph.shards import shard_map


@frozen
class Trimmed:
    """A region cut down: the operation, and which of the original inputs and outputs it still has."""

    op: Op
    ins: Sequence[int]
    outs: Sequence[int]


def trim(graph: Graph) -> Graph:
    """The same graph with every region reduced to the outputs that are read."""
    if not graph.has_regions:
        return graph
    read = set(graph.outputs)
    replaced: dict[int, Trimmed] = {}
    for position, (node, outs) in reversed(list(enumerate(graph.numbered()))):
        used = [i in read for i in outs]
        if not any(used) and not node.op.effects:
            continue
        trimmer = TRIMMERS.get(node.op.primitive)
        smaller = trimmer(node, used) if trimmer is not None and not node.op.effects else None
        if smaller is None:
            read.update(node.inputs)
        else:
            replaced[position] = smaller
            read.update([node.inputs[i] for i in smaller.ins])
    builder = Builder(graph.in_types)
    numbers = list(builder.inputs) + [builder.const(const) for const in graph.consts]
    for position, node in enumerate(graph.nodes):
        if position in replaced:
            trimmed = replaced[position]
            first = builder.emit(trimmed.op, tuple([numbers[node.inputs[i]] for i in trimmed.ins]), node.source)
            numbers_of_outs = [-1] * len(node.op.out_types)
            for k, out in enumerate(trimmed.outs):
                numbers_of_outs[out] = first + k
            numbers += numbers_of_outs
        else:
            # a node that reads a dropped output is itself unread; ``finish`` drops it
            if any(numbers[i] < 0 for i in node.inputs):
                numbers += [-1] * len(node.op.out_types)
                continue
            first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
            numbers += range(first, first + len(node.op.out_types))
    return builder.finish([numbers[i] for i in graph.outputs], builder.inputs)


def needed_inputs(body: Graph, outputs: Sequence[bool]) -> tuple[Graph, list[bool]]:
    """``body`` reduced to some outputs, with all its inputs, and which of these it still reads."""
    builder = Builder(body.in_types)
    outs = builder.splice(body, builder.inputs)
    cut = trim(builder.finish([x for x, is_wanted in zip(outs, outputs, strict=True) if is_wanted]))
    read = {i for node in cut.nodes for i in node.inputs} | set(cut.outputs)
    return cut, [i in read for i in range(len(body.in_types))]


def without_inputs(graph: Graph, keep: Sequence[bool]) -> Graph:
    """``graph`` with only the inputs marked; the others must be unread."""
    builder = Builder(graph.in_types)
    outs = builder.splice(graph, builder.inputs)
    return builder.finish(outs, [i for i, keeps in zip(builder.inputs, keep, strict=True) if keeps])


def _trim_scan(node: Node, used: list[bool]) -> Trimmed | None:
    params = node.op.params
    nc, nk = params["num_consts"], params["num_carry"]
    carry = used[:nk]
    while True:
        cut, reads = needed_inputs(params["body"], [*carry, *used[nk:]])
        wider = [a or b for a, b in zip(carry, reads[nc : nc + nk], strict=True)]
        if wider == carry:
            break
        carry = wider
    keep = [*reads[:nc], *carry, *reads[nc + nk :]]
    if all(keep) and all(carry) and all(used[nk:]):
        return None
    ins = [i for i, keeps in enumerate(keep) if keeps]
    outs = [k for k, is_used in enumerate([*carry, *used[nk:]]) if is_used]
    new = {**params, "body": without_inputs(cut, keep), "num_consts": sum(reads[:nc]), "num_carry": sum(carry)}
    return Trimmed(intern(scan, new, [node.op.in_types[i] for i in ins]), ins, outs)


def _trim_while(node: Node, used: list[bool]) -> Trimmed | None:
    params = node.op.params
    nc, nb = params["cond_consts"], params["body_consts"]
    _, cond_reads = needed_inputs(params["cond"], [True])
    carry = [a or b for a, b in zip(used, cond_reads[nc:], strict=True)]
    while True:
        cut, reads = needed_inputs(params["body"], carry)
        wider = [a or b for a, b in zip(carry, reads[nb:], strict=True)]
        if wider == carry:
            break
        carry = wider
    if all(carry) and all(reads[:nb]):
        return None
    ins = [*range(nc), *(nc + i for i, is_read in enumerate([*reads[:nb], *carry]) if is_read)]
    new = {
        "cond": without_inputs(params["cond"], [*[True] * nc, *carry]),
        "body": without_inputs(cut, [*reads[:nb], *carry]),
        "cond_consts": nc,
        "body_consts": sum(reads[:nb]),
    }
    op = intern(while_, new, [node.op.in_types[i] for i in ins])
    return Trimmed(op, ins, [k for k, carries in enumerate(carry) if carries])


def _trim_cond(node: Node, used: list[bool]) -> Trimmed | None:
    cuts = [needed_inputs(branch, used) for branch in node.op.params["branches"]]
    keep = [any(reads) for reads in zip(*(reads for _, reads in cuts), strict=True)]
    if all(keep) and all(used):
        return None
    branches = tuple([without_inputs(cut, keep) for cut, _ in cuts])
    ins = [0, *(i + 1 for i, keeps in enumerate(keep) if keeps)]
    op = intern(cond, {"branches": branches}, [node.op.in_types[i] for i in ins])
    return Trimmed(op, ins, [k for k, is_used in enumerate(used) if is_used])


def _trim_remat(node: Node, used: list[bool]) -> Trimmed | None:
    cut, keep = needed_inputs(node.op.params["body"], used)
    if all(keep) and all(used):
        return None
    ins = [i for i, keeps in enumerate(keep) if keeps]
    op = intern(remat, {**node.op.params, "body": without_inputs(cut, keep)}, [node.op.in_types[i] for i in ins])
    return Trimmed(op, ins, [k for k, is_used in enumerate(used) if is_used])


def _trim_shard_map(node: Node, used: list[bool]) -> Trimmed | None:
    params = node.op.params
    cut, keep = needed_inputs(params["body"], used)
    if all(keep) and all(used):
        return None
    ins = [i for i, keeps in enumerate(keep) if keeps]
    outs = [k for k, is_used in enumerate(used) if is_used]
    new = {
        **params, "body": without_inputs(cut, keep),
        "in_specs": tuple([params["in_specs"][i] for i in ins]),
        "out_specs": tuple([params["out_specs"][k] for k in outs]),
    }  # fmt: skip
    return Trimmed(intern(shard_map, new, [node.op.in_types[i] for i in ins]), ins, outs)


TRIMMERS: dict[object, Callable[[Node, list[bool]], Trimmed | None]] = {
    scan: _trim_scan,
    while_: _trim_while,
    cond: _trim_cond,
    remat: _trim_remat,
    shard_map: _trim_shard_map,
}
