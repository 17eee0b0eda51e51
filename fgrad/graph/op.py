"""Operations: a primitive with its static parameters and types, interned so that equal operations are one object.

NOTE [Interned operations]
An ``Op`` is compared by identity on the hot paths (the tape's key, the template cache), and that is sound because
``intern`` gives the same object for the same (primitive, parameters, input types).  The table of interned
operations is bounded; an operation that was dropped from it and made anew merely misses a cache.  Graphs compare
operations structurally, through ``Op.key``, so their equality does not depend on the table.

An operation that holds graphs (a loop, a block) is the same only if the user's lines in these are too: each loop shows
its own lines, though another one does the same.  Its ``key`` says nothing of lines, so equal graphs stay equal.
"""

import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.custom_batching
import numpy as np
from jax.sharding import AbstractMesh

from fgrad.graph.held import Holding, held
from fgrad.jaxcore import (
    Primitive,
    ShapedArray,
    closed_parts,
    copied,
    current_trace,
    exported_primitives,
    is_closed_jaxpr,
    is_effectful,
    is_evaluating,
    is_open_jaxpr,
    is_staging,
    name_of,
    primitive,
    remember_primitive,
    typeof,
    when_mapped,
)
from fgrad.jaxtypes import explicit_sharding, in_mesh, mesh_of

OP_LIMIT = 1 << 16

#: batching rules that users gave primitives: ``rule(axis_size, in_batched, *args, **params)``
BATCHING: dict[Primitive, Callable[..., Any]] = {}


def enter_batching(primitive: Primitive, rule: Callable[..., Any]) -> None:
    """Define the batching rule of a primitive, for graphs and for ``jax.vmap``."""
    BATCHING[primitive] = rule

    def mapped(args: Sequence[Any], params: dict[str, Any]) -> Any:
        outs = intern(primitive, params, list(map(typeof, args))).bind(args)
        return outs if primitive.multiple_results else outs[0]

    when_mapped(primitive, mapped)


#: how primitives are lowered when JAX stages them for XLA: from an operation to a function of operands, or None
LOWERINGS: dict[Primitive, Callable[["Op"], Callable[..., Any] | None]] = {}


def enter_lowering(primitive: Primitive, rule: Callable[["Op"], Callable[..., Any] | None]) -> None:
    """Define the lowering of a primitive with one result, for graphs that JAX stages."""
    LOWERINGS[primitive] = rule


#: parameters of JAX's primitives that are functions of the user's
_USERS = frozenset({"callback", "jaxpr", "update_jaxpr"})


