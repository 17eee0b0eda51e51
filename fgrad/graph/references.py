"""References (``jax.new_ref``) as values: what a graph knows of memory that is read and written in order.

NOTE [References are threaded through]
A graph has no memory.  Where code reads and writes a reference, its graph carries the value that the reference has at
that point: reading gives the value, writing makes a new one, and a call that writes takes the value and gives back the
new one.  In the body of a loop the value becomes part of the carry.  So a derivative needs no rules for references.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.ref
from attrs import frozen
from jax import lax, tree_util

from fgrad import errors
from fgrad.graph.graph import Builder, Graph
from fgrad.graph.op import intern
from fgrad.jaxcore import ShapedArray, is_reference, primitive


def held_type(type: Any) -> ShapedArray:
    """The type of the value that a reference holds; other types are their own."""
    return type.inner_aval if is_reference(type) else type


@frozen(eq=False)
class Threaded:
    """A call without references.

    ``graph`` takes, for each that the call takes, its value, and gives, after the results, the new values of those at
    the inputs ``written``.
    """

    graph: Graph
    written: tuple[int, ...]


#: by primitive that takes or makes references: a function of its parameters, of the types of its inputs, and of what
#: tells these apart (one reference may be given twice)
THREADED: dict[str, Callable[[dict[str, Any], Sequence[Any], Sequence[Any]], Threaded]] = {}

#: the primitives that make a reference
MAKERS = frozenset({"new_ref", "empty_ref"})


def threaded_call(primitive: Any, params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    """A call of ``primitive``, some of whose inputs are references, without these.

    Raises:
      UndefinedDerivativeError: nothing is known of what the primitive does to references.
    """
    rule = THREADED.get(primitive.name)
    if rule is None:
        raise errors.mutable_reference(primitive.name)
    threaded = rule(params, types, names)
    builder = Builder([held_type(t) for t in types])
    outs = builder.splice(threaded.graph, builder.inputs)
    first = len(outs) - len(threaded.written)
    # what is read from a reference is of its type, whatever was written there
    new = [retyped(builder, k, held_type(types[i])) for i, k in zip(threaded.written, outs[first:], strict=True)]
    return Threaded(builder.finish([*outs[:first], *new]), threaded.written)


def retyped(builder: Builder, number: int, type: ShapedArray) -> int:
    """A value as one of a type that differs from its own in weakness only."""
    if builder.types[number].weak_type == type.weak_type:
        return number
    params = {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}
    return builder.emit(intern(primitive("convert_element_type"), params, (builder.types[number],)), (number,))


class Cells:
    """The current values of the references that are threaded through a builder, by variable."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.values: dict[Any, int] = {}
        self.written: set[Any] = set()

    def concerned(self, eqn: Any) -> bool:
        """Whether an equation makes, reads or writes one of the references."""
        return eqn.primitive.name in MAKERS or any(is_reference(v.aval) and v in self.values for v in eqn.invars)

    def write(self, eqn: Any, read: Callable[[Any], int]) -> list[int]:
        """Write an equation without its references; the numbers of its results."""
        types = [v.aval for v in eqn.invars]
        threaded = threaded_call(eqn.primitive, eqn.params, types, eqn.invars)
        outs = self.builder.splice(threaded.graph, [self._value(v, read) for v in eqn.invars])
        count = len(eqn.outvars)
        for i, number in zip(threaded.written, outs[count:], strict=True):
            self._write(eqn.invars[i], number, read)
        for v, number in zip(eqn.outvars, outs[:count], strict=True):
            if is_reference(v.aval):
                self.values[v] = number
        return outs[:count]

    def _value(self, var: Any, read: Callable[[Any], int]) -> int:
        if not is_reference(var.aval):
            return read(var)
        if var in self.values:
            return self.values[var]
        return self.builder.emit(full_access("get", [var.aval]), (read(var),))

    def _write(self, var: Any, number: int, read: Callable[[Any], int]) -> None:
        if var in self.values:
            self.values[var] = number
            self.written.add(var)
        else:
            self.builder.emit(full_access("swap", [var.aval, self.builder.types[number]]), (read(var), number))


