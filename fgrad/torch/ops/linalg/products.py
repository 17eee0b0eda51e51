"""Products of vectors and matrices.

NOTE [matmul]
As in PyTorch, ``matmul`` calls ``dot``, ``mv``, ``mm`` and ``bmm``, so that the graphs agree: a batch times one matrix
is folded into a single ``mm``; two batches are broadcast to each other and go through ``bmm``
(PyTorch: aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl).
"""

import math
from typing import Any

import numpy as np
from jax import lax

from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types.dtypes import is_half
from fgrad.torch.ops.elementwise.arithmetic import mul
from fgrad.torch.ops.table.dispatch import Dispatch, as_method
from fgrad.torch.ops.table.kinds import check_kinds
from fgrad.torch.ops.table.outputs import CAST_ONTO_ITSELF, PRODUCT, exact
from fgrad.torch.ops.table.table import Array, composite, operation, operation_of
from fgrad.torch.ops.views.axes import transpose
from fgrad.torch.ops.views.views import _unsafe_view as unsafe_view, expand, reshape, squeeze, unsqueeze, view_sizes
from fgrad.torch.random.scalars import cpp_name, scalar_name

_HIGHEST = lax.Precision.HIGHEST


def unrounded_dot_general(a: Any, b: Any, axes: Any, batch: Any = ((), ())) -> Any:
    """``lax.dot_general``; for 16-bit floats the result keeps the 32 bits of the accumulator."""
    accumulator = np.float32 if is_half(a.dtype) else None
    return lax.dot_general(a, b, (axes, batch), precision=_HIGHEST, preferred_element_type=accumulator)


def _rounded_dot_general(a: Any, b: Any, axes: Any, batch: Any = ((), ())) -> Any:
    """``lax.dot_general`` in the operands' type; 16-bit floats are accumulated in 32 bits."""
    return lax.convert_element_type(unrounded_dot_general(a, b, axes, batch), a.dtype)


@operation(
    "MmBackward0",
    saved=("self", "mat2"),
    autocast="lower_precision_fp",
    gradient_columns=("self", "mat2"),
)
def mm(input: Array, mat2: Array) -> Any:
    """The product of two matrices.

    Raises:
      RuntimeError: an operand is not a matrix, the shapes do not fit, or the element types differ.

    Source: `torch.mm <https://docs.pytorch.org/docs/stable/generated/torch.mm.html>`_.
    """
    for array, name in ((input, "self"), (mat2, "mat2")):
        if array.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    check_shapes(input, mat2)
    _check_same(input, mat2)
    if input.size and mat2.size:
        check_kinds("addmm_impl_cpu_", "ifc", input)
    return _rounded_dot_general(input, mat2, ((1,), (0,)))


def check_shapes(a: Any, b: Any) -> None:
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )


def _check_same(a: Any, b: Any) -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {cpp_name(a.dtype)} != {cpp_name(b.dtype)}"
        )


@operation("MvBackward0", out=exact("addmv input tensors must have the same dtype, but got {got}, {want}, and {want}"))
def mv(input: Array, vec: Array) -> Any:
    """The product of a matrix and a vector.

    Source: `torch.mv <https://docs.pytorch.org/docs/stable/generated/torch.mv.html>`_.
    """
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {vec.ndim}, {input.ndim}, {vec.ndim}")
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0]}), mat ({input.shape[0]}x{input.shape[1]}), "
            f"vec ({vec.shape[0]})"
        )
    check_vector_dtype(vec, input, vec)
    return _rounded_dot_general(input, vec, ((1,), (0,)))


def check_vector_dtype(input: Any, mat: Any, vec: Any) -> None:
    if not input.dtype == mat.dtype == vec.dtype:
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {scalar_name(input.dtype)}, "
            f"{scalar_name(mat.dtype)}, and {scalar_name(vec.dtype)}"
        )
    if mat.size:
        check_kinds("addmv_impl_cpu", "ifc", mat)


def check_scalars(a: Any, b: Any, kernel: str) -> None:
    if a.dtype != b.dtype:
        first, second = (scalar_name(x.dtype) for x in (a, b))
        raise RuntimeError(f"expected scalar type {first} but found {second}")
    check_kinds(kernel, "ifc", a)


