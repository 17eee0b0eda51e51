"""Samples of the primitives that keep every value.

Conversions to a smaller format round, so that finite differences of them say nothing (``smooth=False``).
"""

from typing import Any

import jax
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from fgrad.jaxcore import primitive
from tests.rules.samples import Sample

_rng = np.random.default_rng(4)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _to(dtype: str) -> Any:
    return lambda x: lax.convert_element_type(x, dtype)


def _bind_to(dtype: str) -> Any:
    # lax.convert_element_type takes the real part itself before it calls the primitive.
    def fun(x: Any) -> Any:
        return primitive("convert_element_type").bind(x, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)

    return fun


def _device() -> Any:
    return jax.devices()[0]


def _reshard(x: Any) -> Any:
    mesh = jax.make_mesh((1,), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    there = jax.sharding.reshard(x, NamedSharding(mesh, PartitionSpec("a")))
    return jax.sharding.reshard(there, NamedSharding(mesh, PartitionSpec(None)))


SAMPLES: list[Sample] = [
    Sample("convert_element_type", _to("float32"), (_real(3),), "narrower", smooth=False),
    Sample("convert_element_type", _to("bfloat16"), (_real(3),), "to bfloat16", smooth=False),
    Sample("convert_element_type", _to("float64"), (_real(3).astype("float32"),), "wider", smooth=False),
    Sample("convert_element_type", _to("complex128"), (_real(2, 3),), "real to complex"),
    Sample("convert_element_type", _to("complex64"), (_real(3),), "real to narrow complex", smooth=False),
    Sample("convert_element_type", _bind_to("float64"), (_complex(3),), "complex to real"),
    Sample("convert_element_type", _to("complex64"), (_complex(),), "narrower complex, 0-d", smooth=False),
    Sample("convert_element_type", lambda x, i: lax.mul(x, _to("float64")(i)), (_real(3), np.arange(3)), "int"),
    Sample("convert_element_type", _to("int32"), (_real(3),), "real to int", smooth=False),
    Sample("convert_element_type", _to("bool"), (_real(3),), "real to bool", smooth=False),
    Sample("convert_element_type", _to("float32"), (_real(0),), "empty", smooth=False),
    Sample("reduce_precision", lambda x: lax.reduce_precision(x, 11, 52), (_real(3),), "nothing lost"),
    Sample("reduce_precision", lambda x: lax.reduce_precision(x, 5, 3), (_real(3),), "few digits", smooth=False, tolerance=0.2),
    Sample("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}"), (_real(3),), smooth=False),
    Sample("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, x.dtype), (_real(3),), "same", smooth=False),
    Sample("name", lambda x: checkpoint_name(x, "a"), (_real(3),)),
    Sample("name", lambda x: checkpoint_name(x, "a"), (_complex(),), "0-d complex"),
    Sample("copy", lambda x: jax.numpy.array(x, copy=True), (_real(3),)),
    Sample("copy", lambda x: jax.numpy.array(x, copy=True), (_complex(),), "0-d complex"),
    Sample("stop_gradient", lax.stop_gradient, (_real(3),), smooth=False),
    Sample("stop_gradient", lax.stop_gradient, (_complex(),), "0-d complex", smooth=False),
    Sample("optimization_barrier", lax.optimization_barrier, (_real(3),)),
    Sample("optimization_barrier", lambda x, y: lax.optimization_barrier((x, y)), (_real(3), _complex()), "two"),
    Sample(
        "optimization_barrier", lambda x, i, y: lax.optimization_barrier((x, i, y)),
        (_real(3), np.arange(2), _complex(2)), "with an integer",
    ),
    Sample("device_put", jax.device_put, (_real(3),)),
    Sample("device_put", lambda x, y: jax.device_put([x, y], _device()), (_real(3), _complex()), "two"),
    Sample("device_put", lambda x, i: jax.device_put([i, x], _device()), (_real(3), np.arange(2)), "with an integer"),
    Sample(
        "sharding_constraint", lambda x: lax.with_sharding_constraint(x, SingleDeviceSharding(_device())), (_real(3),)
    ),
    Sample("reshard", _reshard, (_real(3),), order=1),
]  # fmt: skip
