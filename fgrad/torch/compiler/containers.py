"""The containers among a call's arguments and in its result, taken apart and put together.

Dicts keep their order: a function may go by it, and its result shows it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jax import tree_util

from fgrad.mutable.capture.world import Place
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.trees import NODES, node_type

#: a kind of container, what else there is to know of one, and the structures in it; None stands for a leaf
Structure = tuple[Any, Any, tuple[Any, ...]] | None

#: classes whose objects are leaves
_LEAVES = frozenset((Tensor, Parameter, type(None), bool, int, float, complex, str, bytes))
_JAX = "a container that is registered with JAX"


def take_apart(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None = None) -> Structure:
    """Put the leaves of a tree into a list; its structure, which has a hash if what the containers know has one."""
    cls = tree.__class__
    if cls in _LEAVES or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return None
    kind, known, children = (cls, None, tree) if cls is tuple or cls is list else _opened(tree)
    if kind is None:
        leaves.append(tree)
        return None
    return kind, known, tuple([take_apart(x, leaves, is_leaf) for x in children])


def put_together(structure: Structure, leaves: Iterator[Any]) -> Any:
    """The tree of a structure with the next leaves."""
    if structure is None:
        return next(leaves)
    kind, known, below = structure
    children = [put_together(x, leaves) for x in below]
    return tree_util.tree_unflatten(known, children) if kind is _JAX else NODES[kind].unflatten_fn(children, known)


def named_leaves(tree: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """The leaves of a tree with their places."""
    kind, _, children = (None, None, ()) if is_tensor(tree) else _opened(tree)
    if kind is None:
        yield place, tree
    if isinstance(tree, dict):
        places = [place.item(key) for key in tree]
    elif hasattr(tree, "_fields"):
        places = [place.attribute(name) for name in tree._fields]
    else:
        places = [place.item(i) for i in range(len(children))]
    for at, child in zip(places, children, strict=kind is not None):
        yield from named_leaves(child, at)


def containers(tree: Any) -> Iterator[Any]:
    """The containers of a tree."""
    kind, _, children = (None, None, ()) if is_tensor(tree) else _opened(tree)
    if kind is not None:
        yield tree
        for child in children:
            yield from containers(child)


def _opened(tree: Any) -> tuple[Any, Any, Any]:
    """The kind of a container, what else there is to know of it, and its children; no kind for a leaf."""
    kind = node_type(tree)
    node = NODES.get(kind)
    if node is not None:
        children, known = node.flatten_fn(tree)
        return kind, _hashable(known), children
    children, structure = tree_util.tree_flatten(tree, is_leaf=lambda x: x is not tree)
    return (None, None, ()) if tree_util.treedef_is_leaf(structure) else (_JAX, structure, children)


def _hashable(known: Any) -> Any:
    return tuple([_hashable(x) for x in known]) if known.__class__ is list else known
