"""One turn of a loop as a ladder of its own: the body of the loop, and that of the loop backward."""

from collections.abc import Iterator, Sequence

from fgrad.graph.drawing.ladder import Ladder, Pair, Row, aligned, numbers_of
from fgrad.graph.graph import Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.regions import scan, strong


def turns(ladder: Ladder) -> Iterator[tuple[str, Ladder]]:
    """For each loop (``scan``) and its derivative: a title, and the ladder of a turn."""
    nodes = ladder.graph.nodes
    for row in ladder.rows:
        loops = [[k for k in side if nodes[k].op.primitive is scan] for side in (row.forward, row.backward)]
        if list(map(len, loops)) == [1, 1]:
            length = nodes[loops[0][0]].params["length"]
            yield f"one turn of scan, x{length}", _turn(ladder, loops[0][0], loops[1][0])


def _turn(ladder: Ladder, first: int, second: int) -> Ladder:
    """The two bodies in one graph: what the first gives to the second, turn by turn, is a value of it."""
    forward, backward = ladder.graph.nodes[first], ladder.graph.nodes[second]
    one, other = forward.params["body"], backward.params["body"]
    carried, consts = forward.params["num_carry"], forward.params["num_consts"]
    outs = ladder.outs[first]
    # inputs of both, constants of both, nodes of both
    known = {}  # by the value outside: which input or output of the first body it is
    for k, i in enumerate(forward.inputs):
        if not consts <= k < consts + carried:
            known[i] = ("in", k)
    known.update({i: ("out", k) for k, i in enumerate(outs) if k >= carried})
    own = [k for k, i in enumerate(backward.inputs) if i not in known]
    count = len(one.in_types) + len(own)
    numbers = [*range(len(one.in_types)), *range(count, count + len(one.consts))]
    at = count + len(one.consts) + len(other.consts)
    nodes = []
    for node in one.nodes:
        nodes.append(Node(node.op, tuple([numbers[i] for i in node.inputs]), node.source))
        numbers += range(at, at + len(node.op.out_types))
        at += len(node.op.out_types)
    places = {"in": numbers, "out": [numbers[i] for i in one.outputs]}
    theirs = [
        len(one.in_types) + own.index(k) if i not in known else places[known[i][0]][known[i][1]]
        for k, i in enumerate(backward.inputs)
    ]
    theirs += range(count + len(one.consts), count + len(one.consts) + len(other.consts))
    for node in other.nodes:
        nodes.append(Node(node.op, tuple([theirs[i] for i in node.inputs]), node.source))
        theirs += range(at, at + len(node.op.out_types))
        at += len(node.op.out_types)
    types = (*one.in_types, *[other.in_types[k] for k in own])
    outputs = (*places["out"], *[theirs[i] for i in other.outputs])
    graph = Graph(types, (*one.consts, *other.consts), tuple(nodes), outputs)
    names = _names(ladder, first, second, graph, own)
    start = backward.params["num_consts"]
    later = [k for k in own if start <= k < start + carried and other.in_types[k] == strong(one.out_types[k - start])]
    made = dict(zip(ladder.outs[second], [theirs[i] for i in other.outputs], strict=True))
    owners = {ladder.names[i]: k for k, i in enumerate(forward.inputs)}
    # first what is carried backward: the cotangents of what is carried forward
    partners = {consts + k: (made[i], i) for k, i in enumerate(ladder.outs[second][: len(later)])}
    for i, n in list(made.items())[len(later) :]:
        partners[owners.get(ladder.names[i].partition(" / d ")[2], -1 - i)] = n, i
    arguments = [Pair(k, *_gradient(ladder, second, *partners.get(k, (None, None)))) for k in range(count)]
    arguments += [Pair(None, *_gradient(ladder, second, *pair)) for k, pair in partners.items() if k < 0]
    # the results of a turn, each with the cotangent that backward is given for it
    given = [k for k in own if not k < backward.params["num_consts"] + backward.params["num_carry"]]
    cotangents = {backward.inputs[k]: k for k in given}
    results = []
    for k, i in enumerate(outs):
        own_place = later[k] if k < min(carried, len(later)) else cotangents.get(ladder.cotangents.get(i, -1))
        partner = None if own_place is None else theirs[own_place]
        if k < carried or partner is not None:
            name = ladder.names[outs[k]] if k >= carried else f"{names[places['out'][k]]}, carried on"
            results.append(Pair(places["out"][k], partner, f"{name}[t]" if k >= carried else name))
    for pair in results:
        if pair.partner is not None:
            names[pair.partner] = f"cotangent of {pair.name}"
    arguments = [
        Pair(pair.value, pair.partner, f"cotangent of {names[pair.value]}")
        if pair.value is not None and consts <= pair.value < consts + carried and pair.partner is not None
        else pair
        for pair in arguments
    ]
    seeds = {pair.partner for pair in results}
    rows = aligned(graph, numbers_of(graph), set(range(len(one.nodes), len(nodes))))
    return Ladder(
        graph,
        tuple(names),
        tuple(_joined(graph, rows)),
        tuple([pair for pair in arguments if pair.value is None or pair.value not in seeds]),
        tuple(results),
    )


def _gradient(ladder: Ladder, second: int, value: int | None, outside: int | None) -> tuple[int | None, str]:
    """A gradient's value in a turn, and its name: that of the value outside; of a sequence, an element."""
    if value is None or outside is None:
        return None, ""
    backward = ladder.graph.nodes[second]
    element = outside >= ladder.outs[second].start + backward.params["num_carry"]
    return value, ladder.names[outside] + "[t]" * element


def _names(ladder: Ladder, first: int, second: int, graph: Graph, own: Sequence[int]) -> list[str]:
    """The names of values of a turn; what a loop goes along is called by what it goes along."""
    forward, backward = ladder.graph.nodes[first], ladder.graph.nodes[second]
    body = forward.params["body"]
    carried = value_names(body)

    def outside(node: Node, k: int) -> str:
        consts, number = node.params["num_consts"], node.params["num_carry"]
        name = ladder.names[node.inputs[k]]
        if k >= consts + number:
            return f"{name}[t]"
        if k < consts:
            return name
        if node is backward:
            return f"{ladder.names[ladder.outs[second][k - consts]]} so far"
        name = carried[body.outputs[k - consts]]
        return "the carry" if name.startswith("%") else f"{name} before"

    inputs = [outside(forward, k) for k in range(len(forward.inputs))]
    return list(value_names(graph, [*inputs, *[outside(backward, k) for k in own]]))


def _joined(graph: Graph, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows in which what is worked out for backward stands with the operation that it is a derivative of."""
    found: list[Row] = []
    for row in rows:
        source = graph.nodes[row.forward[0]].source if row.forward and not row.backward else None
        if source is not None and source.of is not None:
            for k in reversed(range(len(found))):
                own = graph.nodes[found[k].forward[0]] if found[k].forward else None
                if own is not None and own.source is not None and own.op.name == source.of:
                    found[k] = Row((*found[k].forward, *row.forward), found[k].backward)
                    break
            else:
                found.append(row)
            continue
        found.append(row)
    yield from found
