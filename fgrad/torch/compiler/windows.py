"""Arguments that are parts of larger tensors: a program gets the memory that they span.

NOTE [Windows]
A loop over ``zip(X.split(8), Y.split(8))`` calls a step with views of ``X`` and ``Y``, each time elsewhere in the same
storage.  The graph that is recorded reads slices of the whole storage, at fixed places.  If it does nothing else with
the storage, and nothing but arguments and their bases holds it, the part from the first slice to the last becomes the
input instead: the *window*.  A later call may have it elsewhere, if

- its arguments have the same geometries, all moved by the same number of elements,
- the slices begin at the same places in their rows, so that recording would slice in the same way, and
- the window lies within the storage.

A function that asks for a place in memory (``storage_offset()``, ``_base``, ``as_strided``) gets no windows.
"""

from collections.abc import Callable, Iterable, Sequence
from math import lcm, prod
from typing import Any

from attrs import evolve, frozen
from jax import lax

from fgrad.graph.graph import Builder, Graph
from fgrad.mutable.capture.capture import Capture, StorageInput
from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import array_type, recorded
from fgrad.passes.simplify import simplify


@frozen
class Window:
    """The part of a storage that a call reads, by the arguments that are views of it.

    Attributes:
      arguments: the indices of their tensors.
      geometries: theirs, with offsets counted from that of the first.
      start: where the window begins, counted from there.
      count: how many elements it has.
      step, residue: the first offset has this residue modulo the step.
    """

    arguments: tuple[int, ...]
    geometries: tuple[Geometry, ...]
    start: int
    count: int
    step: int
    residue: int

    def fits(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the arguments of another call have the same window elsewhere."""
        first, storage = tensors[0]._geometry, tensors[0]._storage
        if first is None or first.offset % self.step != self.residue or storage.dtype is not first.dtype:
            return False
        begin = first.offset + self.start
        if begin < 0 or begin + self.count > storage.count:
            return False
        geometries = [x._geometry and _moved(x._geometry, -first.offset) for x in tensors]
        return all(a == b for a, b in zip(geometries, self.geometries, strict=True))

    def read(self, tensor: Tensor) -> Any:
        """The elements of the window of a call with this first argument."""
        geometry, storage = tensor._geometry, tensor._storage
        assert geometry is not None
        return storage.read(Geometry((self.count,), (1,), geometry.offset + self.start, storage.dtype))

    def renumbered(self, indices: Sequence[int]) -> "Window":
        """The same with other indices: the positions of the old ones in a list."""
        return evolve(self, arguments=tuple([indices.index(i) for i in self.arguments]))


def _moved(geometry: Geometry, by: int) -> Geometry:
    return evolve(geometry, offset=geometry.offset + by)


@frozen(eq=False)
class Views:
    """The arguments that are views of a storage that nothing else holds, and their bases."""

    arguments: list[Tensor]
    bases: list[Tensor]


def views_of_arguments(capture: Capture, arguments: Iterable[Tensor]) -> dict[Storage, Views]:
    """The storages, not written, that only arguments and their bases hold."""
    if capture.position_is_read:
        return {}
    passed, held = {id(x) for x in arguments}, capture.snapshot.held_tensors
    views = {each.storage: Views([], []) for each in capture.storages.values() if _can_have_window(each)}
    for tensor in capture.snapshot.tensors:
        found = views.get(tensor._storage)
        if found is None:
            continue
        is_argument = id(tensor) in passed and tensor._geometry is not None
        is_base = id(tensor) not in passed and tensor._view is None
        if id(tensor) in held or tensor._node is not None or not (is_argument or is_base):
            del views[tensor._storage]
        else:
            (found.arguments if is_argument else found.bases).append(tensor)
    bases = {id(x._view.base) for found in views.values() for x in found.arguments if x._view is not None}
    gradients = {id(x._grad) for x in capture.snapshot.tensors}
    return {
        storage: found
        for storage, found in views.items()
        if found.arguments
        and all(id(x) in bases for x in found.bases)
        and not any(id(x) in gradients for x in (*found.arguments, *found.bases))
    }


def _can_have_window(each: StorageInput) -> bool:
    storage = each.storage
    return not each.is_written and storage.strides is None and storage.home is None and storage.memory is None


@frozen(eq=False)
class _Slice:
    """A slice of an input as an array of rows: the shape of that, and the slice's starts and sizes."""

    parent: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def row(self) -> int:
        return prod(self.parent[1:])

    @property
    def begin(self) -> int:
        """The first element of its rows."""
        return self.starts[0] * self.row

    @property
    def end(self) -> int:
        return self.begin + self.sizes[0] * self.row

    @property
    def is_inside(self) -> bool:
        return all(a >= 0 and a + n <= size for a, n, size in zip(self.starts, self.sizes, self.parent, strict=True))

    def of_window(self, window: Any, begin: int) -> Any:
        """The slice of a window that begins at some element."""
        rows = lax.slice(window, (self.begin - begin,), (self.end - begin,))
        array = lax.reshape(rows, (self.sizes[0], *self.parent[1:]))
        starts = (0, *self.starts[1:])
        return lax.slice(array, starts, [start + size for start, size in zip(starts, self.sizes, strict=True)])


@frozen(eq=False)
class _Reads:
    """What a graph reads of an input: the values that are the input in some shape, and slices of these."""

    shaped: dict[int, tuple[int, ...]]
    slices: dict[int, _Slice]


def _reads(graph: Graph, number: int) -> _Reads | None:
    """The slices of an input that a graph reads, by the values that they give, or None if it does anything else."""
    consts = dict(enumerate(graph.consts, len(graph.in_types)))
    shaped: dict[int, tuple[int, ...]] = {number: graph.in_types[number].shape}
    slices: dict[int, _Slice] = {}
    for node, outs in graph.numbered():
        if shaped.keys().isdisjoint(node.inputs):
            continue
        if node.op.name == "reshape" and node.inputs[0] == number:
            shaped[outs.start] = node.op.out_types[0].shape
            continue
        array, *starts = node.inputs
        if node.op.name != "dynamic_slice" or array not in shaped or not all(i in consts for i in starts):
            return None
        found = _Slice(shaped[array], tuple([int(consts[i].value) for i in starts]), node.op.out_types[0].shape)
        if not found.is_inside:
            return None
        slices[outs.start] = found
    if not slices or not shaped.keys().isdisjoint(graph.outputs):
        return None
    return _Reads(shaped, slices)


def with_window(graph: Graph, number: int, views: Views, index: Callable[[Tensor], int]) -> tuple[Graph, Window] | None:
    """The graph with a window in the place of an input, or None if it does not only read slices of the input.

    Arguments:
      views: those of the storage that is the input.
      index: gives the index of a tensor.
    """
    reads = _reads(graph, number)
    if reads is None:
        return None
    slices = reads.slices.values()
    begin, end, step = min([x.begin for x in slices]), max([x.end for x in slices]), lcm(*[x.row for x in slices])
    geometries = [x._geometry_of() for x in views.arguments]
    offset = geometries[0].offset
    relative = tuple([_moved(each, -offset) for each in geometries])
    window = Window(tuple(map(index, views.arguments)), relative, begin - offset, end - begin, step, offset % step)
    types = list(graph.in_types)
    types[number] = array_type((end - begin,), types[number].dtype)
    builder = Builder(types)
    numbers = [*builder.inputs, *map(builder.const, graph.consts)]
    for node, outs in graph.numbered():
        if outs.start in reads.shaped:
            numbers.append(-1)  # only slices read it
        elif outs.start in reads.slices:
            part = recorded(
                lambda array, read=reads.slices[outs.start]: [read.of_window(array, begin)], [types[number]]
            )
            numbers += builder.splice(simplify(part), [number], node.source)
        else:
            first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
            numbers += range(first, first + len(outs))
    return builder.finish([numbers[i] for i in graph.outputs], builder.inputs), window
