"""Copies of views: the elements of a view in memory of their own.

NOTE [A view's copy]
Each is the view's function of values as an ordinary operation, with a node named after the view's.  To check the
arguments, the view itself is made first, of the detached operand.
"""

from typing import Any

from attrs import frozen

from fgrad.mutable.operation.as_strided import AS_STRIDED_COPY, split_offset
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch.ops.table.table import TABLE, Array, SymInt, composite, run_into
from fgrad.torch.ops.views.splitting import as_strided, checked_lengths, checked_split_size, unbind
from fgrad.torch.ops.views.views import narrow, select, wrap_dim


@frozen
class _Copy:
    """The operation that copies a view: see NOTE [A view's copy]."""

    view: Any
    operation: Operation

    def __call__(self, out: Any, input: Tensor, *rest: Any, **params: Any) -> Any:
        if self.view is not None:
            self.view(input.detach(), *rest, **params)
        values = tuple([params[name] for name in self.operation.parameters])
        if out is None:
            return apply(self.operation, (input, *rest), values)
        return run_into(self.operation.name, self.operation, (input, *rest), values, out)


def _copy(name: str, view: str, node: str | None = None) -> _Copy:
    """The copying operation of a view in the table."""
    entry = TABLE[view]
    op = entry.operation
    assert op is not None
    node_name = node or f"{op.node}_copy"
    copying = Operation(
        name, op.function, node_name, op.operands, op.parameters, op.nondiff_operands, gradients=op.gradients
    )
    return _Copy(entry.call, copying)


def _ints(sizes: Any) -> tuple[int, ...]:
    return (int(sizes),) if isinstance(sizes, int) else tuple([int(n) for n in sizes])


_ALIAS = _copy("alias_copy", "alias")


@composite(method=False)
def alias_copy(input: Array, *, out: Any = None) -> Any:
    """A copy, contiguous in memory.

    >>> import fgrad.torch as torch
    >>> torch.alias_copy(torch.tensor([1., 2.]))
    tensor([1., 2.])
    """
    return _ALIAS(out, input)


_DETACH = _copy("detach_copy", "alias", NOT_IMPLEMENTED)


@composite(method=False)
def detach_copy(input: Array, *, out: Any = None) -> Any:
    """A copy without a derivative: backward through it raises.

    >>> import fgrad.torch as torch
    >>> torch.detach_copy(torch.tensor([1., 2.]))
    tensor([1., 2.])
    """
    return _DETACH(out, input)


_EXPAND = _copy("expand_copy", "expand")


@composite(method=False)
def expand_copy(input: Array, size: Any, *, implicit: bool = False, out: Any = None) -> Any:
    """Axes of size 1 repeated, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.expand_copy(torch.tensor([[1], [2]]), (2, 2))
    tensor([[1, 1],
            [2, 2]])
    """
    return _EXPAND(out, input, size=_ints(size))


_VIEW, _RETYPED = _copy("view_copy", "view"), _copy("view_copy", "_retyped")


