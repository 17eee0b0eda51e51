"""Losses of classes and of probabilities: negative log-likelihood and cross entropies."""

from typing import Any

import numpy as np
from jax import lax, nn, numpy as jnp

from fgrad.api.rules import define_rule
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.capture import expect
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_, from_numpy, int64, uint8
from fgrad.mutable.values.evaluation import elements
from fgrad.run.flat_indices import all_below
from fgrad.torch import ops
from fgrad.torch.nn.functional.linear import linear
from fgrad.torch.nn.functional.reduction import MEAN, NONE, SUM, current, number, reduced, reduced_tensor
from fgrad.torch.ops.elementwise.arithmetic import SUBTRACTED_BOOLS, scaled_by, shifted_by
from fgrad.torch.ops.indexing.coordinates import take_along
from fgrad.torch.ops.table.broadcasting import check_broadcast, choose, derivative
from fgrad.torch.ops.table.kernels import check_constant, check_floating, functional, kernel, single, takes
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.signature import checked_int
from fgrad.torch.ops.table.table import Array, Fixed, Number, composite, operation_of

# -- class numbers ---------------------------------------------------------------------------------------------------


def _nll(
    input: Any, target: Any, weight: Any, reduction: int, ignore_index: int, all_counted: bool, classes_axis: int
) -> Any:
    """The loss and the sum of the weights of the classes that were asked for.

    ``all_counted``: no target is ``ignore_index``, which nearly every batch of labels is known to fulfil; then nothing
    has to be chosen, forward or backward.
    """
    counted = target != ignore_index
    classes = target if all_counted else choose(counted, target, 0)
    # the caller has checked the range of the classes
    values = lax.squeeze(take_along(input, jnp.expand_dims(classes, classes_axis), classes_axis), (classes_axis,))
    weights = jnp.ones_like(values) if weight is None else jnp.take(weight, classes, mode="clip")
    losses = -values if weight is None else -weights * values
    if not all_counted:
        weights, losses = choose(counted, weights, 0), choose(counted, losses, 0)
    if reduction == NONE:
        return losses, jnp.zeros((), input.dtype)
    known = all_counted and weight is None
    total = jnp.asarray(values.size, input.dtype) if known else reduced(weights, SUM)
    loss = reduced(losses, SUM)
    return (loss / total if reduction == MEAN else loss), total


def _check_nll(input: Any, weight: Any) -> None:
    classes = input.shape[-1]
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}"
        )
    _check_weight_type(input, weight)
    check_floating("nll_loss_out_frame", input)


def _check_weight_type(input: Any, weight: Any) -> None:
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            f"expected scalar type {from_numpy(input.dtype).scalar_name} but found "
            f"{from_numpy(weight.dtype).scalar_name}"
        )


@kernel(
    "NllLossBackward0", outputs=("output", "total_weight"), auxiliary=("total_weight",),
    always_saved=("self", "target", "weight", "total_weight"), backward_node="NllLossBackwardBackward0",
)  # fmt: skip
@single
def _nll_loss(
    input: Array, target: Fixed, weight: Fixed = None, *, reduction: int, ignore_index: int, all_counted: bool
) -> Any:
    _check_nll(input, weight)
    if input.ndim == 2 and not target.ndim:
        target = target[None]
    return _nll(input, target, weight, reduction, ignore_index, all_counted, input.ndim - 1)


@kernel(
    "NllLoss2DBackward0", outputs=("output", "total_weight"), auxiliary=("total_weight",),
    always_saved=("self", "target", "weight", "total_weight"), backward_node="NllLoss2DBackwardBackward0",
)  # fmt: skip
@single
def _nll_loss2d(
    input: Array, target: Fixed, weight: Fixed = None, *, reduction: int, ignore_index: int, all_counted: bool
) -> Any:
    if target.ndim != 3:
        raise RuntimeError(
            f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
        )
    if (input.shape[0], *input.shape[2:]) != target.shape:
        raise RuntimeError(f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}")
    if weight is not None and weight.size != input.shape[1]:
        raise RuntimeError("weight tensor should be defined either for all or no classes")
    _check_weight_type(input, weight)
    return _nll(input, target, weight, reduction, ignore_index, all_counted, 1)


_NLL, _NLL_2D = operation_of(_nll_loss), operation_of(_nll_loss2d)


def _all_counted(target: Tensor, classes: int, ignore_index: int) -> bool:
    """Whether it is known, at no cost, that no target is ``ignore_index``.

    Raises:
      IndexError: a class is out of range.
    """
    indices = elements(target._value())
    if indices is None:
        expect(lambda: ((target >= 0) & (target < classes)) | (target == ignore_index))
        return False
    if all_below(indices, classes):
        return not 0 <= ignore_index < classes
    bad = indices[((indices < 0) | (indices >= classes)) & (indices != ignore_index)]
    if bad.size:
        raise IndexError(f"Target {bad.flat[0]} is out of bounds.")
    return False


