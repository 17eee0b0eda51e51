"""What the graph of a tensor currently keeps for backward: each saved tensor once, and each block of memory once.

NOTE [Memory that is held]
A node holds a tensor, the tensor its storage, the storage an array, and the array may be a NumPy view of another.
That last one owns the memory: it is counted in full with the first row that lies in it, since a saved part keeps the
whole alive.  A view caches the elements it has read; if that is a copy, it has a row of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from fgrad.mutable.explain.names import module_path, name_of, name_of_node
from fgrad.mutable.explain.wording import check_tensor, made_by, operation_of
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor, gradient_function
from fgrad.seam import Reader, Residual, Residuals, Source, dtype_text, numbered


def residuals(outputs: Tensor | Sequence[Tensor]) -> Residuals:
    """List what is kept for the backward of a loss: each tensor with its bytes, its maker and its readers.

    Arguments:
      outputs: the loss, or several results whose graphs are examined together.

    Returns:
      The ``Residuals``: what the nodes hold now; false once backward has freed everything.  Memory shared by several
      tensors is counted once.  Values that a ``checkpoint`` recomputes are not held, and not listed; its inputs are.

    Raises:
      TypeError: something else than tensors was given.

    >>> import fgrad.torch as torch
    >>> x, w = torch.ones(5, 3), torch.ones(3, 2, requires_grad=True)
    >>> h = x @ w
    >>> loss = (h * h).sum()
    >>> saved = torch.residuals(loss)
    >>> [(row.name, row.type, row.bytes, row.kind) for row in saved]
    [('x', 'f32[5,3]', 60, 'argument'), ('h', 'f32[5,2]', 40, 'intermediate')]
    >>> loss.backward()
    >>> print(torch.residuals(loss))
    Nothing is kept for backward.
    """
    roots: list[Any] = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    for x in roots:
        check_tensor(x, "residuals")
    rows = _Rows({id(x._storage) for x in roots})
    for node in _nodes(roots):
        for saved in _saved_by(node):
            rows.add(node, saved)
    return Residuals(tuple(sorted(rows.finished(), key=lambda row: -row.bytes)))


def _nodes(roots: Sequence[Tensor]) -> list[Node]:
    """The reachable nodes, in the order in which they were made."""
    stack = [node for x in roots if (node := gradient_function(x)) is not None]
    visited = set(stack)
    while stack:
        node = stack.pop()
        inner = getattr(node, "function", None)  # for CopySlices, the node of the write
        for following in (inner, *[edge[0] for edge in node.next_edges if edge is not None]):
            if isinstance(following, Node) and following not in visited:
                visited.add(following)
                stack.append(following)
    return sorted(visited, key=lambda node: node._sequence)


def _saved_by(node: Node) -> Iterator[Any]:
    """What a node saved, and the tensors that the user stored on the context of a custom Function."""
    yield from [s for s in getattr(node, "saved", ()) if isinstance(s, SavedTensor)]
    yield from [s for s in getattr(node, "_saved", ()) if isinstance(s, SavedTensor)]
    for value in getattr(node, "__dict__", {}).values():
        yield from [x for x in (value if isinstance(value, list | tuple) else (value,)) if isinstance(x, Tensor)]


@define
class _Row:
    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    kind: str
    made: Source | None
    view: str | None
    shared: str | None
    read: list[Reader] = field(factory=list)


class _Rows:
    """The rows so far, by the elements they show; and what holds each block of memory."""

    def __init__(self, results: set[int]):
        #: the storages of the results
        self.results = results
        self.rows: dict[Any, _Row] = {}
        self.holders: dict[int, str] = {}
        self.counts: dict[str, int] = {}

    def add(self, node: Node, saved: SavedTensor | Tensor) -> None:
        reader = Reader(operation_of(node), _source(node), module_path(node))
        for tensor, array in _held(saved):
            key = (id(array), tensor._geometry_of())
            row = self.rows.get(key)
            if row is None:
                row = self.rows[key] = self._row(node, saved, tensor, array)
            copy = self._copy(row, tensor)
            for each in (row, *copy):
                if reader not in each.read:
                    each.read.append(reader)

    def _row(self, node: Node, saved: SavedTensor | Tensor, tensor: Tensor, array: Any) -> _Row:
        is_output = isinstance(saved, SavedTensor) and saved.output
        maker = node if is_output else made_by(tensor)
        base = tensor if tensor._view is None else tensor._view.base
        if id(tensor._storage) in self.results:
            kind = "output"
        elif is_output or made_by(base) is not None:
            kind = "intermediate"
        else:
            # held by the graph alone, so kept for backward only: a mask of dropout, a batch that went out of scope
            kind = "argument" if base._requires_grad or name_of(base) is not None else "intermediate"
        name = numbered(self._name(node, saved, tensor, maker), self.counts)
        memory = _memory(array)
        shared = self.holders.get(id(memory))
        if shared is None:
            self.holders[id(memory)] = name
        view = None if tensor._view is None else _name(base, made_by(base)) or "a tensor without a name"
        size = memory.nbytes if shared is None else 0
        type = tensor._type
        return _Row(name, type.shape, dtype_text(type.dtype.numpy), size, kind, _source(maker), view, shared)

    def _copy(self, row: _Row, tensor: Tensor) -> list[_Row]:
        """The row of a view's cached elements, if they were copied out of the base's memory."""
        if tensor._cache is None:
            return []
        elements = _memory(tensor._cache[1])
        key = id(elements)
        if key not in self.rows:
            if key in self.holders:
                return []
            self.holders[key] = name = numbered(f"elements of {row.name}", self.counts)
            self.rows[key] = _Row(name, row.shape, row.dtype, elements.nbytes, "intermediate", row.made, row.view, None)
        return [self.rows[key]]

    def _name(self, node: Node, saved: SavedTensor | Tensor, tensor: Tensor, maker: Node | None) -> str:
        # intermediates of an instruction have no name
        on_the_way = maker is not None and maker is not node and maker._source == node._source
        user_name = None if on_the_way else _name(tensor, maker)
        if user_name is not None:
            return user_name
        view = tensor._view
        if view is not None and (base := _name(view.base, made_by(view.base))) is not None:
            return f"{view.operation} of {base}"
        if maker is not None:
            return operation_of(maker)
        return f"{saved.name if isinstance(saved, SavedTensor) else 'a tensor'} of {operation_of(node)}"

    def finished(self) -> Iterator[Residual]:
        for row in self.rows.values():
            read = tuple(row.read)
            yield Residual(row.name, row.shape, row.dtype, row.bytes, row.kind, row.made, read, row.view, row.shared)


def _name(tensor: Tensor, maker: Node | None) -> str | None:
    """The user's name for a tensor: the variable that its line stores it in, or where it is now."""
    user_name = (None if maker is None else name_of_node(maker)) or name_of(tensor)
    return None if user_name is None else user_name.replace("'", "")


def _held(saved: SavedTensor | Tensor) -> Iterator[tuple[Tensor, Any]]:
    """The tensors in memory for a saved value, each with its array; none once backward has freed it."""
    if isinstance(saved, Tensor):
        yield saved, saved._storage.array
    elif saved.tensor is not None:
        yield saved.tensor, saved.tensor._storage.array if saved.array is None else saved.array
    elif saved.hooks is not None:
        # packed by a hook: the tensor itself, or a tuple with it
        packed = saved.packed if isinstance(saved.packed, list | tuple) else (saved.packed,)
        yield from [(x, x._storage.array) for x in packed if isinstance(x, Tensor)]
        # a checkpoint keeps its inputs, from which its hook recomputes the packed value
        for tensor in getattr(getattr(saved.hooks[1], "__self__", None), "inputs", ()):
            if isinstance(tensor, SavedTensor):
                yield from _held(tensor)


def _memory(array: Any) -> Any:
    """The array that owns another's memory."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _source(node: Node | None) -> Source | None:
    return None if node is None or node._source is None else Source(*node._source)
