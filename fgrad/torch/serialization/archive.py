"""The zip archives in which ``torch.save`` keeps a pickle and the memory of tensors, each storage a record.

Records are never compressed.  The file's size bounds what is read: a file whose records would exceed it is refused
before anything is read.
"""

import io
import sys
import uuid
import zipfile
import zlib
from typing import IO, cast

_VERSION = b"3\n"
#: the alignment of the elements of a record in the file
_ALIGNMENT = 64
_LOCAL_HEADER_BYTES = 30
_EXTRA_HEADER_BYTES = 4
#: the id of PyTorch's padding field in a header
_PADDING = b"FB"
MAGIC = b"PK\x03\x04"


def _error(reason: str) -> RuntimeError:
    return RuntimeError(f"PytorchStreamReader failed reading zip archive: {reason}")


class Reader:
    """The records of an archive by name.

    Raises:
      RuntimeError: it is damaged, or records are compressed or overlap.
    """

    def __init__(self, content: bytes):
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise _error(f"failed finding central directory ({error})") from error
        infos = [each for each in self._archive.infolist() if not each.is_dir()]
        if not infos:
            raise _error("it has no records")
        for each in infos:
            if each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1:
                raise _error(
                    f"record {each.filename[:60]!r} is compressed or encrypted. torch.save never does that, and what "
                    "is compressed may have any size. Way out: unpack the file, and pack it again with zip -0."
                )
        if sum(each.file_size for each in infos) > len(content):
            raise _error("its records are longer than the file")
        self._root = infos[0].filename.partition("/")[0]
        self._infos = {each.filename.removeprefix(self._root + "/"): each for each in infos}
        if len(self._infos) < len(infos):
            raise _error("two records have one name")

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def read(self, name: str) -> bytes:
        """The bytes of a record."""
        info = self._infos.get(name)
        if info is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        try:
            return self._archive.read(info)
        except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, NotImplementedError) as error:
            raise _error(f"record {name!r} is damaged ({error})") from error

    def byte_order(self) -> str:
        """The byte order of the elements."""
        order = self.read("byteorder") if "byteorder" in self else b"little"
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order[:20]!r}")
        return order.decode()


class Writer:
    """Writes an archive; a context manager."""

    def __init__(self, stream: IO[bytes], root: str):
        self._archive = zipfile.ZipFile(cast(IO[bytes], _CountingStream(stream)), "w", zipfile.ZIP_STORED)
        self._root = root

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.write("version", _VERSION)
            self.write(".data/serialization_id", str(uuid.uuid4().int)[:40].encode())
            self._archive.close()
        else:
            # an unfinished file is left as it is
            self._archive.fp = None

    def write(self, name: str, content: bytes) -> None:
        """Add a record."""
        info = zipfile.ZipInfo(f"{self._root}/{name}")
        header = _LOCAL_HEADER_BYTES + len(info.filename.encode()) + _EXTRA_HEADER_BYTES
        gap = -(self._archive.start_dir + header) % _ALIGNMENT
        info.extra = _PADDING + gap.to_bytes(2, "little") + b"Z" * gap
        self._archive.writestr(info, content)

    def frame(self) -> None:
        """Write the records of byte order and alignment."""
        self.write(".format_version", b"1")
        self.write(".storage_alignment", str(_ALIGNMENT).encode())
        self.write("byteorder", sys.byteorder.encode())


class _CountingStream:
    """A stream that counts what is written, and cannot seek."""

    def __init__(self, stream: IO[bytes]):
        self._stream = stream
        self._written = 0

    def write(self, content: bytes) -> int:
        self._stream.write(content)
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        if hasattr(self._stream, "flush"):
            self._stream.flush()