def _check_vectors(function: str, a: Any, b: Any) -> None:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype != b.dtype:
        first, second = (scalar_name(x.dtype) for x in (a, b))
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {first} and {second}")
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same number of "
            f"elements, but got {a.size} and {b.size} elements respectively"
        )
    check_kinds(function, "ifc", a)


@operation("DotBackward0", out=PRODUCT)
def dot(input: Array, tensor: Array) -> Any:
    """The inner product of two vectors.

    Source: `torch.dot <https://docs.pytorch.org/docs/stable/generated/torch.dot.html>`_.
    """
    _check_vectors("dot", input, tensor)
    return _rounded_dot_general(input, tensor, ((0,), (0,)))


@operation("VdotBackward0", out=PRODUCT)
def vdot(input: Array, other: Array) -> Any:
    """The inner product of two vectors, the first one conjugated.

    Source: `torch.vdot <https://docs.pytorch.org/docs/stable/generated/torch.vdot.html>`_.
    """
    _check_vectors("vdot", input, other)
    return _rounded_dot_general(lax.conj(input) if input.dtype.kind == "c" else input, other, ((0,), (0,)))


@operation("BmmBackward0", autocast="lower_precision_fp")
def bmm(input: Array, mat2: Array) -> Any:
    """The products of two batches of matrices.

    Source: `torch.bmm <https://docs.pytorch.org/docs/stable/generated/torch.bmm.html>`_.
    """
    check_batches(input, mat2)
    check_scalars(input, mat2, "bmm")
    return _rounded_dot_general(input, mat2, ((2,), (1,)), ((0,), (0,)))


def check_batches(a: Any, b: Any) -> None:
    for array, name in ((a, "batch1"), (b, "batch2")):
        if array.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if b.shape[:2] != (a.shape[0], a.shape[2]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )


_MM = operation_of(mm)


# -- matmul ----------------------------------------------------------------------------------------------------------


@composite(autocast="lower_precision_fp")
def matmul(input: Array, other: Array) -> Tensor:
    """The matrix product of two tensors with broadcast leading axes: see NOTE [matmul].

    >>> import fgrad.torch as torch
    >>> torch.ones(2, 3) @ torch.ones(3)
    tensor([3., 3.])

    Source: `torch.matmul <https://docs.pytorch.org/docs/stable/generated/torch.matmul.html>`_.
    """
    ranks = len(input._type.shape), len(other._type.shape)
    if ranks == (2, 2):
        return apply(_MM, (input, other))
    if 0 in ranks:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {ranks[0]}D and {ranks[1]}D")
    if ranks == (1, 1):
        return dot(input, other)
    if ranks == (2, 1):
        return mv(input, other)
    if ranks == (1, 2):
        return mm(unsqueeze(input, 0), other).squeeze_(0)
    if ranks == (3, 3):
        # a batch of one is folded as a matrix, so that its gradient is not expanded to the other's batch
        if input._type.shape[0] == 1 != other._type.shape[0] and is_tracked(input):
            input, ranks = squeeze(input, 0), (2, 3)
        elif other._type.shape[0] == 1 != input._type.shape[0] and is_tracked(other):
            other, ranks = squeeze(other, 0), (3, 2)
    return (
        _matmul_folded(input, other, ranks)
        if _should_fold(input, other, ranks)
        else _matmul_batched(input, other, ranks)
    )


def _should_fold(a: Tensor, b: Tensor, ranks: tuple[int, int]) -> bool:
    """Whether the leading axes of the operand of higher rank are folded into rows of one matrix."""
    if min(ranks) > 2:
        return False
    batched = a if ranks[0] >= ranks[1] else b.mT
    matrix = b if ranks[0] >= ranks[1] else a
    if is_tracked(matrix):  # even without grad mode, as in PyTorch
        return True
    if ranks[0] == 2:
        return False
    if batched._type.numel == 0:
        return True
    geometry = batched._geometry_of()
    sizes, strides = geometry.sizes, geometry.strides
    for i in range(len(sizes) - 2):
        if strides[i] != strides[i + 1] * sizes[i + 1]:
            return False
    return True


