"""Cutting a graph in two: what depends on some inputs, and what does not.

NOTE [Regions on the cut]
The tangents of a loop or a branch come from one region together with its values, so that region reads tangents and
yet gives outputs that do not depend on them.  It is written twice: cut down to those outputs in the first half, and
for the rest in the second half.

NOTE [Filled arrays]
An array of one constant everywhere (the zeros that gradients are added to) is made anew in the second half: it takes
less time than keeping it takes memory.
"""

from collections.abc import Sequence

from attrs import frozen

from fgrad import errors
from fgrad.graph.graph import Builder, Const, Graph, Node
from fgrad.graph.op import Op
from fgrad.passes.trim import TRIMMERS, trim


@frozen(eq=False)
class Halves:
    """``known``: known inputs -> (known outputs, residuals); ``unknown``: (residuals, unknown inputs) -> the rest.

    ``is_unknown`` says for each output of the whole graph in which half it is.
    """

    known: Graph
    unknown: Graph
    is_unknown: tuple[bool, ...]
    num_residuals: int


def partition(graph: Graph, unknown: Sequence[int], outputs: Sequence[bool] | None = None) -> Halves:
    """Cut ``graph`` at the values that do not depend on the inputs numbered ``unknown``.

    ``outputs`` forces some outputs into the unknown half (they are then residuals passed through).
    """
    n = len(graph.in_types)
    late = set(unknown)
    early: dict[int, tuple[Op, list[int], list[int]]] = {}
    number = n + len(graph.consts)
    for at, node in enumerate(graph.nodes):
        count = len(node.op.out_types)
        if not late.isdisjoint(node.inputs):
            cut = _early_part(node, late)
            late.update(range(number, number + count))
            if cut is not None:
                early[at] = cut
                late.difference_update([number + k for k in cut[2]])
        number += count
    is_unknown = tuple([i in late for i in graph.outputs]) if outputs is None else tuple(outputs)

    first = Builder([graph.in_types[i] for i in range(n) if i not in set(unknown)])
    second = Builder()
    known_number: dict[int, int] = dict(zip([i for i in range(n) if i not in set(unknown)], first.inputs, strict=True))
    residuals: dict[int, int] = {}
    consts: dict[int, Const] = {n + i: const for i, const in enumerate(graph.consts)}
    for i, const in consts.items():
        known_number[i] = first.const(const)
    late_number: dict[int, int] = {}
    filled = _filled(graph)

    def read_late(i: int) -> int:
        if i in late_number:
            return late_number[i]
        if i in consts:
            return second.const(consts[i])
        if i in filled:
            late_number[i] = second.emit(filled[i].op, tuple(map(read_late, filled[i].inputs)), filled[i].source)
            return late_number[i]
        if i not in residuals:
            residuals[i] = second.input(graph.types[i])
        return residuals[i]

    late_inputs = []
    for i in unknown:
        late_number[i] = second.input(graph.in_types[i])
        late_inputs.append(late_number[i])
    number = n + len(graph.consts)
    for step, node in enumerate(graph.nodes):
        count = len(node.op.out_types)
        if step in early:
            op, ins, outs = early[step]
            at = first.emit(op, tuple([known_number[node.inputs[i]] for i in ins]), node.source)
            known_number.update(zip([number + k for k in outs], range(at, at + len(outs)), strict=True))
            at = second.emit(node.op, tuple([read_late(i) for i in node.inputs]), node.source)
            late_number.update((number + k, at + k) for k in range(count) if k not in outs)
        elif number in late or (count == 0 and not late.isdisjoint(node.inputs)):
            at = second.emit(node.op, tuple([read_late(i) for i in node.inputs]), node.source)
            late_number.update(zip(range(number, number + count), range(at, at + count), strict=True))
        else:
            at = first.emit(node.op, tuple([known_number[i] for i in node.inputs]), node.source)
            known_number.update(zip(range(number, number + count), range(at, at + count), strict=True))
        number += count
    late_outputs = [read_late(i) for i, yes in zip(graph.outputs, is_unknown, strict=True) if yes]
    # only the residuals that the trimmed second half still reads are kept
    trial = trim(second.finish(late_outputs))
    read = {i for node in trial.nodes for i in node.inputs} | set(trial.outputs)
    place = {number: k for k, number in enumerate(second.inputs)}
    kept = [i for i, number in residuals.items() if place[number] in read]
    if joint := [i for i, yes in zip(graph.outputs, is_unknown, strict=True) if not yes and i not in known_number]:
        raise errors.inseparable(_maker(graph, joint[0]).op.name)
    known_outputs = [known_number[i] for i, yes in zip(graph.outputs, is_unknown, strict=True) if not yes]
    trimmed = Builder(trial.in_types)
    outs = trimmed.splice(trial, trimmed.inputs)
    return Halves(
        first.finish([*known_outputs, *(known_number[i] for i in kept)]),
        trimmed.finish(outs, [place[number] for number in (*(residuals[i] for i in kept), *late_inputs)]),
        is_unknown,
        len(kept),
    )


def _filled(graph: Graph) -> dict[int, Node]:
    """The values that are one constant everywhere, or count, with their nodes: see NOTE [Filled arrays]."""
    n = len(graph.in_types)
    number = n + len(graph.consts)
    constant = range(n, number)
    found: dict[int, Node] = {}
    for node in graph.nodes:
        if node.op.name in ("broadcast_in_dim", "iota") and all(
            i in constant and not graph.types[i].shape for i in node.inputs
        ):
            found[number] = node
        number += len(node.op.out_types)
    return found


def _maker(graph: Graph, value: int) -> Node:
    """The node that makes a value."""
    number = len(graph.in_types) + len(graph.consts)
    for node in graph.nodes:
        number += len(node.op.out_types)
        if value < number:
            return node
    raise IndexError(value)


def _early_part(node: Node, late: set[int]) -> tuple[Op, list[int], list[int]] | None:
    """A region cut down to the outputs that do not depend on ``late`` values: as a trimmer gives it; see the NOTE."""
    trimmer = TRIMMERS.get(node.op.primitive)
    if trimmer is None or node.op.effects:
        return None

    def cut(outs: list[int]) -> tuple[Op, list[int], list[int]] | None:
        found = trimmer(node, [k in outs for k in range(len(node.op.out_types))])
        return found if found is not None and not any(node.inputs[i] in late for i in found[1]) else None

    outs = [k for k in range(len(node.op.out_types)) if cut([k]) is not None]
    return cut(outs) if outs else None
