"""Transforms to vectors on a simplex, and to triangular and positive definite matrices."""

import math
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.limits import finfo
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.elementwise import _clipped_sigmoid
from fgrad.torch.distributions.transform import Transform
from fgrad.torch.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from fgrad.torch.linalg import cholesky
from fgrad.torch.nn import functional


def _needs_dims(shape: Any, dims: int) -> None:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")


class SoftmaxTransform(Transform):
    """The softmax function, which is not one to one; its inverse is the logarithm.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.SoftmaxTransform
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__: Any = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        _needs_dims(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """From vectors to the simplex of one more dimension: each number breaks a fraction off the rest of a stick.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.StickBreakingTransform
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__: Any = object.__hash__

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        """Shifts that map zero to the middle of the simplex."""
        n = x.shape[-1]
        return ops.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        shares = _clipped_sigmoid(x - self._offset(x))
        remaining = (1 - shares).cumprod(-1)
        return functional.pad(shares, [0, 1], value=1) * functional.pad(remaining, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        broken = y[..., :-1]
        remaining = (1 - broken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return broken.log() - remaining.log() + self._offset(broken)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (-x + functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _needs_dims(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        _needs_dims(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """From matrices to triangular ones: what is below the diagonal, and the exponential of the diagonal.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.LowerCholeskyTransform
    """

    domain: Any = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__: Any = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From matrices to positive definite ones, by their Cholesky factors.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.PositiveDefiniteTransform
    """

    domain: Any = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__: Any = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """From vectors to the Cholesky factors of correlation matrices.

    Each row of a factor is a point on a sphere: every number, squashed between -1 and 1, takes a fraction of the
    remaining length.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.CorrCholeskyTransform
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        shares = vec_to_tril_matrix(ops.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        remaining = (1 - shares**2).sqrt().cumprod(-1)
        shares = shares + ops.eye(shares.shape[-1], dtype=shares.dtype, device=shares.device)
        return shares * functional.pad(remaining[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        remaining = 1 - ops.cumsum(y * y, dim=-1)
        before = functional.pad(remaining[..., :-1], [1, 0], value=1)
        share = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        return (share.log1p() - share.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        remaining = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        tanh = -2 * (x + functional.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * remaining.log().sum(-1) + tanh

    def forward_shape(self, shape: Any) -> Any:
        _needs_dims(shape, 1)
        n = shape[-1]
        side = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (side, side)

    def inverse_shape(self, shape: Any) -> Any:
        _needs_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        side = shape[-1]
        return shape[:-2] + (side * (side - 1) // 2,)
