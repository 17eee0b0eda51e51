"""Dropout: elements, or whole channels, set to zero or to the value of a saturated ``selu`` at random."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.context.warning import warn
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operands import float_of
from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor, new_tensor, to_device_of
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.transforms.levels import drawn, transforming
from fgrad.mutable.values.evaluation import constant
from fgrad.torch.ops.table.kernels import functional, takes
from fgrad.torch.ops.table.table import composite
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.scalars import FLOAT32, FLOAT64
from fgrad.torch.random.uniform import bernoulli, dropout_noise

#: minus the limit of ``selu`` at minus infinity
_SATURATION = 1.7580993408473766


def drop(
    input: Tensor, p: float, train: bool, inplace: bool = False, by_channel: bool = False, alpha: bool = False
) -> Tensor:
    """The random multiplication behind every dropout (aten/src/ATen/native/Dropout.cpp)."""
    p = float_of("dropout", "p", p)
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 0 or not train or not input.numel():
        return input
    multiply = input.mul_ if inplace else input.mul
    dtype = input._type.dtype.numpy
    if p == 1:
        return multiply(_tensor(np.zeros((), dtype), input))
    shape = tuple(input._type.shape)
    if by_channel:
        if len(shape) < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        shape = shape[:2] + (1,) * (len(shape) - 2)
    order = range(len(shape)) if by_channel else _memory_order(input)
    if not alpha:
        if not input._type.inexact:
            raise RuntimeError(f"result type Float can't be cast to the desired output type {input.dtype.scalar_name}")

        def draw(batch: Ints) -> np.ndarray:
            noise = dropout_noise((*batch, *(shape[i] for i in order)), dtype, default_generator, p)
            return np.moveaxis(noise, range(-len(shape), 0), [i - len(shape) for i in order])

        return multiply(_noise(draw, input, shape))
    precision = FLOAT64 if dtype == FLOAT64 else FLOAT32
    scale = 1 / math.sqrt((_SATURATION * _SATURATION * p + 1) * (1 - p))

    def rounded(x: Any) -> Any:
        return x.astype(dtype).astype(precision)

    def saturating(batch: Ints) -> np.ndarray:
        noise = bernoulli((*batch, *(shape[i] for i in order)), dtype, default_generator, 1 - p)
        wide = np.moveaxis(noise, range(-len(shape), 0), [i - len(shape) for i in order]).astype(precision)
        below = rounded(rounded(wide - 1) * precision.type(_SATURATION * scale))
        below = rounded(below + precision.type(_SATURATION * scale * p))
        return np.stack([wide * precision.type(scale), below], axis=len(batch)).astype(dtype)

    noise, below = _noise(saturating, input, (2, *shape)).unbind(0)
    return multiply(noise).add_(below)


def _memory_order(input: Tensor) -> Sequence[int]:
    """The axes from the outermost in memory to the innermost, as noise like this tensor is drawn.

    Inside of ``torch.func`` PyTorch draws noise of the tensor's sizes instead (aten/src/ATen/functorch/
    PyTorchOperatorHacks.cpp).
    """
    shape = tuple(input._type.shape)
    strides = None if transforming() else elementwise((input,), shape)
    return range(len(shape)) if strides is None else sorted(range(len(shape)), key=lambda i: -strides[i])


def _noise(draw: Callable[[Ints], Any], like: Tensor, shape: Ints) -> Tensor:
    return to_device_of(like, new_tensor(drawn(draw), tensor_type(like._type.dtype, shape)))


def _tensor(array: np.ndarray, like: Tensor) -> Tensor:
    return to_device_of(like, new_tensor(constant(array), tensor_type(like._type.dtype, array.shape)))


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@functional
@takes("dropout(input)")
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """The elements, each set to zero with probability ``p``, the others divided by ``1 - p``; nothing outside training.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.dropout(torch.ones(2), training=False)
    tensor([1., 1.])

    Source: `torch.nn.functional.dropout
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html>`_.
    """
    _check(p)
    return drop(input, p, training, inplace, False, False)


@functional
@takes("alpha_dropout(input)")
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps the mean and variance of ``selu``'s results: dropped elements become its lowest value."""
    _check(p)
    return drop(input, p, training, inplace, False, True)


@functional
@takes("feature_alpha_dropout(input)")
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels."""
    _check(p)
    return drop(input, p, training, inplace, True, True)


@functional
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of sequences."""
    _check(p)
    rank = input.dim()
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    return _by_channel(input, p, training, inplace, rank == 3)


@functional
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of images."""
    _check(p)
    rank = input.dim()
    if rank not in (3, 4):
        warn(_other_rank("dropout2d", rank, 2, "3D or 4D"))
    if rank == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
            "desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will "
            "change in a future release to interpret the input as one without a batch dimension, i.e. shape (C, H, "
            "W). To maintain the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
        )
    return drop(input, p, training, inplace, True, False)


@functional
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of volumes."""
    _check(p)
    rank = input.dim()
    if rank not in (4, 5):
        warn(_other_rank("dropout3d", rank, 3, "4D or 5D"))
    return _by_channel(input, p, training, inplace, rank == 5)


def _other_rank(function: str, rank: int, spatial: int, ranks: str) -> str:
    return (
        f"{function}: Received a {rank}-D input to {function}, which is deprecated and will result in an error in a "
        "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
        f"{function} exists to provide channel-wise dropout on inputs with {spatial} spatial dimensions, a channel "
        f"dimension, and an optional batch dimension (i.e. {ranks} inputs)."
    )


def _by_channel(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = drop(input, p, training, inplace, True, False)
    if batched:
        return result
    return result.squeeze_(0) if inplace else result.squeeze(0)


def _enter_in_torch(name: str, by_channel: bool, alpha: bool) -> None:
    """``torch``'s own functions of these names, and their in-place twins."""
    for inplace in (False, True):

        def entered(input: Any, p: float, train: bool, *, _inplace: bool = inplace) -> Tensor:
            return drop(input, p, train, _inplace, by_channel, alpha)

        entered.__doc__ = f"``{name}`` with all arguments given{', in place' if inplace else ''}."
        composite(method=False, name=name + "_" * inplace)(entered)


_enter_in_torch("dropout", False, False)
_enter_in_torch("alpha_dropout", False, True)
_enter_in_torch("feature_dropout", True, False)
_enter_in_torch("feature_alpha_dropout", True, True)
