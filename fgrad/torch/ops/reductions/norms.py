"""Norms of vectors, and distances."""

import math
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operands import cast, number_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.values.evaluation import array_type
from fgrad.torch.ops.reductions.reductions import Dims, axes_of, static_dims, total
from fgrad.torch.ops.table.broadcasting import check_broadcast, choose, inexact, sum_to
from fgrad.torch.ops.table.dispatch import IN_PYTHON
from fgrad.torch.ops.table.kinds import single
from fgrad.torch.ops.table.outputs import NOT_TAKEN, ONTO_ITSELF
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Float, Number, composite, operation, operation_of
from fgrad.torch.ops.views.views import expand, reshape, view_sizes, wrap_dim

# -- norms of vectors ------------------------------------------------------------------------------------------------


#: orders that have a formula of their own; each has a plan of its own
_SPECIAL = (0, 1, 2, math.inf, -math.inf)


def formula_of(order: Any) -> Any:
    """What the formulas of a norm and its gradient depend on: a special order, or the range in which another lies."""
    if order in _SPECIAL:
        return float(order)
    return "below 1" if order < 1 else "below 2" if order < 2 else ""


@single
def power_norm(x: Any, order: Any, formula: Any, axes: Any, keepdim: bool) -> Any:
    """The norm of order ``order`` over axes; ``formula`` as in ``formula_of``."""
    magnitude = lax.abs(x)
    if formula == math.inf:
        return jnp.max(magnitude, axes, keepdims=keepdim, initial=0)
    if formula == -math.inf:
        return jnp.min(magnitude, axes, keepdims=keepdim, initial=np.inf)
    if formula == 0:
        return jnp.sum(lax.ne(x, lax.full_like(x, 0)), axes, keepdims=keepdim).astype(magnitude.dtype)
    if formula == 1:
        return jnp.sum(magnitude, axes, keepdims=keepdim)
    if formula == 2:
        return lax.sqrt(total(magnitude * magnitude, axes, keepdim))
    order = lax.convert_element_type(order, magnitude.dtype)
    return jnp.power(jnp.sum(jnp.power(magnitude, order), axes, keepdims=keepdim), 1 / order)


def _zero_where_zero(test: Any, value: Any) -> Any:
    """A value, with 0 where ``test`` is zero."""
    return choose(lax.eq(test, lax.full_like(test, 0)), lax.full_like(value, 0), value)


def _sign(x: Any) -> Any:
    """The sign, of which that of a NaN is 0, as in PyTorch's kernels."""
    return jnp.sign(x) if x.dtype.kind == "c" else choose(lax.eq(x, x), jnp.sign(x), 0)


def norm_gradient(x: Any, norm: Any, order: Any, formula: Any, axes: Any, sign: Any = _sign) -> Any:
    """The gradient of a norm, zero where it is not differentiable, as in PyTorch."""
    magnitude = lax.abs(x)
    if formula == 0:
        return lax.full_like(x, 0)
    if formula == 1:
        return sign(x)
    if formula == 2:
        return _zero_where_zero(norm + lax.full_like(magnitude, 0), x / norm)
    if formula in (math.inf, -math.inf):
        is_extremum = lax.eq(magnitude, norm + lax.full_like(magnitude, 0)) | (
            lax.ne(norm, norm) & lax.ne(magnitude, magnitude)
        )
        return sign(x) * (is_extremum / jnp.sum(is_extremum, axes, keepdims=True)).astype(magnitude.dtype)
    norms, order = norm + lax.full_like(magnitude, 0), lax.convert_element_type(order, magnitude.dtype)
    if formula == "below 1":
        return jnp.sign(x) * _zero_where_zero(magnitude, jnp.power(magnitude, order - 1)) * jnp.power(norm, 1 - order)
    # not the power of 0, whose slope would be in the second derivative
    scale = _zero_where_zero(norms, 1 / jnp.power(choose(norms == 0, 1, norms), order - 1))
    if formula == "below 2":
        return jnp.sign(x) * jnp.power(magnitude, order - 1) * scale
    return x * jnp.power(magnitude, order - 2) * scale


