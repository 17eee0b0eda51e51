"""Matrix factorisations: QR, singular values, eigenvalues, Householder reflections."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax, numpy as jnp

import fgrad
from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.capture import expect
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.values.evaluation import concrete, elements, is_abstract
from fgrad.torch import return_types
from fgrad.torch.ops.linalg.matrices import (
    adjoint,
    check_converged,
    check_inexact,
    check_lapack,
    check_matrix,
    check_square,
    column_major,
    conjugate,
    linalg,
    matmul_exact,
    matrix_column_major,
    transposed,
)
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.outputs import exact, safely_cast
from fgrad.torch.ops.table.overloads import overload
from fgrad.torch.ops.table.table import Array, composite
from fgrad.torch.ops.views.axes import transpose
from fgrad.torch.random.scalars import scalar_name

# -- QR --------------------------------------------------------------------------------------------------------------


def _column_major_if_tall(types: Sequence[Any], shape: Ints) -> Ints | None:
    return column_major(types, shape) if shape[-2] >= shape[-1] else None


def _refuse_qr(saved: Any, grads: Any, mode: str) -> None:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr."
        )
    rows, width = saved["R"].shape[-2:]
    if mode == "complete" and rows > width:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")


@overload(
    "linalg_qr", "LinalgQrBackward0", saved=("A",), outputs=("Q", "R"), always_saved=("Q", "R"), strides=column_major,
    refuse=_refuse_qr, gradient_strides={"A": _column_major_if_tall},
)  # fmt: skip
def _linalg_qr(input: Array, mode: str) -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    check_matrix("linalg.qr", input)
    check_inexact("linalg.qr", input, half=True)
    check_lapack("geqrf_cpu", input)
    if mode == "r":
        # the derivative needs Q, which this mode does not compute
        return jnp.zeros((0,), input.dtype), jnp.linalg.qr(input, "r")
    q, r = jnp.linalg.qr(input, "complete" if mode == "complete" else "reduced")
    return q, r


@linalg(name="qr", autocast="fp32")
def linalg_qr(A: Array, mode: str = "reduced") -> Any:
    """An orthonormal matrix and an upper triangular one whose product is the matrix.

    Source: `torch.linalg.qr <https://docs.pytorch.org/docs/stable/generated/torch.linalg.qr.html>`_.
    """
    return return_types.linalg_qr(apply(_linalg_qr.operation, (A,), (mode,)))


_QR = (
    "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\n"
    "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\n"
    "should be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
)


@composite(autocast="fp32")
def qr(input: Array, some: bool = True) -> Any:
    """``linalg.qr``; ``some=False`` gives the complete factors.

    Source: `torch.qr <https://docs.pytorch.org/docs/stable/generated/torch.qr.html>`_.
    """
    warn_once(_QR, UserWarning)
    return return_types.qr(linalg_qr(input, "reduced" if some else "complete"))


# -- singular values -------------------------------------------------------------------------------------------------


def _quotient(x: Any, gaps: Any) -> Any:
    """``x / gaps``; zero where both are, for equal values whose vectors have no gradient."""
    indeterminate = (x == 0) & (gaps == 0)
    return choose(indeterminate, 0, x / choose(indeterminate, 1, gaps))


def _with_pullback(forward: Callable[[Any], Any], pullback: Callable[..., Any]) -> Callable[[Any], Any]:
    """A function with a pull-back of its own; forward mode, where that has no transpose, differentiates ``forward``."""

    def pushforward(tangents: Any, outs: Any, x: Any) -> Any:
        return fgrad.jvp(forward, (x,), tangents)[1]

    return fgrad.define_rule(forward, vjp=pullback, jvp=pushforward)


#: how far a loss may depend on the phases of complex vectors, which are arbitrary
_PHASE_TOLERANCE = 1e-2


def _phase_gradient(vectors: Any, gradient: Any) -> Any:
    """The derivative of the loss with respect to the phase of each complex vector."""
    return np.imag(np.sum(np.conj(concrete(vectors)) * concrete(gradient), -2))


def _refuse_singular(saved: Any, grads: Any, full_matrices: bool) -> None:
    gu, _, gvh = grads
    u, vh = saved["U"], saved["Vh"]
    if u.dtype.kind != "c" or any(is_abstract(x) for x in (u, vh, gu, gvh)):
        return
    rank = min(u.shape[-1], vh.shape[-2])
    left = 0 if gu is None else _phase_gradient(u, gu)[..., :rank]
    right = 0 if gvh is None else _phase_gradient(np.swapaxes(vh, -1, -2), np.swapaxes(gvh, -1, -2))[..., :rank]
    if not np.allclose(left, right, _PHASE_TOLERANCE, _PHASE_TOLERANCE):
        raise RuntimeError(
            "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. "
            "The specified loss function depends on this phase term, making it ill-defined."
        )


def _refuse_phase(function: str) -> Callable[..., None]:
    """The check that raises PyTorch's error for losses that depend on the phases of complex eigenvectors."""

    def refuse(saved: Any, grads: Any, **static: Any) -> None:
        vectors, gradient = saved["eigenvectors"], grads[1]
        if vectors.dtype.kind != "c" or gradient is None or is_abstract(vectors) or is_abstract(gradient):
            return
        if not np.allclose(_phase_gradient(vectors, gradient), 0, _PHASE_TOLERANCE, _PHASE_TOLERANCE):
            raise RuntimeError(
                f"{function}: The eigenvectors in the complex case are specified up to multiplication by e^{{i phi}}. "
                "The specified loss function depends on this quantity, so it is ill-defined."
            )

    return refuse


