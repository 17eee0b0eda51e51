"""References (``jax.new_ref``) as values: state threaded through a graph.

NOTE [References are threaded through]
A graph has no memory.  Where code reads and writes a reference, the graph passes its current value along: a read uses
the value, a write produces a new one, and a call that writes takes the old value and also returns the new one.  In a
loop the value becomes part of the carry.  So derivatives need no rules for references.

NOTE [References in backward rules]
The backward rule of a ``custom_vjp`` may read and write a reference, too, and does so in the backward pass, which runs
in the opposite direction.  So does a cotangent.  With such a reference the graph passes along a *token*, a value that
nothing reads, and the call whose rule it is returns a new one.  The cotangent of the new token is what the reference
holds before the rule runs, and that of the old one what it holds afterwards.  So a loop carries the token, and the loop
of its backward pass what the reference holds.  Integers have no cotangents, so their tokens are floats
(``as_token``).  What the rules write is not itself differentiated.  In the forward pass it is the forward rule that
writes, instead of the function, wherever an argument other than a token is differentiated.

For a reference from outside, ``record/references.py`` makes a call's first token, whose cotangent is written into the
reference, and takes the last, whose cotangent is read from it.  For one that is created in the differentiated code, a
token is passed on from call to call: ``first_tokens``; the backward pass begins with what the reference holds in
the end: ``last_tokens``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.ref
from attrs import frozen
from jax import lax, tree_util

from fgrad import errors
from fgrad.graph.graph import Builder, Graph, Node
from fgrad.graph.op import intern
from fgrad.jaxcore import ShapedArray, primitive
from fgrad.jaxtypes import is_inexact, is_reference


def value_type(type: Any) -> ShapedArray:
    """The type of the value in a reference; any other type itself."""
    return type.inner_aval if is_reference(type) else type


def token_type(type: Any) -> ShapedArray:
    """The type of a token of a reference."""
    type = value_type(type)
    if is_inexact(type):
        return type
    if jax.dtypes.issubdtype(type.dtype, jax.dtypes.extended):
        raise errors.mutable_reference("custom_vjp_call")
    token = jax.eval_shape(as_token, jax.ShapeDtypeStruct(type.shape, type.dtype))
    return ShapedArray(token.shape, token.dtype)


def as_token(value: Any) -> Any:
    """What a reference holds, as floats that represent it exactly: small integers, or 16 bits each of larger ones."""
    if is_inexact(value):
        return value
    if value.dtype.itemsize > 2:
        value = lax.bitcast_convert_type(value, "uint16")
    return lax.convert_element_type(value, "float32")


def from_token(token: Any, type: ShapedArray) -> Any:
    """The value of this type of which ``token`` was made."""
    if is_inexact(type):
        return token
    if type.dtype.itemsize <= 2:
        return lax.convert_element_type(token, type.dtype)
    return lax.bitcast_convert_type(lax.convert_element_type(token, "uint16"), type.dtype)


@jax.custom_vjp
def first_tokens(tokens: list[Any], values: list[Any]) -> list[Any]:
    """The first tokens of references created in the differentiated code, which depend on the values as a call does."""
    return tokens


first_tokens.defvjp(lambda tokens, values: (tokens, None), lambda _, cts: (None, None))


@jax.custom_vjp
def last_tokens(tokens: list[Any], states: list[Any], outs: list[Any]) -> list[Any]:
    """The results, whose backward pass begins with what the references hold in the end, ``states``."""
    return outs


def _last_tokens_bwd(states: list[Any], cts: list[Any]) -> Any:
    return list(map(as_token, states)), None, cts


last_tokens.defvjp(lambda tokens, states, outs: (outs, states), _last_tokens_bwd)


@frozen(eq=False)
class Threaded:
    """A call with its references threaded through.

    ``graph`` takes their values, and returns, after the results, the new values of those at the inputs ``written``.
    For those at ``later`` it also takes tokens, after the other inputs, and returns new ones, after the other outputs:
    NOTE [References in backward rules].
    """

    graph: Graph
    written: tuple[int, ...]
    later: tuple[int, ...] = ()


#: by primitive that takes or creates references: a function of its parameters, the types of its inputs, and their
#: identities, since a reference may be passed twice
THREADED: dict[str, Callable[[dict[str, Any], Sequence[Any], Sequence[Any]], Threaded]] = {}

#: the primitives that create a reference
MAKERS = frozenset({"new_ref", "empty_ref"})


def threaded_call(primitive: Any, params: dict[str, Any], types: Sequence[Any], names: Sequence[Any]) -> Threaded:
    """A call of ``primitive`` with its references threaded through.

    Raises:
      UndefinedDerivativeError: the primitive has no rule for references.
    """
    rule = THREADED.get(primitive.name)
    if rule is None:
        raise errors.mutable_reference(primitive.name)
    threaded = rule(params, types, names)
    tokens = [token_type(types[i]) for i in threaded.later]
    builder = Builder([*map(value_type, types), *tokens])
    outs = builder.splice(threaded.graph, builder.inputs)
    # the value in a reference keeps the reference's type, also its weakness
    kept = [*(value_type(types[i]) for i in threaded.written), *tokens]
    first = len(outs) - len(kept)
    new = [retyped(builder, k, t) for t, k in zip(kept, outs[first:], strict=True)]
    return Threaded(builder.finish([*outs[:first], *new]), threaded.written, threaded.later)


def retyped(builder: Builder, number: int, type: ShapedArray) -> int:
    """A value converted to a type that differs from its own at most in weakness."""
    if builder.types[number].weak_type == type.weak_type:
        return number
    params = {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}
    return builder.emit(intern(primitive("convert_element_type"), params, (builder.types[number],)), (number,))


def accesses_reference(node: Node) -> bool:
    """Whether a node reads or writes a reference."""
    return bool(node.op.effects) and any(map(is_reference, node.op.in_types))


class Cells:
    """The current values and tokens of the references that are threaded through a builder, by variable.

    ``taken`` are references from outside, whose first tokens are inputs: NOTE [References in backward rules].
    ``staged`` makes the graph of a function of values of some types.
    """

    def __init__(self, builder: Builder, taken: Mapping[Any, int], staged: Callable[..., Graph]):
        self.builder = builder
        self.taken = taken
        self.staged = staged
        self.values: dict[Any, int] = dict(taken)
        self.written: set[Any] = set()
        #: of references from outside, and of those created here
        self.tokens: dict[Any, int] = {}
        self.own_tokens: dict[Any, int] = {}

    def concerned(self, eqn: Any) -> bool:
        """Whether an equation creates, reads or writes one of the references."""
        return eqn.primitive.name in MAKERS or any(is_reference(v.aval) and v in self.values for v in eqn.invars)

    def write(self, eqn: Any, read: Callable[[Any], int]) -> list[int]:
        """Emit an equation with its references threaded through; the numbers of its results."""
        types = [v.aval for v in eqn.invars]
        threaded = threaded_call(eqn.primitive, eqn.params, types, eqn.invars)
        later = [eqn.invars[i] for i in threaded.later]
        args = [self._value(v, read) for v in eqn.invars]
        self._begin([v for v in later if v not in self.taken and v not in self.own_tokens], args)
        outs = self.builder.splice(threaded.graph, [*args, *map(self._token, later)])
        count, first = len(eqn.outvars), len(outs) - len(later)
        for i, number in zip(threaded.written, outs[count:first], strict=True):
            self._write(eqn.invars[i], number, read)
        for v, token in zip(later, outs[first:], strict=True):
            (self.tokens if v in self.taken else self.own_tokens)[v] = token
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

    def _token(self, var: Any) -> int:
        if var in self.own_tokens:
            return self.own_tokens[var]
        if var not in self.tokens:
            self.tokens[var] = self.builder.input(token_type(var.aval))
        return self.tokens[var]

    def _begin(self, variables: Sequence[Any], args: Sequence[int]) -> None:
        """Make the first tokens of references that were created here, before a call with these arguments."""
        if not variables:
            return
        types = self.builder.types
        values = [number for number in args if is_inexact(types[number])]
        tokens = [token_type(v.aval) for v in variables]

        def begin(*values: Any) -> Any:
            return first_tokens([jax.numpy.zeros(t.shape, t.dtype) for t in tokens], list(values))

        outs = self.builder.splice(self.staged(begin, [types[number] for number in values]), values)
        self.own_tokens.update(zip(variables, outs, strict=True))

    def end(self, outputs: Sequence[int]) -> Sequence[int]:
        """The outputs, with which the backward pass begins."""
        types, n = self.builder.types, len(self.own_tokens)
        inexact = [k for k, number in enumerate(outputs) if is_inexact(types[number])]
        if not n or not inexact:
            return outputs
        numbers = [
            *self.own_tokens.values(),
            *(self.values[v] for v in self.own_tokens),
            *(outputs[k] for k in inexact),
        ]

        def end(*flat: Any) -> Any:
            return last_tokens(list(flat[:n]), list(flat[n : 2 * n]), list(flat[2 * n :]))

        ended = self.builder.splice(self.staged(end, [types[number] for number in numbers]), numbers)
        replaced = dict(zip(inexact, ended, strict=True))
        return [replaced.get(k, number) for k, number in enumerate(outputs)]

    def _write(self, var: Any, number: int, read: Callable[[Any], int]) -> None:
        if var in self.values:
            self.values[var] = number
            self.written.add(var)
        else:
            self.builder.emit(full_access("swap", [var.aval, self.builder.types[number]]), (read(var), number))


def full_access(name: str, types: Sequence[Any]) -> Any:
    """The operation ``get`` or ``swap`` on the entire value of a reference."""
    return intern(primitive(name), {"tree": tree_util.tree_structure(())}, types)


# --------------------------------------------------------------------------------------------------------------------
# indexing into the value of a reference


def read_at(value: Any, indexers: Sequence[Any]) -> Any:
    """The part of a value selected by the transforms of ``ref.at[...]`` and the like, one after the other."""
    for indexer in indexers:
        value = _get(value, indexer)
    return value


def write_at(value: Any, indexers: Sequence[Any], new: Any) -> Any:
    """The value with the selected part replaced."""
    if not indexers:
        return new
    first, *rest = indexers
    return _put(value, first, write_at(_get(value, first), rest, new))


def _get(value: Any, indexer: Any) -> Any:
    kind = type(indexer).__name__
    if kind == "NDIndexer":
        sliced = _slices(indexer)
        if sliced is None:
            return value[_arrays(indexer)]
        starts, sizes, strides, points = sliced
        if all(s == 1 for s in strides):
            part = lax.dynamic_slice(value, starts, sizes)
        else:
            part = lax.slice(value, starts, _ends(starts, sizes, strides), strides)
        return lax.squeeze(part, points)
    if kind == "ReshapeTransform":
        return value.reshape(indexer.shape)
    if kind == "TransposeTransform":
        return value.transpose(indexer.permutation)
    raise errors.mutable_reference(f"ref.{kind.removesuffix('Transform').lower()}")


def _put(value: Any, indexer: Any, new: Any) -> Any:
    kind = type(indexer).__name__
    if kind == "ReshapeTransform":
        return new.reshape(value.shape)
    if kind == "TransposeTransform":
        return new.transpose(sorted(range(value.ndim), key=indexer.permutation.__getitem__))
    sliced = _slices(indexer)
    if sliced is None:
        return value.at[_arrays(indexer)].set(new)
    starts, sizes, strides, points = sliced
    if any(s != 1 for s in strides):
        index = tuple(map(slice, starts, _ends(starts, sizes, strides), strides))
        return value.at[index].set(lax.expand_dims(new, points))
    return lax.dynamic_update_slice(value, lax.expand_dims(new, points), starts)


def _ends(starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    return [a + (n - 1) * s + 1 for a, n, s in zip(starts, sizes, strides, strict=True)]


def _slices(indexer: Any) -> tuple[list[Any], list[int], list[int], list[int]] | None:
    """Starts, sizes, strides, and which axes are single points; None if arrays of indices are needed."""
    starts: list[Any] = []
    sizes: list[int] = []
    strides: list[int] = []
    points: list[int] = []
    for axis, index in enumerate(indexer.indices):
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


def _arrays(indexer: Any) -> tuple[Any, ...]:
    """An indexer as broadcastable arrays of indices."""
    shape, rank, slices = indexer.int_indexer_shape, len(indexer.int_indexer_shape), 0
    points = [i for i, index in enumerate(indexer.indices) if not hasattr(index, "stride")]
    together = points == list(range(points[0], points[-1] + 1)) if points else True
    lead = points[0] if points and together else 0
    total = len(indexer.indices) - len(points) + rank
    indices = []
    for index in indexer.indices:
        if hasattr(index, "stride"):
            axis = slices if slices < lead else slices + rank
            line = index.start + lax.mul(lax.iota("int32", index.size), jax.numpy.int32(index.stride))
            indices.append(line.reshape([index.size if k == axis else 1 for k in range(total)]))
            slices += 1
        else:
            array = jax.numpy.broadcast_to(index, shape)
            indices.append(array.reshape([1] * lead + list(shape) + [1] * (total - lead - rank)))
    return tuple(indices)