def normed(x: Any, order: Any, formula: Any, axes: Any, keepdim: bool) -> Any:
    """A norm with PyTorch's derivative, in terms of the operand and the norm."""

    def pullback(ct: Any, out: Any, x: Any, order: Any) -> tuple[Any, None]:
        if not keepdim:
            ct, out = lax.expand_dims(ct, axes), lax.expand_dims(out, axes)
        gradient = norm_gradient(x, out, order, formula, axes)
        return ct * (lax.conj(gradient) if x.dtype.kind == "c" else gradient), None

    return fgrad.define_rule(lambda x, order: power_norm(x, order, formula, axes, keepdim), vjp=pullback)(x, order)


def check_norm_dtype(function: str, input: Any, dtype: Dtype | None) -> None:
    """Raise PyTorch's errors for element types that have no norm."""
    input_dtype = dtypes.from_numpy(input.dtype)
    if not (input_dtype.is_floating_point or input_dtype.is_complex):
        raise RuntimeError(
            f"{function}: Expected a floating point or complex tensor as input. Got {input_dtype.scalar_name}"
        )
    if dtype is None:
        return
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{function}: dtype should be floating point or complex. Got {dtype.scalar_name}")
    if dtype.is_complex != input_dtype.is_complex:
        kind = ("complex", "complex") if input_dtype.is_complex else ("real", "floating point")
        raise RuntimeError(f"{function}: dtype should be {kind[0]} for {kind[0]} inputs. Got {dtype.scalar_name}")
    if dtype.itemsize < input_dtype.itemsize:
        raise RuntimeError(
            f"{function}: the dtype of the input ({input_dtype.scalar_name}) should be convertible without narrowing "
            f"to the specified dtype ({dtype.scalar_name})"
        )


def is_count(types: Any, static: dict[str, Any]) -> bool:
    """Whether a norm counts elements, which has no derivative."""
    return static["special"] == 0


@operation(
    "LinalgVectorNormBackward0", name="linalg_vector_norm", always_saved=("self", "result"), undefined=is_count,
    method=False, function=False,
)  # fmt: skip
def _vector_norm(input: Array, ord: Number, dim: Dims, keepdim: bool, dtype: Any, special: Any) -> Any:
    check_norm_dtype("linalg.vector_norm", input, dtype)
    return normed(input if dtype is None else cast(input, dtype), ord, special, axes_of(dim, input.ndim), keepdim)


VECTOR_NORM = operation_of(_vector_norm)


def vector_norm(input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of order ``ord`` of all elements or over axes."""
    ord = number_of("linalg_vector_norm", "ord", ord)
    if isinstance(ord, complex):
        check_norm_dtype("linalg.vector_norm", input._type.array, dtype)
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    if not input._type.numel and (ord < 0 or ord == math.inf):
        check_norm_dtype("linalg.vector_norm", input._type.array, dtype)
        _check_identity(input._type.shape, ord, static_dims(dim))
    return _vector_norm(input, ord, dim, keepdim, dtype, formula_of(ord))


def _check_identity(shape: Ints, order: float, dim: Ints | None) -> None:
    """Raise PyTorch's error for an order whose norm of no elements is undefined."""
    axes = axes_of(dim, len(shape))
    empty = [i for i in axes if not shape[i]]
    if not empty:
        return
    text = "inf" if order == math.inf else "-inf" if order == -math.inf else f"{order:g}"
    if dim is None or dim == ():
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {text} norm on an empty tensor because the operation does not have "
            "an identity"
        )
    raise RuntimeError(
        f"linalg.vector_norm cannot compute the {text} norm on the dimension {empty[0]}because this dimension is "
        "empty and the operation does not have an identity"
    )


# -- distances -------------------------------------------------------------------------------------------------------


