"""Where PyTorch is missing: the checksums of what it gave.  With PyTorch, ``test_distributions.py`` compares all of it.

``python -m tests.torch.random.test_recorded`` records them anew, from PyTorch.
"""

import json
import pathlib
import zlib
from typing import Any

import numpy as np
import pytest

from fgrad.torch.random.generator import Generator
from tests.torch.random.draws import DRAWS, Draw, numpy_dtype

RECORDED = pathlib.Path(__file__).with_name("recorded.json")
SIZE = 33


def _cases() -> dict[str, tuple[Draw, str]]:
    """Each draw in its first type and its last; the values of float64 depend on the C library in their last bit."""
    return {
        f"{draw.name} {name}": (draw, name)
        for draw in DRAWS
        for name in {draw.dtypes[0], draw.dtypes[-1]} - {"float64", "complex128"}
        if draw.largest >= SIZE
    }


def _checksum(drawn: np.ndarray) -> int:
    # what is not a number may have any sign
    return zlib.crc32(np.where(drawn == drawn, drawn, drawn.dtype.type(0)).tobytes())


def test_recorded():
    checksums = {
        case: _checksum(draw.ours(SIZE, numpy_dtype(name), Generator().manual_seed(0)))
        for case, (draw, name) in _cases().items()
    }
    assert checksums == json.loads(RECORDED.read_text())


def record(torch: Any) -> None:
    checksums = {}
    for case, (draw, name) in sorted(_cases().items()):
        torch.manual_seed(0)
        drawn = draw.theirs(torch, SIZE, getattr(torch, name))
        bits = drawn.view(torch.int16) if drawn.dtype is torch.bfloat16 else drawn
        checksums[case] = _checksum(bits.numpy().view(numpy_dtype(name)))
    RECORDED.write_text(json.dumps(checksums, indent=1) + "\n")


if __name__ == "__main__":
    record(pytest.importorskip("torch"))
