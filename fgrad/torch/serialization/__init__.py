"""``torch.save`` and ``torch.load``: tensors and nested state in safetensors files; loading runs nothing from the file.

NOTE [Tensors in files]: A file's arrays have the tensors' names: of a flat dictionary its keys, so that other readers
of safetensors find what they expect; in nested values the keys on the way, joined by points.  The structure around them
is JSON in the file's metadata; see NOTE [Structures in files].  ``complex128``, which the format lacks, is stored as
pairs of float64.  The order of dimensions in memory (``channels_last``) stays; what is a view with gaps loses them.

Tensors over exactly the same elements are stored once and share memory again when loaded, as the tied weights in a
``state_dict`` do; one tensor in two places comes back as one.  Where tensors overlap otherwise, the memory that they
cover together is stored as one flat array, and for each is told where in it its elements lie.
"""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
from attrs import define

from fgrad.mutable.layout.geometry import Geometry, extent, is_dense
from fgrad.mutable.tensor.storage import Storage, VersionCounter
from fgrad.mutable.tensor.tensor import Tensor, alias, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.types import devices, dtypes
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.ops.views.splitting import as_strided
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
      ValueError: a container contains itself.
      RuntimeError: two tensors show the same memory as elements of different types.

    >>> import fgrad.torch as torch
    >>> torch.save({'weight': torch.ones(2), 'steps': 3}, 'state.safetensors')
    >>> torch.load('state.safetensors')
    {'weight': tensor([1., 1.]), 'steps': 3}

    Source: `torch.save <https://docs.pytorch.org/docs/2.13/generated/torch.save.html>`_; the format is
    `safetensors <https://huggingface.co/docs/safetensors/index#format>`_, not pickle.
    """
    tensors = _Saved()
    code = Encoder(tensors.describe).encode(obj)
    tensors.take()
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


@define
class _Seen:
    """A tensor that is to be saved, and what the structure says of it."""

    tensor: Tensor
    geometry: Geometry
    path: str
    description: dict[str, Any]


class _Saved:
    """The tensors on their way into a file."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: list[_Seen] = []

    def describe(self, value: Any, path: tuple[str, ...]) -> dict[str, Any] | None:
        """What the structure says of a tensor, once all have been ``take``-n; ``None`` if it is none."""
        if not isinstance(value, Tensor):
            return None
        self._seen.append(_Seen(value, value._geometry_of(), ".".join(path) or "tensor", {"tensor": ""}))
        return self._seen[-1].description

    def take(self) -> None:
        """Take the elements of the tensors that were described."""
        storages: dict[Storage, list[_Seen]] = {}
        for seen in self._seen:
            storages.setdefault(seen.tensor._storage, []).append(seen)
        groups = {id(seen): group for found in storages.values() for group in _overlapping(found) for seen in group}
        names: dict[int, str] = {}
        handles: dict[str, list[Tensor]] = {}
        for seen in self._seen:
            group = groups[id(seen)]
            alone = all(each.geometry == seen.geometry for each in group)
            start, end = _hull(group)
            if id(group) not in names:
                whole = seen.tensor if alone else as_strided(seen.tensor.detach(), (end - start,), (1,), start)
                names[id(group)] = self._add(concrete(whole._value()), seen.path)
            name = names[id(group)]
            known = handles.setdefault(name, [])
            number = next((i for i, handle in enumerate(known) if handle is seen.tensor), len(known))
            if number == len(known):
                known.append(seen.tensor)
            seen.description.update(_details(seen, name, number, None if alone else start))

    def _add(self, array: np.ndarray, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.arrays or name == METADATA:
            count += 1
            name = f"{wanted}_{count}"
        if array.dtype == np.complex128:
            array = np.stack([np.real(array), np.imag(array)], axis=-1)
        self.arrays[name] = array
        return name


def _overlapping(seen: Sequence[_Seen]) -> list[list[_Seen]]:
    """The tensors of one storage, those together that share memory."""
    groups: list[list[_Seen]] = []
    reached = -1
    for each in sorted(seen, key=lambda each: _span(each.geometry)):
        start, end = _span(each.geometry)
        if not groups or (start >= reached and each.geometry != groups[-1][0].geometry):
            groups.append([])
        groups[-1].append(each)
        reached = max(reached, end)
    return [part for group in groups for part in _together(group)]


def _together(group: list[_Seen]) -> list[list[_Seen]]:
    """A group as it is, if its tensors show one memory alike."""
    first = group[0].geometry
    if all(each.geometry == first for each in group):
        return [group]
    if any(each.geometry.dtype is not first.dtype for each in group):
        raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
    if any(each.geometry.conj or each.geometry.neg for each in group):
        one, two = sorted(each.path for each in group)[:2]
        raise ValueError(
            f"torch.save: the tensors {one!r} and {two!r} share memory, which one shows conjugate or negative.\n"
            "Way out: save a clone() of it."
        )
    return [group]


def _hull(group: Sequence[_Seen]) -> tuple[int, int]:
    """From which to before which element of their storage tensors reach."""
    spans = [_span(each.geometry) for each in group]
    size = group[0].geometry.dtype.itemsize
    return min(start for start, _ in spans) // size, max(end for _, end in spans) // size


def _details(seen: _Seen, name: str, number: int, start: int | None) -> dict[str, Any]:
    """The description of a tensor; ``start`` is where the array begins of which it is a part."""
    tensor, geometry = seen.tensor, seen.geometry
    found: dict[str, Any] = {"tensor": name}
    if number:
        found["handle"] = number
    if tensor._type.dtype is dtypes.complex128:
        found["complex"] = True
    if start is not None:
        found["part"] = [list(geometry.sizes), list(geometry.strides), geometry.offset - start]
    elif not geometry.contiguous and is_dense(geometry.sizes, geometry.strides):
        found["strides"] = list(geometry.strides)
    if tensor.device.type != "cpu":  # type: ignore[attr-defined]
        found["device"] = str(tensor.device)  # type: ignore[attr-defined]
    if isinstance(tensor, Parameter):
        found["parameter"] = tensor.requires_grad
    elif tensor.requires_grad:
        found["requires_grad"] = True
    return found


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
        part: Sequence[Any] | None = None,
        device: str = "cpu",
        parameter: bool | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        if name not in self._first:
            array = _complex(name, self._arrays[name]) if complex else self._arrays[name]
            tensor = new_tensor(constant(array), type_of(array), _dense(name, array, strides))
            self._first[name] = _moved(tensor, self._place(tensor, device))
        whole = self._first[name]
        tensor = alias(whole if part is None else _part(name, whole, part), VersionCounter())
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
_DETAILS = {"complex": bool, "strides": list, "part": list, "device": str, "parameter": bool, "requires_grad": bool}


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


def _part(name: str, whole: Tensor, part: Sequence[Any]) -> Tensor:
    """A view of a flat tensor by its sizes, strides and offset."""
    match part:
        case [list(sizes), list(strides), int(offset)] if len(sizes) == len(strides) and all(
            type(n) is int and n >= 0 for n in (*sizes, *strides, offset)
        ):
            if whole.dim() == 1 and (0 in sizes or extent(tuple(sizes), tuple(strides), offset) <= whole.numel()):
                return as_strided(whole.detach(), sizes, strides, offset)
    raise ValueError(f"tensor {name!r} has a part that does not lie in it")


def _complex(name: str, array: np.ndarray) -> np.ndarray:
    """Pairs of float64 as the complex numbers that they stand for."""
    if array.dtype != np.float64 or array.shape[-1:] != (2,):
        raise ValueError(f"tensor {name!r} does not hold pairs of float64")
    return np.ascontiguousarray(array).view(np.complex128)[..., 0]


def _moved(tensor: Tensor, place: "devices.device") -> Tensor:
    if place.type == "cpu":
        return tensor
    try:
        devices.settled(place)
    except (AssertionError, RuntimeError) as error:
        raise RuntimeError(
            f"Attempting to deserialize object on a {place.type.upper()} device but torch.{place.type}.is_available() "
            "is False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        ) from error
    return tensor.to(place)