@composite(method=False)
def view_copy(input: Array, size: Any = None, dtype: Any = None, *, out: Any = None) -> Any:
    """A copy in another shape, or with the bits as another element type.

    >>> import fgrad.torch as torch
    >>> torch.view_copy(torch.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    if isinstance(size, Dtype):
        size, dtype = None, size
    if dtype is not None:
        return _RETYPED(out, input, dtype=dtype)
    return _VIEW(out, input.contiguous(), size=_ints(size))


_PERMUTE = _copy("permute_copy", "permute")


@composite(method=False)
def permute_copy(input: Array, dims: Any, *, out: Any = None) -> Any:
    """The axes in another order, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.permute_copy(torch.ones(2, 3), (1, 0)).shape
    torch.Size([3, 2])
    """
    return _PERMUTE(out, input, dims=_ints(dims))


_TRANSPOSE = _copy("transpose_copy", "transpose")


@composite(method=False)
def transpose_copy(input: Array, dim0: int, dim1: int, *, out: Any = None) -> Any:
    """Two axes exchanged, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.transpose_copy(torch.ones(2, 3), 0, 1).stride()
    (2, 1)
    """
    return _TRANSPOSE(out, input, dim0=dim0, dim1=dim1)


_T = _copy("t_copy", "t")


@composite(method=False)
def t_copy(input: Array, *, out: Any = None) -> Any:
    """The transpose of a matrix, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.t_copy(torch.tensor([[1, 2]]))
    tensor([[1],
            [2]])
    """
    return _T(out, input)


_UNSQUEEZE = _copy("unsqueeze_copy", "unsqueeze")


@composite(method=False)
def unsqueeze_copy(input: Array, dim: int, *, out: Any = None) -> Any:
    """A new axis of size 1, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.unsqueeze_copy(torch.tensor([1, 2]), 0)
    tensor([[1, 2]])
    """
    return _UNSQUEEZE(out, input, dim=dim)


_SQUEEZE_ALL = _copy("squeeze_copy", "_squeeze_all")
_SQUEEZE_DIM = _copy("squeeze_copy", "_squeeze_dim")
_SQUEEZE_DIMS = _copy("squeeze_copy", "_squeeze_dims")


@composite(method=False)
def squeeze_copy(input: Array, dim: Any = None, *, out: Any = None) -> Any:
    """A copy without the axes of size 1.

    >>> import fgrad.torch as torch
    >>> torch.squeeze_copy(torch.tensor([[1, 2]]))
    tensor([1, 2])
    """
    if dim is None:
        return _SQUEEZE_ALL(out, input)
    return _SQUEEZE_DIM(out, input, dim=dim) if isinstance(dim, int) else _SQUEEZE_DIMS(out, input, dim=_ints(dim))


_DIAGONAL = _copy("diagonal_copy", "diagonal")


@composite(method=False)
def diagonal_copy(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Any = None) -> Any:
    """A diagonal, its axis last, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.diagonal_copy(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _DIAGONAL(out, input, offset=offset, dim1=dim1, dim2=dim2)


_UNFOLD = _copy("unfold_copy", "unfold")


@composite(method=False)
def unfold_copy(input: Array, dimension: int, size: int, step: int, *, out: Any = None) -> Any:
    """Sliding windows along an axis, their axis last, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.unfold_copy(torch.arange(4), 0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    return _UNFOLD(out, input, dimension=dimension, size=size, step=step)


_AS_REAL = _copy("view_as_real_copy", "view_as_real")


@composite(method=False)
def view_as_real_copy(input: Array, *, out: Any = None) -> Any:
    """Complex numbers as pairs of real ones, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.view_as_real_copy(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    return _AS_REAL(out, input)


_SELECT = _copy("select_copy", "_select")


@composite(method=False)
def select_copy(input: Array, dim: int, index: SymInt, *, out: Any = None) -> Any:
    """The slice at an index along an axis, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.select_copy(torch.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])
    """
    select(input.detach(), dim, index)
    return _SELECT(out, input, int(index) % input._type.shape[dim], dim=dim)


_SLICE = _copy("slice_copy", "_slice")
_NARROW = _copy("narrow_copy", "_slice", "NarrowCopyBackward0")


@composite()
def narrow_copy(input: Array, dim: int, start: Any, length: SymInt, *, out: Any = None) -> Any:
    """``length`` elements along an axis from ``start`` on, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.narrow_copy(torch.arange(4), 0, 1, 2)
    tensor([1, 2])
    """
    narrow(input.detach(), dim, start, length)
    dim = wrap_dim(dim, len(input._type.shape))
    size = input._type.shape[dim]
    start = int(start)
    return _NARROW(out, input, start + size if start < 0 else start, dim=dim, length=length, step=1)


@composite(method=False)
def slice_copy(
    input: Array,
    dim: int = 0,
    start: SymInt | None = None,
    end: SymInt | None = None,
    step: SymInt = 1,
    *,
    out: Any = None,
) -> Any:
    """Every ``step``-th element along an axis from ``start`` to before ``end``, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.slice_copy(torch.arange(4), 0, 1, 4, 2)
    tensor([1, 3])
    """
    dim = wrap_dim(dim, len(input._type.shape))
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    first, last, _ = slice(start, end).indices(input._type.shape[dim])
    return _SLICE(out, input, first, dim=dim, length=len(range(first, last, step)), step=step)


_AS_STRIDED = _Copy(None, AS_STRIDED_COPY)


@composite(method=False)
def as_strided_copy(
    input: Array, size: Any, stride: Any, storage_offset: SymInt | None = None, *, out: Any = None
) -> Any:
    """The elements of a tensor's storage at the given sizes, strides and offset, in a copy.

    >>> import fgrad.torch as torch
    >>> torch.as_strided_copy(torch.arange(4), (2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])
    """
    view = as_strided(input.detach(), size, stride, storage_offset)
    start, params = split_offset(input._geometry_of(), view._geometry_of())
    return _AS_STRIDED(out, input, view, start, **dict(zip(AS_STRIDED_COPY.parameters, params, strict=True)))


_UNBIND = _copy("unbind_copy", "_unbind")


@composite(method=False)
def unbind_copy(input: Array, dim: int = 0, *, out: Any = None) -> Any:
    """The slices along an axis, each a copy.

    >>> import fgrad.torch as torch
    >>> torch.unbind_copy(torch.tensor([1, 2]))
    (tensor(1), tensor(2))
    """
    unbind(input.detach(), dim)
    copies = _UNBIND(out, input, dim=dim)
    return copies if out is None else None  # as in PyTorch


_SPLIT = _copy("split_copy", "_split")
_SPLIT_WITH_SIZES = _copy("split_with_sizes_copy", "_split_with_sizes")


@composite(method=False)
def split_copy(input: Array, split_size: SymInt, dim: int = 0, *, out: Any = None) -> Any:
    """Pieces of ``split_size`` along an axis, the last maybe shorter, each a copy.

    >>> import fgrad.torch as torch
    >>> torch.split_copy(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    checked_size, axis = checked_split_size(input, int(split_size), dim)
    copies = _SPLIT(out, input, split_size=checked_size, dim=axis)
    return copies if out is None else None  # as in PyTorch


@composite(method=False)
def split_with_sizes_copy(input: Array, split_sizes: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Pieces of these lengths along an axis, each a copy.

    >>> import fgrad.torch as torch
    >>> torch.split_with_sizes_copy(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    lengths, axis = checked_lengths(input, _ints(split_sizes), dim)
    copies = _SPLIT_WITH_SIZES(out, input, split_sizes=lengths, dim=axis)
    return copies if out is None else None  # as in PyTorch
