"""The only file that touches ``jax.core`` and ``jax.extend.core``; JAX's changes there are handled here.

Everything else under ``fgrad/`` uses JAX's documented ``jax``, ``jax.numpy`` and ``jax.lax`` names, and what this file
exports.  It is long so that there is one place to look when JAX changes.
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
from jax.sharding import AbstractMesh

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
    "axis_sizes",
    "with_x64_for",
    "without_consts",
    "bind_custom_jvp",
    "bind_custom_vjp",
    "checks_each_primitive",
    "closed_parts",
    "bind_remat",
    "reset_rule",
    "has_unmapped_outputs",
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
    "is_literal",
    "is_open_jaxpr",
    "is_staging",
    "primitive",
    "register_type",
    "remember_primitive",
    "scan_counts",
    "leave",
    "mesh_around",
    "name_of",
    "restore_trace",
    "set_trace",
    "stored_outputs",
    "reset_function",
    "staged_number",
    "restoring_trace",
    "tangent_dtype",
    "typeof",
    "when_mapped",
    "with_x64",
    "wrapped_function",
]

# print_saved_residuals, profiles and the names of compiled operations show the user's lines, not ours
source_info_util.register_exclusion(os.path.dirname(os.path.abspath(__file__)))


def typeof(value: Any) -> ShapedArray:
    """The JAX type (shape, dtype, weak type, sharding) of an array, scalar or tracer; Python scalars are weak."""
    # an array on one device stores its type, which jax.typeof takes 3 us to compute
    if type(value) in _array_classes and type(value.sharding) is jax.sharding.SingleDeviceSharding:
        return value.aval
    if isinstance(value, Tracer):
        return value.aval  # type: ignore[return-value]
    if isinstance(value, jax.Array):
        _array_classes.add(type(value))
    return jax.typeof(value)


#: the classes of concrete arrays seen so far (there is one, without a public name)
_array_classes: set[type] = set()


def is_array(value: Any) -> bool:
    """Whether a value is a concrete JAX array, not a tracer."""
    return type(value) in _array_classes or (isinstance(value, jax.Array) and not isinstance(value, Tracer))


def current_scope() -> str:
    """The names of the open ``jax.named_scope`` blocks, outermost first: ``net/attention``."""
    stack = source_info_util.current_name_stack()
    return str(stack) if stack.stack else ""


def current_trace() -> Any:
    """The current trace of JAX operations (None, or JAX's evaluating trace, if nothing is traced)."""
    block = take_trace()
    try:
        with block as trace:
            return trace
    except BaseException:
        _put_back(block)
        raise


def _put_back(block: Any) -> None:
    """Restore again the trace that a block of ``take_trace`` replaced, if it has replaced it."""
    with contextlib.suppress(AttributeError):
        block.__exit__(None, None, None)


def eval_context() -> Any:
    """A context in which operations run and nothing is traced.

    JAX's own is a generator: if a signal interrupts its start, it restores the previous trace only when it is
    collected, which may be much later.
    """
    return set_trace(evaluating_trace())


@functools.cache
def evaluating_trace() -> Any:
    """JAX's trace under which operations run."""
    with jax_eval_context():
        return current_trace()


def axis_sizes() -> dict[Any, int]:
    """The named axes that collectives may name here, and their sizes."""
    return {name: jax.lax.axis_size(name) for name in jex.unsafe_get_axis_names_DO_NOT_USE()}


def restore_trace(trace: Any) -> None:
    """Make ``trace`` the current one, after the context that should have done so was interrupted.

    JAX's contexts enter and exit in Python functions, which a signal can leave before their first line runs.
    """
    set_trace(trace).__enter__()


def restoring_trace(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in which JAX traces or compiles; after an exception, the current trace is restored."""
    taken = take_trace()
    try:
        with taken:
            pass  # it has read the current trace
        return function(*args)
    except BaseException:
        _put_back(taken)
        raise


def with_x64(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with 64-bit types enabled in JAX; the setting is restored also after an exception."""
    block = jax.enable_x64(True)
    try:
        with block:
            return function(*args)
    except BaseException:
        leave(block)
        raise


#: the types that JAX has only if its flag ``jax_enable_x64`` is on
WIDE = frozenset(np.dtype(name) for name in ("int64", "uint64", "float64", "complex128"))


def with_x64_for(types: Sequence[Any], function: Callable[..., Any], *args: Any) -> Any:
    """Call a function on values of some types: ``with_x64`` if one of them has 64 bits.

    Otherwise JAX, with its flag off, would make 32-bit constants and zeros to go with 64-bit values.
    """
    if any([getattr(t, "dtype", None) in WIDE for t in types]):  # noqa: C419  (a list is faster here)
        return with_x64(function, *args)
    return function(*args)


def as_typed(value: Any) -> Any:
    """A value that has the bits of its type; called with JAX's flag as it was when the value was made.

    With the flag off, a tracer of ``jax.vmap`` or ``jax.jvp`` for a 64-bit NumPy array has a 32-bit type.  Once the
    flag is on, operations would see the array itself.
    """
    inner: Any = value
    while isinstance(inner, Tracer):
        inner = getattr(inner, "primal", getattr(inner, "val", None))
    hides_wide = inner is not value and getattr(inner, "dtype", None) in WIDE and inner.dtype != value.dtype
    return jax.numpy.copy(value) if hides_wide else value


def leave(block: Any) -> None:
    """Restore again what a context of ``jax.enable_x64`` has set, even if entering it was interrupted."""
    try:
        block.__exit__(None, None, None)
    except AttributeError:  # it has not read the previous setting yet
        _by_default().__exit__(None, None, None)


@functools.cache
def _by_default() -> Any:
    """A context of ``jax.enable_x64`` that was entered in a thread without a setting of its own."""
    block = jax.enable_x64(True)

    def enter() -> None:
        with block:
            pass

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return block


def is_evaluating(trace: Any) -> bool:
    """Whether operations under ``trace`` run, and nothing is traced."""
    return trace is None or type(trace) is type(evaluating_trace())


def is_staging(trace: Any) -> bool:
    """Whether operations under ``trace`` are staged for XLA, as under ``jax.jit``."""
    return isinstance(trace, _staging_trace())


@functools.cache
def _staging_trace() -> type:
    """The class of the trace under which ``jax.jit`` runs a function."""
    classes: list[type] = []
    with eval_context(), jax.check_tracer_leaks(False):
        jax.eval_shape(lambda x: classes.append(type(current_trace())), np.zeros(1, np.float32))
    return classes[0]


#: read directly, which saves two calls in ``jax.config``
_debug_nans: Any = jax.debug_nans
_debug_infs: Any = jax.debug_infs


def checks_each_primitive() -> bool:
    """Whether JAX checks each primitive's results for NaNs or infinities.  Every operation on tensors calls this."""
    return _debug_nans.value or _debug_infs.value


def folds_constants() -> bool:
    """Whether operations without traced operands are computed at once (``jax.ensure_compile_time_eval``)."""
    config: Any = jax.config
    return config.eager_constant_folding


@functools.cache
def staged_number() -> Any:
    """A tracer of JAX's own staging, only to be found inside tracers of ours.

    ``jax.closure_convert`` turns closed-over values that may be differentiated into arguments; it recognises them by
    JAX's own tracers inside (JAX: custom_derivatives.py, _maybe_perturbed).
    """
    tracers: list[Any] = []
    with eval_context(), jax.check_tracer_leaks(False):
        jax.make_jaxpr(tracers.append)(np.float32(0))
    return tracers[0]


def copied(value: Any) -> Any:
    """A JAX array with the current numbers of a NumPy array or number, whatever is being traced."""
    with eval_context():
        # jax.numpy.array compiles a program for each shape
        return jax.device_put(np.array(value)) if isinstance(value, np.ndarray) else jax.numpy.array(value)


def is_concrete(value: Any) -> bool:
    """Whether the numbers of ``value`` are known: it is an array, a scalar, or a tracer that knows its value."""
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
    """The name under which JAX exports a primitive: ``primitives.sin_p`` of ``jax.extend.core``, or ``lax.sin_p``."""
    namespaces = [("primitives", primitives), ("lax", jax.lax)]
    return next(
        f"{prefix}.{name}"
        for prefix, module in namespaces
        for name in dir(module)
        if name.endswith("_p") and getattr(module, name) is primitive
    )


def name_of(prim: Any) -> str:
    """The name of a primitive or region, marked with a prime if JAX exports another primitive with that name."""
    is_ambiguous = isinstance(prim, Primitive) and exported_primitives().get(prim.name, prim) is not prim
    return f"{prim.name}'" if is_ambiguous else prim.name


def all_primitives() -> dict[str, Primitive]:
    """Every primitive that JAX exports, has been recorded or has a rule of the user's, by name."""
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
    """Remember a primitive that JAX does not export, so that it is found by its name."""
    all_primitives().setdefault(prim.name, prim)


@functools.cache
def _mapping_trace() -> type:
    """The class of the trace under which ``jax.vmap`` runs a function."""
    classes: list[type] = []
    with eval_context(), jax.check_tracer_leaks(False):
        jax.vmap(lambda x: classes.append(type(current_trace())))(np.zeros(1, np.float32))
    return classes[0]


def when_mapped(prim: Primitive, call: Callable[[Sequence[Any], dict[str, Any]], Any]) -> None:
    """Replace a primitive by ``call(args, params)`` under ``jax.vmap``."""
    bind = functools.partial(type(prim).bind_with_trace, prim)

    def bind_with_trace(trace: Any, args: Sequence[Any], avals: Any, params: dict[str, Any], /) -> Any:
        if not isinstance(trace, _mapping_trace()):
            return bind(trace, args, avals, params)
        with set_trace(trace):
            return call(args, params)

    prim.bind_with_trace = bind_with_trace  # type: ignore[method-assign]


def is_effectful(effects: Any) -> bool:
    """Whether there are effects, not counting the read of a mapped axis, which JAX lists as one."""
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in effects)


# --------------------------------------------------------------------------------------------------------------------
# JAX's extensions

#: the base class of primitives with rules of their own (``VJPHiPrimitive`` before JAX 0.12), and the zero tangent or
#: cotangent of such rules
HiPrim: Any = getattr(hijax, "HiPrim", None) or hijax.VJPHiPrimitive  # type: ignore[attr-defined]
HiZero: Any = hijax.Zero


def register_type(kind: type, type_of: Callable[[Any], Any]) -> None:
    """Register the type of values of a class with JAX, which looks up some by class even for tracers."""
    hijax.register_hitype(kind, type_of)  # type: ignore[attr-defined]


def is_high(primitive: Any, types: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether a call is or contains one of JAX's extensions, which JAX expands."""
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


def without_consts(jaxpr: Any) -> Any:
    """A closed jaxpr without its constants, which become its leading inputs."""
    return jaxpr.with_consts(()) if hasattr(jaxpr, "with_consts") else jaxpr.jaxpr  # the former from JAX 0.12 on


def mesh_around(equation: Any) -> AbstractMesh | None:
    """The mesh in whose context an equation was traced."""
    mesh = equation.ctx.cur_abstract_mesh
    return None if mesh.empty else mesh


def is_literal(atom: Any) -> bool:
    return isinstance(atom, jex.Literal)


def wrapped_function(thunk: Any) -> Any:
    """The wrapped user function inside the memoised thunk of a custom rule, or None if it is not found.

    JAX hides it in a closure.  It only identifies the rule, which the thunk itself would do too.
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


def is_unhashable(value: Any) -> bool:
    """Whether this is JAX's wrapper of a static argument (its ``val``), a new one at each call."""
    return type(value).__name__ == "Unhashable" and type(value).__module__.startswith("jax.")


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """``(num_consts, num_carry)`` of a scan equation; JAX 0.12 has a tree (``ft_in``) instead of two ints."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


# --------------------------------------------------------------------------------------------------------------------
# custom rules that pass through to an outer trace


def bind_custom_jvp(trace: Any, prim: Any, fun: Any, jvp: Any, args: Sequence[Any], symbolic_zeros: Any) -> Any:
    """Pass a ``jax.custom_jvp`` call on to ``trace`` unchanged."""
    if trace is None:
        with set_trace(None):
            return fun.call_wrapped(*args)
    with set_trace(trace):
        return trace.process_custom_jvp_call(prim, fun, jvp, args, symbolic_zeros=symbolic_zeros)


def bind_custom_vjp(
    trace: Any, prim: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], out_trees: Any, symbolic_zeros: Any
) -> Any:
    """Pass a ``jax.custom_vjp`` call on to ``trace`` unchanged."""
    if trace is None:
        with set_trace(None):
            return fun.call_wrapped(*args)
    with set_trace(trace):
        return trace.process_custom_vjp_call(
            prim, fun, fwd, bwd, args, out_trees=out_trees, symbolic_zeros=symbolic_zeros
        )


def reset_function(fun: Any, rule: Any) -> None:
    """If a custom rule has run, reset its function as if that had not run.

    JAX takes the structure of the outputs from whichever of the two ran, and complains if both did.
    """
    try:
        ran = [store.val for store in rule.stores if store is not None]
    except Exception:  # a private class: the store is empty
        return
    if ran:
        for store in fun.stores:
            if store is not None:
                store.reset()


def has_unmapped_outputs(fun: Any) -> bool:
    """Whether ``jax.vmap`` found some outputs of a custom rule's function the same for all examples, when it ran."""
    try:
        stored = [store.val for store in fun.stores if store is not None]
    except Exception:  # a private class: the store is empty
        return False
    return any(axis is None for outputs in stored if isinstance(outputs, list | tuple) for axis in outputs)


def reset_rule(rule: Any) -> Any:
    """Reset a custom rule, or its function, so that it can run again; JAX lets it store its outputs only once."""
    for store in rule.stores:
        if store is not None:
            store.reset()
    return rule


def stored_outputs(rule: Any) -> Callable[[], None]:
    """A function that restores what a run of a custom rule (or None) has stored for its backward rule."""
    stored: list[tuple[Any, Any]] = []
    for store in getattr(rule, "stores", ()):
        try:
            stored.append((store, store.val))
        except Exception:  # a private class: the store is empty
            continue

    def write() -> None:
        for store, value in stored:
            store.reset()
            store.store(value)

    return write


def bind_remat(
    function: Any, args: Sequence[Any], prevent_cse: bool, differentiated: bool, policy: Any
) -> Sequence[Any]:
    """Run a flat function that closes over no values as a ``remat`` block of JAX's."""
    jaxpr = jax.make_jaxpr(function)(*args)
    if jaxpr.consts:  # those of graphs inside the block; they become arguments too
        count, inner = len(jaxpr.consts), jaxpr.jaxpr
        args = [*jaxpr.consts, *args]
        jaxpr = jax.make_jaxpr(lambda *xs: eval_jaxpr(inner, xs[:count], *xs[count:]))(*args)
    return primitive("remat2").bind(
        *args, jaxpr=jaxpr.jaxpr, prevent_cse=prevent_cse, differentiated=differentiated, policy=policy
    )


#: the errors raised when the number behind a traced value is needed, for any kind of tracer
CONCRETIZATIONS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def for_want_of_numbers(error: BaseException | None) -> bool:
    """Whether an error is one of ``CONCRETIZATIONS``, or was raised because of one."""
    while error is not None and not isinstance(error, CONCRETIZATIONS):
        error = error.__cause__ or error.__context__
    return error is not None
