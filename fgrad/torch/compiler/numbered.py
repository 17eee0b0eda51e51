"""Dicts whose keys are numbers, as nodes of a pytree that ``jax.export`` can write to a file.

An optimiser's state has its parameters' numbers for keys, as in its ``state_dict``.  JAX writes plain dicts only if all
keys are strings.
"""

import json
from collections.abc import Iterable
from typing import Any

from jax import export, tree_util


class Numbered(dict[int, Any]):
    """A dict whose keys are numbers."""

    __slots__ = ()


def _children_with_keys(entries: Numbered) -> tuple[list[tuple[Any, Any]], tuple[int, ...]]:
    keys = tuple(sorted(entries))
    return [(tree_util.DictKey(key), entries[key]) for key in keys], keys


def _children(entries: Numbered) -> tuple[list[Any], tuple[int, ...]]:
    keys = tuple(sorted(entries))
    return [entries[key] for key in keys], keys


def _of(keys: tuple[int, ...], children: Iterable[Any]) -> Numbered:
    return Numbered(zip(keys, children, strict=True))


tree_util.register_pytree_with_keys(Numbered, _children_with_keys, _of, _children)
export.register_pytree_node_serialization(
    Numbered,
    serialized_name=f"{Numbered.__module__}.{Numbered.__qualname__}",
    serialize_auxdata=lambda keys: json.dumps(keys).encode(),
    deserialize_auxdata=lambda written: tuple(json.loads(written)),
)


def numbered(tree: Any) -> Any:
    """A tree of dicts, lists and tuples, in which dicts whose keys are numbers are ``Numbered``."""
    if type(tree) in (dict, Numbered):
        entries = {key: numbered(value) for key, value in tree.items()}
        return Numbered(entries) if entries and all(key.__class__ is int for key in entries) else entries
    return type(tree)(map(numbered, tree)) if type(tree) in (list, tuple) else tree
