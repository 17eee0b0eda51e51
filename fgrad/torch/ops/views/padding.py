"""Padding: elements added at the ends of axes, constant or taken from the tensor."""

from collections.abc import Callable, Sequence
from typing import Any

from jax import lax, numpy as jnp

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.operation.operands import cast, number_of
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.output_strides import spatial
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import from_numpy
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.creation.creation import empty
from fgrad.torch.ops.table.kernels import functional, kernel, takes
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.numbers import check_number
from fgrad.torch.ops.table.signature import checked_ints
from fgrad.torch.ops.table.table import Array, Number, composite, operation_of

#: the start and the end of each padded axis, the last axis first
Pairs = Ints


@kernel("ConstantPadNdBackward0", strides=spatial)
def _constant_pad_nd(input: Array, pad: Pairs, value: Number) -> Any:
    rank = input.ndim
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    config = [(0, 0, 0)] * rank
    for i in range(len(pad) // 2):
        low, high = pad[2 * i : 2 * i + 2]
        axis = rank - 1 - i
        size = input.shape[axis]
        if size + low + high < 0 or size + min(low, 0) + min(high, 0) < 0:
            if min(low, 0) + min(high, 0) + size < 0:
                raise RuntimeError("narrow(): length must be non-negative.")
            raise RuntimeError(
                f"The input size {size}, plus negative padding {low} and {high} resulted in a negative output size, "
                f"which is invalid. Check dimension {axis} of your input."
            )
        config[axis] = (low, high, 0)
    return lax.pad(input, cast(value, from_numpy(input.dtype)), config)


@composite(method=False)
def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Tensor:
    """A tensor with a constant added before and after its last axes; negative padding removes elements.

    Source: `torch.nn.functional.pad <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html>`_.
    """
    value = number_of("pad", "value", value)
    check_number(value, input._type.dtype)
    return apply(operation_of(_constant_pad_nd), (input, value), (tuple(map(int, pad)),))


def _check_pad(input: Any, pad: Pairs, mode: str) -> None:
    """Raise PyTorch's errors for shapes that cannot be padded with the tensor's own elements."""
    dims = len(pad) // 2
    rank = input.ndim
    if 0 in input.shape[1 if rank == dims + 2 else 0 :]:
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(input.shape)}"
        )
    axes = "DHW"[3 - dims :]
    sizes = input.shape[rank - dims :]
    results = [n + pad[2 * (dims - 1 - i)] + pad[2 * (dims - 1 - i) + 1] for i, n in enumerate(sizes)]
    if mode == "reflect":
        for i in range(dims):
            low, high = pad[2 * i : 2 * i + 2]
            size = input.shape[rank - 1 - i]
            if low >= size or high >= size:
                raise RuntimeError(
                    f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding input dimension, but "
                    f"got: padding ({low}, {high}) at dimension {rank - 1 - i} of input {list(input.shape)}"
                )
    if min(results) < 1:
        input_text = " ".join(f"{a}: {n}" for a, n in zip(axes, sizes, strict=True))
        result_text = " ".join(f"{a}: {n}" for a, n in zip(axes, results, strict=True))
        raise RuntimeError(f"input ({input_text}) is too small. Calculated output {result_text}")


