"""The user's names for tensors, nodes, and the modules that operations ran in.

NOTE [Names in the mutable layer]
A tensor is named by its label, by its path in a module, by a variable of the calling frames, or, once the function
that held it has returned, by the variable that its line stored it in (NOTE [The user's names]).  ``Module.__call__``
notes in ``modes.module`` which module runs, and a node keeps that scope; the module's path is looked up on demand.
"""

import sys
from collections.abc import Iterable, Iterator
from inspect import CO_OPTIMIZED
from itertools import islice, pairwise
from types import ModuleType
from typing import Any

from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.seam import RawSource, Source, is_hidden, stored_names


def location(source: RawSource | None) -> str:
    """A line of the user's code: file, number and function."""
    if source is None:
        return "an unknown line"
    readable = Source(*source)
    return f"{readable.file}:{readable.line}, in {readable.function}"


def name_of(tensor: Tensor) -> str | None:
    """The user's name for a tensor: its label, a parameter's path in a module, or a variable of the calling frames."""
    name = _name_of(tensor)
    if name is None and tensor._view is not None:
        base = _name_of(tensor._view.base)
        return None if base is None else f"a view of {base}"
    return name


def _name_of(tensor: Tensor) -> str | None:
    if tensor._label is not None:
        return tensor._label
    frame = sys._getframe(2)
    # frames share their module's globals and pass on the same objects: each is searched once
    searched: set[int] = set()
    while frame is not None:
        if not is_hidden(frame.f_code):
            for scope in (_locals(frame), _globals(frame, searched)):
                for name, value in scope:
                    if isinstance(value, Tensor) and same(value, tensor) and name != "_":
                        return f"'{name}'"
                others = [item for item in scope if not isinstance(item[1], Tensor) and id(item[1]) not in searched]
                for search in (_in_module, _in_container, _in_modules):
                    for name, value in others:
                        inside = search(value, tensor)
                        if inside is not None:
                            path, _, item = inside.partition(" of ")
                            return f"'{path}' of '{name}{item}'"
                searched.update(id(value) for _, value in others)
        frame = frame.f_back
    # without renewing it: for a view whose base was written, a new node would have no name, and may be refused
    node = tensor._node
    name_of_result = None if node is None else name_of_node(node)
    return None if name_of_result is None else f"'{name_of_result}'"


def _locals(frame: Any) -> list[tuple[str, Any]]:
    """The local variables of a frame.

    Before Python 3.13 a function's frame keeps the dict ``f_locals``, and so all values in it, until the function
    ends: a graph would outlive the question about it.  So the dict is emptied, unless something else refers to it.
    """
    variables_now = frame.f_locals
    variables = list(variables_now.items())
    # references: the frame, the variable, the parameter of getrefcount
    if type(variables_now) is dict and frame.f_code.co_flags & CO_OPTIMIZED and sys.getrefcount(variables_now) <= 3:
        variables_now.clear()
    return variables


def _globals(frame: Any, searched: set[int]) -> list[tuple[str, Any]]:
    """The globals of a frame, unless they were already ``searched`` for another frame."""
    variables = frame.f_globals
    if id(variables) in searched:
        return []
    searched.add(id(variables))
    return list(variables.items())


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two handles are the same tensor to the user: one object, or an alias with history cut off."""
    return one is other or (
        one._storage is other._storage and one._counter is other._counter and one._geometry_of() == other._geometry_of()
    )


def _in_module(value: Any, tensor: Tensor) -> str | None:
    """The dotted name of a parameter or buffer in something that has ``named_parameters``."""
    if getattr(type(value), "named_parameters", None) is None:
        return None
    try:
        for name, parameter in [*value.named_parameters(), *value.named_buffers()]:
            if isinstance(parameter, Tensor) and same(parameter, tensor):
                return name
    except Exception:  # a half-constructed module: a name is not worth an error within an error
        return None
    return None


#: containers of more elements are not searched for a name
SEARCHED = 1000


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    """The items of a list, tuple or dict, or the attributes of a user's object, without methods of the user's."""
    if isinstance(value, list):
        return enumerate(islice(list.__iter__(value), SEARCHED))
    if isinstance(value, tuple):
        return enumerate(islice(tuple.__iter__(value), SEARCHED))
    if isinstance(value, dict):
        return list(islice(dict.items(value), SEARCHED))
    if isinstance(value, type | ModuleType):
        return ()
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return ()
    return list(dict.items(attributes)) if isinstance(attributes, dict) else ()


def _in_container(value: Any, tensor: Tensor) -> str | None:
    """A tensor's index or key in a list, tuple or dict, or its attribute name in a user's object."""
    for key, entry in _items(value):
        if isinstance(entry, Tensor) and same(entry, tensor):
            return str(key)
    return None


def _in_modules(value: Any, tensor: Tensor) -> str | None:
    """The path of a tensor in a module that is an item or an attribute of a container: ``weight of [0]``."""
    for key, entry in _items(value):
        inside = _in_module(entry, tensor)
        if inside is not None:
            return f"{inside} of {f'[{key!r}]' if isinstance(value, list | tuple | dict) else f'.{key}'}"
    return None


def name_of_node(node: Node) -> str | None:
    """The variable that the result of a node's operation was stored in."""
    names = () if node._source is None else stored_names(Source(*node._source))
    return names[0] if len(names) == 1 else None


def names_of_results(nodes: Iterable[Node]) -> dict[Node, str]:
    """The variables that the results of nodes were stored in, the nodes given in the order of backward.

    Of several nodes made by one instruction, the last one has its result.
    """
    names: dict[Node, str] = {}
    named_sources: set[Any] = set()
    for node in nodes:
        name = None if node._source in named_sources else name_of_node(node)
        named_sources.add(node._source)
        if name is not None:
            names[node] = name
    return names


class ModulePaths:
    """The paths of the modules that operations ran in: each pair of modules is looked up once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, Any], str] = {}

    def of(self, node: Node) -> str:
        """The path of a node's module, from the outermost one that was called: ``blocks.2.attn``.

        It is empty for operations of the outermost module itself, or of no module.
        """
        return ".".join([self._step(*pair) for pair in pairwise(modules_around(node._scope))])

    def _step(self, outer: Any, inner: Any) -> str:
        path = self._known.get((outer, inner))
        if path is None:
            path = self._known[outer, inner] = path_in(outer, inner)
        return path


def module_path(node: Node) -> str:
    """The path of one node's module."""
    return ModulePaths().of(node)


def modules_around(scope: Any) -> Iterator[Any]:
    """The modules of a scope that are still alive, outermost first."""
    alive = []
    while scope is not None:
        module, scope = scope
        alive.append(module())
    return reversed([module for module in alive if module is not None])


def path_in(outer: Any, inner: Any) -> str:
    """The path of a module in another; its class if it is not in there."""
    for name, module in outer.named_modules():
        if module is inner and name:
            return name
    return type(inner).__name__
