"""Losses of real targets: squared, absolute and robust distances, and likelihoods of counts and normal variables."""

import math
from functools import partial
from typing import Any

from jax import numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.nn.functional.reduction import current, number, reduced, reduced_tensor
from fgrad.torch.ops.table.broadcasting import choose, common, without_factor
from fgrad.torch.ops.table.kernels import check_floating, functional, kernel, single, takes
from fgrad.torch.ops.table.table import Array, Float, composite


def _broadcast(input: Any, target: Any) -> tuple[Tensor, Tensor]:
    """Both broadcast to one shape, with PyTorch's warning if they differ."""
    if target.size() != input.size():
        warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        )
        tensors = ops.broadcast_tensors(input, target)
        return tensors[0], tensors[1]
    return input, target


def _weighted(input: Any, weight: Any, losses: Tensor, reduction: str, by_weight: bool) -> Tensor:
    """Losses times weights, reduced; the mean is over the weights or over the elements."""
    losses = losses * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.sum() / weight.sum() if by_weight else losses.mean()
    raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


def _check_weight(input: Any, weight: Any) -> None:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")


def _of_input(types: Any, params: dict[str, Any]) -> Any:
    return types[0].dtype


@kernel("MseLossBackward0", promote=common, always_saved=("self", "target"), backward_node="MseLossBackwardBackward0")
@single
def _mse_loss(input: Array, target: Array, reduction: int) -> Any:
    check_floating("mse_cpu", input)
    return reduced(jnp.square(input - target), reduction)


@functional(autocast="fp32")
def mse_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    weight: Any = None,
) -> Tensor:  # fmt: skip
    """The squared distance, element by element; its mean or sum.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.mse_loss(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
    tensor(2.)

    Source: `torch.nn.functional.mse_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mse_loss.html>`_.
    """
    one, other = _broadcast(input, target)
    reduction = current(reduction, size_average, reduce)
    if weight is None:
        return _mse_loss(one, other, number(reduction))
    _check_weight(input, weight)
    return _weighted(input, weight, ops.pow(one - other, 2), reduction, True)


@functional(autocast="fp32")
def l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    weight: Any = None,
) -> Tensor:  # fmt: skip
    """The absolute distance, element by element; its mean or sum."""
    one, other = _broadcast(input, target)
    reduction = current(reduction, size_average, reduce)
    if weight is None:
        return reduced_tensor((one - other).abs(), number(reduction))
    _check_weight(input, weight)
    return _weighted(input, weight, ops.abs(one - other), reduction, True)


@kernel(
    "SmoothL1LossBackward0",
    promote=without_factor,
    always_saved=("self", "target"),
    backward_node="SmoothL1LossBackwardBackward0",
)
@single
def _smooth_l1_loss(input: Array, target: Array, reduction: int, beta: Float) -> Any:
    check_floating("smooth_l1_cpu", input)
    gap = input - target
    size = jnp.abs(gap)
    far = size >= beta
    near = choose(far, 0, gap)  # an infinite gap would have a slope of infinity times zero
    return reduced(choose(far, size - 0.5 * beta, 0.5 * near * near / beta), reduction)


@functional(autocast="fp32")
def smooth_l1_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """``d**2 / (2 * beta)`` for distances ``d`` below ``beta``, else ``d - beta / 2``; its mean or sum.

    Source: `torch.nn.functional.smooth_l1_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.smooth_l1_loss.html>`_.
    """
    one, other = _broadcast(input, target)
    reduction = current(reduction, size_average, reduce)
    if beta == 0.0:
        return reduced_tensor((one - other).abs(), number(reduction))
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return _smooth_l1_loss(one, other, number(reduction), beta)


@kernel(
    "HuberLossBackward0", promote=_of_input, always_saved=("self", "target"), backward_node="HuberLossBackwardBackward0"
)
@single
def _huber_loss(input: Array, target: Array, reduction: int, delta: Float) -> Any:
    check_floating("huber_cpu", input)
    return reduced(_huber(input - target, delta), reduction)


def _huber_pullback(ct: Any, out: Any, gap: Any, delta: Any) -> tuple[Any, None]:
    return ct * choose(gap <= -delta, -delta, choose(gap >= delta, delta, gap)), None


@partial(define_rule, vjp=_huber_pullback)
def _huber(gap: Any, delta: Any) -> Any:
    size = jnp.abs(gap)
    return choose(size < delta, 0.5 * gap * gap, delta * (size - 0.5 * delta))


@functional(autocast="fp32")
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Tensor:
    """Half the squared distance, and from ``delta`` on a straight line; its mean or sum.

    Source: `torch.nn.functional.huber_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.huber_loss.html>`_.
    """
    one, other = _broadcast(input, target)
    if weight is not None:
        _check_weight(input, weight)
        return _weighted(input, weight, huber_loss(one, other, "none", delta), reduction, False)
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _huber_loss(one, other, number(reduction), delta)


@composite(method=False, name="poisson_nll_loss", autocast="fp32")
def _poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """``torch.nn.functional.poisson_nll_loss`` with the reduction as a number."""
    loss = ops.exp(input) - target * input if log_input else input - target * ops.log(input + eps)
    if full:
        stirling = target * ops.log(target) - target + 0.5 * ops.log(2 * math.pi * target)
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced_tensor(loss, reduction)


@functional(autocast="fp32")
@takes("poisson_nll_loss(input, target)")
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The negative log-likelihood of Poisson distributions, up to a constant unless ``full``.

    Source: `torch.nn.functional.poisson_nll_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.poisson_nll_loss.html>`_.
    """
    reduction = current(reduction, size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not a valid value for reduction")
    return _poisson_nll_loss(input, target, log_input, full, eps, number(reduction))


@functional
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative log-likelihood of normal distributions, up to a constant unless ``full``.

    Source: `torch.nn.functional.gaussian_nll_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gaussian_nll_loss.html>`_.
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * ops.ones_like(input)
    elif bool(ops.any(var < 0)):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        one_missing = input.dim() == var.dim() and (
            sum(n for m, n in zip(input.size(), var.size(), strict=True) if m != n) == 1
        )
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not one_missing:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (ops.log(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return reduced_tensor(loss, number(reduction))
