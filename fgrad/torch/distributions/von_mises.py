"""The von Mises distribution."""

import math
from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.size import Size
from fgrad.torch import ops, special
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.distribution import Distribution
from fgrad.torch.distributions.utils import broadcast_all


class VonMises(Distribution):
    """The von Mises distribution of angles around ``loc``.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#vonmises
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _parameters = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc: Tensor
        self.concentration: Tensor
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(), validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        log_bessel = ops.log(special.i0e(self.concentration)) + self.concentration
        return self.concentration * ops.cos(value - self.loc) - math.log(2 * math.pi) - log_bessel

    def _proposal(self) -> Tensor:
        """The parameter of the wrapped Cauchy distribution that the rejection method draws from."""
        k = self.concentration.to(dtypes.float64)
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        # by its series at low concentration
        return ops.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws, by the rejection method of Best and Fisher (1979)."""
        shape = self._extended_shape(sample_shape)
        loc = self.loc.to(dtypes.float64)
        r, k = (each.expand(shape) for each in (self._proposal(), self.concentration.to(dtypes.float64)))
        angles, done = ops.empty_like(r), r.new_zeros(shape, dtype=ops.tensor(True).dtype)
        while not bool(done.all()):
            u1, u2, u3 = ops.rand((3, *shape), dtype=dtypes.float64, device=self.loc.device).unbind()
            z = ops.cos(math.pi * u1)
            f = (1 + r * z) / (r + z)
            c = k * (r - f)
            accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
            angles = ops.where(accept, (u3 - 0.5).sign() * f.acos(), angles)
            done = done | accept
        return ((angles + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """One minus the mean resultant length."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)