def _singular(x: Any, full_matrices: bool) -> Any:
    """The decomposition; the arbitrary extra vectors of ``full_matrices`` have no derivative."""
    rows, width = x.shape[-2:]
    rank = min(rows, width)

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        gu, gs, gvh = (conjugate(ct) for ct in cts)
        u, s, vh = outs
        u, gu, vh, gvh = u[..., :rank], gu[..., :rank], vh[..., :rank, :], gvh[..., :rank, :]
        row, column = s[..., None, :].astype(x.dtype), s[..., :, None].astype(x.dtype)
        eye = jnp.eye(rank, dtype=bool)
        gaps = choose(eye, 1, row * row - column * column)
        left, right = matmul_exact(adjoint(u), gu), matmul_exact(gvh, adjoint(vh))
        left, right = left - adjoint(left), adjoint(right) - right
        core = _quotient(left, gaps) * row + column * _quotient(right, gaps) + choose(eye, gs[..., None, :], 0)
        if x.dtype.kind == "c":
            core = core + choose(eye, _quotient(left, 2 * row), 0)
        if rows > rank:
            outer = _quotient(gu, row)
            gradient = matmul_exact(
                matmul_exact(u, core) + outer - matmul_exact(u, matmul_exact(adjoint(u), outer)), vh
            )
        else:
            inner = matmul_exact(core, vh)
            if width > rank:
                outer = _quotient(gvh, column)
                inner = inner + outer - matmul_exact(matmul_exact(outer, adjoint(vh)), vh)
            gradient = matmul_exact(u, inner)
        return (conjugate(gradient),)

    def forward(x: Any) -> Any:
        return tuple(jnp.linalg.svd(x, full_matrices=full_matrices))

    def pushforward(tangents: Any, outs: Any, x: Any) -> Any:
        du, ds, dvh = fgrad.jvp(lambda x: tuple(jnp.linalg.svd(x, full_matrices=False)), (x,), tangents)[1]
        before = [(0, 0)] * (x.ndim - 2)
        extra_left, extra_right = outs[0].shape[-1] - rank, outs[2].shape[-2] - rank
        return jnp.pad(du, [*before, (0, 0), (0, extra_left)]), ds, jnp.pad(dvh, [*before, (0, extra_right), (0, 0)])

    return fgrad.define_rule(forward, vjp=pullback, jvp=pushforward)(x)


