"""``addcmul``, ``addcdiv`` and linear interpolation."""

from typing import Any

from fgrad.mutable.operation.output_strides import elementwise, elementwise_of_tensors
from fgrad.mutable.operation.traits import BY_OPERAND
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.broadcasting import aligned, choose, common, derivative, without_factor
from fgrad.torch.ops.table.kinds import check_kinds, is_integer
from fgrad.torch.ops.table.numbers import check_computed
from fgrad.torch.ops.table.overloads import Choice, overload, overloaded
from fgrad.torch.ops.table.table import Array, Number, Operand
from fgrad.torch.random.scalars import cpp_name


@overload("addcmul", "AddcmulBackward0", promote=without_factor, strides=elementwise_of_tensors, in_float32=True)
def _addcmul(input: Array, tensor1: Array, tensor2: Array, value: Number) -> Any:
    check_kinds("addcmul_cpu_out", "ifc", input)
    x, a, b = aligned(input, tensor1, tensor2)
    return x + value.astype(x.dtype) * a * b


@overloaded(inplace=True, former=["input, value, tensor1, tensor2"])
def addcmul(input: Array, tensor1: Array, tensor2: Array, *, value: Number = 1) -> Choice:
    """``input + value * tensor1 * tensor2``, element by element.

    Source: `torch.addcmul <https://docs.pytorch.org/docs/stable/generated/torch.addcmul.html>`_.
    """
    check_computed(value, input, tensor1, tensor2)
    return _addcmul, input, tensor1, tensor2, value


_INTEGER_ADDCDIV = (
    "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
    "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
    "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
    "float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), "
    "for all dtypes."
)


@overload(
    "addcdiv",
    "AddcdivBackward0",
    promote=without_factor,
    strides=elementwise_of_tensors,
    always_saved=("tensor2",),
    in_float32=True,
)
def _addcdiv(input: Array, tensor1: Array, tensor2: Array, value: Number) -> Any:
    x, a, b = aligned(input, tensor1, tensor2)
    return x + value.astype(x.dtype) * (a / b)


@overloaded(inplace=True, former=["input, value, tensor1, tensor2"])
def addcdiv(input: Array, tensor1: Array, tensor2: Array, *, value: Number = 1) -> Choice:
    """``input + value * tensor1 / tensor2``, element by element.

    Raises:
      RuntimeError: both ``tensor1`` and ``tensor2`` are integers.

    Source: `torch.addcdiv <https://docs.pytorch.org/docs/stable/generated/torch.addcdiv.html>`_.
    """
    if is_integer(tensor1) and is_integer(tensor2):
        raise RuntimeError(_INTEGER_ADDCDIV)
    check_computed(value, input, tensor1, tensor2)
    return _addcdiv, input, tensor1, tensor2, value


def _interpolated(x: Any, end: Any, weight: Any) -> Any:
    # from the nearer end, so that a weight of 1 gives the end exactly
    nearer = abs(weight) < 0.5
    return choose(nearer, x, end) + choose(nearer, weight, weight - 1) * (end - x)


@derivative(lambda ct, out, x, end, weight: (ct * (1 - weight), ct * weight, ct * (end - x)))
def _lerp(x: Any, end: Any, weight: Any) -> Any:
    return _interpolated(x, end, weight)


def _check_lerp(input: Tensor, other: Tensor, name: str) -> None:
    expected, dtype = input._type.dtype, other._type.dtype
    if expected is not dtype:
        expected, dtype = cpp_name(expected.numpy), cpp_name(dtype.numpy)
        raise RuntimeError(f"expected dtype {expected} for `{name}` but got dtype {dtype}")


@overload("lerp", "LerpBackward0", overloads=BY_OPERAND, strides=elementwise_of_tensors, in_float32=True)
def _lerp_number(input: Array, end: Array, weight: Number) -> Any:
    check_kinds("lerp_kernel_scalar", "fc", input)
    return _lerp(input, end, weight.astype(input.dtype))


@overload(
    "lerp",
    "LerpBackward1",
    overloads=BY_OPERAND,
    promote=common,
    strides=elementwise,
    always_saved=("weight",),
    in_float32=True,
)
def _lerp_tensor(input: Array, end: Array, weight: Array) -> Any:
    check_kinds("lerp_kernel_tensor", "fc", input)
    return _lerp(input, end, weight)


@overloaded(
    inplace=True,
    signatures=(
        "Tensor input, Tensor end, Tensor weight, *, Tensor out = None",
        "Tensor input, Tensor end, Number weight, *, Tensor out = None",
    ),
    foreach=True,
)
def lerp(input: Array, end: Array, weight: Operand) -> Choice:
    """Linear interpolation: ``input + weight * (end - input)``.

    >>> import fgrad.torch as torch
    >>> torch.lerp(torch.tensor([0., 10.]), torch.tensor([1., 20.]), 0.5)
    tensor([ 0.5000, 15.0000])

    Source: `torch.lerp <https://docs.pytorch.org/docs/stable/generated/torch.lerp.html>`_.
    """
    _check_lerp(input, end, "end")
    if isinstance(weight, Tensor) and weight._type.shape:
        _check_lerp(input, weight, "weight")
    if isinstance(weight, Tensor):
        return _lerp_tensor, input, end, weight
    if not is_integer(input):  # for which there is another error
        check_computed(weight, input, end)
    return _lerp_number, input, end, weight