def _extended(input: Any, pad: Pairs, make_before: Any, make_after: Any) -> Any:
    """The array padded by functions of array, count and axis; negative padding removes elements."""
    for i in range(len(pad) // 2):
        low, high = pad[2 * i : 2 * i + 2]
        axis = input.ndim - 1 - i
        size = input.shape[axis]
        parts = [lax.slice_in_dim(input, max(-low, 0), size - max(-high, 0), axis=axis)]
        if low > 0:
            parts.insert(0, make_before(input, low, axis))
        if high > 0:
            parts.append(make_after(input, high, axis))
        input = jnp.concatenate(parts, axis) if len(parts) > 1 else parts[0]
    return input


def _mirrored(input: Any, start: int, stop: int, axis: int) -> Any:
    return lax.rev(lax.slice_in_dim(input, start, stop, axis=axis), (axis,))


def _repeated(input: Any, at: int, count: int, axis: int) -> Any:
    part = lax.slice_in_dim(input, at, at + 1, axis=axis)
    return jnp.broadcast_to(part, (*part.shape[:axis], count, *part.shape[axis + 1 :]))


def _pads(kind: str, end: str) -> Callable[..., str]:
    return lambda types, params: f"{kind}Pad{len(params['padding']) // 2}D{end}"


@kernel(
    _pads("Reflection", "Backward0"),
    strides=spatial,
    always_saved=("self",),
    backward_node=_pads("Reflection", "BackwardBackward0"),
)
def _reflection_pad(input: Array, padding: Pairs) -> Any:
    check_kinds(f"reflection_pad{len(padding) // 2}d", "ifc", input)
    _check_pad(input, padding, "reflect")
    return _extended(
        input,
        padding,
        lambda x, n, axis: _mirrored(x, 1, n + 1, axis),
        lambda x, n, axis: _mirrored(x, x.shape[axis] - 1 - n, x.shape[axis] - 1, axis),
    )


@kernel(
    _pads("Replication", "Backward0"),
    strides=spatial,
    always_saved=("self",),
    backward_node=_pads("Replication", "BackwardBackward0"),
)
def _replication_pad(input: Array, padding: Pairs) -> Any:
    check_kinds(f"replication_pad{len(padding) // 2}d", "ifc", input)
    _check_pad(input, padding, "replicate")
    return _extended(
        input,
        padding,
        lambda x, n, axis: _repeated(x, 0, n, axis),
        lambda x, n, axis: _repeated(x, x.shape[axis] - 1, n, axis),
    )


def _circular(input: Tensor, pad: Pairs) -> Tensor:
    """Circular padding by PyTorch's copies: first the tensor, then the two ends of each axis."""
    shape = input.size()
    dims = len(pad) // 2
    rank = len(shape)
    first = rank - dims
    sizes = list(shape[:first])
    for i in range(dims):
        low, high = pad[2 * (dims - i - 1) : 2 * (dims - i)]
        size = shape[first + i]
        if low > size or high > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + low + high < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        sizes.append(size + low + high)
    result = empty(sizes, dtype=input.dtype, device=input.device)
    target, source = result, input
    for i in range(dims):
        low, high = pad[2 * i : 2 * i + 2]
        axis = rank - 1 - i
        target = _part(target, axis, max(low, 0), sizes[axis] - max(high, 0))
        source = _part(source, axis, max(-low, 0), shape[axis] - max(-high, 0))
    target.copy_(source)
    for i in reversed(range(dims)):
        low, high = pad[2 * i : 2 * i + 2]
        axis = rank - 1 - i
        size = sizes[axis]
        if low > 0:
            end = size - max(high, 0)
            _part(result, axis, 0, low).copy_(_part(result, axis, end - low, end))
        if high > 0:
            start = max(low, 0)
            _part(result, axis, size - high, size).copy_(_part(result, axis, start, start + high))
    return result


def _part(tensor: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return tensor[(slice(None),) * axis + (slice(start, stop),)]


def _pads_in_fp32(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> bool:
    """Whether autocast pads in float32."""
    return mode == "replicate" or (mode == "reflect" and len(pad) < 6)


@functional(autocast=_pads_in_fp32)
@takes("pad(input)")
def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """A tensor padded at the ends of its last axes.

    Arguments:
      pad: how many elements before and after, for the last axis, then the one before it, and so on; negative numbers
        remove elements.
      mode: "constant" (``value``, zero if None), "reflect", "replicate" or "circular".

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.pad(torch.tensor([[1., 2., 3.]]), (2, 1), "reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])

    Source: `torch.nn.functional.pad <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html>`_.
    """
    if not isinstance(pad, Sequence):
        raise TypeError(f"pad(): argument 'pad' (position 2) must be tuple of ints, not {type_name(pad)}")
    pairs = checked_ints(pad, "pad", "pad", 2)
    rank = input.dim()
    if len(pairs) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pairs) > 2 * rank:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pairs)} and input of dimension {rank}"
        )
    if mode == "constant":
        return constant_pad_nd(input, pairs, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    dims = len(pairs) // 2
    if not (1 <= dims <= 3 and rank in (dims + 1, dims + 2)):
        raise NotImplementedError(
            f"Padding size {len(pairs)} is not supported for {rank}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if mode == "circular":
        return _circular(input, pairs)
    return _reflection_pad(input, pairs) if mode == "reflect" else _replication_pad(input, pairs)
