"""The normal distribution of vectors."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.utils import lazy_property, standard_normal
from fgrad.torch.linalg import cholesky, solve_triangular


def squared_distance(factor: Tensor, deviation: Tensor) -> Tensor:
    """The squared Mahalanobis norm, from a Cholesky factor of the covariance."""
    shape = ops.broadcast_shapes(factor.shape[:-1], deviation.shape)
    columns = deviation.expand(shape).unsqueeze(-1)
    return solve_triangular(factor, columns, upper=False).squeeze(-1).pow(2).sum(-1)


def half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of the matrix of a Cholesky factor."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def factor_of_inverse(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a matrix: from the factor of the matrix with reversed axes."""
    turned = cholesky(precision.flip((-2, -1)))
    inverse_factor = turned.flip((-2, -1)).transpose(-2, -1)
    eye = ops.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_triangular(inverse_factor, eye, upper=False)


#: names that libraries import
_batch_mahalanobis, _precision_to_scale_tril = squared_distance, factor_of_inverse


def specified(error: type[Exception], scale_tril: Any, covariance: Any, precision: Any) -> tuple[str, Tensor]:
    """The only one of the matrices that is given, and its name."""
    named = {"scale_tril": scale_tril, "covariance_matrix": covariance, "precision_matrix": precision}
    given = [(name, matrix) for name, matrix in named.items() if matrix is not None]
    if len(given) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return given[0]


def cholesky_factor(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of the covariance, from one of the matrices."""
    if name == "scale_tril":
        return matrix
    return cholesky(matrix) if name == "covariance_matrix" else factor_of_inverse(matrix)


class Covariance(Distribution):
    """A distribution with a covariance, given by itself, its inverse or its Cholesky factor."""

    _unbroadcasted_scale_tril: Tensor

    def _broadcast(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._broadcast(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._broadcast(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._broadcast(ops.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(Covariance):
    """The normal distribution of vectors, of a mean and a covariance, its inverse or its Cholesky factor.

    >>> import fgrad.torch as torch
    >>> MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#multivariatenormal
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = ("loc", "covariance_matrix", "scale_tril", "precision_matrix")

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = specified(ValueError, scale_tril, covariance_matrix, precision_matrix)
        if matrix.dim() < 2:
            shown = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{shown} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc: Any = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = cholesky_factor(name, matrix)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        return self._expanded(new, batch_shape, _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        distance = squared_distance(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        half = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half).expand(self._batch_shape)
