"""What functions with rules of their own are called, where Python has no name for them."""

from fgrad.graph.graph import Graph, Node
from fgrad.graph.op import intern

#: names that say nothing
UNNAMED = frozenset({"<lambda>", "forward", "function"})


def labelled(graph: Graph, name: str) -> Graph:
    """The graph in which functions without a name of their own have this one."""
    if not any(node.op.params.get("label") in UNNAMED for node in graph.nodes):
        return graph
    nodes = [
        Node(intern(node.op.primitive, {**node.op.params, "label": name}, node.op.in_types), node.inputs, node.source)
        if node.op.params.get("label") in UNNAMED
        else node
        for node in graph.nodes
    ]
    return Graph(graph.in_types, graph.consts, tuple(nodes), graph.outputs)
