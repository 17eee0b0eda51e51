"""Losses of margins: between right and wrong, of classes, labels, rankings and distances."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.mutable.operation.capture import expect_within
from fgrad.mutable.operation.operands import float_of, number_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy, get_default_dtype
from fgrad.mutable.values.evaluation import elements
from fgrad.torch import ops
from fgrad.torch.nn.functional.distance import pairwise_distance
from fgrad.torch.nn.functional.reduction import NONE, current, number, reduced, reduced_tensor
from fgrad.torch.nn.functional.smooth import logsigmoid
from fgrad.torch.ops.elementwise.arithmetic import NEGATED_BOOL, shifted_by
from fgrad.torch.ops.table.broadcasting import check_broadcast, choose
from fgrad.torch.ops.table.kernels import check_constant, check_wide, functional, kernel, single, takes
from fgrad.torch.ops.table.numbers import check_settings
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, Fixed, Number, composite, operation_of

#: in the root of the norms, so that the derivative of the cosine is finite
_COSINE_EPS = 1e-12


# -- pairs -----------------------------------------------------------------------------------------------------------


@composite(method=False, name="margin_ranking_loss", autocast="fp32", out=NOT_TAKEN)
def _margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = NONE) -> Tensor:
    """``torch.nn.functional.margin_ranking_loss`` with the reduction as a number."""
    return reduced_tensor(
        shifted_by(-target * (input1 - input2), float_of("margin_ranking_loss", "margin", margin)).clamp_min(0),
        reduction,
    )


@functional(autocast="fp32")
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far the first input is from being above (target 1) or below (-1) the second by a margin."""
    enum = number(current(reduction, size_average, reduce))
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _margin_ranking_loss(input1, input2, target, margin, enum)


@composite(method=False, name="hinge_embedding_loss", autocast="fp32", out=NOT_TAKEN)
def _hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = NONE) -> Tensor:
    """``torch.nn.functional.hinge_embedding_loss`` with the reduction as a number."""
    zeros = ops.zeros_like(input)
    dissimilar = ops.where(
        target != 1, (float_of("hinge_embedding_loss", "margin", margin) - input).clamp_min(0), zeros
    )
    similar = ops.where(target != -1, input, zeros)
    return reduced_tensor(dissimilar + similar, reduction)


@functional(autocast="fp32")
@takes("hinge_embedding_loss(input, target)")
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Distances of similar pairs (target 1), and how far those of others (-1) fall short of a margin."""
    return _hinge_embedding_loss(input, target, margin, number(current(reduction, size_average, reduce)))


@composite(method=False, name="cosine_embedding_loss", autocast="fp32")
def _cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = NONE) -> Tensor:
    """``torch.nn.functional.cosine_embedding_loss`` with the reduction as a number."""
    rank = target.dim()
    if rank > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.dim() == input2.dim() == rank + 1:
        raise RuntimeError(
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.size())} and {list(input2.size())}."
        )
    products = (input1 * input2).sum(rank)
    squares = [shifted_by((x * x).sum(rank), _COSINE_EPS) for x in (input1, input2)]
    cosine = products / (squares[0] * squares[1]).sqrt()
    zeros = ops.zeros_like(cosine)
    similar = ops.where(target == 1, 1 - cosine, zeros)
    dissimilar = ops.where(
        target == -1, (cosine - float_of("cosine_embedding_loss", "margin", margin)).clamp_min(0), zeros
    )
    return reduced_tensor(similar + dissimilar, reduction)


@functional(autocast="fp32")
@takes("cosine_embedding_loss(input1, input2, target)")
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """One minus the cosine of similar pairs (target 1), and how far that of others (-1) exceeds a margin."""
    return _cosine_embedding_loss(input1, input2, target, margin, number(current(reduction, size_average, reduce)))


@kernel("SoftMarginLossBackward0", always_saved=("self", "target"), backward_node="SoftMarginLossBackwardBackward0")
@single
def _soft_margin_loss(input: Array, target: Fixed, reduction: int) -> Any:
    check_broadcast(input, target)
    if input.dtype == np.bool_:
        raise RuntimeError(NEGATED_BOOL)
    dtype = from_numpy(input.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        default = get_default_dtype().scalar_name
        raise RuntimeError(f"result type {default} can't be cast to the desired output type {dtype.scalar_name}")
    target = target.astype(input.dtype)
    return reduced(jnp.log1p(jnp.exp(-target * input)), reduction)


@functional(autocast="fp32")
@takes("soft_margin_loss(input, target)")
def soft_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``log(1 + exp(-target * input))`` for targets 1 and -1; its mean or sum."""
    check_constant("soft_margin_loss", target=target)
    return _soft_margin_loss(input, target, number(current(reduction, size_average, reduce)))


# -- classes and labels ----------------------------------------------------------------------------------------------


def _check_indices(target: Any) -> None:
    if target.dtype != np.int64:
        raise RuntimeError(f"expected scalar type Long but found {from_numpy(target.dtype).scalar_name}")


def _check_matrix(input: Any) -> None:
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )


