"""The base class of all distributions."""

from collections.abc import Iterable
from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.utils import all_true, lazy_property


class Distribution:
    """A batch of independent distributions.

    Arguments:
      batch_shape: the shape of the batch of distributions.
      event_shape: the shape of one draw.
      validate_args: check the parameters, and the values passed to methods.

    Raises:
      ValueError: a parameter violates its constraint.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#distribution
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    #: the attributes that ``expand`` expands, if present; a subclass without them overrides ``expand``
    _parameters: ClassVar[tuple[str, ...]]

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether constructors check by default."""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Iterable[int] = (), event_shape: Iterable[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            wanted = {}
            warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or "
                "initialize the distribution with `validate_args=False` to turn off validation.",
            )
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue
            value = getattr(self, name)
            if not all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Any:
        """The distribution with its batch expanded.

        Arguments:
          batch_shape: the new batch shape.
          _instance: an object of a subclass to be filled.
        """
        owner = next((cls for cls in type(self).__mro__ if "_parameters" in vars(cls)), None)
        if owner is None:
            raise NotImplementedError
        return self._expanded(self._get_checked_instance(owner, _instance), batch_shape)

    def _expanded(self, new: Any, batch_shape: Iterable[int], **more: Any) -> Any:
        """Fill a new object with expanded parameters and other attributes."""
        batch_shape = Size(batch_shape)
        for name in self._parameters:
            if name in self.__dict__:
                value = getattr(self, name)
                setattr(new, name, value.expand(batch_shape + value.shape[len(self._batch_shape) :]))
        for name, value in more.items():
            setattr(new, name, value)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw."""
        return self._event_shape

    def _not_implemented(self) -> Any:
        raise NotImplementedError

    #: the constraints of the parameters
    arg_constraints: Any = property(_not_implemented)
    #: the constraint of the draws
    support: Any = property(_not_implemented)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value that is most likely."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws that are differentiable with respect to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a draw up to this value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which a draw has this probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a new first dimension; if ``expand``, for each element of the batch."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        actual, event = value.size(), self._event_shape
        if actual[len(actual) - len(event) :] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {actual} vs {event}.")
        expected = self._batch_shape + event
        for i, j in zip(reversed(actual), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {actual} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
            )
            return
        if not all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Tensor) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        shown = [name for name in self.arg_constraints if name in self.__dict__]
        values = [self.__dict__[name] for name in shown]
        printed = [value if value.numel() == 1 else value.size() for value in values]
        return (
            f"{type(self).__name__}({', '.join(f'{name}: {each}' for name, each in zip(shown, printed, strict=True))})"
        )
