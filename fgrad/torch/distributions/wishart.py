"""The Wishart distribution."""

import math
from collections.abc import Iterable
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.chi2 import Chi2
from fgrad.torch.distributions.exp_family import ExponentialFamily
from fgrad.torch.distributions.multivariate_normal import Covariance, cholesky_factor, half_log_det, specified
from fgrad.torch.distributions.utils import is_number
from fgrad.torch.linalg import slogdet


class Wishart(Covariance, ExponentialFamily):
    """The Wishart distribution of scatter matrices: sums of ``df`` squares of normal vectors.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#wishart
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("df", "covariance_matrix", "scale_tril", "precision_matrix")

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = specified(AssertionError, scale_tril, covariance_matrix, precision_matrix)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = ops.tensor(df, dtype=matrix.dtype, device=matrix.device) if is_number(df) else df
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], df.shape)
        event_shape = matrix.shape[-2:]
        self.df: Any = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if bool(self.df.le(event_shape[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if bool(self.df.lt(event_shape[-1]).any()):
            warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
            )
        self._unbroadcasted_scale_tril = cholesky_factor(name, matrix)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        return self._expanded(new, batch_shape, _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril)

    def _matrices(self, numbers: Tensor) -> Tensor:
        return numbers.view(self._batch_shape + (1, 1))

    @property
    def mean(self) -> Tensor:
        return self._matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return self._matrices(ops.where(factor <= 0, math.nan, factor)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._matrices(self.df) * (self.covariance_matrix.pow(2) + outer)

    def _bartlett(self, sample_shape: Size) -> Tensor:
        """Draws by Bartlett's decomposition: a triangular matrix of chi and of normal numbers."""
        p = self._event_shape[-1]
        like = self._unbroadcasted_scale_tril  # ``df`` may be an integer
        df = self.df.unsqueeze(-1) - ops.arange(p, dtype=like.dtype, device=like.device)
        diagonal = Chi2(df, validate_args=False).rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        count = p * (p - 1) // 2
        shape = Size(sample_shape) + self._batch_shape + (count,)
        normal = ops.randn(shape, dtype=diagonal.dtype, device=diagonal.device)
        rows, columns = ops.tril_indices(p, p, -1)
        below = ops.zeros_like(diagonal)
        below[..., rows, columns] = normal
        factor = self._unbroadcasted_scale_tril @ (diagonal + below)
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        tries = 3 if max_try_correction is None and self._event_shape[-1] <= 2 else max_try_correction
        tries = 10 if tries is None else tries
        sample_shape = Size(sample_shape)
        sample = self._bartlett(sample_shape)
        # PyTorch mistakes every sound first draw for a singular one, warns, and redraws: the same numbers
        again = self._any_of_batch(self.support.check(sample))
        lone = again.dim() == 0
        if lone:
            sample, again = sample.unsqueeze(0), again.unsqueeze(0)
        if bool(again.any()):
            warn("Singular sample detected.")
        for _ in range(tries):
            if not bool(again.any()):
                break
            drawn = self._bartlett(again[again].shape)
            sample = sample.index_put((again,), drawn)
            again = again.index_put((again.clone(),), self._any_of_batch(~self.support.check(drawn)))
        return sample.squeeze(0) if lone else sample

    def _any_of_batch(self, flags: Tensor) -> Tensor:
        return flags.flatten(-len(self._batch_shape)).any(-1) if self._batch_shape else flags

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        p, factor = self._event_shape[-1], self._unbroadcasted_scale_tril
        shape = ops.broadcast_shapes(value.shape, factor.shape)
        trace = ops.cholesky_solve(value.expand(shape), factor.expand(shape)).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -self.df * (p * math.log(2) / 2 + half_log_det(factor))
            - (self.df / 2).mvlgamma(p)
            + (self.df - p - 1) / 2 * slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        p, half = self._event_shape[-1], self.df / 2
        steps = ops.arange(p, dtype=half.dtype, device=half.device) / 2
        digammas = (half.unsqueeze(-1) - steps).digamma().sum(-1)
        return (
            (p + 1) * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
            + half.mvlgamma(p)
            - (self.df - p - 1) / 2 * digammas
            + self.df * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-slogdet(-2 * x).logabsdet + math.log(2) * p) + half.mvlgamma(p)