@kernel("MultiMarginLossBackward0", backward_node=NOT_IMPLEMENTED, always_saved=("self", "target", "weight"))
def _multi_margin_loss(
    input: Array, target: Fixed, weight: Fixed = None, *, margin: Number, p: int, reduction: int
) -> Any:
    _check_matrix(input)
    matrix = input if input.ndim == 2 else input.reshape(1, -1)
    count, classes = matrix.shape
    if target.ndim > 1 or target.size != count:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{count}], but got {list(target.shape)}. Input has shape {list(input.shape)}."
        )
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    check_wide("multi_margin_loss_cpu_kernel", input)
    _check_indices(target)
    right = target.reshape(-1, 1)
    gaps = margin - jnp.take_along_axis(matrix, right, 1) + matrix
    losses = choose((gaps > 0) & (np.arange(classes) != right), gaps**p, 0)
    if weight is not None:
        losses = losses * jnp.take(weight, right, mode="clip")
    sums = losses.sum(1) / classes
    return reduced(sums.reshape(()) if input.ndim < 2 and target.ndim == 0 else sums, reduction)


@functional(autocast="fp32")
@takes("multi_margin_loss(input, target)")
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far the target class is from exceeding each other one by a margin, averaged over the classes.

    Source: `torch.nn.functional.multi_margin_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.multi_margin_loss.html>`_.
    """
    enum = number(current(reduction, size_average, reduce))
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    check_constant("multi_margin_loss", weight=weight)
    margin = number_of("multi_margin_loss", "margin", margin)
    check_settings(input, margin)
    classes = elements(target._value())
    if classes is None:
        expect_within(target, 0, input.size(-1) if input.dim() else 1)
    elif target.dim() < 2 and input.dim() in (1, 2):
        fits = target.numel() == (1 if input.dim() < 2 else input.size(0)) and classes.dtype == np.int64
        fits = fits and input.size(-1) > 0 and (weight is None or weight.size(0) == input.size(-1))
        if fits and classes.size and not (classes.min() >= 0 and classes.max() < input.size(-1)):
            raise RuntimeError("target out of range")
    return apply(operation_of(_multi_margin_loss), (input, target, weight, margin), (p, enum))


@kernel("MultilabelMarginLossBackward0", backward_node=NOT_IMPLEMENTED, always_saved=("self", "target"))
def _multilabel_margin_loss(input: Array, target: Fixed, reduction: int) -> Any:
    _check_matrix(input)
    if target.shape != input.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    check_wide("multilabel_margin_loss_forward_out_frame", input)
    _check_indices(target)
    matrix, labels = (x if x.ndim == 2 else x.reshape(1, -1) for x in (input, target))
    classes = matrix.shape[1]
    is_label = jnp.cumsum(labels < 0, 1) == 0
    is_target = jnp.any(is_label[:, :, None] & (labels[:, :, None] == np.arange(classes)), 1)
    right = jnp.take_along_axis(matrix, choose(is_label, labels, 0), 1)
    gaps = 1 - right[:, :, None] + matrix[:, None, :]
    counted = is_label[:, :, None] & ~is_target[:, None, :] & (gaps > 0)
    losses = choose(counted, gaps, 0).sum((1, 2)) / classes
    return reduced(losses.reshape(()) if input.ndim < 2 else losses, reduction)


def _check_labels(labels: np.ndarray, classes: int) -> None:
    if labels.min() < -1 or labels.max() >= classes:
        raise RuntimeError("argument #2 'target' is out of range")


@functional(autocast="fp32")
@takes("multilabel_margin_loss(input, target)")
def multilabel_margin_loss(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """How far the labels (up to the first -1) are from exceeding each other class by one.

    Source: `torch.nn.functional.multilabel_margin_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.multilabel_margin_loss.html>`_.
    """
    enum = number(current(reduction, size_average, reduce))
    labels = elements(target._value())
    if labels is None:
        expect_within(target, -1, input.size(-1) if input.dim() else 1)
    elif labels.size and input.size() == target.size():
        _check_labels(labels, input.size(-1) if input.dim() else 1)
    return _multilabel_margin_loss(input, target, enum)


@functional
@takes("log_sigmoid(input)")
def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over the classes of the cross entropy between their logits and targets 0 and 1.

    Source: `torch.nn.functional.multilabel_soft_margin_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.multilabel_soft_margin_loss.html>`_.
    """
    reduction = current(reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    axis = input.dim() - 1
    loss = loss.sum(dim=axis) / input.size(axis)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    return reduced_tensor(loss, number(reduction))


# -- triplets --------------------------------------------------------------------------------------------------------


def _check_ranks(anchor: Any, positive: Any, negative: Any) -> None:
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )


@composite(method=False, name="triplet_margin_loss", autocast="fp32", out=NOT_TAKEN)
def _triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, reduction: int = NONE,
) -> Tensor:  # fmt: skip
    """``torch.nn.functional.triplet_margin_loss`` with the reduction as a number."""
    _check_ranks(anchor, positive, negative)
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced_tensor((shifted_by(near, margin) - far).clamp_min(0), reduction)


@functional(autocast="fp32")
@takes("triplet_margin_loss(anchor, positive, negative)")
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far the negative is from being farther from the anchor than the positive by a margin.

    Source: `torch.nn.functional.triplet_margin_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.triplet_margin_loss.html>`_.
    """
    enum = number(current(reduction, size_average, reduce))
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, enum)


@functional
def triplet_margin_with_distance_loss(
    anchor: Any, positive: Any, negative: Any, *, distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``triplet_margin_loss`` with a custom distance."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_ranks(anchor, positive, negative)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced_tensor((margin + near - far).clamp_min(0), number(reduction))