def largest_difference(x: Any) -> Any:
    """The distance of order infinity from differences; each of several equal extremes has the whole gradient."""

    def pullback(ct: Any, out: Any, x: Any) -> tuple[Any]:
        return (choose(jnp.abs(x) == out[..., None], jnp.sign(x) * ct[..., None], 0),)

    return fgrad.define_rule(lambda x: jnp.max(jnp.abs(x), -1), vjp=pullback)(x)


@overload("dist", "DistBackward0", promote=inexact, always_saved=("self", "other", "result"), undefined=is_count)
def _dist(input: Array, other: Array, p: Number, special: Any) -> Any:
    check_broadcast(input, other)
    axes = tuple(range(max(input.ndim, other.ndim)))

    def forward(a: Any, b: Any, p: Any) -> Any:
        return power_norm(a - b, p, special, axes, False)

    def pullback(ct: Any, out: Any, a: Any, b: Any, p: Any) -> tuple[Any, Any, None]:
        gradient = norm_gradient(a - b, out, p, special, axes)
        gradient_a = ct * (lax.conj(gradient) if a.dtype.kind == "c" else gradient)
        return sum_to(gradient_a, a.shape), sum_to(-gradient_a, b.shape), None

    return fgrad.define_rule(forward, vjp=pullback)(input, other, p)


@composite(out=NOT_TAKEN)
def dist(input: Array, other: Array, p: float = 2) -> Tensor:
    """The norm of order ``p`` of the difference of two tensors.

    Source: `torch.dist <https://docs.pytorch.org/docs/stable/generated/torch.dist.html>`_.
    """
    if not (input._type.inexact or other._type.inexact):
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {(input - other).dtype.scalar_name} "
            "instead."
        )
    p = number_of("dist", "p", p)
    return apply(_dist.operation, (input, other, p), (formula_of(p),))


@overload(
    "cdist",
    "CdistBackward0",
    promote=inexact,
    backward_node="CdistBackwardBackward0",
    always_saved=("x1", "x2", "result"),
)
def _cdist(x1: Array, x2: Array, p: Float, special: Any) -> Any:
    batch = jnp.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])

    def differences(a: Any, b: Any) -> Any:
        return a[..., :, None, :] - b[..., None, :, :]

    def pullback(ct: Any, out: Any, a: Any, b: Any, p: Any) -> tuple[Any, Any, None]:
        # between equal rows the gradient is 0 and so are further derivatives, which are not those of a quotient by 0
        equal = (out == 0)[..., None]
        slopes = norm_gradient(differences(a, b), choose(equal, 1, out[..., None]), p, special, (-1,), jnp.sign)
        gradients = choose(equal, 0, slopes) * ct[..., None]
        return sum_to(jnp.sum(gradients, -2), a.shape), sum_to(-jnp.sum(gradients, -3), b.shape), None

    def forward(a: Any, b: Any, p: Any) -> Any:
        return power_norm(differences(a, b), p, special, (-1,), False)

    if special == math.inf:
        distances = largest_difference(differences(x1, x2))
    else:
        distances = fgrad.define_rule(forward, vjp=pullback)(x1, x2, p)
    return jnp.broadcast_to(distances, (*batch, x1.shape[-2], x2.shape[-2]))


@operation("EuclideanDistBackward0", name="_euclidean_dist", method=False)
def euclidean_dist(x1: Array, x2: Array) -> Any:
    """The Euclidean distances between the rows of two matrices, or of batches of them."""

    def forward(a: Any, b: Any) -> Any:
        return power_norm(a[..., :, None, :] - b[..., None, :, :], 2.0, 2.0, (-1,), False)

    def pullback(ct: Any, out: Any, a: Any, b: Any) -> tuple[Any, Any]:
        ratio = _zero_where_zero(out, ct / out)
        return (
            a * jnp.sum(ratio, -1, keepdims=True) - jnp.matmul(ratio, b),
            b * jnp.sum(ratio, -2)[..., None] - jnp.matmul(jnp.swapaxes(ratio, -1, -2), a),
        )

    return fgrad.define_rule(forward, vjp=pullback)(x1, x2)


