"""The base class of transforms, and transforms made of others: inverses, compositions, over more dimensions."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.size import Size
from fgrad.torch.distributions import constraints
from fgrad.torch.distributions.utils import sum_rightmost


class Transform:
    """An invertible differentiable function, with the logarithm of its derivative.

    Arguments:
      cache_size: 1 to cache the last argument and value, so that the inverse of that value is exactly that argument.

    >>> import fgrad.torch as torch
    >>> t = torch.distributions.ExpTransform()
    >>> t.inv(t(torch.tensor(2.0)))
    tensor(2.)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.Transform
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = (None, None)
        #: the inverse once it has been asked for; libraries keep theirs here
        self._inv: Any = None
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """The number of trailing dimensions that belong together."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> "Transform":
        """The inverse."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def _not_implemented(self) -> Any:
        raise NotImplementedError

    #: 1 if the function is increasing, -1 if it is decreasing
    sign: Any = property(_not_implemented)

    def with_cache(self, cache_size: int = 1) -> "Transform":
        """The transform with a cache of this size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__: Any = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """The value at ``x``."""
        if self._cache_size and x is self._cached_x_y[0]:
            return self._cached_x_y[1]
        y = self._call(x)
        if self._cache_size:
            self._cached_x_y = (x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and y is self._cached_x_y[1]:
            return self._cached_x_y[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached_x_y = (x, y)
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute value of the derivative at ``x``, where the value is ``y``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the value of an argument of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the argument of a value of this shape."""
        return shape


class _InverseTransform(Transform):
    """The inverse of another transform, whose cache it shares."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__: Any = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """A composition of transforms.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.ComposeTransform
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts: list[Transform] = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__: Any = object.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        # from last to first: as many dimensions as any part needs
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _with_dims(domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _with_dims(codomain, event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, [part.sign for part in self.parts], 1)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = _InverseCompose(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y) if not isinstance(part, _InverseTransform) else part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        terms = []
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            terms.append(sum_rightmost(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"


class _InverseCompose(ComposeTransform):
    """The inverses of a composition's parts, from the last to the first."""

    def __init__(self, transform: ComposeTransform) -> None:
        super().__init__([part.inv for part in reversed(transform.parts)])
        self._cache_size = transform._cache_size
        self._composed = transform

    @property
    def inv(self) -> Transform:
        return self._composed

    def __repr__(self) -> str:
        return ComposeTransform.__repr__(self).replace("_InverseCompose", "ComposeTransform", 1)


def _with_dims(constraint: Any, event_dim: int) -> Any:
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


identity_transform: ComposeTransform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dimensions belong together: the logarithms of its derivatives are summed.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.IndependentTransform
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform: Transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The last dimensions in another shape.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.transforms.ReshapeTransform
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape: Size = Size(in_shape)
        self.out_shape: Size = Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._reshaped(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _reshaped(shape: Any, before: Size, after: Size) -> Any:
        if len(shape) < len(before):
            raise ValueError("Too few dimensions on input")
        cut = len(shape) - len(before)
        if shape[cut:] != before:
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {before}")
        return shape[:cut] + after
