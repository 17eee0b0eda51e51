"""Gradients that are views of the gradients that came in: see NOTE [Gradients that are views] in ``plan.py``."""

from functools import lru_cache

from attrs import evolve

from fgrad.graph.op import Op
from fgrad.torch.core.geometry import Geometry, Ints, viewed_strides
from fgrad.torch.core.tensor import Tensor, alias
from fgrad.torch.core.types import tensor_type


def passed_on(gradient: Tensor, steps: tuple[Op, ...]) -> Tensor | None:
    """A gradient after operations that move no element: a view of it, or None where strides cannot say it."""
    if not steps:
        return gradient
    geometry = moved(gradient._geometry_of(), steps)
    if geometry is None:
        return None
    result = alias(gradient)
    result._type = tensor_type(geometry.dtype, geometry.sizes)
    result._geometry = geometry
    return result


@lru_cache(1 << 12)
def moved(geometry: Geometry, steps: tuple[Op, ...]) -> Geometry | None:
    """The geometry of a view that does to memory what these operations do to values."""
    for op in steps:
        sizes, strides = geometry.sizes, geometry.strides
        if op.name == "transpose":
            order = op.params["permutation"]
            sizes, strides = tuple([sizes[i] for i in order]), tuple([strides[i] for i in order])
        elif op.name == "reshape":
            shape = op.out_types[0].shape
            found = viewed_strides(sizes, strides, shape)
            if found is None:
                return None
            sizes, strides = shape, found
        else:
            shape, axes = op.out_types[0].shape, op.params["broadcast_dimensions"]
            sizes, strides = shape, expanded(sizes, strides, shape, axes)
        geometry = evolve(geometry, sizes=sizes, strides=strides)
    return geometry


def expanded(sizes: Ints, strides: Ints, shape: Ints, axes: Ints) -> Ints:
    """The strides of a tensor whose axes become ``axes`` of a shape: new ones are inserted, and then expanded.

    A number has no axes to insert others between, and is expanded as it is.
    """
    if not sizes:
        return (0,) * len(shape)
    have, steps = list(sizes), list(strides)
    for axis in range(len(shape)):
        if axis not in axes:
            steps.insert(axis, have[axis] * steps[axis] if axis < len(have) else 1)
            have.insert(axis, 1)
    return tuple([step if n == m else 0 for n, m, step in zip(have, shape, steps, strict=True)])
