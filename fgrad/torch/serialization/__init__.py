"""``torch.save`` and ``torch.load``: PyTorch's file format; loading runs nothing from the file.

NOTE [PyTorch's files]: A file is a zip archive.  One record is a pickle of the object, in which a tensor is a call of a
PyTorch function with sizes, strides, and the persistent id of a storage; the other records are the storages.  So
tensors that share memory share it again.  Classes have PyTorch's names in the pickle, and each side finds its own.
Files from before PyTorch 1.6 are several pickles followed by the storages.

By default only data is read: see NOTE [Only data] in ``allowed``.
"""

import contextlib
import io
import os
import pickle
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from fgrad.mutable.types import devices
from fgrad.torch.pickle_memory import MAP_LOCATION as MAP_LOCATION, bytes_of
from fgrad.torch.serialization import legacy, restricted, unpickler
from fgrad.torch.serialization.allowed import (
    add_safe_globals as add_safe_globals,
    clear_safe_globals as clear_safe_globals,
    get_safe_globals as get_safe_globals,
    safe_globals as safe_globals,
)
from fgrad.torch.serialization.archive import MAGIC, Reader, Writer
from fgrad.torch.serialization.layouts import _get_layout as _get_layout
from fgrad.torch.serialization.mentions import Mentions
from fgrad.torch.serialization.pickler import Pickler
from fgrad.torch.serialization.safetensors import TensorFileError as TensorFileError
from fgrad.torch.serialization.tensor_files import load_tensors
from fgrad.torch.storage import normalize_storage_type as normalize_storage_type

__all__ = ["FILE_LIKE", "MAP_LOCATION", "TensorFileError", "add_safe_globals", "clear_safe_globals"]
__all__ += ["get_safe_globals", "load", "safe_globals", "save"]

FILE_LIKE = str | os.PathLike[str] | IO[bytes]
DEFAULT_PROTOCOL = 2

_UNSAFE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)


