"""The chi squared distribution."""

from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.gamma import Gamma


class Chi2(Gamma):
    """The distribution of the sum of ``df`` squared standard normal numbers.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#chi2
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