@overload(
    "linalg_svd", "LinalgSvdBackward0", saved=("A",), outputs=("U", "S", "Vh"), always_saved=("U", "S", "Vh"),
    strides=matrix_column_major, refuse=_refuse_singular,
)  # fmt: skip
def _linalg_svd(input: Array, full_matrices: bool) -> Any:
    check_matrix("linalg.svd", input)
    check_inexact("linalg.svd", input, half=True)
    check_lapack("linalg_svd_cpu", input)
    return _singular(input, full_matrices)


@linalg(name="svd", autocast="fp32")
def linalg_svd(A: Array, full_matrices: bool = True, *, driver: Any = None) -> Any:
    """The singular value decomposition ``U diag(S) Vh``.

    Source: `torch.linalg.svd <https://docs.pytorch.org/docs/stable/generated/torch.linalg.svd.html>`_.
    """
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    result = return_types.linalg_svd(apply(_linalg_svd.operation, (A,), (full_matrices,)))
    check_converged("linalg.svd", A, result.S, "singular values")
    return result


@linalg(autocast="fp32")
def svdvals(A: Array, *, driver: Any = None) -> Tensor:
    """The singular values in descending order.

    Source: `torch.linalg.svdvals <https://docs.pytorch.org/docs/stable/generated/torch.linalg.svdvals.html>`_.
    """
    return linalg_svd(A, False, driver=driver).S


@composite(autocast="fp32")
def svd(input: Array, some: bool = True, compute_uv: bool = True) -> Any:
    """The singular value decomposition with ``V`` in place of ``Vh``.

    Source: `torch.svd <https://docs.pytorch.org/docs/stable/generated/torch.svd.html>`_.
    """
    u, s, vh = linalg_svd(input, not some)
    v = transpose(vh, -2, -1)
    if not compute_uv:
        rows, width = input._type.shape[-2:]
        batch = input._type.shape[:-2]
        return return_types.svd((input.new_zeros((*batch, rows, rows)), s, input.new_zeros((*batch, width, width))))
    return return_types.svd((u, s, v.conj() if input._type.dtype.is_complex else v))


# -- eigenvalues -----------------------------------------------------------------------------------------------------


def _column_major_if_complex(types: Sequence[Any], shape: Ints) -> Ints | None:
    return column_major(types, shape) if types[0].dtype.is_complex else None


@overload(
    "linalg_eig", "LinalgEigBackward0", outputs=("eigenvalues", "eigenvectors"), strides=matrix_column_major,
    always_saved=("eigenvalues", "eigenvectors"), refuse=_refuse_phase("linalg_eig_backward"),
    gradient_strides={"self": _column_major_if_complex},
)  # fmt: skip
def _linalg_eig(input: Array) -> Any:
    check_square("linalg.eig", input)
    check_inexact("linalg.eig", input, half=True)
    check_lapack("linalg_eig_out_cpu", input)
    if not input.size:
        empty = input.astype(np.result_type(input.dtype, np.complex64))
        return jnp.zeros(input.shape[:-1], empty.dtype), empty

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        gw, gv = (conjugate(ct) for ct in cts)
        w, v = outs
        left = adjoint(v)
        projected = matmul_exact(left, gv)
        # the vectors have length one
        projected = (
            projected - matmul_exact(left, v) * lax.real(jnp.diagonal(projected, axis1=-2, axis2=-1))[..., None, :]
        )
        eye = jnp.eye(x.shape[-1], dtype=bool)
        gaps = choose(eye, 1, conjugate(w[..., None, :] - w[..., :, None]))
        core = choose(eye, gw[..., None, :], _quotient(projected, gaps))
        gradient = conjugate(jnp.linalg.solve(left, matmul_exact(core, left)))
        return (gradient if x.dtype.kind == "c" else lax.real(gradient),)

    def forward(x: Any) -> Any:
        return tuple(lax.linalg.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True))

    return _with_pullback(forward, pullback)(input)