class Op:
    """One operation: ``primitive`` with ``params``, from values of ``in_types`` to values of ``out_types``.

    It has slots and not attrs, since the recorder's 1 us per operation depends on identity hashing in C.
    """

    __slots__ = (
        "primitive",
        "name",
        "foreign",
        "params",
        "key",
        "key_hash",
        "in_types",
        "out_types",
        "effects",
        "mesh",
        "held",
        "derived",
        "__weakref__",
    )

    def __init__(
        self,
        primitive: Any,
        params: dict[str, Any],
        key: tuple[Any, ...],
        in_types: tuple[ShapedArray, ...],
        out_types: tuple[ShapedArray, ...],
        effects: bool,
        mesh: AbstractMesh | None = None,
    ):
        self.primitive: Any = primitive
        #: its name in rules, kernels and files
        self.name: str = name_of(primitive)
        #: whether it is not JAX's own: its author's functions may accept JAX arrays only
        self.foreign: bool = (
            isinstance(primitive, Primitive) and exported_primitives().get(primitive.name) is not primitive
        )
        self.params: dict[str, Any] = params
        self.key: tuple[Any, ...] = key
        #: graphs ask for it often, and it goes through all parameters
        self.key_hash: int = hash(key)
        self.in_types: tuple[ShapedArray, ...] = in_types
        self.out_types: tuple[ShapedArray, ...] = out_types
        self.effects: bool = effects
        #: that of its operands; if they have none, the one in whose context it was recorded
        self.mesh: AbstractMesh | None = mesh
        #: the bytes of the arrays that it keeps alive: NOTE [Rules that hold arrays]
        holds = self.foreign or isinstance(primitive, Region) or not _USERS.isdisjoint(params)
        self.held: int = held(key[1]) if holds else 0
        #: a cache of its derivatives and other derived results
        self.derived: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def bind(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run the operation on values (arrays or tracers) under the current trace; always a sequence of results."""
        if jax.sharding.get_abstract_mesh().empty:
            return self._bind(args)
        with in_mesh(self.mesh):
            return self._bind(args)

    def _bind(self, args: Sequence[Any]) -> Sequence[Any]:
        if isinstance(self.primitive, Region):
            return self.primitive.bind(self, args)
        if self.foreign:
            args = [x if isinstance(x, jax.Array) else copied(x) for x in args]
        lowering = LOWERINGS.get(self.primitive)
        if lowering is not None and is_staging(current_trace()):
            return (self._lowered(lowering)(*args),)
        rule = BATCHING.get(self.primitive)
        if rule is None or is_evaluating(current_trace()):
            out = self.primitive.bind(*args, **self.params)
        else:
            out = self._mappable(rule)(*args)
        return out if self.primitive.multiple_results else (out,)

    def _lowered(self, rule: Callable[["Op"], Callable[..., Any] | None]) -> Callable[..., Any]:
        """The operation's lowering."""
        lowered = self.derived.get(rule)
        if lowered is None:
            lowered = self.derived[rule] = rule(self) or functools.partial(self.primitive.bind, **self.params)
        return lowered

    def _mappable(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """The operation as a call that JAX batches by ``rule``, now or when the trace is batched."""
        mappable = self.derived.get(rule)
        if mappable is None:
            bind, params = self.primitive.bind, self.params
            mappable = jax.custom_batching.custom_vmap(lambda *args: bind(*args, **params))
            mappable.def_vmap(lambda size, mapped, *args: rule(size, mapped, *map(jax.numpy.asarray, args), **params))
            self.derived[rule] = mappable
        return mappable


class Region:
    """An operation with graphs among its parameters: control flow, custom rules, rematerialised blocks.

    ``run`` evaluates it through JAX's public functions; ``infer`` returns the output types for the parameters.
    """

    __slots__ = ()
    name: str
    multiple_results = True

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        raise NotImplementedError

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        raise NotImplementedError

    def has_effects(self, params: dict[str, Any]) -> bool:
        return False

    def called(self, params: dict[str, Any]) -> Any:
        """The graph that computes the results when nothing is traced; None if it is more than a call."""

    def bind(self, op: Op, args: Sequence[Any]) -> Sequence[Any]:
        """``run``, traced by JAX once per operation and then inlined wherever it is called."""
        call = op.derived.get("call")
        if call is None:
            params = op.params
            call = jax.jit(lambda *args: tuple(self.run(params, args)), inline=True)
        outs = call(*args)
        op.derived["call"] = call  # only now: see NOTE [Interrupted in XLA]
        return outs

    def __repr__(self) -> str:
        return self.name


class CallRegion(Region):
    """A call of the graph under the parameter ``call``, with a rule of its own."""

    def called(self, params: dict[str, Any]) -> Any:
        return params["call"]

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return params["call"].out_types


def freeze(value: Any) -> Any:
    """A hashable key for a parameter: lists and dicts become tuples, arrays their bytes, the rest is unchanged."""
    if value is None or type(value) is int or type(value) is str:
        return value
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(freeze, value))
    if isinstance(value, dict):
        return ("dict", *((k, freeze(v)) for k, v in sorted(value.items(), key=lambda kv: str(kv[0]))))
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, float | complex | np.generic):
        scalar = np.asarray(value)  # so that nan equals itself and 0.0 is not -0.0
        return ("scalar", type(value), scalar.dtype, scalar.tobytes())
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, np.dtype):
        return ("dtype", value)  # float64 equals None
    if is_open_jaxpr(value) or is_closed_jaxpr(value):
        return _jaxpr_key(value)
    if type(value) is jax.lax.Tolerance:  # which JAX compares by identity
        return ("tolerance", value.atol, value.rtol, value.ulps)
    try:
        hash(value)
    except TypeError:
        return Kept(value)
    return value


_jaxpr_keys: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _jaxpr_key(jaxpr: Any) -> Any:
    """The key of a jaxpr among a primitive's parameters (a reducer, say): its text, unless it has constants."""
    if consts := closed_parts(jaxpr)[1]:
        return ("jaxpr", Kept(jaxpr), *map(Kept, consts))  # in the table it would keep the jaxpr alive
    key = _jaxpr_keys.get(jaxpr)
    if key is None:
        key = _jaxpr_keys[jaxpr] = ("jaxpr", str(jaxpr))
    return key


