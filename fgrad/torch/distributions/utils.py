"""What distributions share: broadcasting parameters, and conversions between probabilities and logits."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fgrad.mutable.context.modes import enable_grad
from fgrad.mutable.operation.capture import is_met
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.mutable.types.limits import finfo
from fgrad.mutable.values.evaluation import elements
from fgrad.torch import ops
from fgrad.torch.nn import functional
from fgrad.torch.overrides import is_tensor_like

T = TypeVar("T")

#: Euler's constant
euler_constant: float = 0.57721566490153286060


def is_number(value: Any) -> bool:
    """Whether a parameter is a Python number."""
    return isinstance(value, bool | int | float)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the first tensor's dtype.

    Raises:
      ValueError: something is neither a number nor a tensor.

    >>> import fgrad.torch as torch
    >>> broadcast_all(1.0, torch.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))

    Source: https://docs.pytorch.org/docs/2.13/distributions.html
    """
    if not all(is_tensor_like(value) or is_number(value) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    like = next((value for value in values if isinstance(value, Tensor)), None)
    dtype, device = (get_default_dtype(), None) if like is None else (like.dtype, like.device)
    tensors = [value if is_tensor_like(value) else ops.tensor(value, dtype=dtype, device=device) for value in values]
    return ops.broadcast_tensors(*tensors)


def standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Normal numbers of mean zero and deviation one."""
    return ops.normal(ops.zeros(shape, dtype=dtype, device=device), ops.ones(shape, dtype=dtype, device=device))


def all_true(condition: Tensor) -> bool:
    """Whether a requirement holds for all elements, of every example under ``vmap``; a compiled call expects it to."""
    known = elements(condition._value())
    return is_met(condition.all()) if known is None else bool(known.all())


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities clamped away from zero and one by their dtype's epsilon."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities of logits, which are log odds or the logarithms of weights.

    >>> import fgrad.torch as torch
    >>> logits_to_probs(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])

    Source: https://docs.pytorch.org/docs/2.13/distributions.html
    """
    return ops.sigmoid(logits) if is_binary else functional.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The log odds, or the logarithms, of probabilities.

    >>> import fgrad.torch as torch
    >>> probs_to_logits(torch.tensor([0.5]), is_binary=True)
    tensor([0.])

    Source: https://docs.pytorch.org/docs/2.13/distributions.html
    """
    inside = clamp_probs(probs)
    return ops.log(inside) - ops.log1p(-inside) if is_binary else ops.log(inside)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last dimensions."""
    return value if dims == 0 else value.reshape(value.shape[: value.dim() - dims] + (-1,)).sum(-1)


#: names that libraries import
_standard_normal, _sum_rightmost = standard_normal, sum_rightmost


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal of matrices, row by row.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = ops.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices from their elements on and below a diagonal, row by row.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html
    """
    # the length is n (n + 1) / 2, less the diagonals that ``diag`` omits
    length = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not round(n) - n < finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    n = round(n)
    rows, columns = ops.tril_indices(n, n, diag, device=vec.device)
    return (
        vec.new_zeros(vec.shape[:-1] + (n * n,))
        .index_copy(-1, rows * n + columns, vec)
        .reshape(vec.shape[:-1] + (n, n))
    )


class _LazyProperty(Generic[T]):
    """A property computed at first use, with gradients, and cached.

    Source: https://docs.pytorch.org/docs/2.13/distributions.html
    """

    def __init__(self, wrapped: Callable[[Any], T]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.name, value)
        return value


# type checkers see a plain attribute
lazy_property: Any = _LazyProperty
