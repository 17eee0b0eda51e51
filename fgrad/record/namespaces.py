"""JAX's namespaces with the fast lane: ``fgrad.numpy`` is ``jax.numpy``, but faster for tracers."""

import functools
import sys
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from fgrad.deferred import import_at_first_use
from fgrad.record.templates import apply, apply_pair
from fgrad.record.tracer import Tracer

#: marks a missing argument; a tuple, since tuples are looked into below
_NOTHING = (object(),)


def fast(function: Any) -> Any:
    """``function`` with the fast lane: called with tracers, it is applied from its template.

    For other arguments the result is a plain call of ``function``.

    >>> import jax.numpy as jnp
    >>> fast(jnp.sin)(0.0)
    Array(0., dtype=float32, weak_type=True)
    """

    def call(x: Any = _NOTHING, y: Any = _NOTHING, /, *rest: Any, **kwargs: Any) -> Any:
        # the usual calls first, since ordinary arrays pay for these tests; the first two arguments have names because
        # a tuple of them takes a tenth of a microsecond
        if not kwargs and not rest:
            kind = type(x)
            if y is _NOTHING:
                if kind is Tracer:
                    return apply(function, (x,), kwargs, sys._getframe(1))
                if kind is not list and kind is not tuple:
                    return function(x)
            else:
                other = type(y)
                if kind is Tracer or other is Tracer:
                    return apply_pair(function, x, y, sys._getframe(1))
                if kind is not list and kind is not tuple and other is not list and other is not tuple:
                    return function(x, y)
        args = (x, y, *map(_without_lane, rest)) if y is not _NOTHING else (x,) if x is not _NOTHING else ()
        kwargs = {name: _without_lane(value) for name, value in kwargs.items()}
        if _has_tracer(args) or (kwargs and _has_tracer(kwargs.values())):
            return apply(function, args, kwargs, sys._getframe(1))
        return function(*args, **kwargs)

    wrapped: Any = functools.update_wrapper(call, function)
    _functions[wrapped] = function
    if isinstance(function, jax.numpy.ufunc):
        for name in _UFUNC_METHODS:
            setattr(wrapped, name, fast(getattr(function, name)))
        wrapped.nin, wrapped.nout, wrapped.nargs = function.nin, function.nout, function.nargs
        wrapped.identity = function.identity
    return wrapped


#: by function with the fast lane, that of JAX
_functions: dict[Any, Any] = {}


def _without_lane(x: Any) -> Any:
    """An argument; JAX's own function instead of one here, for ``reduce_window`` asks whether it gets ``lax.add``."""
    return _functions.get(x, x) if type(x) is FunctionType else x


_UFUNC_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")


def _has_tracer(values: Iterable[Any]) -> bool:
    for x in values:
        if type(x) is Tracer or (type(x) in (list, tuple) and _has_tracer(x)):
            return True
    return False


def export(module: ModuleType, target: str, inner: Sequence[str] = ()) -> Any:
    """The module-level ``__getattr__`` of namespace ``target``: ``module``'s names, wrapped at first use.

    The modules ``inner`` of the namespace are imported at first use.
    """
    here = sys.modules[target]

    def __getattr__(name: str) -> Any:
        if name in inner:
            return import_at_first_use(f"{target}.{name}")
        try:
            value = getattr(module, name)
        except AttributeError:
            raise AttributeError(f"module {target!r} has no attribute {name!r}") from None
        if name.startswith("__"):
            return value
        if is_function(value):
            value = fast(value)
        setattr(here, name, value)
        return value

    return __getattr__


def is_function(value: Any) -> bool:
    """Whether a public name is a function of arrays (and not a class, a dtype, a module or a constant)."""
    return (
        callable(value)
        and not isinstance(value, type | ModuleType | np.dtype)
        and not hasattr(value, "dtype")
        and not _decorates(value)
    )


def _decorates(value: Any) -> bool:
    """Whether it takes a function and returns one (``vectorize``), so that there is nothing to record."""
    return getattr(value, "__name__", "") in (
        "vectorize",
        "frompyfunc",
        "custom_linear_solve",
        "custom_root",
    ) or isinstance(value, jax.custom_batching.custom_vmap)


def public_names(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]