@linalg(autocast="fp32", out=safely_cast("torch.linalg.eig", "eigenvalues", "eigenvectors"))
def eig(A: Array) -> Any:
    """The eigenvalues and eigenvectors of square matrices, always complex.

    Raises:
      RuntimeError: a matrix has an element that is infinite or NaN.

    Source: `torch.linalg.eig <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eig.html>`_.
    """
    values = elements(A._value())
    if values is None:
        expect(A.isfinite)
    elif not np.isfinite(values).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    return return_types.linalg_eig(apply(_linalg_eig.operation, (A,)))


@linalg(autocast="fp32", out=safely_cast("torch.linalg.eigvals", "eigenvalues"))
def eigvals(A: Array) -> Tensor:
    """The eigenvalues of square matrices.

    Source: `torch.linalg.eigvals <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eigvals.html>`_.
    """
    return eig(A).eigenvalues


@overload(
    "linalg_eigh", "LinalgEighBackward0", outputs=("eigenvalues", "eigenvectors"), strides=matrix_column_major,
    always_saved=("eigenvalues", "eigenvectors"), refuse=_refuse_phase("linalg_eigh_backward"),
)  # fmt: skip
def _linalg_eigh(input: Array, UPLO: str) -> Any:
    check_square("linalg.eigh", input)
    check_lapack("linalg_eigh_cpu", input)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")

    def pullback(cts: Any, outs: Any, x: Any) -> tuple[Any]:
        gw, gv = (conjugate(ct) for ct in cts)
        w, v = outs
        projected = matmul_exact(adjoint(v), gv)
        # the gradient is Hermitian, as the matrix is
        projected = (projected - adjoint(projected)) / 2
        eye = jnp.eye(x.shape[-1], dtype=bool)
        gaps = choose(eye, 1, w[..., None, :] - w[..., :, None]).astype(x.dtype)
        core = choose(eye, gw[..., None, :], _quotient(projected, gaps))
        return (conjugate(matmul_exact(matmul_exact(v, core), adjoint(v))),)

    def forward(x: Any) -> Any:
        vectors, values = lax.linalg.eigh(x, lower=UPLO.upper() == "L", symmetrize_input=False)
        return values, vectors

    return _with_pullback(forward, pullback)(input)


@linalg(autocast="fp32")
def eigh(A: Array, UPLO: str = "L") -> Any:
    """The eigenvalues, in ascending order, and eigenvectors of Hermitian matrices, of which one triangle is read.

    Source: `torch.linalg.eigh <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eigh.html>`_.
    """
    result = return_types.linalg_eigh(apply(_linalg_eigh.operation, (A,), (UPLO,)))
    check_converged("linalg.eigh", A, result.eigenvalues, "eigenvalues")
    return result


