"""``torch.utils._pytree``: trees of containers; private in PyTorch, but used by libraries."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Any, cast

from attrs import frozen

from fgrad.mutable.types.size import Size
from fgrad.torch.return_types import Result
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
    "SUPPORTED_NODES", "Context", "GetAttrKey", "KeyEntry", "KeyPath", "LeafSpec", "MappingKey", "NodeDef", "PyTree",
    "PyTreeSpec", "SequenceKey", "TreeSpec", "_broadcast_to_and_flatten", "_get_node_type", "_register_pytree_node",
    "arg_tree_leaves", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq_instance",
    "key_get", "keystr", "map_only", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure",
    "tree_unflatten", "treespec_pprint",
]  # fmt: skip

PyTree = Any
Context = Any
PyTreeSpec = TreeSpec

# how the built-in containers are flattened, by PyTorch's names, which libraries take for containers of their own
_, _tuple_flatten, _tuple_unflatten = SUPPORTED_NODES[tuple]
_, _list_flatten, _list_unflatten = SUPPORTED_NODES[list]
_, _dict_flatten, _dict_unflatten = SUPPORTED_NODES[dict]
_, _ordereddict_flatten, _ordereddict_unflatten = SUPPORTED_NODES[OrderedDict]
_, _defaultdict_flatten, _defaultdict_unflatten = SUPPORTED_NODES[defaultdict]
_, _deque_flatten, _deque_unflatten = SUPPORTED_NODES[deque]
_, _namedtuple_flatten, _namedtuple_unflatten = SUPPORTED_NODES[namedtuple]


@frozen
class SequenceKey:
    """A step of a path: the index in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@frozen
class MappingKey:
    """A step of a path: the key in a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@frozen
class GetAttrKey:
    """A step of a path: the name of an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[KeyEntry, ...]
#: a container to its children, each with its step, and auxiliary data
FlattenWithKeys = Callable[[Any], tuple[list[tuple[KeyEntry, Any]], Any]]


def _with_keys(cls: Any, keys: Callable[[Any], Iterable[KeyEntry]]) -> FlattenWithKeys:
    def flatten_with_keys(tree: Any) -> tuple[list[tuple[KeyEntry, Any]], Any]:
        children, context = SUPPORTED_NODES[cls].flatten_fn(tree)
        return list(zip(keys(tree), children, strict=True)), context

    return flatten_with_keys


_tuple_flatten_with_keys = _with_keys(tuple, lambda tree: map(SequenceKey, range(len(tree))))
_list_flatten_with_keys = _with_keys(list, lambda tree: map(SequenceKey, range(len(tree))))
_deque_flatten_with_keys = _with_keys(deque, lambda tree: map(SequenceKey, range(len(tree))))
_dict_flatten_with_keys = _with_keys(dict, lambda tree: map(MappingKey, tree))
_ordereddict_flatten_with_keys = _with_keys(OrderedDict, lambda tree: map(MappingKey, tree))
_defaultdict_flatten_with_keys = _with_keys(defaultdict, lambda tree: map(MappingKey, tree))
_namedtuple_flatten_with_keys = _with_keys(namedtuple, lambda tree: map(GetAttrKey, tree._fields))

_FLATTEN_WITH_KEYS: dict[Any, FlattenWithKeys] = {
    tuple: _tuple_flatten_with_keys,
    Size: _tuple_flatten_with_keys,
    list: _list_flatten_with_keys,
    deque: _deque_flatten_with_keys,
    dict: _dict_flatten_with_keys,
    OrderedDict: _ordereddict_flatten_with_keys,
    defaultdict: _defaultdict_flatten_with_keys,
    namedtuple: _namedtuple_flatten_with_keys,
}


def register_pytree_node(
    cls: type,
    flatten_fn: Any,
    unflatten_fn: Any,
    *,
    flatten_with_keys_fn: FlattenWithKeys | None = None,
    **kwargs: Any,
) -> None:
    """Register a class of containers, here and in ``torch.func``.

    Arguments:
      cls: the class.
      flatten_fn: from a container to its children and auxiliary data.
      unflatten_fn: from children and auxiliary data to the container.
      flatten_with_keys_fn: from a container to pairs of a step and a child, and auxiliary data; for paths.
      kwargs: options of writing structures to files, not supported here.

    Raises:
      ValueError: it is already registered.
    """
    register(cls, flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _FLATTEN_WITH_KEYS[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether a value is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether a value is a named tuple, or a named tuple class."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: Any) -> bool:
    """Whether a value is a result with named parts, as of ``torch.max``."""
    return isinstance(obj, Result)


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


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with the steps that lead to it.

    Raises:
      ValueError: a class of containers was registered without its steps.

    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path([5, {"a": 6}])]
    [('[0]', 5), ("[1]['a']", 6)]
    """
    return list(_leaves_below((), tree, is_leaf))


def _leaves_below(path: KeyPath, tree: PyTree, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    cls = _get_node_type(tree)
    if cls not in _FLATTEN_WITH_KEYS:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {cls}. "
            "Please pass a flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in _FLATTEN_WITH_KEYS[cls](tree)[0]:
        yield from _leaves_below((*path, key), child, is_leaf)


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a tree, each with the steps that lead to it, and its structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """As ``tree_map``; ``func`` gets the path of each leaf first.

    >>> tree_map_with_path(lambda path, x: keystr(path), [5, {"a": 6}])
    ['[0]', {'a': "[1]['a']"}]
    """
    leaves, structure = tree_flatten_with_path(tree, is_leaf)
    others = [structure.flatten_up_to(rest) for rest in rests]
    return structure.unflatten(func(*leaf, *rest) for leaf, *rest in zip(leaves, *others, strict=True))


def keystr(kp: KeyPath) -> str:
    """A path as text."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


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
