"""Complex numbers: from Cartesian and polar coordinates, angles, and materialised conjugates."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.tensor.tensor_type import TensorType
from fgrad.mutable.types.dtypes import complex32, dtype as Dtype, float16, float32, float64
from fgrad.torch.ops.table.broadcasting import Types, aligned, choose, derivative, inexact
from fgrad.torch.ops.table.kinds import kind
from fgrad.torch.ops.table.outputs import FOUND, OBJECT
from fgrad.torch.ops.table.overloads import twin_with_node
from fgrad.torch.ops.table.table import Array, composite, operation


def _real_type(types: Types, params: dict[str, Any]) -> Dtype:
    """The common type of the real and imaginary parts."""
    first, second = (t.dtype for t in types if isinstance(t, TensorType))
    if not {first, second} <= {float16, float32, float64}:
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {first.scalar_name} and "
            f"{second.scalar_name}"
        )
    if first is not second:
        raise RuntimeError(
            f"Expected object of scalar type {first.scalar_name} but got scalar type {second.scalar_name} for second "
            "argument"
        )
    return first


@operation(
    "ComplexBackward0", promote=_real_type, strides=elementwise, method=False, always_saved=("real", "imag"), out=OBJECT
)
def complex(real: Array, imag: Array) -> Any:
    """Complex numbers from real and imaginary parts.

    >>> import fgrad.torch as torch
    >>> torch.complex(torch.tensor([1.]), torch.tensor([2.]))
    tensor([1.+2.j])

    Source: `torch.complex <https://docs.pytorch.org/docs/stable/generated/torch.complex.html>`_.
    """
    if real.dtype.itemsize == 2:
        _ = complex32.numpy  # which raises: there are no such arrays
    return lax.complex(*aligned(real, imag))


def _polar_pullback(ct: Any, out: Any, modulus: Any, angle: Any) -> tuple[Any, Any]:
    return lax.real(ct * lax.sign(out)), -lax.imag(ct * out)


def _polar_pushforward(tangents: Any, out: Any, modulus: Any, angle: Any) -> Any:
    modulus_tangent, angle_tangent = tangents
    tangent = 0 if modulus_tangent is None else _polar(modulus_tangent, angle)
    return tangent if angle_tangent is None else tangent + angle_tangent * out * 1j


@derivative(_polar_pullback, _polar_pushforward)
def _polar(modulus: Any, angle: Any) -> Any:
    return lax.complex(modulus * jnp.cos(angle), modulus * jnp.sin(angle))


@operation("PolarBackward0", promote=_real_type, strides=elementwise, method=False, autocast="fp32", out=OBJECT)
def polar(abs: Array, angle: Array) -> Any:
    """Complex numbers from moduli and angles.

    Source: `torch.polar <https://docs.pytorch.org/docs/stable/generated/torch.polar.html>`_.
    """
    return _polar(abs, angle)


def _angle_pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
    if kind(x) != "c":
        return (lax.full_like(x, 0),)
    real, imag = lax.real(x), lax.imag(x)
    origin = (real == 0) & (imag == 0)
    scale = choose(origin, 0, ct / choose(origin, 1, real * real + imag * imag))
    return (lax.complex(-imag * scale, -real * scale),)


@derivative(_angle_pullback)
def _angle(x: Any) -> Any:
    if kind(x) == "c":
        return lax.atan2(lax.imag(x), lax.real(x))
    return choose(jnp.isnan(x), x, choose(x < 0, np.asarray(math.pi, x.dtype), 0))


@operation("AngleBackward0", promote=inexact, strides=elementwise, always_saved=("self",))
def angle(input: Array) -> Any:
    """The angles of complex numbers; pi for negative real ones.

    Source: `torch.angle <https://docs.pytorch.org/docs/stable/generated/torch.angle.html>`_.
    """
    return _angle(input)


@operation("ConjPhysicalBackward0", strides=elementwise, method=False, function=False)
def _conj_physical(input: Array) -> Any:
    return lax.conj(input) if kind(input) == "c" else input


@composite(out=FOUND)
def conj_physical(input: Array) -> Tensor:
    """The complex conjugate as a copy; a real tensor itself.

    Source: `torch.conj_physical <https://docs.pytorch.org/docs/stable/generated/torch.conj_physical.html>`_.
    """
    return _conj_physical(input) if input._type.dtype.is_complex else input


twin_with_node("_conj_physical", "ConjPhysicalBackward1")


@composite()
def resolve_conj(input: Any) -> Tensor:
    """The tensor itself, or a copy if it is read as the conjugate of its memory.

    Source: `torch.resolve_conj <https://docs.pytorch.org/docs/stable/generated/torch.resolve_conj.html>`_.
    """
    return input.clone() if input.is_conj() else input


@composite()
def resolve_neg(input: Any) -> Tensor:
    """The tensor itself, or a copy if it is read as the negative of its memory.

    Source: `torch.resolve_neg <https://docs.pytorch.org/docs/stable/generated/torch.resolve_neg.html>`_.
    """
    return input.clone() if input.is_neg() else input
