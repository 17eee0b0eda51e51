"""``torch.utils.dlpack``: capsules made here are read by PyTorch and NumPy, and the other way round."""

import numpy as np
import pytest

import fgrad.torch as ours
import fgrad.torch.utils.dlpack as dlpack

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


def test_that_require_grad():
    for t in (ours, torch):
        assert not t.from_dlpack(t.to_dlpack(t.ones(2, requires_grad=True))).requires_grad
