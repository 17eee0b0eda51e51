"""Safetensors files: their tensors by name, or the nested values that their metadata describe.

NOTE [Tensors in safetensors files]: Files from before ``save`` wrote PyTorch's format have the structure around the
tensors as JSON in their metadata; see NOTE [Structures in files].  In them, tensors over the same elements are stored
once and share memory again; ``complex128``, which the format lacks, is stored as pairs of float64; and tensors that
overlap otherwise are described as views of one flat array.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.mutable.layout.geometry import extent, is_dense
from fgrad.mutable.tensor.storage import VersionCounter
from fgrad.mutable.tensor.tensor import Tensor, alias, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.types import devices
from fgrad.mutable.values.evaluation import constant
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.ops.views.splitting import as_strided
from fgrad.torch.pickle_memory import place_for
from fgrad.torch.serialization import safetensors
from fgrad.torch.serialization.safetensors import TensorFileError
from fgrad.torch.serialization.structure import decode

#: the name of the structure in the metadata of a file
_STRUCTURE = "fgrad.torch"
_VERSION = 1


def load_tensors(content: bytes, map_location: Any) -> Any:
    """The value of a safetensors file.

    Raises:
      TensorFileError: the file is damaged, or not a safetensors file.
    """
    arrays, metadata = safetensors.loads(content)
    tensors = _Loaded(arrays, map_location)
    if _STRUCTURE not in metadata:
        return {name: tensors.make({"tensor": name}) for name in arrays}
    try:
        document = json.loads(metadata[_STRUCTURE])
        if not isinstance(document, dict) or document.get("version") != _VERSION or "value" not in document:
            raise ValueError(f"it is not of version {_VERSION}")
        value = decode(document["value"], tensors.make)
        tensors.check_complete()
    except (ValueError, RecursionError) as error:
        raise TensorFileError(f"The file's metadata do not tell the structure of what was saved: {error}") from error
    return value


class _Loaded:
    """The tensors of a file, created as the structure needs them."""

    def __init__(self, arrays: dict[str, np.ndarray], map_location: Any):
        self._arrays = arrays
        self._map_location = map_location
        self._first: dict[str, Tensor] = {}
        self._handles: dict[tuple[str, int], Tensor] = {}

    def make(self, description: dict[str, Any]) -> Tensor:
        """The tensor of a description; the same one for the same name and handle."""
        match description:
            case {"tensor": str(name), **details} if name in self._arrays:
                handle = details.pop("handle", 0)
                if type(handle) is not int:
                    raise ValueError(f"tensor {name!r} has a handle that is no number")
                if (name, handle) not in self._handles:
                    self._handles[name, handle] = self._handle(name, **_checked(name, details))
                return self._handles[name, handle]
        raise ValueError(f"it has no tensor {str(description.get('tensor'))[:60]!r}")

    def _handle(
        self,
        name: str,
        complex: bool = False,
        strides: Sequence[int] | None = None,
        part: Sequence[Any] | None = None,
        device: str = "cpu",
        parameter: bool | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        if name not in self._first:
            array = _complex(name, self._arrays[name]) if complex else self._arrays[name]
            tensor = new_tensor(constant(array), type_of(array), _dense(name, array, strides))
            self._first[name] = _moved(tensor, place_for(array, tensor._type.dtype, device, self._map_location))
        stored = self._first[name]
        tensor = alias(stored if part is None else _part(name, stored, part), VersionCounter())
        if (requires_grad or parameter) and not tensor._type.inexact:
            raise ValueError(f"tensor {name!r} of {tensor._type.dtype} cannot require gradients")
        if parameter is not None:
            return Parameter(tensor, parameter)
        tensor._requires_grad = requires_grad
        return tensor

    def check_complete(self) -> None:
        """Check that the structure uses every array."""
        for name in self._arrays:
            if name not in self._first:
                raise ValueError(f"tensor {name!r} has no place in it")


#: the attributes of a tensor's description other than its name and handle
_DETAILS = {"complex": bool, "strides": list, "part": list, "device": str, "parameter": bool, "requires_grad": bool}


def _checked(name: str, details: dict[str, Any]) -> dict[str, Any]:
    for detail, value in details.items():
        if type(value) is not _DETAILS.get(detail):
            raise ValueError(f"it says of tensor {name!r} something unknown, {str(detail)[:60]!r}")
    return details


def _dense(name: str, array: np.ndarray, strides: Sequence[int] | None) -> tuple[int, ...] | None:
    """Strides other than the row-major ones, if they leave no gaps."""
    if strides is None:
        return None
    if len(strides) != array.ndim or any(type(stride) is not int or stride < 0 for stride in strides):
        raise ValueError(f"tensor {name!r} has strides that are no numbers, or not one for each dimension")
    if not is_dense(array.shape, tuple(strides)):
        raise ValueError(f"tensor {name!r} has strides that do not cover memory once")
    return tuple(strides)


def _part(name: str, stored: Tensor, part: Sequence[Any]) -> Tensor:
    """A view of a flat tensor by its sizes, strides and offset."""
    match part:
        case [list(sizes), list(strides), int(offset)] if len(sizes) == len(strides) and all(
            type(n) is int and n >= 0 for n in (*sizes, *strides, offset)
        ):
            if stored.dim() == 1 and (0 in sizes or extent(tuple(sizes), tuple(strides), offset) <= stored.numel()):
                return as_strided(stored.detach(), sizes, strides, offset)
    raise ValueError(f"tensor {name!r} has a part that does not lie in it")


def _complex(name: str, array: np.ndarray) -> np.ndarray:
    """Pairs of float64 as complex numbers."""
    if array.dtype != np.float64 or array.shape[-1:] != (2,):
        raise ValueError(f"tensor {name!r} does not hold pairs of float64")
    return np.ascontiguousarray(array).view(np.complex128)[..., 0]


def _moved(tensor: Tensor, device: "devices.device") -> Tensor:
    return tensor if device.type == "cpu" else tensor.to(device)
