"""``einsum``: sums of products of tensors, with axes named by letters."""

from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.ops.linalg.contraction_plan import Alignment, MatrixProduct, Plan, plan_of
from fgrad.torch.ops.linalg.equations import from_sublists
from fgrad.torch.ops.linalg.products import bmm
from fgrad.torch.ops.reductions.reductions import sum
from fgrad.torch.ops.table.dispatch import IN_PYTHON
from fgrad.torch.ops.table.table import composite
from fgrad.torch.ops.views.axes import movedim, permute
from fgrad.torch.ops.views.splitting import diagonal
from fgrad.torch.ops.views.views import reshape, unsqueeze, view_sizes


@composite(method=False, dispatch=IN_PYTHON)
def einsum(*args: Any) -> Tensor:
    """Sums of products of tensors, with axes named by letters.

    Arguments:
      args: the equation, as in ``"ij,jk->ik"``, and the operands; or each operand followed by a list of numbers.

    Raises:
      RuntimeError: the equation does not fit the operands.

    >>> import fgrad.torch as torch
    >>> torch.einsum("ij,ij->i", torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])

    Source: `torch.einsum <https://docs.pytorch.org/docs/stable/generated/torch.einsum.html>`_.
    """
    if len(args) < 2 or (isinstance(args[0], str) and isinstance(args[1], list | tuple) and not args[1]):
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation, operands = from_sublists(args)
    else:
        equation, operands = args[0], list(args[1:])
        if isinstance(equation, bytes):
            equation = equation.decode()
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = list(operands[0])
    if not isinstance(equation, str):
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type_name(equation)}")
    for k, x in enumerate(operands):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 1, but got {type_name(x)}")
    return _computed(plan_of(equation, tuple([x._type.shape for x in operands])), operands)


def _computed(plan: Plan, operands: list[Tensor]) -> Tensor:
    tensors = [_aligned(x, alignment) for x, alignment in zip(operands, plan.alignments, strict=True)]
    if not plan.steps:
        return sum(tensors[0], plan.summed) if plan.summed else tensors[0]
    for step in plan.steps:
        i, j = step.pair
        b, a = tensors.pop(j), tensors.pop(i)
        first, second = step.summed
        a = sum(a, first, True) if first else a
        b = sum(b, second, True) if second else b
        tensors.append(a * b if step.matrices is None else _multiplied(a, b, step.matrices))
    return tensors[0] if plan.sizes is None else view_sizes(tensors[0], plan.sizes)


def _aligned(x: Tensor, alignment: Alignment) -> Tensor:
    for first, second in alignment.diagonals:
        x = movedim(diagonal(x, 0, first, second), -1, first)
    for _ in range(alignment.added):
        x = unsqueeze(x, -1)
    return permute(x, alignment.order)


def _multiplied(a: Tensor, b: Tensor, product: MatrixProduct) -> Tensor:
    left, right = (b, a) if product.swapped else (a, b)
    (left_order, right_order), (left_shape, right_shape) = product.orders, product.shapes
    matrices = bmm(reshape(permute(left, left_order), left_shape), reshape(permute(right, right_order), right_shape))
    return permute(view_sizes(matrices, product.sizes), product.order)
