"""``torch.nn.grad``: the gradients of convolutions as functions.

Source: `torch/nn/grad.py <https://github.com/pytorch/pytorch/blob/v2.13.0/torch/nn/grad.py>`_.
"""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.context.modes import enable_grad, modes
from fgrad.torch import ops
from fgrad.torch.autograd.backward import grad
from fgrad.torch.nn.functional.convolution import conv1d, conv2d, conv3d

_CONVOLUTIONS = {3: conv1d, 4: conv2d, 5: conv3d}


def conv1d_input(
    input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """The gradient of ``conv1d`` with respect to its input, whose sizes are given.

    >>> import fgrad.torch as torch
    >>> torch.nn.grad.conv1d_input((1, 1, 3), torch.tensor([[[1., 2.]]]), torch.ones(1, 1, 2))
    tensor([[[1., 3., 2.]]])
    """
    return _by_input(3, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """The gradient of ``conv2d`` with respect to its input, whose sizes are given."""
    return _by_input(4, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """The gradient of ``conv3d`` with respect to its input, whose sizes are given."""
    return _by_input(5, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """The gradient of ``conv1d`` with respect to its weight, whose sizes are given.

    >>> import fgrad.torch as torch
    >>> torch.nn.grad.conv1d_weight(torch.tensor([[[1., 2., 3.]]]), (1, 1, 2), torch.ones(1, 1, 2))
    tensor([[[3., 5.]]])
    """
    return _by_weight(3, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """The gradient of ``conv2d`` with respect to its weight, whose sizes are given."""
    return _by_weight(4, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """The gradient of ``conv3d`` with respect to its weight, whose sizes are given."""
    return _by_weight(5, input, weight_size, grad_output, (stride, padding, dilation, groups))


def _by_input(rank: int, size: Sequence[int], weight: Any, grad_output: Any, settings: tuple[Any, ...]) -> Any:
    at = ops.zeros(tuple(size), dtype=grad_output.dtype).requires_grad_()
    return _gradient(rank, at, (at, weight), grad_output, settings)


def _by_weight(rank: int, input: Any, size: Sequence[int], grad_output: Any, settings: tuple[Any, ...]) -> Any:
    at = ops.zeros(tuple(size), dtype=grad_output.dtype).requires_grad_()
    return _gradient(rank, at, (input, at), grad_output, settings)


def _gradient(rank: int, at: Any, operands: tuple[Any, Any], grad_output: Any, settings: tuple[Any, ...]) -> Any:
    """The gradient of a convolution with respect to the operand ``at``, in which it is linear; it is recorded."""
    with enable_grad():
        output = _CONVOLUTIONS[rank](*operands, None, *settings)
    tracked = any(x.requires_grad for x in (*operands, grad_output) if x is not at)
    return grad(output, at, grad_output, create_graph=modes.grad and tracked)[0]
