"""Channels and pixels in another order."""

import math
from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.operation.output_strides import spatial
from fgrad.torch.ops.table.dispatch import OF_TORCH
from fgrad.torch.ops.table.kernels import functional
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, SymInt, operation


def _image(function: str, shape: Any) -> None:
    if len(shape) < 3:
        raise RuntimeError(
            f"{function} expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )


@functional(dispatch=OF_TORCH)
@operation("PixelShuffleBackward0", method=False, strides=spatial, backward_node="PixelUnshuffleBackward0", outputs=())
def pixel_shuffle(input: Array, upscale_factor: int) -> Any:
    """Images ``upscale_factor`` times as high and wide, from as many times more channels.

    Source: `torch.nn.functional.pixel_shuffle
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pixel_shuffle.html>`_.
    """
    _image("pixel_shuffle", input.shape)
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *outer, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    parts = lax.reshape(input, (math.prod(outer), channels // (r * r), r, r, height, width))
    moved = jnp.transpose(parts, (0, 1, 4, 2, 5, 3))
    return lax.reshape(moved, (*outer, channels // (r * r), height * r, width * r))


@functional(dispatch=OF_TORCH)
@operation(
    "PixelUnshuffleBackward0", method=False, strides=spatial, backward_node="PixelShuffleBackward0", outputs=(),
    out=NOT_TAKEN,
)  # fmt: skip
def pixel_unshuffle(input: Array, downscale_factor: int) -> Any:
    """The inverse of ``pixel_shuffle``.

    Source: `torch.nn.functional.pixel_unshuffle
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pixel_unshuffle.html>`_.
    """
    _image("pixel_unshuffle", input.shape)
    r = downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *outer, channels, height, width = input.shape
    for name, at, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({at})={size} is "
                f"not divisible by {r}"
            )
    parts = lax.reshape(input, (math.prod(outer), channels, height // r, r, width // r, r))
    moved = jnp.transpose(parts, (0, 1, 3, 5, 2, 4))
    return lax.reshape(moved, (*outer, channels * r * r, height // r, width // r))


@functional(dispatch=OF_TORCH)
@operation(
    "ChannelShuffleBackward0", method=False, strides=spatial, backward_node="ChannelShuffleBackward0", outputs=()
)
def channel_shuffle(input: Array, groups: SymInt) -> Any:
    """The channels dealt out to ``groups`` groups in turn.

    Source: `torch.nn.functional.channel_shuffle
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.channel_shuffle.html>`_.
    """
    return _dealt(input, groups)


def _dealt(input: Any, groups: SymInt) -> Any:
    shape = input.shape
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups."
        )
    parts = lax.reshape(input, (shape[0], groups, shape[1] // groups, *shape[2:]))
    return lax.reshape(jnp.swapaxes(parts, 1, 2), shape)


@functional(dispatch=OF_TORCH)
@operation(NOT_IMPLEMENTED, method=False, strides=spatial)
def native_channel_shuffle(input: Array, groups: SymInt) -> Any:
    """The kernel of ``channel_shuffle``, which has no derivative in PyTorch."""
    return _dealt(input, groups)
