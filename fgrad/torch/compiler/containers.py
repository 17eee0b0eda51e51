"""Flattening and unflattening of the containers among a call's arguments and in its result.

Dicts keep their order: a function may depend on it, and its result shows it.

NOTE [Objects among the arguments]
An object of a user's class among the arguments, such as a trainer, is usually the same at each call, and a program may
set its attributes.  But a batch is a new object each time.  So once a class has had two objects that only differ in
being two, its objects are containers of their attributes (``OPENED``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any
from weakref import WeakSet

from jax import tree_util

from fgrad.mutable.capture.scopes import namespace_of
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch.compiler.constants import is_constant
from fgrad.torch.compiler.objects import Form, form_of, held_elsewhere
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.trees import NODES, node_type

#: a kind of container, its context (as in pytrees), and the structures in it; None stands for a leaf
Structure = tuple[Any, Any, tuple[Any, ...]] | None

#: classes whose objects are leaves
_LEAVES = frozenset((Tensor, Parameter, type(None), bool, int, float, complex, str, bytes))
#: classes whose objects among the arguments are containers
OPENED: WeakSet[type] = WeakSet()
_JAX = "a container that is registered with JAX"
#: objects that are containers, by id, with their forms (NOTE [Objects in results])
Objects = Mapping[int, Form]


def take_apart(
    tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None = None, objects: Objects = MappingProxyType({})
) -> Structure:
    """Append the leaves of a tree to a list; returns its structure, which is hashable if all contexts are."""
    cls = tree.__class__
    if cls in _LEAVES or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return None
    kind, context, children = (cls, None, tree) if cls is tuple or cls is list else _opened(tree, objects)
    if kind is None:
        leaves.append(tree)
        return None
    return kind, context, tuple([take_apart(x, leaves, is_leaf, objects) for x in children])


def put_together(structure: Structure, leaves: Iterator[Any]) -> Any:
    """The tree of a structure with the next leaves."""
    if structure is None:
        return next(leaves)
    kind, context, substructures = structure
    children = [put_together(x, leaves) for x in substructures]
    if isinstance(kind, Form):
        return kind.make(context, children)
    return tree_util.tree_unflatten(context, children) if kind is _JAX else NODES[kind].unflatten_fn(children, context)


def named_leaves(
    tree: Any, location: Location, objects: Objects = MappingProxyType({})
) -> Iterator[tuple[Location, Any]]:
    """The leaves of a tree with their locations."""
    nothing: tuple[Any, Any, Any] = None, None, ()
    kind, context, children = nothing if is_tensor(tree) else _opened(tree, objects)
    if kind is None:
        yield location, tree
    if isinstance(kind, Form):
        *attributes, entries = context
        locations = [*[location.attribute(name) for name in chain(*attributes)], *[location.item(x) for x in entries]]
    elif isinstance(tree, dict):
        locations = [location.item(key) for key in tree]
    elif isinstance(tree, tuple) and (names := getattr(tree, "_fields", ())):
        locations = [location.attribute(name) for name in names]
    elif tree.__class__ in OPENED:
        locations = [location.attribute(name) for name in vars(tree)]
    else:
        locations = [location.item(i) for i in range(len(children))]
    for at, child in zip(locations, children, strict=kind is not None):
        yield from named_leaves(child, at, objects)


def containers(tree: Any) -> Iterator[Any]:
    """The containers of a tree."""
    kind, _, children = (None, None, ()) if is_tensor(tree) else _opened(tree)
    if kind is not None:
        yield tree
        for child in children:
            yield from containers(child)


def flat(values: Iterable[Any]) -> Iterator[Any]:
    """Values, and those in the tuples among them."""
    for x in values:
        yield x
        if isinstance(x, tuple | frozenset):
            yield from flat(x)


def new_objects(result: Any, outside: Snapshot) -> dict[int, Form]:
    """The objects in a result that each call can make anew, by id, with their forms (NOTE [Objects in results]).

    Arguments:
      outside: what the function could reach before the call.
    """
    visited, forms = _walked(result, outside)
    objects = [visited[at] for at in forms]
    holders = {*visited, *[id(namespace_of(x)) for x in visited.values()], id(visited), id(objects)}
    held = held_elsewhere(objects, holders)
    return {at: form for at, form in forms.items() if at not in held}


def _walked(result: Any, outside: Snapshot) -> tuple[dict[int, Any], dict[int, Form]]:
    """What is in a result and is not from outside, by id, and those of its objects that have a form."""
    stack, visited, forms = [result], dict[int, Any](), dict[int, Form]()
    known = outside.objects.keys() | outside.argument_containers
    while stack:
        x = stack.pop()
        if id(x) in visited or is_tensor(x) or is_constant(x) or id(x) in known:
            forms.pop(id(x), None)  # it is there twice, or holds itself
            continue
        visited[id(x)] = x
        kind, _, children = (None, None, ()) if x.__class__ in OPENED else _opened(x)
        if kind is None and isinstance(form := form_of(x), Form):
            forms[id(x)] = form
            children = form.parts(x)[1]
        stack += children
    return visited, forms


def _opened(tree: Any, objects: Objects = MappingProxyType({})) -> tuple[Any, Any, Any]:
    """The kind of a container, its context and its children; no kind for a leaf."""
    form = objects.get(id(tree))
    if form is not None:
        return form, *form.parts(tree)
    if tree.__class__ in OPENED:
        attributes = vars(tree)
        return tree.__class__, tuple(attributes), attributes.values()
    kind = node_type(tree)
    # a size is handed on whole: put together from its numbers it would be a tuple
    node = None if kind is Size else NODES.get(kind)
    if node is not None:
        children, context = node.flatten_fn(tree)
        return kind, _hashable(context), children
    children, structure = tree_util.tree_flatten(tree, is_leaf=lambda x: x is not tree)
    return (None, None, ()) if tree_util.treedef_is_leaf(structure) else (_JAX, structure, children)


def _hashable(context: Any) -> Any:
    return tuple([_hashable(x) for x in context]) if context.__class__ is list else context
