"""Normal distributions of vectors whose covariance is diagonal plus low rank."""

import math
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.multivariate_normal import half_log_det
from fgrad.torch.distributions.utils import lazy_property, standard_normal
from fgrad.torch.linalg import cholesky, solve_triangular


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors of covariance ``W @ W.T + diag(d)``.

    Everything is computed with the small matrix ``I + W.T @ diag(1 / d) @ W``: the lemmas of Woodbury and of the
    determinant.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#lowrankmultivariatenormal
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = (
        "loc", "cov_factor", "cov_diag", "_capacitance_tril", "covariance_matrix", "scale_tril", "precision_matrix",
    )  # fmt: skip

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = ops.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc: Any = loc.expand(batch_shape + event_shape)
        self.cov_factor: Any = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag: Any = cov_diag.expand(batch_shape + event_shape)
        inner = self._scaled @ self.cov_factor
        self._capacitance_tril = cholesky(inner + ops.eye(inner.shape[-1], dtype=inner.dtype, device=inner.device))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @property
    def _scaled(self) -> Tensor:
        """``W.T @ diag(1 / d)``."""
        return self.cov_factor.mT / self.cov_diag.unsqueeze(-2)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        # of a matrix scaled to a diagonal of at least one
        root = self.cov_diag.sqrt().unsqueeze(-1)
        scaled = self.cov_factor / root
        return root * cholesky(scaled @ scaled.mT + ops.eye(self._event_shape[0], dtype=root.dtype, device=root.device))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        half = solve_triangular(self._capacitance_tril, self._scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - half.mT @ half

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        factors = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        noise = standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + (self.cov_factor @ factors.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * noise

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        deviation = (value - self.loc).unsqueeze(-1)
        capacitance = self._capacitance_tril
        column = self._scaled @ deviation
        solved = solve_triangular(capacitance.expand(column.shape[:-2] + capacitance.shape[-2:]), column, upper=False)
        distance = (deviation.squeeze(-1).pow(2) / self.cov_diag).sum(-1) - solved.squeeze(-1).pow(2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det(capacitance) + distance)

    def _log_det(self, capacitance: Tensor) -> Tensor:
        return 2 * half_log_det(capacitance) + self.cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        half = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det(self._capacitance_tril))
        return half.expand(self._batch_shape)
