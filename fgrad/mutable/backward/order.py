"""The order in which the engine would run the nodes of a graph."""

from collections.abc import Sequence
from heapq import heappop

from fgrad.mutable.backward.engine import GraphTask, Ready, count_dependencies, push
from fgrad.mutable.tensor.node import Node


def order(roots: Sequence[Node]) -> list[Node]:
    """The nodes reachable from some, in the engine's order (NOTE [Order of nodes])."""
    task = GraphTask(True)
    count_dependencies(task, roots)
    waiting = task.dependencies
    ready: list[Ready] = []
    for node in dict.fromkeys(roots):
        if not waiting.get(node):
            push(ready, node)
    nodes: list[Node] = []
    while ready:
        node = heappop(ready).node
        nodes.append(node)
        for edge in node.next_edges:
            if edge is not None:
                waiting[edge[0]] -= 1
                if not waiting[edge[0]]:
                    push(ready, edge[0])
    return nodes