class Kept:
    """An object compared by identity, kept alive as long as a key that has it."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value: Any = value

    @property
    def held(self) -> int:
        return held(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


_table: OrderedDict[tuple[Any, ...], Op] = OrderedDict()
_lock = threading.Lock()
_holding: Holding[tuple[Any, ...]] = Holding(lambda entry: _table.pop(entry, None))


def intern(primitive: Any, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    """The only ``Op`` for this primitive, these parameters and these input types.

    Raises the errors of the primitive's own type rule (``TypeError``, ``ValueError``) for types that do not fit.
    """
    in_types = tuple(in_types)
    frozen = tuple([(name, freeze(params[name])) for name in sorted(params)]) if params else ()
    current, mesh = jax.sharding.get_abstract_mesh(), None
    key: tuple[Any, ...] = (primitive, frozen, in_types)
    if not current.empty:
        # an output type that does not follow from inputs, or only from unplaced scalars, has the current mesh
        mesh = mesh_of(in_types) or current
        key = (*key, mesh)
    lines = _lines(params) if isinstance(primitive, Region) else ()
    entry = (key, lines) if lines else key
    op = _table.get(entry)
    if op is not None:
        return op
    if isinstance(primitive, Region):
        out_types: Any = tuple(primitive.infer(params, in_types))
        effects = primitive.has_effects(params)
    else:
        with in_mesh(mesh):
            out_types, effect_set = primitive.abstract_eval(*in_types, **params)
        out_types = tuple(out_types) if primitive.multiple_results else (out_types,)
        effects = is_effectful(effect_set) or primitive.name in _EFFECTFUL
    return enter(primitive, params, key, in_types, out_types, effects, mesh, entry)


def filling(type: ShapedArray, scalar: ShapedArray) -> Op:
    """The operation that fills an array of a type with a scalar."""
    params = {"shape": type.shape, "broadcast_dimensions": (), "sharding": explicit_sharding(type)}
    with in_mesh(mesh_of([type])):
        return intern(primitive("broadcast_in_dim"), params, (scalar,))


def _lines(params: dict[str, Any]) -> tuple[Any, ...]:
    """The user's lines in the graphs among a region's parameters."""
    lines_of_graphs = []
    for value in params.values():
        for graph in value if type(value) is tuple else (value,):
            lines = getattr(graph, "lines", None)
            if lines is not None:
                lines_of_graphs.append(lines)
    return tuple(lines_of_graphs)


#: primitives with effects that their type rule does not declare
_EFFECTFUL = frozenset({"debug_callback", "debug_print", "io_callback"})


def intern_typed(
    primitive: Any,
    params: dict[str, Any],
    in_types: Sequence[ShapedArray],
    out_types: Sequence[ShapedArray],
    effects: bool,
    mesh: AbstractMesh | None = None,
) -> Op:
    """``intern`` for an equation of a checked jaxpr, whose output types are known, recorded in the context ``mesh``."""
    in_types = tuple(in_types)
    key: tuple[Any, ...] = (primitive, tuple([(name, freeze(params[name])) for name in sorted(params)]), in_types)
    mesh = mesh_of(in_types) or mesh or mesh_of(out_types)
    if mesh is not None:
        key = (*key, mesh)
    op = _table.get(key)
    return op if op is not None else enter(primitive, params, key, in_types, tuple(out_types), effects, mesh)


def enter(
    primitive: Any,
    params: dict[str, Any],
    key: tuple[Any, ...],
    in_types: tuple[ShapedArray, ...],
    out_types: tuple[ShapedArray, ...],
    effects: bool,
    mesh: AbstractMesh | None,
    entry: tuple[Any, ...] | None = None,
) -> Op:
    """Make an operation and add it to the table, under ``entry`` if that is not its key."""
    op = Op(primitive, params, key, in_types, out_types, effects, mesh)
    if isinstance(primitive, Primitive):
        remember_primitive(primitive)
    with _lock:
        if len(_table) >= OP_LIMIT:
            for _ in range(OP_LIMIT // 8):
                _holding.forget(_table.popitem(last=False)[0])
        if op.held:
            _holding.enter(entry or key, op.held)
        return _table.setdefault(entry or key, op)


def table_size() -> int:
    return len(_table)


def clear_table() -> None:
    with _lock:
        _table.clear()
        _holding.clear()
