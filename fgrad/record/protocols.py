"""NumPy's functions on traced values, recorded as the functions of the same names in ``jax.numpy``.

NumPy dispatches on its arguments (``__array_ufunc__``, ``__array_function__``).  A function without a counterpart is
refused if a derivative would be lost, and else called on the numbers; see NOTE [No way out through NumPy].
"""

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import tree_util

from fgrad.jaxcore import CONCRETIZATIONS
from fgrad.record import refusals
from fgrad.record.templates import apply, apply_pair
from fgrad.record.tracer import Tracer

#: the counterparts of NumPy's public modules
_NAMESPACES = {"numpy": jnp, "numpy.linalg": jnp.linalg, "numpy.fft": jnp.fft}

#: the defaults of ufuncs' arguments
_UFUNC_DEFAULTS: dict[str, Any] = {
    "out": None, "where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True, "signature": None,
}  # fmt: skip

#: by function, parameters that have other names in ``jax.numpy``
_RENAMED: dict[str, dict[str, str]] = {"clip": {"a_min": "min", "a_max": "max"}}


#: functions of sets, whose counterparts compute the shape of the result from the numbers, and the result with it
_OF_SETS = frozenset({
    "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "intersect1d", "setdiff1d", "setxor1d", "union1d",
})  # fmt: skip


class _Refused(Exception):
    """A call cannot be recorded: why, and what to do instead."""

    def __init__(self, why: str, instead: str):
        super().__init__(why)
        self.why, self.instead = why, instead


_Absent: type = type(inspect.signature(np.sum).parameters["initial"].default)
_DO_WITHOUT = "call the function without it, and work on the result with jax.numpy"


# --------------------------------------------------------------------------------------------------------------------
# ufuncs


@functools.cache
def ufunc_twin(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """The counterpart in ``jax.numpy`` of one of NumPy's own ufuncs.

    >>> ufunc_twin(np.abs) is jnp.absolute
    True
    """
    name = ufunc.__name__
    return getattr(jnp, name, None) if getattr(np, name, None) is ufunc else None


def _name(ufunc: np.ufunc) -> str:
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            return f"{module}.{ufunc.__name__}"
    return f"The ufunc {ufunc.__name__!r}"


def _elsewhere(ufunc: np.ufunc) -> str:
    """What to use instead of a ufunc that is not NumPy's."""
    special = jax.scipy.special
    scipys = sys.modules.get("scipy.special")
    for name in (ufunc.__name__, *(n for n in dir(special) if getattr(scipys, n, None) is ufunc)):
        if not name.startswith("_") and hasattr(special, name):
            return f"use jax.scipy.special.{name}"
        if hasattr(jnp, name):
            return f"use jax.numpy.{name}"
    return "write it with jax.numpy, or give it a derivative of its own with fgrad.custom_vjp"


@functools.cache
def _ufunc_method(ufunc: np.ufunc, method: str) -> Callable[..., Any]:
    """``ufunc.reduce`` and the like, for JAX arrays."""
    twin = ufunc_twin(ufunc)
    if not isinstance(twin, jnp.ufunc):
        assert twin is not None
        twin = jnp.frompyfunc(twin, ufunc.nin, ufunc.nout, identity=ufunc.identity)
    return getattr(twin, method)


def _is_inplace(frame: Any, inputs: Sequence[Any], out: Any) -> bool:
    """Whether a ufunc is called by ``array += x``, which rebinds the name to a new array, as in JAX."""
    operation = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return operation == "BINARY_OP" and len(out) == 1 and out[0] is inputs[0]


def _ufunc_call(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any], frame: Any
) -> tuple[Callable[..., Any], dict[str, Any]]:
    if ufunc_twin(ufunc) is None:
        raise _Refused("it is compiled code that takes numbers only", _elsewhere(ufunc))
    name = ufunc.__name__
    if method == "at":
        raise _Refused("it writes into a NumPy array", "use y.at[indices].add(x) and its like, of jax.numpy arrays")
    if "out" in kwargs and not _is_inplace(frame, inputs, kwargs["out"]):
        raise _Refused("its argument out= is a NumPy array, which holds numbers only", "use the result that it returns")
    kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    if method == "__call__":
        for key, value in kwargs.items():
            if not _same(value, _UFUNC_DEFAULTS.get(key, inspect.Parameter.empty)):
                raise _Refused(f"jax.numpy.{name} has no argument {key}=", _without(key))
        return ufunc_twin(ufunc), {}  # type: ignore[return-value]
    function = _ufunc_method(ufunc, method)
    _check_names(f"jax.numpy.{name}.{method}", inspect.signature(function).parameters, kwargs)
    if kwargs.get("dtype") is not None:
        raise _Refused(f"jax.numpy.{name}.{method} has no argument dtype=", _without("dtype"))
    return function, kwargs


def _without(name: str) -> str:
    return {
        "where": "use jax.numpy.where on the result",
        "dtype": "use .astype on the arguments or on the result",
    }.get(name, _DO_WITHOUT)