def full_access(name: str, types: Sequence[Any]) -> Any:
    """The operation ``get`` or ``swap`` on all of what a reference holds."""
    return intern(primitive(name), {"tree": tree_util.tree_structure(())}, types)


# --------------------------------------------------------------------------------------------------------------------
# places within a reference


def taken(value: Any, indexers: Sequence[Any]) -> Any:
    """What stands at a place: the transforms of ``ref.at[...]`` and its like, one after the other."""
    for indexer in indexers:
        value = _get(value, indexer)
    return value


def put(value: Any, indexers: Sequence[Any], new: Any) -> Any:
    """The value with another one at a place."""
    if not indexers:
        return new
    first, *rest = indexers
    return _put(value, first, put(_get(value, first), rest, new))


def _get(value: Any, place: Any) -> Any:
    kind = type(place).__name__
    if kind == "NDIndexer":
        sliced = _slices(place)
        if sliced is None:
            return value[_arrays(place)]
        starts, sizes, strides, points = sliced
        if all(s == 1 for s in strides):
            part = lax.dynamic_slice(value, starts, sizes)
        else:
            part = lax.slice(value, starts, _ends(starts, sizes, strides), strides)
        return lax.squeeze(part, points)
    if kind == "ReshapeTransform":
        return value.reshape(place.shape)
    if kind == "TransposeTransform":
        return value.transpose(place.permutation)
    raise errors.mutable_reference(f"ref.{kind.removesuffix('Transform').lower()}")


def _put(value: Any, place: Any, new: Any) -> Any:
    kind = type(place).__name__
    if kind == "ReshapeTransform":
        return new.reshape(value.shape)
    if kind == "TransposeTransform":
        return new.transpose(sorted(range(value.ndim), key=place.permutation.__getitem__))
    sliced = _slices(place)
    if sliced is None:
        return value.at[_arrays(place)].set(new)
    starts, sizes, strides, points = sliced
    if any(s != 1 for s in strides):
        index = tuple(map(slice, starts, _ends(starts, sizes, strides), strides))
        return value.at[index].set(lax.expand_dims(new, points))
    return lax.dynamic_update_slice(value, lax.expand_dims(new, points), starts)


def _ends(starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    return [a + (n - 1) * s + 1 for a, n, s in zip(starts, sizes, strides, strict=True)]


def _slices(place: Any) -> tuple[list[Any], list[int], list[int], list[int]] | None:
    """Starts, sizes, strides, and which axes are single points; None if arrays of indices are needed."""
    starts: list[Any] = []
    sizes: list[int] = []
    strides: list[int] = []
    points: list[int] = []
    for axis, index in enumerate(place.indices):
        if hasattr(index, "stride"):
            starts.append(index.start)
            sizes.append(index.size)
            strides.append(index.stride)
        elif jax.numpy.ndim(index):
            return None
        else:
            starts.append(index)
            sizes.append(1)
            strides.append(1)
            points.append(axis)
    if any(s != 1 for s in strides) and not all(isinstance(a, int) for a in starts):
        return None
    return starts, sizes, strides, points


def _arrays(place: Any) -> tuple[Any, ...]:
    """A place as arrays of indices, those of slices in the axes that they have in the result."""
    shape, rank, slices = place.int_indexer_shape, len(place.int_indexer_shape), 0
    points = [i for i, index in enumerate(place.indices) if not hasattr(index, "stride")]
    together = points == list(range(points[0], points[-1] + 1)) if points else True
    lead = points[0] if points and together else 0
    total = len(place.indices) - len(points) + rank
    indices = []
    for index in place.indices:
        if hasattr(index, "stride"):
            axis = slices if slices < lead else slices + rank
            line = index.start + lax.mul(lax.iota("int32", index.size), jax.numpy.int32(index.stride))
            indices.append(line.reshape([index.size if k == axis else 1 for k in range(total)]))
            slices += 1
        else:
            array = jax.numpy.broadcast_to(index, shape)
            indices.append(array.reshape([1] * lead + list(shape) + [1] * (total - lead - rank)))
    return tuple(indices)
