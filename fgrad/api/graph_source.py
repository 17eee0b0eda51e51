"""A graph as the source of a function of its own pytrees."""

from collections.abc import Sequence
from typing import Any

from jax import tree_util

from fgrad import errors
from fgrad.graph.graph import Graph
from fgrad.graph.python_source import program
from fgrad.graph.python_values import Constants, container, identifier
from fgrad.record.stager import stage_closed
from fgrad.run.executable import run


def python_program(
    graph: Graph, in_tree: Any, out_tree: Any, names: Sequence[str], name: str, constants: dict[str, Any] | None
) -> str:
    """The source of a function with arguments of ``in_tree``, whose leaves have these names, and results of
    ``out_tree``."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"a function cannot be called {errors.shown(name)}")
    table = Constants(constants)
    args, kwargs = tree_util.tree_unflatten(in_tree, range(in_tree.num_leaves))
    parameters, inputs, remaining = [], [], list(names)
    for arg in args:
        texts, parameter = _paths(arg, remaining, parameters)
        parameters.append(parameter)
        inputs += texts
    if kwargs:
        parameters.append("*")
    for key in sorted(kwargs):
        texts, parameter = _paths(kwargs[key], remaining, parameters, key)
        parameters.append(parameter)
        inputs += texts

    def result(outs: Sequence[str]) -> str:
        text = container(out_tree, outs)
        if text is not None:
            return text
        return f"jax.tree.unflatten({table('out_tree', out_tree, 'the structure of the result')}, [{', '.join(outs)}])"

    to_callable = lambda core: lambda *args: run(core, args)  # noqa: E731
    return program(graph, parameters, inputs, names, result, table, to_callable, stage_closed, name)


def _paths(arg: Any, remaining: list[str], parameters: Sequence[str], key: str | None = None) -> tuple[list[str], str]:
    """The expressions of an argument's leaves, whose names are taken from ``remaining``, and its parameter's name."""
    path_leaves = tree_util.tree_flatten_with_path(arg)[0]
    suffixes = [tree_util.keystr(path) for path, _ in path_leaves]
    names = [remaining.pop(0) for _ in path_leaves]
    base = key
    if base is None:
        fits = bool(names) and all(name.endswith(suffix) for name, suffix in zip(names, suffixes, strict=True))
        base = unique = identifier(names[0].removesuffix(suffixes[0])) if fits else f"arg{len(parameters)}"
        count = 1
        while unique in parameters:
            count += 1
            unique = f"{base}_{count}"
        base = unique
    if all(_is_source(path) for path, _ in path_leaves):
        return [base + suffix for suffix in suffixes], base
    return [f"jax.tree.leaves({base})[{k}]" for k in range(len(path_leaves))], base


def _is_source(path: Any) -> bool:
    """Whether a path is written as Python would: items of sequences and dicts, attributes."""
    plain = tree_util.SequenceKey | tree_util.GetAttrKey
    return all(
        isinstance(entry, plain) or (isinstance(entry, tree_util.DictKey) and type(entry.key) in (str, int, bool))
        for entry in path
    )