def save(
    obj: Any,
    f: FILE_LIKE,
    pickle_module: ModuleType = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object to a file that PyTorch can also load: a tensor, a ``state_dict``, a module, an optimiser, ...

    Arguments:
      obj: anything that can be pickled.  ``requires_grad`` of tensors is kept, their history is not.
      f: a path, or a file open for writing bytes.
      pickle_module: Python's ``pickle``; no other is used.
      pickle_protocol: its protocol; only the default one can be loaded with ``weights_only``.

    Raises:
      RuntimeError: two tensors view the same memory with different dtypes.
      PicklingError: a part cannot be pickled, or is unknown to PyTorch.

    >>> import fgrad.torch as torch
    >>> torch.save({'weight': torch.ones(2), 'steps': 3}, 'state.pt')
    >>> torch.load('state.pt')
    {'weight': tensor([1., 1.]), 'steps': 3}

    Source: `torch.save <https://docs.pytorch.org/docs/2.13/generated/torch.save.html>`_.
    """
    if pickle_module is not pickle:
        raise NotImplementedError(f"torch.save: objects are pickled by pickle, not by {pickle_module.__name__}.")
    if isinstance(f, str | os.PathLike):
        if not Path(f).parent.is_dir():
            raise RuntimeError(f"Parent directory {Path(f).parent} does not exist.")
        part = f"{os.fspath(f)}.part"  # so that no reader sees a partial file
        try:
            with open(part, "wb") as stream:
                save(obj, stream, pickle_module, pickle_protocol, _use_new_zipfile_serialization)
            os.replace(part, f)
        finally:
            Path(part).unlink(missing_ok=True)
        return
    if not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if not _use_new_zipfile_serialization:
        legacy.save(obj, f, pickle_protocol)
        return
    content = io.BytesIO()
    pickler = Pickler(content, pickle_protocol)
    pickler.dump(obj)
    with Writer(f, _root(f)) as archive:
        archive.write("data.pkl", content.getvalue())
        archive.frame()
        for number, cell in enumerate(pickler.cells):
            archive.write(f"data/{number}", bytes_of(cell))


def _root(f: Any) -> str:
    """The folder of an archive's records, named after the file."""
    name = getattr(f, "name", None)
    return (Path(name.removesuffix(".part")).stem if isinstance(name, str) else "") or "archive"


def load(
    f: FILE_LIKE,
    map_location: MAP_LOCATION = None,
    pickle_module: ModuleType | None = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load a file that `save`, here or in PyTorch, wrote; or the tensors of a safetensors file, by name.

    Arguments:
      f: a path, or a file open for reading bytes.  It is read to the end; in the old format, to where the next begins.
      map_location: a device for all tensors; or a mapping of devices; or a function of a storage, which is on the CPU,
        and of its location, which returns a storage on the device, or None for that location.  By default each tensor
        goes where it was.
      pickle_module: Python's ``pickle``; no other is used.
      weights_only: False to unpickle without restriction, which can run anything: only for files that you trust.  By
        default, only tensors, containers, numbers, texts, and the classes of `add_safe_globals`.
      mmap: accepted for a path, as in PyTorch; the whole file is read.
      pickle_load_args: for ``pickle.Unpickler``, such as ``encoding``.

    Raises:
      UnpicklingError: the file contains more than data, or its pickle is damaged.
      RuntimeError: the file is damaged, or a tensor was on a device that is not available.

    >>> import fgrad.torch as torch, io
    >>> file = io.BytesIO()
    >>> torch.save([torch.arange(3), 'text'], file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    [tensor([0, 1, 2]), 'text']

    Source: `torch.load <https://docs.pytorch.org/docs/2.13/generated/torch.load.html>`_.
    """
    if not (map_location is None or isinstance(map_location, dict) or callable(map_location)):
        map_location = devices.argument(map_location, "load", "map_location")
    only_data = weights_only is None or bool(weights_only)
    if pickle_module is not None and only_data:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_module not in (None, pickle):
        raise NotImplementedError(f"torch.load: objects are unpickled by pickle, not by {pickle_module.__name__}.")
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not isinstance(f, str | os.PathLike) and not hasattr(f, "read"):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    with open(f, "rb") if isinstance(f, str | os.PathLike) else contextlib.nullcontext(f) as stream:
        content = stream.read()
    if safetensors_header(content):
        return load_tensors(content, map_location)
    kind = restricted.Unpickler if only_data else unpickler.Unpickler
    try:
        if content.startswith(MAGIC):
            return _load_archive(content, kind, map_location, pickle_load_args)
        value, size = legacy.load(content, kind, map_location, pickle_load_args)
    except pickle.UnpicklingError as error:
        if only_data:
            raise pickle.UnpicklingError(f"Weights only load failed. {_UNSAFE}\n{error}") from None
        raise
    if not isinstance(f, str | os.PathLike) and size < len(content):
        f.seek(size - len(content), os.SEEK_CUR)  # what follows is the next file's
    return value


def _load_from_bytes(content: bytes) -> Any:
    """A storage in a pickle that Python's ``pickle`` wrote of PyTorch's tensors; such a pickle can run anything."""
    return load(io.BytesIO(content), weights_only=False)


def safetensors_header(content: bytes) -> bool:
    """Whether a file begins like safetensors: with the length of a JSON header."""
    return content[8:9] == b"{" and not content.startswith(MAGIC)


def _load_archive(content: bytes, kind: Any, map_location: Any, named: dict[str, Any]) -> Any:
    archive = Reader(content)
    if "constants.pkl" in archive or "data.pkl" not in archive:
        raise RuntimeError(
            "The file is a TorchScript archive, or one that torch.save has not written. TorchScript's programs cannot "
            "be run here. Way out: in PyTorch, torch.save(torch.jit.load(path).state_dict(), other)"
        )
    mentions = Mentions(archive, map_location)
    return kind(io.BytesIO(archive.read("data.pkl")), mentions.storage, **named).load()
