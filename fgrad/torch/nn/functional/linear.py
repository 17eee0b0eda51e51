"""Affine and bilinear maps of the last axis."""

import math
from typing import Any

from jax import numpy as jnp

from fgrad.mutable.context.modes import modes
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor, has_own_strides
from fgrad.torch import ops
from fgrad.torch.ops.linalg.product_sums import ADDMM
from fgrad.torch.ops.table.dispatch import OF_NN, OF_TORCH
from fgrad.torch.ops.table.kernels import functional, kernel, takes
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.table import Array, composite, writes_out
from fgrad.torch.random.scalars import cpp_name


@functional(autocast="lower_precision_fp", dispatch=OF_NN)
@writes_out("linear")
@takes("linear(input, weight, bias?)")
def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """``input @ weight.T + bias``.

    >>> import fgrad.torch as torch
    >>> torch.nn.functional.linear(torch.tensor([[1., 2.]]), torch.tensor([[3., 4.], [5., 6.]]), torch.tensor([0., 1.]))
    tensor([[11., 18.]])

    Source: `torch.nn.functional.linear
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html>`_.
    """
    shape = input._type.shape
    rank = len(shape)
    if not (rank and weight._type.shape):
        ranks = f"{rank}D and {len(weight._type.shape)}D"
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {ranks}")
    if bias is None:
        return ops.matmul(input, weight.t())
    if len(weight._type.shape) == 1:
        return ops.add(ops.matmul(input, weight.t()), bias) if rank == 1 else ops.addmm(bias, input, weight.t())
    if rank == 2:
        return apply(ADDMM, (bias, input, weight.t()))
    if has_own_strides(input) and not input.is_contiguous():
        product = ops.matmul(input, weight.t())
        # a bias that is mapped or has a tangent is not added in place
        return ops.add(product, bias) if modes.maps or modes.duals else product.add_(bias)
    flat = ops.addmm(bias, input.reshape(math.prod(shape[:-1]), shape[-1]), weight.t())
    return flat.view(*shape[:-1], flat._type.shape[1])


@kernel("TrilinearBackward0")
def _trilinear(i1: Array, i2: Array, i3: Array) -> Any:
    check_kinds("bmm", "ifc", i1)
    return jnp.einsum("na,oab,nb->no", i1, i2, i3)


@composite(method=False)
@functional(dispatch=OF_TORCH)
@takes("bilinear(input1, input2, weight, bias?)")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """``input1 @ weight[o] @ input2`` for each output ``o``, plus the bias.

    Source: `torch.nn.functional.bilinear
    <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.bilinear.html>`_.
    """
    tensors = {"input1": input1, "input2": input2, "weight": weight}
    if bias is not None:
        tensors["bias"] = bias
    if len({x.dtype for x in tensors.values()}) > 1:
        kinds = ", ".join([f"{name}: {cpp_name(x.dtype.numpy)}" for name, x in tensors.items()])
        raise RuntimeError(f"All tensors must have the same dtype, got {kinds}")
    if input1.dim() != input2.dim():
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}")
    for i in range(input1.dim() - 1):
        if input1.size(i) != input2.size(i):
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got {input1.size(i)} and {input2.size(i)}"
            )
    for i, x in enumerate((input1, input2), 1):
        if x.size(-1) != weight.size(i):
            raise RuntimeError(
                f"bilinear(): input{i} size does not match weight size: got {x.size(-1)} but expected {weight.size(i)}"
            )
    if bias is not None and bias.size(0) != weight.size(0):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.size(0)} but expected {weight.size(0)}"
        )
    rows = [x.reshape(-1, x.size(-1)) for x in (input1, input2)]
    result = _trilinear(rows[0], weight, rows[1]).reshape(*input1.shape[:-1], weight.size(0))
    return result if bias is None else result + bias
