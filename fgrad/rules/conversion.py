"""Rules for the primitives that keep every value: conversion of dtype, placement on devices, and markers.

As functions of real numbers they are the identity, so a cotangent passes back unchanged, once converted to
the dtype, or moved to the place, that the input had.
"""

from typing import Any

import jax
import numpy as np
from jax import lax

from fgrad.jaxcore import primitive
from fgrad.rules.kinds import Elementwise, Linear, Zero, define

# ---- dtype


def _convert_element_type(ct: Any, x: Any, **_: Any) -> Any:
    if _is_complex(ct) and not _is_complex(x):
        # Real to complex embeds the real line; its transpose keeps the real part.
        ct = lax.real(ct)
    return (lax.convert_element_type(ct, x.dtype),)


def _is_complex(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, np.complexfloating)


define("convert_element_type", Linear(_convert_element_type))

# JAX rounds the derivatives too: the primitive stands for arithmetic in a smaller format.
define(
    "reduce_precision",
    Linear(
        lambda ct, x, *, exponent_bits, mantissa_bits, **_: (lax.reduce_precision(ct, exponent_bits, mantissa_bits),)
    ),
)

define("bitcast_convert_type", Zero("it reinterprets bits; as a function of real numbers it is nowhere differentiable"))

# an extended dtype with tangents of its own, as one whose cotangents are combined by their maximum
define("to_edtype from_edtype", Linear(_convert_element_type))


# ---- markers that the derivative need not carry

define("name copy stage", Elementwise(lambda t, out, x, **_: t))

define("tie", Linear(lambda ct, x, y, **_: (None, ct), args=(1,)))

define("stop_gradient", Zero("stop_gradient was called"))

define("dce_sink inspect_sharding", Zero("it has no output"))


def _optimization_barrier(cts: Any, *xs: Any, **_: Any) -> Any:
    # One barrier holds all cotangents, so that the backward pass is ordered as the forward pass was.
    return _each(lambda inexact: lax.optimization_barrier(inexact), cts)


def _each(fun: Any, cts: Any) -> tuple[Any, ...]:
    """Applies ``fun`` to the tuple of those cotangents that exist; integer outputs have none."""
    images = iter(fun(tuple(ct for ct in cts if ct is not None)))
    return tuple(None if ct is None else next(images) for ct in cts)


define("optimization_barrier", Linear(_optimization_barrier))


# ---- placement


def _device_put(cts: Any, *xs: Any, devices: Any, srcs: Any, copy_semantics: Any, **_: Any) -> Any:
    there = [i for i, ct in enumerate(cts) if ct is not None]

    def back(inexact: Any) -> Any:
        return primitive("device_put").bind(
            *inexact,
            devices=tuple(_source(srcs[i], xs[i], cts[i]) for i in there),
            srcs=tuple(devices[i] for i in there),
            copy_semantics=tuple(type(copy_semantics[i]).ALWAYS_COPY for i in there),
        )

    return _each(back, cts)


def _source(src: Any, x: Any, ct: Any) -> Any:
    """Where ``x`` was: what the equation says, or the memory of its type if the cotangent is in another."""
    here, there = (getattr(jax.typeof(value), "memory_space", None) for value in (x, ct))
    return here if src is None and here != there else src


define("device_put", Linear(_device_put))

for _name in ("sharding_constraint", "layout_constraint", "with_memory_space_constraint"):
    define(_name, Linear(lambda ct, x, _name=_name, **params: (primitive(_name).bind(ct, **params),)))


def _reshard(ct: Any, x: Any, *, concrete_mesh: Any = None, **_: Any) -> Any:
    sharding = jax.typeof(x).sharding
    with jax.sharding.use_abstract_mesh(sharding.mesh):
        return (primitive("reshard").bind(ct, dst_sharding=sharding, concrete_mesh=concrete_mesh),)


define("reshard", Linear(_reshard))

define("relayout", Linear(lambda ct, x, **_: (primitive("relayout").bind(ct, dst_layout=jax.typeof(x).layout),)))
