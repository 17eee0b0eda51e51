"""Softmax, its logarithm, and Gumbel-softmax samples."""

import warnings
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor, new_tensor, to_device_of
from fgrad.mutable.transforms.levels import drawn
from fgrad.torch import ops
from fgrad.torch.ops.table.kernels import functional, takes
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.inversion import exponential


def _implicit(name: str, rank: int, stacklevel: int) -> int:
    """The default axis, with PyTorch's warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,  # PyTorch's functions are not wrapped
    )
    return 0 if rank in (0, 1, 3) else 1


@functional
def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Exponentials divided by their sum along an axis.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.softmax(torch.tensor([0., 0.]), 0)
    tensor([0.5000, 0.5000])

    Source: `torch.nn.functional.softmax
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html>`_.
    """
    if dim is None:
        dim = _implicit("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


@functional
def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """The logarithm of ``softmax``, without its overflow."""
    if dim is None:
        dim = _implicit("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


@functional
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax`` of the negative."""
    if dim is None:
        dim = _implicit("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


@functional
@takes("empty_like(input=logits)")
def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A differentiable random choice; ``hard`` makes it one-hot, with the derivative of the soft one.

    Source: `torch.nn.functional.gumbel_softmax
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gumbel_softmax.html>`_.
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    dtype, shape = logits._type.dtype.numpy, logits._type.shape
    times = drawn(lambda batch: exponential((*batch, *shape), dtype, default_generator))
    gumbels = -to_device_of(logits, new_tensor(times, logits._type)).log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return ops.zeros_like(logits).scatter_(dim, index, 1.0) - soft.detach() + soft