def _nll_loss_nd(input: Any, target: Any, weight: Any, reduction: int, ignore_index: Any) -> Tensor:
    """The negative log-likelihood for inputs of any rank, through those of two and of four axes."""
    ignore_index = checked_int(ignore_index, "nll_loss_nd", "ignore_index", 5)
    shape, target_shape = input._type.shape, target._type.shape
    rank = len(shape)
    check_constant("nll_loss_forward" if rank <= 2 else "nll_loss2d_forward", weight=weight)
    if rank < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {rank})")
    batch_size = target_shape[0] if target_shape else 0
    if rank != 1 and shape[0] != batch_size:
        raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({batch_size}).")
    if rank not in (1, 2, 4) and target_shape[1:] != shape[2:]:
        raise RuntimeError(f"Expected target size {[shape[0], *shape[2:]]}, got {list(target_shape)}")
    if rank <= 2 and len(target_shape) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target._type.dtype not in (int64, uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target._type.dtype.scalar_name}")
    if rank == 1 and len(target_shape) == 1 and target_shape[0] != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target_shape[0]}")
    if rank <= 2:
        fits = weight is None or weight._type.shape == shape[-1:]
        all_counted = fits and _all_counted(target, shape[-1], ignore_index)
        return apply(_NLL, (input, target, weight), (reduction, ignore_index, all_counted))[0]
    batch, classes, *sizes = shape
    params = (reduction, ignore_index, _all_counted(target, classes, ignore_index))
    if rank == 4:
        return apply(_NLL_2D, (input, target, weight), params)[0]
    if input.numel():
        flat, labels = input.reshape(batch, classes, 1, -1), target.reshape(batch, 1, -1)
    else:
        flat, labels = input.reshape(batch, classes, 0, 0), target.reshape(batch, 0, 0)
    losses = apply(_NLL_2D, (flat, labels, weight), params)[0]
    return losses.view(batch, *sizes) if reduction == NONE else losses


