"""``torch.save`` and ``torch.load``: tensors and nested state in safetensors files; loading runs nothing from the file.

NOTE [Tensors in files]: A file's arrays have the tensors' names: of a flat dictionary its keys, so that other readers
of safetensors find what they expect; in nested values the keys on the way, joined by points.  The structure around them
is JSON in the file's metadata; see NOTE [Structures in files].  ``complex128``, which the format lacks, is stored as
pairs of float64.  The order of dimensions in memory (``channels_last``) stays; what is a view with gaps loses them.

Tensors over exactly the same elements are stored once and share memory again when loaded, as the tied weights in a
``state_dict`` do; one tensor in two places comes back as one.  Tensors that overlap otherwise are refused: each would
come back alone, and what was one memory would be two.
"""

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

from fgrad.torch import devices, dtypes
from fgrad.torch.core.evaluation import concrete, constant
from fgrad.torch.core.geometry import Geometry, extent, is_dense
from fgrad.torch.core.storage import Storage, VersionCounter
from fgrad.torch.core.tensor import Tensor, alias, new_tensor
from fgrad.torch.core.types import type_of
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.serialization import safetensors
from fgrad.torch.serialization.safetensors import METADATA, TensorFileError
from fgrad.torch.serialization.structure import Encoder, decode

__all__ = ["FILE_LIKE", "MAP_LOCATION", "TensorFileError", "load", "save"]

FILE_LIKE = str | os.PathLike[str] | IO[bytes]
#: the device for all tensors; or which one stands for which; or a function of a storage and of where it was
MAP_LOCATION = devices.device | str | dict[str, str] | Callable[[Any, str], Any] | None

#: under which name the metadata of a file tells the structure
_STRUCTURE = "fgrad.torch"
_VERSION = 1


def save(obj: Any, f: FILE_LIKE) -> None:
    """Write tensors to a file: a tensor, a ``state_dict``, or nested lists, tuples and dictionaries of them.

    Arguments:
      obj: besides tensors it may hold numbers, texts and ``None``.  That tensors require grad is kept, their history
        is not.
      f: a path, or a file open for writing bytes.

    Raises:
      TypeError: there is something else in it.
      ValueError: two tensors share a part of their memory, or a container contains itself.

    >>> import fgrad.torch as torch
    >>> torch.save({'weight': torch.ones(2), 'steps': 3}, 'state.safetensors')
    >>> torch.load('state.safetensors')
    {'weight': tensor([1., 1.]), 'steps': 3}

    Source: `torch.save <https://docs.pytorch.org/docs/2.13/generated/torch.save.html>`_; the format is
    `safetensors <https://huggingface.co/docs/safetensors/index#format>`_, not pickle.
    """
    tensors = _Saved()
    code = Encoder(tensors.describe).encode(obj)
    tensors.check_overlaps()
    text = json.dumps({"version": _VERSION, "value": code}, allow_nan=False, separators=(",", ":"))
    if isinstance(f, str | os.PathLike):
        part = f"{os.fspath(f)}.part"  # so that no reader ever meets half a file
        with open(part, "wb") as stream:
            safetensors.dump(stream, tensors.arrays, {_STRUCTURE: text})
        os.replace(part, f)
    elif hasattr(f, "write"):
        safetensors.dump(f, tensors.arrays, {_STRUCTURE: text})
    else:
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")


def load(
    f: FILE_LIKE,
    map_location: MAP_LOCATION = None,
    *,
    weights_only: bool | None = None,
) -> Any:
    """What `save` wrote to a file; of another safetensors file, its tensors by name.

    Arguments:
      f: a path, or a file open for reading bytes, of which all is read.
      map_location: the device for all tensors; or which one stands for which; or a function of a storage, which is on
        the CPU, and of where it was: the tensor stays on the CPU if the storage comes back, and goes where it was if
        None does.  Otherwise each tensor goes where it was.
      weights_only: for programs that say so; nothing but data is ever loaded.

    Raises:
      TensorFileError: the file is damaged, or no safetensors file; it may be one that PyTorch itself saved.
      RuntimeError: a tensor was on a device that is not there.

    >>> import fgrad.torch as torch, io
    >>> file = io.BytesIO()
    >>> torch.save([torch.arange(3), 'text'], file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    [tensor([0, 1, 2]), 'text']

    Source: `torch.load <https://docs.pytorch.org/docs/2.13/generated/torch.load.html>`_; the format is
    `safetensors <https://huggingface.co/docs/safetensors/index#format>`_, not pickle.
    """
    if not (map_location is None or isinstance(map_location, dict) or callable(map_location)):
        map_location = devices.argument(map_location, "load", "map_location")
    if not isinstance(f, str | os.PathLike) and not hasattr(f, "read"):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    with open(f, "rb") if isinstance(f, str | os.PathLike) else contextlib.nullcontext(f) as stream:
        arrays, metadata = safetensors.loads(stream.read())
    tensors = _Loaded(arrays, map_location)
    if _STRUCTURE not in metadata:
        return {name: tensors.make({"tensor": name}) for name in arrays}
    try:
        document = json.loads(metadata[_STRUCTURE])
        if not isinstance(document, dict) or document.get("version") != _VERSION or "value" not in document:
            raise ValueError(f"it is not of version {_VERSION}")
        found = decode(document["value"], tensors.make)
        tensors.check_complete()
    except (ValueError, RecursionError) as error:
        raise TensorFileError(f"The file's metadata do not tell the structure of what was saved: {error}") from error
    return found


