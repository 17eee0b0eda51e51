"""Gradients of sampled functions, estimated from neighbouring samples."""

from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.torch.ops.reductions.cumulative import _over_number, _times_number
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.overloads import no_match, types_of
from fgrad.torch.ops.table.table import Array, composite
from fgrad.torch.ops.views.joining import cat
from fgrad.torch.ops.views.views import slice_axis, wrap_dims

_SIGNATURES = (
    "Tensor input, *, tuple of ints dim, int edge_order = 1",
    "Tensor input, *, Number spacing, tuple of ints dim, int edge_order = 1",
    "Tensor input, *, Number spacing = None, int dim = None, int edge_order = 1",
    "Tensor input, *, tuple of Scalars spacing, int dim = None, int edge_order = 1",
    "Tensor input, *, tuple of Scalars spacing, tuple of ints dim, int edge_order = 1",
    "Tensor input, *, tuple of Tensors spacing, int dim = None, int edge_order = 1",
    "Tensor input, *, tuple of Tensors spacing, tuple of ints dim, int edge_order = 1",
)


def _check(input: Tensor, spacing: Any, dim: Any, edge_order: int) -> None:
    rank = input.dim()
    if input.dtype is dtypes.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if isinstance(spacing, list | tuple):
        if dim is not None:
            count = 1 if isinstance(dim, int) else len(dim)
            if len(spacing) != count:
                raise RuntimeError(
                    "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to "
                    f"have the same length, but got a spacing argument of length {len(spacing)} and a dim argument of "
                    f"length {count}."
                )
        elif len(spacing) != rank:
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
                f"'self.dim() = {rank}', since dim argument was not given, but got a list of length {len(spacing)}"
            )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")


def _even(input: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    """The gradient along an axis with evenly spaced samples."""

    def at(start: int, end: int | None = None) -> Tensor:
        return slice_axis(input, dim, start, end, 1)

    n = input.shape[dim]
    middle = _over_number(_over_number(at(2) - at(0, n - 2), step), 2)
    if edge_order == 1:
        first, last = at(1, 2) - at(0, 1), at(n - 1) - at(n - 2, n - 1)
    else:
        first = _times_number(at(0, 1), -1.5) + _times_number(at(1, 2), 2.0) - _times_number(at(2, 3), 0.5)
        last = (
            _times_number(at(n - 3, n - 2), 0.5) - _times_number(at(n - 2, n - 1), 2.0) + _times_number(at(n - 1), 1.5)
        )
    return cat((_over_number(first, step), middle, _over_number(last, step)), dim)


def _uneven(input: Tensor, dim: int, coordinates: Tensor, edge_order: int) -> Tensor:
    """The gradient along an axis with samples at coordinates: that of the parabola through three neighbours."""

    def at(start: int, end: int | None = None) -> Tensor:
        return slice_axis(input, dim, start, end, 1)

    n = input.shape[dim]
    steps = coordinates.diff(1, 0)
    shape = [1] * input.dim()
    shape[dim] = -1
    before, after = steps[:-1], steps[1:]
    weights = (
        (-after / (before * (before + after))).reshape(shape),
        ((after - before) / (before * after)).reshape(shape),
        (before / (after * (before + after))).reshape(shape),
    )
    middle = weights[0] * at(0, n - 2) + weights[1] * at(1, n - 1) + weights[2] * at(2)
    if edge_order == 1:
        return cat(((at(1, 2) - at(0, 1)) / steps[0], middle, (at(n - 1) - at(n - 2, n - 1)) / steps[-1]), dim)
    near, far = steps[0], steps[1]
    first = (
        -(2 * near + far) / (near * (near + far)) * at(0, 1)
        + (near + far) / (near * far) * at(1, 2)
        + -near / (far * (near + far)) * at(2, 3)
    )
    near, far = steps[-2], steps[-1]
    last = (
        far / (near * (near + far)) * at(n - 3, n - 2)
        + -(far + near) / (near * far) * at(n - 2, n - 1)
        + (2 * far + near) / (far * (near + far)) * at(n - 1)
    )
    return cat((first, middle, last), dim)


@composite(method=False, out=NOT_TAKEN)
def gradient(input: Array, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The gradient of a sampled function along each axis, estimated by second-order central differences.

    Arguments:
      input: the samples.
      spacing: their distance: a number, a number for each axis, or a tensor of coordinates for each axis.
      dim: the axis or axes; all if None.
      edge_order: the order of the estimate at the ends: 1 or 2.

    Raises:
      RuntimeError: the number of spacings is not that of axes, or an axis is too short.

    >>> import fgrad.torch as torch
    >>> torch.gradient(torch.tensor([0., 1., 4., 9.]))
    (tensor([1., 2., 4., 5.]),)

    Source: `torch.gradient <https://docs.pytorch.org/docs/2.13/generated/torch.gradient.html>`_.
    """
    if isinstance(spacing, Tensor):
        raise TypeError(
            no_match("gradient", f"{types_of((input,))}, dim={type(dim).__name__}, spacing=Tensor", _SIGNATURES)
        )
    _check(input, spacing, dim, edge_order)
    axes = tuple(range(input.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    axes = wrap_dims(axes, input.dim())
    if any(input.shape[axis] < edge_order + 1 for axis in axes):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    steps: Any = spacing if isinstance(spacing, list | tuple) else [1 if spacing is None else spacing] * len(axes)
    gradients = []
    for axis, step in zip(axes, steps, strict=True):
        estimate: Any = _uneven if isinstance(step, Tensor) else _even
        gradients.append(estimate(input, axis, step, edge_order))
    return tuple(gradients)