@functional(autocast="fp32")
@takes("nll_loss_nd(input, target, weight?)")
def nll_loss(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probabilities of the classes that are right.

    Arguments:
      input: log-probabilities of the classes, which are its second axis, or its only one.
      target: numbers of classes.
      weight: a factor for each class; the mean is weighted too.
      ignore_index: a target that does not count.

    Raises:
      IndexError: a class is out of range.

    Source: `torch.nn.functional.nll_loss
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.nll_loss.html>`_.
    """
    return _nll_loss_nd(input, target, weight, number(current(reduction, size_average, reduce)), ignore_index)


@functional(autocast="fp32")
@takes("cross_entropy_loss(input, target, weight?)")
def cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, ignore_index: int = -100,
    reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """The cross entropy between logits and classes, or probabilities of classes.

    Arguments:
      input: logits; the classes are its second axis, or its only one.
      target: numbers of classes, or probabilities in the shape of the input.
      weight: a factor for each class.
      ignore_index: a class that does not count.
      label_smoothing: how much of the target is spread evenly over the classes.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.cross_entropy(torch.tensor([[0., 0.]]), torch.tensor([1]))
    tensor(0.6931)

    Source: `torch.nn.functional.cross_entropy
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html>`_.
    """
    enum = number(current(reduction, size_average, reduce))
    axis = 0 if len(input._type.shape) == 1 else 1
    if input._type.shape == target._type.shape:
        if not target.is_floating_point():
            raise RuntimeError(
                f"Expected floating point type for target with class probabilities, got {target.dtype.scalar_name}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _of_probabilities(input, target, weight, enum, label_smoothing, axis)
    if label_smoothing > 0.0:
        if label_smoothing > 1.0:
            raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
        return _smoothed(input, target, weight, enum, ignore_index, label_smoothing, axis)
    return _nll_loss_nd(ops.log_softmax(input, axis), target, weight, enum, ignore_index)


def _check_class_weight(input: Any, weight: Any, axis: int) -> None:
    if weight is not None and not (weight.dim() == 1 and weight.numel() == input.size(axis)):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {input.size(axis)} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape)}"
        )


def _of_probabilities(input: Any, target: Any, weight: Any, reduction: int, smoothing: float, axis: int) -> Tensor:
    _check_class_weight(input, weight, axis)
    logs = ops.log_softmax(input, axis)
    classes = max(input.size(axis), 1)
    if smoothing > 0.0:
        if smoothing > 1.0:
            raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {smoothing:g}")
        target = shifted_by(scaled_by(target, 1 - smoothing), smoothing / classes)
    products = logs * target
    if weight is not None:
        shape = [1] * input.dim()
        shape[axis] = weight.size(0)
        products = products * weight.view(shape)
    if reduction == MEAN:
        return _divided_by(-products.sum(), input.numel() // classes)
    return -products.sum() if reduction == SUM else -products.sum(axis)


def _smoothed(
    input: Any, target: Any, weight: Any, reduction: int, ignore_index: int, smoothing: float, axis: int
) -> Tensor:
    classes = input.size(axis)
    logs = ops.log_softmax(input, axis)
    hard = _nll_loss_nd(logs, target, weight, reduction, ignore_index)
    if weight is None:
        even = -logs.sum(axis)
    else:
        shape = [1] * input.dim()
        shape[axis] = weight.size(0)
        even = -(logs * weight.view(shape)).sum(axis)
    ignored = target == ignore_index
    even = even.masked_fill(ignored, 0.0)
    if reduction == MEAN:
        if weight is None:
            even = even.sum() / (target.numel() - ignored.sum())
        else:
            target_weights = weight.gather(0, target.masked_fill(ignored, 0).flatten())
            even = even.sum() / target_weights.masked_fill(ignored.flatten(), 0).sum()
    elif reduction == SUM:
        even = even.sum()
    return scaled_by(hard, 1 - smoothing) + scaled_by(even, smoothing / classes)


@functional
def linear_cross_entropy(
    input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """``cross_entropy`` of ``linear(input, linear_weight, linear_bias)``; ``options`` on memory change no value.

    Source: `torch.nn.functional.linear_cross_entropy
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear_cross_entropy.html>`_.
    """
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    batch, features = tuple(input.shape[:-1]), input.shape[-1]
    if features != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{features} and {linear_weight.shape[-1]}, respectively"
        )
    classes, more = linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *more):
        raise RuntimeError(f"expected linear_bias shape {(classes, *more)}, got {tuple(linear_bias.shape)}")
    if more and not batch:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {features}), got unbatched input with shape {tuple(input.shape)}"
        )
    if target.shape == (*batch, classes, *more) and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if more:
        linear_weight = linear_weight.reshape(-1, features)
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias).reshape(*batch, classes, *more)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight=weight, reduction=reduction, ignore_index=ignored, label_smoothing=label_smoothing
    )


@kernel("DivBackward1")
def _divided_by(self: Array, other: Number) -> Any:
    """Division by a number, as PyTorch's own functions record it."""
    return self / other.astype(self.dtype)


# -- probabilities ---------------------------------------------------------------------------------------------------

#: lower bounds of the logarithms, and of the variance in the gradient
_LOWEST_LOG, _LEAST_VARIANCE = -100, 1e-12


def _bernoulli_loss(input: Any, target: Any) -> Any:
    """The cross entropy of probabilities, with the derivative that PyTorch keeps finite at 0 and 1."""

    def loss(x: Any, t: Any) -> Any:
        return (t - 1) * jnp.maximum(jnp.log1p(-x), _LOWEST_LOG) - t * jnp.maximum(jnp.log(x), _LOWEST_LOG)

    def vjp(ct: Any, out: Any, x: Any, t: Any) -> tuple[Any, Any]:
        of_input = ct * (x - t) / jnp.maximum((1 - x) * x, _LEAST_VARIANCE)
        return of_input, ct * (jnp.log1p(-x) - jnp.log(x))

    return define_rule(loss, vjp=vjp)(input, target)


@kernel(
    "BinaryCrossEntropyBackward0",
    always_saved=("self", "target", "weight"),
    backward_node="BinaryCrossEntropyBackwardBackward0",
)
@single
def _binary_cross_entropy(input: Array, target: Array, weight: Fixed = None, *, reduction: int) -> Any:
    check_floating("binary_cross_entropy", input)
    losses = _bernoulli_loss(input, target)
    return reduced(losses if weight is None else losses * weight, reduction)


def _in_type_of(weight: Any, target: Tensor) -> Any:
    """A weight, which PyTorch multiplies in place, so that it does not count for the type of the result."""
    return weight if weight is None or weight.dtype is target.dtype else weight.to(target.dtype)


@functional(autocast="fp32")
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The cross entropy between probabilities and targets between 0 and 1.

    Raises:
      RuntimeError: an element of the input is not between 0 and 1.

    Source: `torch.nn.functional.binary_cross_entropy
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy.html>`_.
    """
    enum = number(current(reduction, size_average, reduce))
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(ops.broadcast_shapes(target.size(), weight.size()))
    for name, tensor in (("input", input), ("target", target)):
        known = elements(tensor._value())
        if known is None:
            expect(lambda tensor=tensor: (tensor >= 0) & (tensor <= 1))
        elif not ((known >= 0) & (known <= 1)).all():
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {target.dtype.scalar_name} but expected {input.dtype.scalar_name}")
    check_constant("binary_cross_entropy", weight=weight)
    return apply(operation_of(_binary_cross_entropy), (input, target, _in_type_of(weight, target)), (enum,))


def _logistic_pullback(ct: Any, out: Any, x: Any, negative: Any, positive: Any, total: Any) -> tuple[Any, ...]:
    # as PyTorch's; ``negative - total * nn.sigmoid(-x)`` is rounded to 0 where an easy negative has a tiny gradient
    return ct * (total * nn.sigmoid(x) - positive), ct * x, None, ct * nn.softplus(-x)


@derivative(_logistic_pullback)
def _logistic_loss(x: Any, negative: Any, positive: Any, total: Any) -> Any:
    """The loss of a logit by the weights of both classes and their sum; the derivative reads that of the positive."""
    return negative * x + total * nn.softplus(-x)


@kernel("BinaryCrossEntropyWithLogitsBackward0", always_saved=("self", "target", "weight", "pos_weight"))
def _binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Fixed = None, pos_weight: Fixed = None, *, reduction: int
) -> Any:
    check_floating("log_sigmoid_cpu", input)
    if pos_weight is not None:
        check_broadcast(pos_weight, target)
    # PyTorch writes the losses in place of a tensor of the target's type
    result_type = target.dtype
    wide = jnp.promote_types(jnp.promote_types(input.dtype, result_type), np.float32)
    input, target = input.astype(wide), target.astype(wide)
    positive = target if pos_weight is None else pos_weight.astype(wide) * target
    total = jnp.ones_like(target) if pos_weight is None else (pos_weight.astype(wide) - 1) * target + 1
    losses = _logistic_loss(input, 1 - target, positive, total)
    return reduced(losses if weight is None else losses * weight.astype(wide), reduction).astype(result_type)


@composite(method=False, name="binary_cross_entropy_with_logits", autocast="fp32", out=NOT_TAKEN)
def _torch_bce_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = NONE
) -> Tensor:
    """``torch.nn.functional.binary_cross_entropy_with_logits`` with the reduction as a number."""
    check_constant("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    check_floating("log_sigmoid_cpu", input._type.array)
    if target.dtype is bool_:
        raise RuntimeError(SUBTRACTED_BOOLS)
    if not target.is_floating_point():
        result_name = ops.result_type(input, target).scalar_name
        raise RuntimeError(
            f"result type {result_name} can't be cast to the desired output type {target.dtype.scalar_name}"
        )
    weights = _in_type_of(weight, target), _in_type_of(pos_weight, target)
    return apply(operation_of(_binary_cross_entropy_with_logits), (input, target, *weights), (reduction,))


@functional(autocast="fp32")
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", pos_weight: Any = None,
) -> Tensor:  # fmt: skip
    """The cross entropy between logits and targets between 0 and 1.

    Source: `torch.nn.functional.binary_cross_entropy_with_logits
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy_with_logits.html>`_.
    """
    enum = number(current(reduction, size_average, reduce))
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _torch_bce_with_logits(input, target, weight, pos_weight, enum)


@composite(method=False, name="kl_div", autocast="fp32", out=NOT_TAKEN)
def _kl_div(input: Any, target: Any, reduction: int = NONE, *, log_target: bool = False) -> Tensor:
    """``torch.nn.functional.kl_div`` with the reduction as a number."""
    for x in (input, target):
        if not x.is_floating_point():
            kind = "Complex" if x.is_complex() else "Integral"
            raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    if log_target:
        return reduced_tensor(target.exp() * (target - input), reduction)
    return reduced_tensor(ops.xlogy(target, target) - target * input, reduction)


@functional(autocast="fp32")
@takes("kl_div(input, target)")
def kl_div(
    input: Any, target: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:  # fmt: skip
    """The Kullback-Leibler divergence of log-probabilities from probabilities, element by element; its mean or sum.

    Source: `torch.nn.functional.kl_div
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.kl_div.html>`_.
    """
    if size_average is not None or reduce is not None:
        reduction = current(reduction, size_average, reduce)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
        )
    by_batch = reduction == "batchmean"
    loss = _kl_div(input, target, SUM if by_batch else number(reduction), log_target=log_target)
    return loss / input.size()[0] if by_batch and input.dim() else loss
