"""The one file that touches ``jax.core`` and ``jax.extend.core``: whatever JAX changes there is mended here.

It is a long file for that reason: to split it would hide where to look when JAX changes.

Everything else under ``fgrad/`` sees JAX through its documented ``jax``, ``jax.numpy`` and ``jax.lax`` names and
through what this file exports.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.ref
import numpy as np
from jax import dtypes
from jax.core import ShapedArray, Trace, Tracer, eval_context as jax_eval_context, eval_jaxpr
from jax.experimental import hijax
from jax.extend import core as jex, source_info_util
from jax.extend.core import (
    Primitive,
    primal_dtype_to_tangent_dtype as tangent_dtype,
    primitives,
    set_current_trace as set_trace,
    take_current_trace as take_trace,
)

__all__ = [
    "HiPrim",
    "HiZero",
    "Primitive",
    "ShapedArray",
    "WIDE",
    "Trace",
    "Tracer",
    "all_primitives",
    "as_typed",
    "with_x64_for",
    "bind_custom_jvp",
    "bind_custom_vjp",
    "checks_each_primitive",
    "closed_parts",
    "bind_remat",
    "emptied",
    "copied",
    "current_scope",
    "current_trace",
    "exported_primitives",
    "is_array",
    "is_evaluating",
    "is_closed_jaxpr",
    "is_concrete",
    "is_effectful",
    "is_high",
    "is_inexact",
    "is_literal",
    "is_open_jaxpr",
    "is_reference",
    "is_staging",
    "primitive",
    "register_type",
    "remember_primitive",
    "scan_counts",
    "leave",
    "name_of",
    "restore_trace",
    "set_trace",
    "outcome",
    "settle_outputs",
    "settled",
    "staged_number",
    "restoring_trace",
    "strong",
    "symbolic_zero",
    "tangent_dtype",
    "traced_shard_map",
    "typeof",
    "varying_axes",
    "when_mapped",
    "with_x64",
    "wrapped_function",
    "zero_tangent",
]

# print_saved_residuals, profiles and the names of compiled operations show the user's lines, not ours
source_info_util.register_exclusion(os.path.dirname(os.path.abspath(__file__)))


def typeof(value: Any) -> ShapedArray:
    """The JAX type (shape, dtype, weak type, sharding) of an array, scalar or tracer; Python scalars are weak."""
    # an array on one device has its type at hand; jax.typeof takes 3 us to work the same out
    if type(value) in _array_classes and type(value.sharding) is jax.sharding.SingleDeviceSharding:
        return value.aval
    if isinstance(value, Tracer):
        return value.aval  # type: ignore[return-value]
    if isinstance(value, jax.Array):
        _array_classes.add(type(value))
    return jax.typeof(value)


#: the classes of concrete arrays that have been met (there is one, and JAX does not name it)
_array_classes: set[type] = set()


def is_array(value: Any) -> bool:
    """Whether a value is a JAX array with numbers in it, and no tracer."""
    return type(value) in _array_classes or (isinstance(value, jax.Array) and not isinstance(value, Tracer))


def current_scope() -> str:
    """The names of ``jax.named_scope`` that are open, outermost first: ``net/attention``."""
    stack = source_info_util.current_name_stack()
    return str(stack) if stack.stack else ""


def current_trace() -> Any:
    """The trace that JAX operations go to at present (None, or JAX's evaluating trace, when nothing is traced)."""
    block = take_trace()
    try:
        with block as trace:
            return trace
    except BaseException:
        _put_back(block)
        raise


def _put_back(block: Any) -> None:
    """Restore again the trace that a block of ``take_trace`` replaced, if it got that far."""
    with contextlib.suppress(AttributeError):
        block.__exit__(None, None, None)


def eval_context() -> Any:
    """A block in which operations simply run: nothing is traced.

    JAX's own is a generator: if a signal interrupts its start, it restores the former trace only when it is collected,
    which may be much later.
    """
    return set_trace(evaluating_trace())


@functools.cache
def evaluating_trace() -> Any:
    """JAX's trace under which operations simply run."""
    with jax_eval_context():
        return current_trace()


def restore_trace(trace: Any) -> None:
    """Make ``trace`` the one that JAX operations go to, where a block that should have done so was interrupted.

    JAX's blocks begin and end in functions of Python, which a signal can leave before their first line is run.
    """
    set_trace(trace).__enter__()


def restoring_trace(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in which JAX traces or compiles; after an exception JAX's trace is what it was before."""
    taken = take_trace()
    try:
        with taken:
            pass  # it has looked what the trace is
        return function(*args)
    except BaseException:
        _put_back(taken)
        raise


def with_x64(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in which JAX has types of 64 bits; after an exception it has them as before."""
    block = jax.enable_x64(True)
    try:
        with block:
            return function(*args)
    except BaseException:
        leave(block)
        raise


#: the types that JAX has only where its flag ``jax_enable_x64`` is on
WIDE = frozenset(np.dtype(name) for name in ("int64", "uint64", "float64", "complex128"))


def with_x64_for(types: Sequence[Any], function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that makes values of such types as these: ``with_x64`` if one of them has 64 bits.

    Else JAX would make 32-bit constants and zeros beside 64-bit values where its flag is off.
    """
    if any([getattr(t, "dtype", None) in WIDE for t in types]):  # noqa: C419  (a list is faster here)
        return with_x64(function, *args)
    return function(*args)


def as_typed(value: Any) -> Any:
    """A value whose bits are those of its type; called with JAX's flag as it was when the value was made.

    A tracer of ``jax.vmap`` or ``jax.jvp`` for one of NumPy's arrays of 64 bits has a type of 32 while the flag is off.
    Operations would see the array as it is once the flag is on.
    """
    held: Any = value
    while isinstance(held, Tracer):
        held = getattr(held, "primal", getattr(held, "val", None))
    hides = held is not value and getattr(held, "dtype", None) in WIDE and held.dtype != value.dtype
    return jax.numpy.copy(value) if hides else value


def leave(block: Any) -> None:
    """Put back, once more, what a block of ``jax.enable_x64`` has set, however far it has come."""
    try:
        block.__exit__(None, None, None)
    except AttributeError:  # it does not know yet what was set before
        _by_default().__exit__(None, None, None)


@functools.cache
def _by_default() -> Any:
    """A block of ``jax.enable_x64`` that was entered in a thread in which nothing was set."""
    block = jax.enable_x64(True)

    def enter() -> None:
        with block:
            pass

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return block


def is_evaluating(trace: Any) -> bool:
    """Whether operations under ``trace`` simply run: nothing is being traced."""
    return trace is None or type(trace) is type(evaluating_trace())


def is_staging(trace: Any) -> bool:
    """Whether operations under ``trace`` are written down for XLA, as under ``jax.jit``."""
    return isinstance(trace, _staging_trace())


@functools.cache
def _staging_trace() -> type:
    """The class of the trace under which ``jax.jit`` runs a function."""
    kept: list[type] = []
    with eval_context(), jax.check_tracer_leaks(False):
        jax.eval_shape(lambda x: kept.append(type(current_trace())), np.zeros(1, np.float32))
    return kept[0]


#: what ``jax.config`` reads by two more calls
_debug_nans: Any = jax.debug_nans
_debug_infs: Any = jax.debug_infs


def checks_each_primitive() -> bool:
    """Whether JAX looks for NaNs or infinities in what each primitive gives; every operation of a tensor asks."""
    return _debug_nans.value or _debug_infs.value


def folds_constants() -> bool:
    """Whether what depends on no traced value is computed immediately (``jax.ensure_compile_time_eval``)."""
    config: Any = jax.config
    return config.eager_constant_folding


@functools.cache
def staged_number() -> Any:
    """A tracer of JAX's own staging, good for nothing but to be found inside another one.

    ``jax.closure_convert`` makes arguments of the closed-over values that may be differentiated, and takes for such
    what holds one of JAX's own tracers (JAX: custom_derivatives.py, _maybe_perturbed).
    """
    kept: list[Any] = []
    with eval_context(), jax.check_tracer_leaks(False):
        jax.make_jaxpr(kept.append)(np.float32(0))
    return kept[0]


def copied(value: Any) -> Any:
    """A JAX array with the numbers that a NumPy array (or number) has now, whatever is being traced."""
    with eval_context():
        # jax.numpy.array compiles a program for each shape
        return jax.device_put(np.array(value)) if isinstance(value, np.ndarray) else jax.numpy.array(value)


def is_concrete(value: Any) -> bool:
    """True where the numbers of ``value`` are known now: an array, a scalar, or a tracer that can tell."""
    return not isinstance(value, Tracer) or value.to_concrete_value() is not None


# --------------------------------------------------------------------------------------------------------------------
# primitives

_by_name: dict[str, Primitive] = {}


@functools.cache
def exported_primitives() -> dict[str, Primitive]:
    """Every primitive that ``jax.extend.core.primitives`` and ``jax.lax`` export, by the primitive's own name."""
    by_primitive_name: dict[str, Primitive] = {}
    for module in (jax.lax, primitives):
        for name in dir(module):
            if name.endswith("_p"):
                value = getattr(module, name)
                if isinstance(value, Primitive):
                    by_primitive_name.setdefault(value.name, value)
    return by_primitive_name


def jax_primitives() -> Any:
    """The module in which JAX exports its primitives."""
    return primitives


def exported_name(primitive: Primitive) -> str:
    """Where JAX exports a primitive: ``primitives.sin_p`` of ``jax.extend.core``, or ``lax.sin_p``."""
    namespaces = [("primitives", primitives), ("lax", jax.lax)]
    return next(
        f"{prefix}.{name}"
        for prefix, module in namespaces
        for name in dir(module)
        if name.endswith("_p") and getattr(module, name) is primitive
    )


def name_of(prim: Any) -> str:
    """The name of a primitive or region, marked where it is also that of another primitive, one that JAX exports."""
    taken = isinstance(prim, Primitive) and exported_primitives().get(prim.name, prim) is not prim
    return f"{prim.name}'" if taken else prim.name


def all_primitives() -> dict[str, Primitive]:
    """Every primitive that JAX exports, and those that have been recorded or have got a rule, by name."""
    if not _by_name:
        _by_name.update(exported_primitives())
    return _by_name


def primitive(name: str) -> Primitive:
    """The JAX primitive whose ``.name`` is ``name``.

    Raises:
      KeyError: this version of JAX exports no such primitive and none has been recorded.

    >>> primitive("sin").name
    'sin'
    """
    return all_primitives()[name]


def remember_primitive(prim: Primitive) -> None:
    """Make a primitive that JAX does not export (it arrived in a recording) findable by its name."""
    all_primitives().setdefault(prim.name, prim)


@functools.cache
def _mapping_trace() -> type:
    """The class of the trace under which ``jax.vmap`` runs a function."""
    kept: list[type] = []
    with eval_context(), jax.check_tracer_leaks(False):
        jax.vmap(lambda x: kept.append(type(current_trace())))(np.zeros(1, np.float32))
    return kept[0]


def when_mapped(prim: Primitive, call: Callable[[Sequence[Any], dict[str, Any]], Any]) -> None:
    """Let ``call(args, params)`` stand in for a primitive wherever ``jax.vmap`` meets it."""
    bind = functools.partial(type(prim).bind_with_trace, prim)

    def bind_with_trace(trace: Any, args: Sequence[Any], avals: Any, params: dict[str, Any], /) -> Any:
        if not isinstance(trace, _mapping_trace()):
            return bind(trace, args, avals, params)
        with set_trace(trace):
            return call(args, params)

    prim.bind_with_trace = bind_with_trace  # type: ignore[method-assign]


def is_effectful(effects: Any) -> bool:
    """Whether running it has an effect; reading a mapped axis, which JAX lists as one, has none."""
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in effects)


# --------------------------------------------------------------------------------------------------------------------
# JAX's extensions

#: the base class of primitives that bring their own rules (``VJPHiPrimitive`` before JAX 0.12), and the zero tangent
#: or cotangent that such rules take and give
HiPrim: Any = getattr(hijax, "HiPrim", None) or hijax.VJPHiPrimitive  # type: ignore[attr-defined]
HiZero: Any = hijax.Zero


def register_type(kind: type, type_of: Callable[[Any], Any]) -> None:
    """Tell JAX the type of values of a class: it looks some up by their class even where they are tracers."""
    hijax.register_hitype(kind, type_of)  # type: ignore[attr-defined]


def is_high(primitive: Any, types: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether a call is one of JAX's extensions or has some inside; JAX runs what they compute in their place."""
    return primitive.is_high(*types, **params)


# --------------------------------------------------------------------------------------------------------------------
# jaxprs


def is_closed_jaxpr(value: Any) -> bool:
    """True for a jaxpr that carries its constants (the only class in JAX 0.12; ``ClosedJaxpr`` before)."""
    return isinstance(value, jex.ClosedJaxpr)


def is_open_jaxpr(value: Any) -> bool:
    return isinstance(value, jex.Jaxpr) and not isinstance(value, jex.ClosedJaxpr)


def closed_parts(jaxpr: Any) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]:
    """``(constvars, consts, invars, eqns, outvars)`` of an open or closed jaxpr of either JAX generation."""
    if is_closed_jaxpr(jaxpr):
        inner = jaxpr.jaxpr
        return inner.constvars, jaxpr.consts, inner.invars, inner.eqns, inner.outvars
    return (), (), [*jaxpr.constvars, *jaxpr.invars], jaxpr.eqns, jaxpr.outvars


def is_literal(atom: Any) -> bool:
    return isinstance(atom, jex.Literal)


def wrapped_function(thunk: Any) -> Any:
    """The wrapped user function inside the memoised thunk of a custom rule, or None where it is not found.

    JAX hides it in a closure; what is found serves only to tell rules apart, and the thunk itself does so too.
    """
    pending, seen = [getattr(thunk, "f", None)], 0
    while pending and seen < 16:
        function = pending.pop()
        seen += 1
        for cell in getattr(function, "__closure__", None) or ():
            try:
                value = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            if hasattr(value, "transforms") and hasattr(value, "call_wrapped"):
                return value
            if callable(value):
                pending.append(value)
    return None


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """``(num_consts, num_carry)`` of a scan equation; JAX 0.12 says it in a tree (``ft_in``) instead of two ints."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


# --------------------------------------------------------------------------------------------------------------------
# custom rules that pass through to an outer trace


def bind_custom_jvp(trace: Any, prim: Any, fun: Any, jvp: Any, args: Sequence[Any], symbolic_zeros: Any) -> Any:
    """Hand a ``jax.custom_jvp`` call on to ``trace`` as it came."""
    if trace is None:
        with set_trace(None):
            return fun.call_wrapped(*args)
    with set_trace(trace):
        return trace.process_custom_jvp_call(prim, fun, jvp, args, symbolic_zeros=symbolic_zeros)


def bind_custom_vjp(
    trace: Any, prim: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], out_trees: Any, symbolic_zeros: Any
) -> Any:
    """Hand a ``jax.custom_vjp`` call on to ``trace`` as it came."""
    if trace is None:
        with set_trace(None):
            return fun.call_wrapped(*args)
    with set_trace(trace):
        return trace.process_custom_vjp_call(
            prim, fun, fwd, bwd, args, out_trees=out_trees, symbolic_zeros=symbolic_zeros
        )


def settle_outputs(fun: Any, rule: Any) -> None:
    """Where a custom rule has run, make its function look as if it had not.

    JAX takes the structure of the outputs from the one of the two that ran, and complains where both did.
    """
    try:
        ran = [store.val for store in rule.stores if store is not None]
    except Exception:  # a private class: the store is empty
        return
    if ran:
        for store in fun.stores:
            if store is not None:
                store.reset()


def emptied(rule: Any) -> Any:
    """A custom rule as if it had not run, so that it can run again: JAX lets each store its outputs only once."""
    for store in rule.stores:
        if store is not None:
            store.reset()
    return rule


def outcome(rule: Any) -> Callable[[], None]:
    """What stores again what running a custom rule (or None) has stored: its backward rule reads it there."""
    stored: list[tuple[Any, Any]] = []
    for store in getattr(rule, "stores", ()):
        try:
            stored.append((store, store.val))
        except Exception:  # nothing is stored there, which JAX says by a private class
            continue

    def write() -> None:
        for store, value in stored:
            store.reset()
            store.store(value)

    return write


def settled(value: Any) -> Any:
    """A value of which everything is known as JAX hands it on: a number with its dtype, an array as it is now."""
    if isinstance(value, jax.Array | jax.ref.Ref):
        return value
    value = np.array(value) if isinstance(value, np.ndarray) else value
    _, consts, _, _, (out,) = closed_parts(jax.make_jaxpr(lambda: value)())
    return out.val if is_literal(out) else consts[0]


def traced_shard_map(primitive: Any, fun: Any, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
    """The jaxpr of a ``shard_map`` call, and its results in the form that JAX takes them back, to be updated."""
    kept: list[Any] = []

    def call(*xs: Any) -> list[Any]:
        kept.append(current_trace().process_shard_map(primitive, fun, xs, **params))
        return list(kept[0])

    return jax.make_jaxpr(call)(*map(typeof, args)), kept[0]


def is_inexact(type: ShapedArray) -> bool:
    """Whether values of this type have tangents: floating point or complex."""
    return _is_inexact(type.dtype)


@functools.cache
def _is_inexact(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, jax.numpy.inexact)


def strong(type: ShapedArray) -> ShapedArray:
    """``type`` without its weak-type mark."""
    return type.update(weak_type=False) if type.weak_type else type


def is_reference(type: Any) -> bool:
    """Whether values of this type are references."""
    return isinstance(type, jax.ref.AbstractRef)


def varying_axes(type: ShapedArray) -> tuple[str, ...]:
    """The axes of a mesh along which a part of an array varies, by its type."""
    manual = getattr(type, "mat", None)
    return tuple(sorted(manual.varying)) if manual is not None else ()


def bind_remat(
    function: Any, args: Sequence[Any], prevent_cse: bool, differentiated: bool, policy: Any
) -> Sequence[Any]:
    """Run a flat function that closes over no values as one block of JAX's that is recomputed when differentiated."""
    jaxpr = jax.make_jaxpr(function)(*args)
    if jaxpr.consts:  # of graphs inside the block; they become arguments too
        held, count, inner = jaxpr.consts, len(jaxpr.consts), jaxpr.jaxpr
        args = [*held, *args]
        jaxpr = jax.make_jaxpr(lambda *xs: eval_jaxpr(inner, xs[:count], *xs[count:]))(*args)
    return primitive("remat2").bind(
        *args, jaxpr=jaxpr.jaxpr, prevent_cse=prevent_cse, differentiated=differentiated, policy=policy
    )


def symbolic_zero(type: ShapedArray) -> Any:
    """JAX's zero tangent or cotangent of a value of this type, as rules that are told of zeros get it."""
    return jax.custom_derivatives.SymbolicZero(ShapedArray(type.shape, tangent_dtype(type.dtype)))


def zero_tangent(value: Any) -> Any:
    """The zero tangent of a primal value: zeros of its dtype, or ``float0`` zeros where it is not inexact."""
    dtype = tangent_dtype(value.dtype)
    return np.zeros(value.shape, dtype) if dtype == dtypes.float0 else jax.numpy.zeros(value.shape, dtype)
