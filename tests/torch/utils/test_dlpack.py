"""``torch.utils.dlpack``: capsules made here are read by PyTorch and NumPy, and the other way round."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
import fgrad.torch.utils.dlpack as dlpack
from tests.torch.mirror import first_part

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "complex64"])
def test_there_and_back(dtype: str):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    there = torch.from_dlpack(dlpack.to_dlpack(ours.tensor(array)))
    np.testing.assert_array_equal(there.numpy(), array)
    back = dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.tensor(array)))
    assert str(back.dtype) == str(there.dtype)
    np.testing.assert_array_equal(back.numpy(), array)


def test_capsules_of_tensors():
    assert ours.from_dlpack(ours.to_dlpack(ours.tensor([1.0, 2.0]))).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "export",
    [
        lambda t: t.from_dlpack(t.ones(2, requires_grad=True)),
        lambda t: t.from_dlpack(t.ones(2, requires_grad=True) * 2),
        lambda t: t.from_dlpack(t.ones(2, dtype=t.complex64).conj()),
        lambda t: t.ones(2, dtype=t.complex64).conj().__dlpack__(),
        lambda t: t.from_dlpack(t.ones(2, device="meta")),
        lambda t: t.ones(2).__dlpack__(stream=1),
        lambda t: t.ones(2).__dlpack__(stream=object()),
    ],
)
def test_what_is_not_exported(export: Callable[[Any], Any]):
    with pytest.raises((BufferError, ValueError, AssertionError, TypeError)) as theirs:
        export(torch)
    with pytest.raises(theirs.type) as found:
        export(ours)
    assert first_part(str(found.value)) == first_part(str(theirs.value))


def test_capsules_share_memory():
    for t in (ours, torch):
        tensor = t.zeros(3)
        other = t.from_dlpack(t.to_dlpack(tensor))
        other[0] = 5.0
        tensor[1] = 7.0
        assert tensor.tolist() == other.tolist() == [5.0, 7.0, 0.0]


def test_that_require_grad():
    for t in (ours, torch):
        assert not t.from_dlpack(t.to_dlpack(t.ones(2, requires_grad=True))).requires_grad
