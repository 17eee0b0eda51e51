"""Parameters given as probabilities or as logits; the others are computed on demand."""

from typing import Any, ClassVar

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def check_one_given(probs: Any, logits: Any) -> None:
    """Check that exactly one of probabilities and logits is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Probabilities:
    """A distribution with ``probs`` and ``logits``, of which one was given."""

    #: the logits are log odds, not logarithms of weights
    _binary: ClassVar[bool] = True
    _parameters = ("probs", "logits")

    def _set_parameter(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Set the parameter that is given, broadcast with ``others``, which are returned."""
        check_one_given(probs, logits)
        *tensors, value = broadcast_all(*others, logits if probs is None else probs)
        setattr(self, "logits" if probs is None else "probs", value)
        return tensors

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, self._binary)

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds, or the logarithms of the probabilities."""
        return probs_to_logits(self.probs, self._binary)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.size()


class FromCategorical:
    """A distribution with the probabilities of a ``Categorical``."""

    _categorical: Any

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape
