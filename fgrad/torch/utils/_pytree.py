"""``torch.utils._pytree``: trees of containers; private in PyTorch, but used by libraries."""

from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, cast

from fgrad.torch.trees import (
    NODES as SUPPORTED_NODES,
    IsLeaf,
    LeafSpec,
    NodeDef,
    TreeSpec,
    flatten,
    is_namedtuple_class,
    map_leaves,
    node_type as _get_node_type,
    register,
    shown as treespec_pprint,
    spread as _broadcast_to_and_flatten,
)

__all__ = [
    "SUPPORTED_NODES", "Context", "LeafSpec", "NodeDef", "PyTree", "PyTreeSpec", "TreeSpec",
    "_broadcast_to_and_flatten", "_get_node_type", "_register_pytree_node", "arg_tree_leaves", "is_namedtuple",
    "is_namedtuple_class", "is_namedtuple_instance", "map_only", "register_pytree_node", "tree_all", "tree_all_only",
    "tree_any", "tree_any_only", "tree_flatten", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_only_", "tree_structure", "tree_unflatten", "treespec_pprint",
]  # fmt: skip

PyTree = Any
Context = Any
PyTreeSpec = TreeSpec


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **kwargs: Any) -> None:
    """Register a class of containers, here and in ``torch.func``.

    Arguments:
      cls: the class.
      flatten_fn: from a container to its children and auxiliary data.
      unflatten_fn: from children and auxiliary data to the container.
      kwargs: options of writing structures to files, not supported here.

    Raises:
      ValueError: it is already registered.
    """
    register(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether a value is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether a value is a named tuple, or a named tuple class."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is not a container."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure."""
    return flatten(tree, is_leaf)


def tree_unflatten(leaves: Any, treespec: Any) -> PyTree:
    """The tree of a structure with these leaves.

    Raises:
      TypeError: it is not a structure.
      ValueError: the number of leaves is wrong.
    """
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise TypeError(
                f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}."
            )
        leaves, treespec = treespec, leaves  # PyTorch, too, accepts the other order
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one by one."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The tree with each leaf replaced by a function of it and of the subtrees of ``rests`` there.

    Arguments:
      func: of as many arguments as there are trees.
      tree: the first tree.
      rests: trees of which it is a prefix.
      is_leaf: whether a container is a leaf.

    Raises:
      ValueError: a tree has another structure.

    >>> tree_map(lambda x, y: [x] + y, [5, 6], [[7, 9], [1, 2]])
    [[5, 7, 9], [6, 1, 2]]
    """
    return map_leaves(func, tree, *rests, is_leaf=is_leaf)


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call a function with each leaf; returns the tree itself."""
    map_leaves(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator that restricts a function to values of some types and returns others unchanged.

    Raises:
      TypeError: it is not a type, tuple of types or predicate.
    """
    holds = _predicate(type_or_types_or_pred)
    return lambda func: lambda x: func(x) if holds(x) else x


def _predicate(types: Any) -> Callable[[Any], bool]:
    if isinstance(types, type | tuple | UnionType):
        return lambda x: isinstance(x, types)
    if callable(types):
        return cast(Callable[[Any], bool], types)
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def tree_map_only(type_or_types_or_pred: Any, /, func: Any, tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """The tree with each leaf of these types replaced by a function of it.

    >>> tree_map_only(int, lambda x: x + 1, [1, "a"])
    [2, 'a']
    """
    return map_leaves(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Any, tree: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call a function with each leaf of these types; returns the tree itself."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Any, tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for all leaves of these types."""
    return all(pred(x) for x in filter(_predicate(type_or_types), tree_leaves(tree, is_leaf)))


def tree_any_only(type_or_types: Any, /, pred: Any, tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a predicate holds for some leaf of these types."""
    return any(pred(x) for x in filter(_predicate(type_or_types), tree_leaves(tree, is_leaf)))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return [*tree_leaves(args), *tree_leaves(kwargs)]