def _matmul_folded(a: Tensor, b: Tensor, ranks: tuple[int, int]) -> Tensor:
    swapped = ranks[1] > ranks[0]
    batched = transpose(b, -2, -1) if swapped else a
    matrix = (a.t() if ranks[0] == 2 else a) if swapped else b
    shape = batched._type.shape
    rows = reshape(batched, (math.prod(shape[:-1]), shape[-1]))
    if len(matrix._type.shape) == 2:
        columns = matrix._type.shape[1]
        product = unsafe_view(mm(rows, matrix), (*shape[:-1], columns))
        return transpose(product, -2, -1).contiguous() if swapped else product
    return unsafe_view(mv(rows, matrix), shape[:-1])


def _matmul_batched(a: Tensor, b: Tensor, ranks: tuple[int, int]) -> Tensor:
    shape_a, shape_b = a._type.shape, b._type.shape
    rows = 1 if ranks[0] == 1 else shape_a[-2]
    columns = 1 if ranks[1] == 1 else shape_b[-1]
    batch_a = shape_a[: max(ranks[0] - 2, 0)]
    batch_b = shape_b[: max(ranks[1] - 2, 0)]
    try:
        batch = np.broadcast_shapes(batch_a, batch_b)
    except ValueError:
        batch = _broadcast_error(batch_a, batch_b)
    contracted = shape_a[-1]
    count = math.prod(batch)
    left = reshape(expand(a, (*batch, rows, contracted)), (count, rows, contracted))
    if ranks[1] == 1:
        right = unsqueeze(reshape(expand(b, (*batch, shape_b[0])), (count, shape_b[0])), -1)
    else:
        right = reshape(expand(b, (*batch, shape_b[-2], columns)), (count, shape_b[-2], columns))
    shape = (*batch, *([rows] if ranks[0] > 1 else []), *([columns] if ranks[1] > 1 else []))
    product = bmm(left, right)
    return unsafe_view(squeeze(product, -1) if ranks[1] == 1 else product, shape)


def _broadcast_error(a: tuple[int, ...], b: tuple[int, ...]) -> Any:
    rank = max(len(a), len(b))
    for i in range(1, min(len(a), len(b)) + 1):
        if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
            raise RuntimeError(
                f"The size of tensor a ({a[-i]}) must match the size of tensor b ({b[-i]}) at non-singleton "
                f"dimension {rank - i}"
            )
    raise AssertionError(f"{a} and {b} broadcast")


@as_method(Dispatch(called="matmul", operator=True), "lower_precision_fp")
def _matmul_operator(self: Tensor, other: Any) -> Any:
    if not isinstance(other, Tensor):
        return NotImplemented
    if len(self._type.shape) == 2 == len(other._type.shape):
        return apply(_MM, (self, other))
    return matmul(self, other)


@as_method(Dispatch(Rule.WRITTEN, operator=True), "lower_precision_fp")
def _reflected_matmul(self: Tensor, other: Any) -> Any:
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__ = _matmul_operator  # type: ignore[attr-defined]
Tensor.__rmatmul__ = _reflected_matmul  # type: ignore[attr-defined]


# -- other products of vectors ---------------------------------------------------------------------------------------


_MUL = operation_of(mul)


@composite(out=CAST_ONTO_ITSELF)
def outer(input: Array, vec2: Array) -> Tensor:
    """The outer product of two vectors.

    Source: `torch.outer <https://docs.pytorch.org/docs/stable/generated/torch.outer.html>`_.
    """
    for position, tensor in ((1, input), (2, vec2)):
        if len(tensor._type.shape) != 1:
            name = "self" if position == 1 else "vec2"
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {len(tensor._type.shape)}-D")
    shape = input._type.numel, 1
    # as ``reshape`` does, without a search for the way
    column = view_sizes(input, *shape) if input._geometry_of().contiguous else reshape(input, shape)
    return apply(_MUL, (column, vec2))


@composite(out=CAST_ONTO_ITSELF)
def ger(input: Array, vec2: Array) -> Tensor:
    """``outer`` by another name."""
    return outer(input, vec2)
