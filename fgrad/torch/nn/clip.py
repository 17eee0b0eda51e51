"""Clipping gradients by their norm or by their value."""

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.capture import assign, fused
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.sharing import without_aliasing

Tensors = Tensor | Iterable[Tensor]


@frozen
class _TotalNorm:
    """The norm of all elements, from the norm of each tensor."""

    order: float

    def __call__(self, tensors: Sequence[Tensor], numbers: dict[str, Any]) -> Tensor:
        device = tensors[0].device
        return ops.stack([tensor.norm(self.order).to(device) for tensor in tensors]).norm(self.order)


def _scaled(grads: Sequence[Tensor], total_norm: Tensor, numbers: dict[str, Any]) -> list[Tensor]:
    factor = ops.clamp(numbers["max_norm"] / (total_norm + numbers["eps"]), max=1.0)
    return [(grad * factor.to(grad.device)).to(grad.dtype) for grad in grads]


@frozen
class _Bounded:
    """Each element clipped to the bound in magnitude."""

    bound: float

    def __call__(self, grads: Sequence[Tensor], numbers: dict[str, Any]) -> list[Tensor]:
        return [ops.clamp(grad, -self.bound, self.bound) for grad in grads]


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of several tensors, concatenated.

    Args:
      tensors: a tensor or an iterable of tensors.
      norm_type: the order of the norm; it may be ``inf``.
      error_if_nonfinite: raise if the norm is infinite or not a number.
      foreach: accepted as PyTorch accepts it.

    Returns:
      The norm, a tensor without axes.

    Raises:
      RuntimeError: the norm is not finite and ``error_if_nonfinite`` is set.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.get_total_norm.html
    """
    tensors = _listed(tensors)
    order = float(norm_type)
    if not tensors:
        return ops.tensor(0.0)
    with no_grad():
        total: Tensor = fused(_TotalNorm(order), (tensors,), {})
        if error_if_nonfinite and not total.isfinite():
            raise RuntimeError(
                f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`"
            )
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients down in place so that a known total norm becomes at most ``max_norm``.

    Args:
      parameters: a tensor or an iterable of tensors.
      max_norm: the largest norm.
      total_norm: the norm of their gradients.
      foreach: accepted as PyTorch accepts it.

    >>> import fgrad.torch as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> w.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grads_with_norm_(w, 1.0, torch.tensor(10.0))
    >>> w.grad
    tensor([0.3000, 0.4000])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.clip_grads_with_norm_.html
    """
    numbers = {"max_norm": float(max_norm), "eps": 1e-6}
    _rewrite(parameters, lambda grads: fused(_scaled, (grads, total_norm), numbers))


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients down in place if their total norm is larger than ``max_norm``.

    Args:
      parameters: a tensor or an iterable of tensors.
      max_norm: the largest norm.
      norm_type: the order of the norm; it may be ``inf``.
      error_if_nonfinite: raise if the norm is infinite or not a number.
      foreach: accepted as PyTorch accepts it.

    Returns:
      The norm before.

    Raises:
      RuntimeError: the norm is not finite and ``error_if_nonfinite`` is set.

    Warns:
      UserWarning: ``parameters`` is an empty generator.

    >>> import fgrad.torch as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> w.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grad_norm_(w, max_norm=1.0)
    tensor(5.)
    >>> w.grad
    tensor([0.6000, 0.8000])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.clip_grad_norm_.html
    """
    generated = isinstance(parameters, types.GeneratorType)
    parameters = _listed(parameters)
    if generated and not parameters:
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    grads = [param.grad for param in parameters if param.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of ``clip_grad_norm_``.

    Warns:
      FutureWarning: always.
    """
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clip each element of the gradients in place to ``[-clip_value, clip_value]``.

    Args:
      parameters: a tensor or an iterable of tensors.
      clip_value: the largest magnitude of an element.
      foreach: accepted as PyTorch accepts it; unless it is False, the version of a gradient advances by two.

    >>> import fgrad.torch as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> w.grad = torch.tensor([3.0, -0.5])
    >>> torch.nn.utils.clip_grad_value_(w, 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.clip_grad_value_.html
    """
    update = _Bounded(float(clip_value))
    # PyTorch clips to one bound after the other, except for each tensor alone
    _rewrite(parameters, lambda grads: fused(update, (grads,), {}), writes=1 if foreach is False else 2)


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _rewrite(parameters: Tensors, update: Callable[[list[Tensor]], list[Tensor]], writes: int = 1) -> None:
    """Update the gradients in place by ``update``, which counts as so many writes of each."""
    present = [param.grad for param in _listed(parameters) if param.grad is not None]
    with no_grad():
        for grads in without_aliasing(present):
            assign([(grad, new._value(), writes) for grad, new in zip(grads, update(grads), strict=True)])