#: for more rows than this PyTorch uses a matrix product, unless told not to
_FEW_ROWS = 25
_COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist",
)  # fmt: skip


@composite(method=False, autocast="fp32", dispatch=IN_PYTHON, out=NOT_TAKEN)
def cdist(x1: Array, x2: Array, p: Any = 2.0, compute_mode: Any = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The distances between the rows of two matrices, or of batches of them.

    Arguments:
      x1, x2: the matrices.
      p: the order of the norm.
      compute_mode: one of PyTorch's; here the distances are always computed from differences.

    Source: `torch.cdist <https://docs.pytorch.org/docs/stable/generated/torch.cdist.html>`_.
    """
    if isinstance(compute_mode, str) and compute_mode not in _COMPUTE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, tensor in (("X1", x1), ("X2", x2)):
        if not tensor._type.dtype.is_floating_point:
            scalar_name = tensor._type.dtype.scalar_name
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {scalar_name}")
        if len(tensor._type.shape) < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {len(tensor._type.shape)}D")
    if x1._type.shape[-1] != x2._type.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1._type.shape[-1]} X2: {x2._type.shape[-1]}"
        )
    if x1._type.dtype.itemsize < 4:
        raise NotImplementedError(f"\"cdist\" not implemented for '{x1._type.dtype.scalar_name}'")
    if x1._type.dtype is not x2._type.dtype:
        raise RuntimeError(f"expected scalar type {x1._type.dtype.scalar_name} but found {x2._type.dtype.scalar_name}")
    p = number_of("cdist", "p", p)
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    (*batch1, rows, width), (*batch2, columns, _) = x1._type.shape, x2._type.shape
    check_broadcast(*[array_type(tuple(batch), np.float64) for batch in (batch1, batch2)])
    has_many_rows = compute_mode in (None, _COMPUTE_MODES[0]) and max(rows, columns) > _FEW_ROWS
    if p != 2 or not (has_many_rows or compute_mode == _COMPUTE_MODES[1]) or not rows * columns * width:
        return apply(_cdist.operation, (x1, x2, float(p)), (formula_of(p),))
    batch = np.broadcast_shapes(batch1, batch2)
    if math.prod(batch) != 1:
        x1, x2 = (reshape(expand(x, (*batch, -1, -1)), (-1, *x._type.shape[-2:])) for x in (x1, x2))
    return view_sizes(euclidean_dist(x1, x2), (*batch, rows, columns))


@overload("renorm", "RenormBackward0")
def _renorm(input: Array, p: Number, dim: int, maxnorm: Number, special: Any) -> Any:
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    axis = wrap_dim(dim, input.ndim)
    others = tuple([i for i in range(input.ndim) if i != axis])
    exceeds = normed(input, p, special, others, True) > maxnorm
    # the norm of what is scaled only: the slope of a NaN, which exceeds nothing, would be in the gradient
    norms = normed(choose(exceeds, input, 1), p, special, others, True)
    return input * choose(exceeds, maxnorm / (norms + 1e-7), 1)


@overloaded(inplace=True, out=ONTO_ITSELF)
def renorm(input: Array, p: Any, dim: int, maxnorm: Number) -> Choice:
    """Slices along an axis scaled down to a norm of at most ``maxnorm``.

    Source: `torch.renorm <https://docs.pytorch.org/docs/stable/generated/torch.renorm.html>`_.
    """
    if isinstance(p, complex):
        raise RuntimeError("renorm: p must be real-valued")
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if isinstance(maxnorm, complex):
        raise RuntimeError("renorm: maxnorm must be real-valued")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if not input._type.inexact:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{input._type.dtype.scalar_name}"
        )
    return _renorm, input, p, dim, maxnorm, formula_of(p)
