"""Views with the axes in another order."""

from collections.abc import Sequence
from typing import Any

from attrs import evolve
from jax import lax

from fgrad.mutable.context.warning import warn_once
from fgrad.mutable.layout.geometry import Geometry, Ints
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, Dims, Ints as SpreadInts, composite, view
from fgrad.torch.ops.views.views import alias_of, wrap_dim


def _permuted(g: Geometry, order: Sequence[int]) -> Geometry:
    return evolve(g, sizes=tuple([g.sizes[i] for i in order]), strides=tuple([g.strides[i] for i in order]))


def _permutation(dims: Ints, rank: int) -> Ints:
    if len(dims) != rank:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    order = tuple([wrap_dim(d, rank) for d in dims])
    if len(set(order)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return order


@view("PermuteBackward0", lambda g, dims: _permuted(g, _permutation(dims, len(g.sizes))))
def permute(input: Array, dims: SpreadInts) -> Any:
    """The axes in another order, as a view.

    >>> import fgrad.torch as torch
    >>> torch.ones(2, 3, 4).permute(2, 0, 1).shape
    torch.Size([4, 2, 3])

    Source: `torch.permute <https://docs.pytorch.org/docs/stable/generated/torch.permute.html>`_.
    """
    return lax.transpose(input, _permutation(dims, input.ndim))


def _swapped(rank: int, dim0: int, dim1: int) -> list[int]:
    order = list(range(rank))
    a, b = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
    if rank:
        order[a], order[b] = order[b], order[a]
    return order


@view("TransposeBackward0", lambda g, dim0, dim1: _permuted(g, _swapped(len(g.sizes), dim0, dim1)))
def transpose(input: Array, dim0: int, dim1: int) -> Any:
    """Two axes exchanged, as a view."""
    return lax.transpose(input, _swapped(input.ndim, dim0, dim1))


def _t_order(rank: int) -> list[int]:
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return list(reversed(range(rank)))


@view("TBackward0", lambda g: _permuted(g, _t_order(len(g.sizes))))
def t(input: Array) -> Any:
    """The transpose of a matrix, as a view."""
    return lax.transpose(input, _t_order(input.ndim))


@composite(out=NOT_TAKEN)
def swapaxes(input: Any, axis0: int, axis1: int) -> Tensor:
    """``transpose`` by another name."""
    return transpose(input, axis0, axis1)


@composite(out=NOT_TAKEN)
def swapdims(input: Any, dim0: int, dim1: int) -> Tensor:
    """``transpose`` by another name."""
    return transpose(input, dim0, dim1)


@composite(out=NOT_TAKEN)
def movedim(input: Any, source: Dims, destination: Dims) -> Tensor:
    """Axes moved to other positions, the rest in their order, as a view."""
    rank = len(input._type.shape)
    sources = (source,) if isinstance(source, int) else tuple(source)
    destinations = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(destinations):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(sources)} dims) should contain the same number of dims as destination ({list(destinations)} dims)"
        )
    arguments = (sources, destinations)
    sources = tuple([wrap_dim(d, rank) for d in sources])
    destinations = tuple([wrap_dim(d, rank) for d in destinations])
    for dims, argument, what in zip((sources, destinations), arguments, ("source", "destination"), strict=True):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{what}` ({list(argument)})")
    if not rank:
        return alias_of(input)
    order = [-1] * rank
    for old, new in zip(sources, destinations, strict=True):
        order[new] = old
    rest = iter([i for i in range(rank) if i not in sources])
    return permute(input, tuple([next(rest) if i < 0 else i for i in order]))


@composite()
def moveaxis(input: Any, source: Any, destination: Any) -> Tensor:
    """``movedim`` by another name."""
    return movedim(input, source, destination)


@composite()
def adjoint(input: Any) -> Tensor:
    """The conjugate transpose of the last two axes, as a view."""
    if not input._type.shape:
        warn_once("adjoint() is deprecated on 0-D tensors. Consider using x.conj().")
        return input.conj()
    if len(input._type.shape) < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {len(input._type.shape)}-D "
            "tensor."
        )
    transposed = transpose(input, -2, -1)
    return transposed.conj() if input._type.dtype.is_complex else transposed
