"""The distribution of Lewandowski, Kurowicka and Joe (2009), of the Cholesky factors of correlation matrices."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.limits import finfo
from fgrad.mutable.types.size import Size
from fgrad.torch import ops
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.beta import Beta
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.utils import broadcast_all


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices; a concentration of one is uniform over correlation matrices.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#lkjcholesky
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = ("concentration",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration: Tensor
        (self.concentration,) = broadcast_all(concentration)
        rows = ops.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        rows = ops.cat([rows.new_zeros(1), rows])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(rows + 0.5, marginal.unsqueeze(-1) - 0.5 * rows)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = Size(batch_shape)
        return self._expanded(new, batch_shape, dim=self.dim, _beta=self._beta.expand(batch_shape + (self.dim,)))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws, row by row: a direction, and the fraction of the row's length left of the diagonal."""
        dtype = self.concentration.dtype
        with no_grad():
            shares = self._beta.sample(sample_shape)
            normal = ops.randn(self._extended_shape(sample_shape), dtype=dtype, device=self.concentration.device).tril(
                -1
            )
            direction = normal / normal.square().sum(-1, keepdim=True).sqrt()
            # the first row has nothing left of the diagonal
            direction[..., 0, :].fill_(0.0)
            below = shares.unsqueeze(-1).sqrt() * direction
            diagonal = (1 - below.square().sum(-1)).clamp(min=finfo(dtype).tiny).sqrt()
            return below + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = ops.arange(2, self.dim + 1, dtype=diagonal.dtype, device=diagonal.device)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normalizer = 0.5 * n * math.log(math.pi) + (alpha - 0.5).mvlgamma(n) - alpha.lgamma() * n
        return (powers * diagonal.log()).sum(-1) - normalizer
