"""Graphs from files."""

import os
from typing import Any

from jax import tree_util

from fgrad import errors
from fgrad.api.graphs import Graph, flat_function
from fgrad.graph.encoding import decode_tree
from fgrad.graph.saving import File, read


def load(path: File) -> Graph:
    """The graph in a file that ``Graph.save`` wrote, checked; nothing in the file is ever executed.

    >>> import fgrad, tempfile, os
    >>> graph = fgrad.make_graph(lambda x: x * x)(3.0)
    >>> path = os.path.join(tempfile.mkdtemp(), "square.fgrad")
    >>> graph.save(path)
    >>> fgrad.load(path) == graph
    True

    Raises:
      GraphFileError: the file is damaged, of another version, or not what it claims; the message says where.
      OSError: it cannot be opened.
    """
    graph, extra = read(path)
    name = str(path) if isinstance(path, str | os.PathLike) else f"<{type(path).__name__}>"
    if extra is None:  # a flat graph
        names = tuple([f"args[{i}]" for i in range(len(graph.in_types))])
        out_names = tuple([f"output[{i}]" for i in range(len(graph.outputs))])
        return flat_function(graph, names, out_names)
    try:
        in_tree, out_tree = decode_tree(extra["in"]), decode_tree(extra["out"])
        names, out_names = [tuple(map(str, extra[what])) for what in ("names", "out_names")]
    except Exception as error:
        raise errors.bad_graph_file(name, f"its pytrees: {error}") from error
    counts = in_tree.num_leaves, out_tree.num_leaves, len(names), len(out_names)
    if counts != (len(graph.in_types), len(graph.outputs)) * 2 or not _is_call(in_tree):
        raise errors.bad_graph_file(name, "its pytrees do not fit its inputs and outputs")
    return Graph(graph, in_tree, out_tree, names, out_names)


def _is_call(tree: Any) -> bool:
    """Whether a structure is one of ``(args, kwargs)``."""
    value = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return (
        type(value) is tuple and [type(x) for x in value] == [tuple, dict] and all(isinstance(k, str) for k in value[1])
    )