class _Saved:
    """The tensors on their way into a file."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        #: of each storage the geometries that are saved, with the name of the array
        self._names: dict[Storage, dict[Geometry, str]] = {}
        #: the tensors of each array; most have one
        self._handles: dict[str, list[Tensor]] = {}

    def describe(self, value: Any, path: tuple[str, ...]) -> dict[str, Any] | None:
        """What the structure says of a tensor, whose elements are taken; ``None`` if it is none."""
        if not isinstance(value, Tensor):
            return None
        geometry = value._geometry_of()
        names = self._names.setdefault(value._storage, {})
        if geometry not in names:
            names[geometry] = self._add(concrete(value._value()), ".".join(path) or "tensor")
        name = names[geometry]
        found: dict[str, Any] = {"tensor": name}
        handles = self._handles.setdefault(name, [])
        number = next((i for i, handle in enumerate(handles) if handle is value), len(handles))
        if number == len(handles):
            handles.append(value)
        if number:
            found["handle"] = number
        if value._type.dtype is dtypes.complex128:
            found["complex"] = True
        if not geometry.contiguous and is_dense(geometry.sizes, geometry.strides):
            found["strides"] = list(geometry.strides)
        if value._device is not None:
            found["device"] = str(value._device)
        if isinstance(value, Parameter):
            found["parameter"] = value.requires_grad
        elif value.requires_grad:
            found["requires_grad"] = True
        return found

    def _add(self, array: np.ndarray, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.arrays or name == METADATA:
            count += 1
            name = f"{wanted}_{count}"
        if array.dtype == np.complex128:
            array = np.stack([np.real(array), np.imag(array)], axis=-1)
        self.arrays[name] = array
        return name

    def check_overlaps(self) -> None:
        for names in self._names.values():
            spans = sorted((*_span(geometry), name) for geometry, name in names.items())
            for (_, end, name), (start, _, other) in itertools.pairwise(spans):
                if start < end:
                    one, two = sorted((name, other))
                    raise ValueError(
                        f"torch.save: the tensors {one!r} and {two!r} share a part of their memory, which a file "
                        "cannot tell.\nWay out: save a clone() of one of them, or only the tensor of which both are "
                        "views."
                    )


def _span(geometry: Geometry) -> tuple[int, int]:
    """From which to which byte of its storage a tensor reaches."""
    size = geometry.dtype.itemsize
    end = extent(geometry.sizes, geometry.strides, geometry.offset)
    return min(geometry.offset, end) * size, end * size


class _Loaded:
    """The tensors of a file, made when the structure asks for them."""

    def __init__(self, arrays: dict[str, np.ndarray], map_location: Any):
        self._arrays = arrays
        self._map_location = map_location
        self._first: dict[str, Tensor] = {}
        self._handles: dict[tuple[str, int], Tensor] = {}

    def make(self, description: dict[str, Any]) -> Tensor:
        """The tensor of a description; the same for a name and handle that were there before."""
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
        device: str = "cpu",
        parameter: bool | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        if name not in self._first:
            array = _complex(name, self._arrays[name]) if complex else self._arrays[name]
            tensor = new_tensor(constant(array), type_of(array), _dense(name, array, strides))
            self._first[name] = _moved(tensor, self._place(tensor, device))
        tensor = alias(self._first[name], VersionCounter())
        if (requires_grad or parameter) and not tensor._type.inexact:
            raise ValueError(f"tensor {name!r} of {tensor._type.dtype} cannot require gradients")
        if parameter is not None:
            return Parameter(tensor, parameter)
        tensor._requires_grad = requires_grad
        return tensor

    def _place(self, tensor: Tensor, location: str) -> "devices.device":
        """Where a tensor goes that was at a location."""
        mapped = self._map_location
        if callable(mapped):
            return devices.device(location if mapped(tensor.untyped_storage(), location) is None else "cpu")
        if isinstance(mapped, dict):
            mapped = mapped.get(location)
        return devices.device(location if mapped is None else mapped)

    def check_complete(self) -> None:
        """Every array must have a place in the structure."""
        for name in self._arrays:
            if name not in self._first:
                raise ValueError(f"tensor {name!r} has no place in it")


#: what may be said of a tensor besides its name and handle
_DETAILS = {"complex": bool, "strides": list, "device": str, "parameter": bool, "requires_grad": bool}


def _checked(name: str, details: dict[str, Any]) -> dict[str, Any]:
    for detail, value in details.items():
        if type(value) is not _DETAILS.get(detail):
            raise ValueError(f"it says of tensor {name!r} something unknown, {str(detail)[:60]!r}")
    return details


def _dense(name: str, array: np.ndarray, strides: Sequence[int] | None) -> tuple[int, ...] | None:
    """Strides that are not the row-major ones, if they arrange the elements without gaps."""
    if strides is None:
        return None
    if len(strides) != array.ndim or any(type(stride) is not int or stride < 0 for stride in strides):
        raise ValueError(f"tensor {name!r} has strides that are no numbers, or not one for each dimension")
    if not is_dense(array.shape, tuple(strides)):
        raise ValueError(f"tensor {name!r} has strides that do not cover memory once")
    return tuple(strides)


def _complex(name: str, array: np.ndarray) -> np.ndarray:
    """Pairs of float64 as the complex numbers that they stand for."""
    if array.dtype != np.float64 or array.shape[-1:] != (2,):
        raise ValueError(f"tensor {name!r} does not hold pairs of float64")
    return np.ascontiguousarray(array).view(np.complex128)[..., 0]


def _moved(tensor: Tensor, place: "devices.device") -> Tensor:
    if place.type == "cpu":
        return tensor
    try:
        devices.jax_device(place)
    except (AssertionError, RuntimeError) as error:
        raise RuntimeError(
            f"Attempting to deserialize object on a {place.type.upper()} device but torch.{place.type}.is_available() "
            "is False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        ) from error
    return tensor.to(place)
