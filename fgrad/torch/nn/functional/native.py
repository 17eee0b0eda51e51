"""Functions of ``torch`` behind several of ``torch.nn.functional``: convolutions and dropout."""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import bool_
from fgrad.torch import ops
from fgrad.torch.nn.functional.convolution import run_convolution
from fgrad.torch.ops.table.kernels import kernel
from fgrad.torch.ops.table.table import Array, Fixed, Float, composite


@composite(method=False)
def convolution(
    input: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """A convolution over any number of axes, or a transposed one.

    >>> import fgrad.torch as torch
    >>> x, weight = torch.ones(1, 1, 3), torch.ones(1, 1, 2)
    >>> torch.convolution(x, weight, None, [1], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])

    Source: `torch.nn.functional.conv1d
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.conv1d.html>`_.
    """
    dims = input.dim() - 2

    def each(value: Sequence[int]) -> tuple[int, ...]:
        return tuple(value) * dims if len(value) == 1 else tuple(value)

    sizes = (each(stride), each(padding), each(dilation))
    return run_convolution(input, weight, bias, *sizes, transposed, each(output_padding), groups)


@kernel("NativeDropoutBackward0", strides=elementwise, saved=("input", "result1", "scale"))
def _native_dropout(input: Array, mask: Fixed, *, scale: Float) -> Any:
    return input * mask.astype(input.dtype) * scale


@composite(method=False)
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """``torch.nn.functional.dropout``, and which elements were kept; ``train`` of None stands for True.

    >>> import fgrad.torch as torch
    >>> torch.native_dropout(torch.ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))

    Source: `torch.nn.functional.dropout
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.functional.dropout.html>`_.
    """
    if train is False:
        mask = ops.ones_like(input, dtype=bool_)
        return _native_dropout(input, mask, scale=1.0), mask
    mask = ops.empty_like(input, dtype=bool_).bernoulli_(1 - p)
    return _native_dropout(input, mask, scale=0.0 if p == 1 else 1 / (1 - p)), mask
