"""Trees of Python containers, flattened as ``torch.func`` does: dicts keep their order, and ``None`` is a leaf."""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from fgrad.torch.return_types import Result


@frozen
class Structure:
    """The containers of a tree: the type of this one, what it needs besides its children, and the children's.

    A leaf has no type.
    """

    type: Any = None
    context: Any = None
    children: tuple["Structure", ...] = ()

    @property
    def leaves(self) -> int:
        return 1 if self.type is None else sum([child.leaves for child in self.children])

    def text(self, indent: int = 0) -> str:
        """The structure as PyTorch shows it in errors."""
        if self.type is None:
            return "*"
        inner = indent + 2
        parts = (",\n" + " " * inner).join([child.text(inner) for child in self.children])
        return f"TreeSpec({self.type.__name__}, {self.context}, [{parts}])"

    def __str__(self) -> str:
        return self.text()


LEAF = Structure()

_DICTS = (dict, OrderedDict, defaultdict)


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


_ASTERISK = _Asterisk()


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and cls.__bases__ == (tuple,) and isinstance(getattr(cls, "_fields", None), tuple)


def _opened(tree: Any) -> tuple[Any, Any, Sequence[Any]] | None:
    """The type, the context and the children of a container; None of a leaf."""
    cls = type(tree)
    if cls in (tuple, list):
        return cls, None, tree
    if cls in (dict, OrderedDict):
        return cls, list(tree), list(tree.values())
    if cls is defaultdict:
        return cls, [tree.default_factory, list(tree)], list(tree.values())
    if cls is deque:
        return cls, tree.maxlen, list(tree)
    if issubclass(cls, Result):
        return cls, None, tree
    return (namedtuple, cls, tree) if _is_named_tuple(cls) else None


class namedtuple:
    """Stands for every class of named tuples."""


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, and its structure.

    >>> flatten({"b": 1, "a": (None, 2)})[0]
    [1, None, 2]
    """
    opened = _opened(tree)
    if opened is None:
        return [tree], LEAF
    cls, context, children = opened
    leaves: list[Any] = []
    structures = []
    for child in children:
        below, structure = flatten(child)
        leaves += below
        structures.append(structure)
    return leaves, Structure(cls, context, tuple(structures))


def unflatten(leaves: Sequence[Any], structure: Structure) -> Any:
    """The tree with these leaves."""
    return _built(iter(leaves), structure)


def _built(leaves: Any, structure: Structure) -> Any:
    cls = structure.type
    if cls is None:
        return next(leaves)
    children = [_built(leaves, child) for child in structure.children]
    context = structure.context
    if cls in (dict, OrderedDict):
        return cls(zip(context, children, strict=True))
    if cls is defaultdict:
        return defaultdict(context[0], zip(context[1], children, strict=True))
    if cls is deque:
        return deque(children, maxlen=context)
    return context(*children) if cls is namedtuple else cls(children)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with a function of each leaf in its place."""
    leaves, structure = flatten(tree)
    return unflatten([function(x) for x in leaves], structure)


def spread(prefix: Any, structure: Structure) -> list[Any] | None:
    """A leaf of ``prefix`` for each leaf of a tree that it is a prefix of; None if it is not."""
    opened = _opened(prefix)
    if opened is None:
        return [prefix] * structure.leaves
    cls, context, children = opened
    same = cls is structure.type or (cls in _DICTS and structure.type in _DICTS)
    if not same or len(children) != len(structure.children):
        return None
    if isinstance(context, list):
        keys = structure.context[1] if structure.type is defaultdict else structure.context
        if set(prefix) != set(keys):
            return None
        children = [prefix[key] for key in keys]
    found: list[Any] = []
    for child, below in zip(children, structure.children, strict=True):
        leaves = spread(child, below)
        if leaves is None:
            return None
        found += leaves
    return found


def shown(structure: Structure) -> str:
    """A structure as the tree it is of, with asterisks for leaves."""
    return repr(unflatten([_ASTERISK] * structure.leaves, structure))