@linalg(autocast="fp32")
def eigvalsh(A: Array, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices.

    Source: `torch.linalg.eigvalsh <https://docs.pytorch.org/docs/stable/generated/torch.linalg.eigvalsh.html>`_.
    """
    return eigh(A, UPLO).eigenvalues


# -- Householder -----------------------------------------------------------------------------------------------------


def _no_reflections(types: Any, static: Any) -> bool:
    return not types[1].numel


@overload(
    "linalg_householder_product", "LinalgHouseholderProductBackward0", saved=("input", "tau"), strides=column_major,
    always_saved=("input", "tau", "result"), undefined=_no_reflections,
)  # fmt: skip
def _householder_product(input: Array, tau: Array) -> Any:
    function = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{function}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(f"{function}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{function}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"{function}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {input.ndim}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(
            f"{function}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )
    if tau.dtype != input.dtype:
        raise RuntimeError(
            f"{function}: tau dtype {scalar_name(tau.dtype)} does not match input dtype {scalar_name(input.dtype)}"
        )
    check_lapack("orgqr_cpu", input)
    return lax.linalg.householder_product(input, tau)


@linalg(autocast="fp32", out=safely_cast("torch.linalg.householder_product"))
def householder_product(A: Array, tau: Array) -> Tensor:
    """The first columns of a product of Householder reflections.

    Source: `torch.linalg.householder_product
    <https://docs.pytorch.org/docs/stable/generated/torch.linalg.householder_product.html>`_.
    """
    return _householder_product(A, tau)


@composite(autocast="fp32", out=safely_cast("torch.linalg.householder_product"))
def orgqr(input: Array, input2: Array) -> Tensor:
    """``linalg.householder_product`` by another name."""
    return householder_product(input, input2)


@overload("geqrf", "GeqrfBackward0", outputs=("a", "tau"), strides=matrix_column_major)
def _geqrf(input: Array) -> Any:
    check_matrix("torch.geqrf", input, "input")
    check_lapack("geqrf_cpu", input)
    reflections, scales = jnp.linalg.qr(input, "raw")
    return transposed(reflections), scales


@composite(autocast="fp32", out=safely_cast("torch.geqrf", "a", "tau"))
def geqrf(input: Array) -> Any:
    """The reflections of a QR factorisation, and their scales.

    Source: `torch.geqrf <https://docs.pytorch.org/docs/stable/generated/torch.geqrf.html>`_.
    """
    return return_types.geqrf(apply(_geqrf.operation, (input,)))


def _check_ormqr(input: Any, tau: Any, other: Any, left: bool) -> None:
    """Raise PyTorch's error for operands of ``ormqr`` that do not fit together."""

    def require(holds: bool, text: str) -> None:
        if not holds:
            raise RuntimeError(f"torch.ormqr: {text}")

    require(input.ndim >= 2, "input must have at least 2 dimensions.")
    require(other.ndim >= 2, "other must have at least 2 dimensions.")
    side = -2 if left else -1
    named_side = f"other.shape[{side}]"
    require(tau.ndim > 0, "tau must have at least 1 dimension.")
    reflections = min(other.shape[side], input.shape[-1])
    require(tau.shape[-1] == reflections, f"tau.shape[-1] must be equal to min({named_side}, input.shape[-1])")
    require(other.shape[side] == input.shape[-2], f"{named_side} must be equal to input.shape[-2]")
    for name, x, expected, what in (
        ("tau", tau, input.ndim - 1, "have one dimension less than input"),
        ("other", other, input.ndim, "have the same number of dimensions as input"),
    ):
        require(
            x.ndim == expected,
            f"Expected {name} to {what}, but got {name}.ndim equal to {x.ndim} and input.ndim is equal to {input.ndim}",
        )
    batch = input.shape[:-2]
    for name, x, end in (("tau", tau, -1), ("other", other, -2)):
        require(
            x.shape[:end] == batch,
            f"Expected batch dimensions of {name} to be equal to input.shape[:-2], but got {list(x.shape[:end])}",
        )
    for name, x in (("tau", tau), ("other", other)):
        require(
            x.dtype == input.dtype,
            f"Expected input and {name} to have the same dtype, but input has dtype{scalar_name(input.dtype)} and "
            f"{name} has dtype {scalar_name(x.dtype)}",
        )


@overload(
    "ormqr", "OrmqrBackward0", saved=("self", "input2", "input3"), always_saved=("self", "input2", "input3", "result"),
    strides=column_major,
)  # fmt: skip
def _ormqr(input: Array, input2: Array, input3: Array, left: bool, transpose: bool) -> Any:
    _check_ormqr(input, input2, input3, left)
    check_lapack("ormqr_cpu", input)
    return lax.linalg.ormqr(input, input2, input3, left=left, transpose=transpose)


@composite(
    autocast="fp32",
    out=exact(
        "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{want} and result has dtype "
        "{got}"
    ),
)
def ormqr(input: Array, input2: Array, input3: Array, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of Householder reflections with a matrix.

    Source: `torch.ormqr <https://docs.pytorch.org/docs/stable/generated/torch.ormqr.html>`_.
    """
    return _ormqr(input, input2, input3, left, transpose)
