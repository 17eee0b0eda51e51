"""The type of a tensor: dtype and shape, one object per pair, so that caches may key on identity."""

from operator import index
from typing import Any

from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides
from fgrad.mutable.types.dtypes import bool_, complex128, dtype as Dtype, float64, from_numpy, int64
from fgrad.mutable.values.capacity import check_axes, number_of_elements
from fgrad.mutable.values.evaluation import array_type
from fgrad.seam import ShapedArray


class TensorType:
    """A dtype and a shape; made only by ``tensor_type``, which returns the same object for the same pair."""

    __slots__ = ("dtype", "shape", "numel", "inexact", "array", "geometry", "number")

    dtype: Dtype
    shape: Ints
    numel: int
    #: whether values of this type have derivatives
    inexact: bool
    #: the type as used in graphs
    array: ShapedArray
    #: the row-major geometry of a tensor that covers its storage
    geometry: Geometry
    #: the Python type that a wrapped number stands for in type promotion
    number: type | None

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


_types: dict[tuple[Dtype, Ints], TensorType] = {}


def tensor_type(dtype: Dtype, shape: Ints) -> TensorType:
    """The type with this dtype and shape."""
    cached = _types.get((dtype, shape))
    if cached is None:
        shape = tuple(map(index, shape))
        cached = _types.setdefault((dtype, shape), _new_type(dtype, shape, None))
    return cached


def _new_type(dtype: Dtype, shape: Ints, number: type | None) -> TensorType:
    check_axes(shape)
    new = TensorType()
    new.dtype = dtype
    new.shape = shape
    new.numel = number_of_elements(shape)
    new.inexact = dtype.is_floating_point or dtype.is_complex
    new.array = array_type(shape, dtype.numpy)
    new.geometry = Geometry(shape, contiguous_strides(shape), 0, dtype)
    new.number = number
    return new


#: the types of wrapped numbers: tensors that count as Python numbers in type promotion
NUMBER_TYPES: dict[type, TensorType] = {
    bool: _new_type(bool_, (), bool),
    int: _new_type(int64, (), int),
    float: _new_type(float64, (), float),
    complex: _new_type(complex128, (), complex),
}


def type_of(array: Any) -> TensorType:
    """The tensor type of an array or of an array's type."""
    return tensor_type(from_numpy(array.dtype), tuple(array.shape))