def __array_ufunc__(self: Tracer, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    frame = sys._getframe(1)
    for x in (*inputs, *kwargs.get("out", ())):
        kind = type(x)
        if kind is not Tracer and not _ours(kind) and hasattr(kind, "__array_ufunc__"):
            return NotImplemented
    try:
        function, kwargs_of_twin = _ufunc_call(ufunc, method, inputs, kwargs, frame)
    except _Refused as refused:
        name = _name(ufunc) if method == "__call__" else f"{_name(ufunc)}.{method}"
        return _on_numbers(getattr(ufunc, method), inputs, kwargs, name, refused)
    inputs = tuple([jnp.asarray(x) if type(x) in (list, tuple) else x for x in inputs])
    if len(inputs) == 2 and not kwargs_of_twin:
        return apply_pair(function, *inputs, frame)
    return apply(function, inputs, kwargs_of_twin, frame)


# --------------------------------------------------------------------------------------------------------------------
# functions


@functools.cache
def function_twin(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The counterpart of one of NumPy's functions in ``jax.numpy``, its ``linalg`` or its ``fft``.

    >>> function_twin(np.linalg.norm) is jnp.linalg.norm
    True
    """
    twin = getattr(_NAMESPACES.get(function.__module__), function.__name__, None)
    # jax.numpy re-exports some of NumPy's own functions, such as save
    return None if twin is function else twin


@functools.cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _same(value: Any, default: Any) -> bool:
    """Whether an argument has its default value, a Python constant."""
    return value is default or (type(value) is str and value == default)


def _check_names(name: str, parameters: Mapping[str, inspect.Parameter], kwargs: Mapping[str, Any]) -> None:
    for key in kwargs:
        if key not in parameters:
            raise _Refused(f"{name} has no argument {key}=", _without(key))


def _function_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
    """The counterpart in JAX for a call of one of NumPy's functions, and its arguments."""
    twin = function_twin(function)
    module, name = function.__module__, function.__name__
    if twin is None:
        where = f"jax.{module}" if module in _NAMESPACES else "jax.numpy"
        raise _Refused(f"{where} has no function of that name", "write it with jax.numpy")
    full = f"jax.{module}.{name}"
    if name in _OF_SETS:
        raise _Refused("the number of its results depends on the numbers", f"use {full} with size=")
    theirs, ours = _parameters(function), _parameters(twin)
    if "inplace" in ours:
        raise _Refused(
            "it writes into its first argument, a NumPy array, which holds numbers only",
            f"use {full}(..., inplace=False), which returns the new array, or y.at[i].set(x)",
        )
    if any(p.kind is p.VAR_POSITIONAL for p in theirs.values()):
        positional, named = list(args), dict(kwargs)
    else:
        positional, named = [], {}
        parameter_names = [p.name for p in ours.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for i, (key, value) in enumerate([*zip(theirs, args, strict=False), *kwargs.items()]):
            key = _RENAMED.get(name, {}).get(key, key)
            in_place = i == len(positional) < len(args) and i < len(parameter_names)
            if in_place and key != "out" and (parameter_names[i] == key or parameter_names[i] not in theirs):
                positional.append(value)
            else:
                named[key] = value
    if named.get("out") is not None:
        raise _Refused("its argument out= is a NumPy array, which holds numbers only", "use the result that it returns")
    for key in list(named):
        default = theirs[key].default if key in theirs else inspect.Parameter.empty
        # JAX does not know NumPy's marker of a missing argument
        if _same(named[key], default) and (key not in ours or isinstance(default, _Absent)):
            del named[key]
    _check_names(full, ours, named)
    return twin, positional, named


def __array_function__(
    self: Tracer, function: Callable[..., Any], types: Sequence[type], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    if not all(map(_ours, types)):
        return NotImplemented
    # JAX's own functions ask NumPy these
    if function is np.shape and args:
        return args[0].shape
    if function is np.ndim and args:
        return args[0].ndim
    try:
        twin, positional, named = _function_call(function, args, kwargs)
    except _Refused as refused:
        return _on_numbers(function, args, kwargs, f"{function.__module__}.{function.__name__}", refused)
    return apply(twin, positional, named, sys._getframe(1))


# --------------------------------------------------------------------------------------------------------------------


def _ours(kind: type) -> bool:
    """Whether JAX accepts values of a class on which NumPy dispatches."""
    return issubclass(kind, Tracer | np.ndarray | np.generic)


def _on_numbers(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str, refused: _Refused) -> Any:
    """Call a function of NumPy on the numbers, if no derivative passes through them.

    Raises:
      NumPyFunctionError: a derivative passes through one of them, or they are not known.
    """
    leaves, tree = tree_util.tree_flatten((tuple(args), dict(kwargs)))
    for i, x in enumerate(leaves):
        if type(x) is Tracer:
            try:
                leaves[i] = np.asarray(x)
            except CONCRETIZATIONS:
                raise refusals.numpy_function(x, name, refused.why, refused.instead) from None
    args, kwargs = tree_util.tree_unflatten(tree, leaves)
    return function(*args, **kwargs)


def install() -> None:
    """Make NumPy dispatch on the tracer class."""
    Tracer.__array_ufunc__ = __array_ufunc__  # type: ignore[attr-defined]
    Tracer.__array_function__ = __array_function__  # type: ignore[attr-defined]


install()
