"""Trees of Python containers, flattened as ``torch.func`` does: dicts keep their order, and ``None`` is a leaf."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from attrs import field, frozen

from fgrad.mutable.types.size import Size
from fgrad.torch.return_types import Result

IsLeaf = Callable[[Any], bool] | None


class NodeDef(NamedTuple):
    """How containers of a type are flattened and unflattened."""

    type: Any
    #: a container to its children and auxiliary data
    flatten_fn: Callable[[Any], tuple[Sequence[Any], Any]]
    #: children and auxiliary data to the container
    unflatten_fn: Callable[[Any, Any], Any]


#: the types of containers; everything else is a leaf.  All named tuples are under ``namedtuple``.
NODES: dict[Any, NodeDef] = {}


def register(cls: Any, flatten_fn: Any, unflatten_fn: Any) -> None:
    """Register a class of containers.

    Raises:
      ValueError: it is already registered.
    """
    if cls in NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


register(tuple, lambda tree: (list(tree), None), lambda children, context: tuple(children))
# a size comes back as a tuple, as in PyTorch: its leaves may be anything by then
register(Size, lambda tree: (list(tree), None), lambda children, context: tuple(children))
register(list, lambda tree: (tree, None), lambda children, context: list(children))
register(deque, lambda tree: (list(tree), tree.maxlen), lambda children, context: deque(children, maxlen=context))
register(namedtuple, lambda tree: (list(tree), type(tree)), lambda children, context: context(*children))
for _cls in (dict, OrderedDict):
    register(
        _cls,
        lambda tree: (list(tree.values()), list(tree)),
        lambda children, context, cls=_cls: cls(zip(context, children, strict=True)),
    )
register(
    defaultdict,
    lambda tree: (list(tree.values()), [tree.default_factory, list(tree)]),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
for _cls in Result.__subclasses__():
    register(_cls, lambda tree: (tree, None), lambda children, context, cls=_cls: cls(children))

#: these match each other
_DICTS = (dict, OrderedDict, defaultdict)
_BUILTIN = (*_DICTS, tuple, list, deque, namedtuple)


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class was made by ``namedtuple`` or ``NamedTuple``."""
    return issubclass(cls, tuple) and cls.__bases__ == (tuple,) and isinstance(getattr(cls, "_fields", None), tuple)


def node_type(tree: Any) -> Any:
    """The type under which a value is looked up in ``NODES``."""
    cls = type(tree)
    return namedtuple if cls not in NODES and is_namedtuple_class(cls) else cls


@frozen(repr=False)
class TreeSpec:
    """The structure of a tree: the type of the root, its auxiliary data, and the structures of its children.

    A leaf has no type.
    """

    type: Any
    context: Any
    _children: Sequence["TreeSpec"] = field(alias="children_specs")
    num_leaves: int = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        leaves = 1 if self.type is None else sum([child.num_leaves for child in self._children])
        object.__setattr__(self, "num_leaves", leaves)

    @property
    def num_nodes(self) -> int:
        return 1 + sum([child.num_nodes for child in self._children])

    @property
    def num_children(self) -> int:
        return len(self._children)

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> list["TreeSpec"]:
        return list(self._children)

    def child(self, index: int) -> "TreeSpec":
        return self._children[index]

    def keys(self) -> list[Any]:
        """The keys of a dictionary."""
        return self.context[1] if self.type is defaultdict else self.context

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves.

        Raises:
          ValueError: the number of leaves is wrong.
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of a tree at the leaves of this prefix of it.

        Raises:
          ValueError: it is not.
        """
        if self.type is None:
            return [tree]
        cls = node_type(tree)
        both = cls in _DICTS and self.type in _DICTS
        if cls is not self.type and not both:
            kind = "Node type" if self.type in _BUILTIN else "Type"
            raise ValueError(f"{kind} mismatch; expected {self.type!r}, but got {cls!r}.")
        children, context = NODES[cls].flatten_fn(tree)
        if len(children) != len(self._children):
            raise ValueError(f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}.")
        if both:
            missing, extra = set(self.keys()).difference(tree), set(tree).difference(self.keys())
            if missing or extra:
                raise ValueError(f"Node keys mismatch; missing key(s): {missing}; extra key(s): {extra}.")
            children = [tree[key] for key in self.keys()]
        elif cls is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; expected {self.context!r}, but got {context!r}."
                if cls in _BUILTIN
                else f"Node context mismatch for custom node type {self.type!r}."
            )
        subtrees: list[Any] = []
        for child, below in zip(children, self._children, strict=True):
            subtrees += below.flatten_up_to(child)
        return subtrees

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        inner = indent + 2
        parts = (",\n" + " " * inner).join([child.__repr__(inner) for child in self._children])
        return f"TreeSpec({self.type.__name__}, {self.context}, [{parts}])"

    def __hash__(self) -> int:
        return hash((self.type, tuple(self._children)))


@frozen(repr=False, init=False)
class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        self.__attrs_init__(None, None, ())  # pyright: ignore[reportAttributeAccessIssue]

    def __hash__(self) -> int:
        return hash(LeafSpec)


LEAF = LeafSpec()


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


_ASTERISK = _Asterisk()


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure; where ``is_leaf`` is true, containers are leaves too.

    >>> flatten({"b": 1, "a": (None, 2)})[0]
    [1, None, 2]
    """
    node = None if is_leaf is not None and is_leaf(tree) else NODES.get(node_type(tree))
    if node is None:
        return [tree], LEAF
    children, context = node.flatten_fn(tree)
    leaves: list[Any] = []
    structures = []
    for child in children:
        below, structure = flatten(child, is_leaf)
        leaves += below
        structures.append(structure)
    return leaves, TreeSpec(node.type, context, structures)


def unflatten(leaves: Iterable[Any], structure: TreeSpec) -> Any:
    """The tree with these leaves."""
    return _built(iter(leaves), structure)


def _built(leaves: Iterator[Any], structure: TreeSpec) -> Any:
    if structure.type is None:
        return next(leaves)
    children = [_built(leaves, child) for child in structure._children]
    return NODES[structure.type].unflatten_fn(children, structure.context)


def map_leaves(function: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with each leaf replaced by a function of it and of the subtrees of ``rests`` there."""
    leaves, structure = flatten(tree, is_leaf)
    return unflatten(map(function, leaves, *[structure.flatten_up_to(rest) for rest in rests]), structure)


def spread(prefix: Any, structure: TreeSpec) -> list[Any] | None:
    """For each leaf of a tree the leaf of its ``prefix``; None if it is not a prefix."""
    tops, top = flatten(prefix)
    try:
        subtrees = top.flatten_up_to(unflatten([_ASTERISK] * structure.num_leaves, structure))
    except ValueError:
        return None
    return [x for x, subtree in zip(tops, subtrees, strict=True) for _ in range(flatten(subtree)[1].num_leaves)]


def shown(structure: TreeSpec) -> str:
    """A structure as a tree with asterisks for leaves."""
    return repr(unflatten([_ASTERISK] * structure.num_leaves, structure))
