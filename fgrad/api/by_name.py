"""Flat graphs as graphs that are called with dicts of values by name."""

from collections.abc import Sequence

from jax import tree_util

from fgrad.api.graphs import Graph
from fgrad.graph.graph import Graph as FlatGraph


def graph_by_name(core: FlatGraph, groups: Sequence[Sequence[str]], out_name: str) -> Graph:
    """A graph with one result that takes a dict for each group of names, in the order of its flat inputs.

    The names of a group are sorted, as JAX sorts the items of a dict.
    """
    args = tuple([dict.fromkeys(names, 0) for names in groups])
    names = tuple([name for group in groups for name in group])
    return Graph(core, tree_util.tree_structure((args, {})), tree_util.tree_structure(0), names, (out_name,))
