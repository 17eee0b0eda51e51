"""Memory that others look at: addresses, arrays of NumPy's that share it, and sizes that no memory holds."""

import copy
import ctypes
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fgrad.torch as torch

DTYPES = ["float32", "float16", "bfloat16", "int64", "bool", "complex64", "float64", "uint8"]


def at(tensor: Any) -> bytes:
    """The bytes at the address of a tensor that lies in order."""
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


def bytes_of(tensor: Any) -> bytes:
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_address_holds_the_elements_also_after_writes(dtype: str):
    x = torch.tensor([[1, 0, 2], [0, 3, 1]]).to(getattr(torch, dtype))
    place = x.data_ptr()
    assert place % 64 == 0 and at(x) == bytes_of(x)
    x[0, 1] = 1
    x.t()[2, 1] = 0
    x.data.mul_(x)
    assert x.data_ptr() == place
    assert ctypes.string_at(place, x.nbytes) == bytes_of(x)
    assert x[1].data_ptr() == place + 3 * x.itemsize and at(x[1]) == bytes_of(x[1])
    assert x.t().data_ptr() == x.detach().data_ptr() == x.untyped_storage().data_ptr() == place


def test_addresses_of_what_was_moved():
    x = torch.nn.Parameter(torch.ones(3))
    old = x.data_ptr()
    x.data = torch.zeros(4)
    assert x.data_ptr() != old and at(x) == bytes_of(x)
    y = torch.arange(5)
    z = torch.ones(1).long().set_(y)
    assert z.data_ptr() == y.data_ptr()
    z.resize_(1000)[0] = 7
    assert at(z[:5]) == bytes_of(z[:5])
    assert at(torch.tensor(3.0)) == bytes_of(torch.tensor(3.0))
    assert torch.ones(3)[3:].data_ptr() == torch.empty(0).data_ptr() == torch.ones(3, device="meta").data_ptr() == 0


def test_there_is_no_address_inside_transforms():
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        torch.func.vmap(lambda x: x * x.data_ptr())(torch.ones(3))


def test_arrays_of_tensors_share_memory():
    x = torch.ones(2, 3)
    array, part = x.numpy(), x.t()[1].numpy()
    x.add_(1)
    part[0] = 7
    assert array.tolist() == x.tolist() == [[2, 7, 2], [2, 2, 2]]
    assert array.ctypes.data == x.data_ptr()
    del array
    part[1] = 9
    del part
    assert x.tolist() == [[2, 7, 2], [2, 9, 2]]
    assert np.array(x, copy=True).base is None


@pytest.mark.parametrize("make", [
    lambda: np.arange(6.0), lambda: np.arange(6.0).reshape(2, 3).T, lambda: np.arange(12.0)[1::2], lambda: np.array(3.0)
])  # fmt: skip
def test_tensors_of_arrays_share_memory(make: Any):
    array = make()
    x = torch.from_numpy(array)
    assert x.data_ptr() == array.ctypes.data
    array[...] += 1
    assert x.tolist() == array.tolist()
    x.mul_(2)
    assert array.tolist() == (2 * (make() + 1)).tolist()


def test_a_large_array_and_one_that_is_gone():
    array = np.ones(100_000, np.float32)
    x = torch.from_numpy(array)
    array[70_000] = 5
    del array
    assert x[70_000] == 5 and (x + 1).sum() == 200_004


def test_buffers_and_capsules_share_memory():
    buffer = bytearray(8)
    x = torch.frombuffer(memoryview(buffer), dtype=torch.int32)
    buffer[0] = 1
    x[1] = 2
    assert x.tolist() == [1, 2] and buffer[4] == 2
    y = torch.ones(2)
    array = np.from_dlpack(y)
    y.add_(1)
    assert array.tolist() == [2, 2]


def test_what_is_no_tensor_and_no_capsule():
    with pytest.raises(TypeError, match="argument 'data' .position 1. must be Tensor, not NoneType"):
        torch.to_dlpack(None)
    capsule = torch.to_dlpack(torch.ones(2))
    assert torch.from_dlpack(capsule).tolist() == [1, 1]
    for what in (capsule, None):
        with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
            torch.from_dlpack(what)


def test_what_may_not_be_written_is_copied():
    array = np.ones(2)
    array.flags.writeable = False
    torch.from_numpy(array).add_(1)
    assert array.tolist() == [1, 1]


def test_backward_reads_what_was_written_through_an_array():
    x = torch.ones(3, requires_grad=True)
    y = (x * x).sum()
    x.detach().numpy()[0] = 5
    y.backward()
    assert x.grad.tolist() == [10, 2, 2]


@pytest.mark.parametrize(
    "make",
    [lambda: torch.ones(2, requires_grad=True), lambda: torch.ones(3)[1:], lambda: torch.nn.Parameter(torch.ones(2))],
)
def test_a_shallow_copy_shares_memory_and_counts_its_own_versions(make: Any):
    x = make()
    y = copy.copy(x)
    with torch.no_grad():
        y[0] = 5
    assert y is not x and type(y) is type(x) and y.requires_grad == x.requires_grad
    assert x.tolist() == y.tolist() == [5, 1] and x._version == 0
    z = pickle.loads(pickle.dumps(x))
    z.detach()[0] = 7
    assert x.tolist() == [5, 1]


def test_a_deep_copy_is_an_inference_tensor_where_it_is_made_in_inference_mode():
    with torch.inference_mode():
        x = torch.ones(2)
        assert copy.deepcopy(x).is_inference()
    y = copy.deepcopy(x)
    assert (y.is_inference(), y._version) == (False, 1)
    y.add_(1)
    assert (x.tolist(), y.tolist()) == ([1, 1], [2, 2])


def test_no_parameter_that_is_trained_has_the_memory_of_an_inference_tensor():
    with torch.inference_mode():
        x = torch.ones(2)
        assert torch.nn.Parameter(x).is_inference()
    assert torch.nn.Parameter(x, False).is_inference()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        torch.nn.Parameter(x)


def test_a_shallow_copy_is_an_inference_tensor_where_it_is_made_in_inference_mode():
    with torch.inference_mode():
        x = torch.ones(2)
        assert copy.copy(x).is_inference()
    y = copy.copy(x)
    assert not y.is_inference() and x.is_inference()
    (y * torch.ones(2, requires_grad=True)).sum().backward()


def test_lent_memory_keeps_its_size():
    x = torch.ones(3)
    x.numpy()
    assert not x.untyped_storage().resizable()
    with pytest.raises(RuntimeError, match="storage that is not resizable"):
        x.resize_(100)


H, B = 2**62, 2**50
OVERFLOWS = {
    "resize_": (lambda: torch.ones(3).resize_(2**40, 2**40), "numel: integer multiplication overflow"),
    "resize_strides": (lambda: torch.ones(4).resize_([0, 4, 2**61]), "Stride calculation overflowed"),
    "empty_strides": (lambda: torch.empty([0, 4, 2**61]), "Stride calculation overflowed"),
    "resize_bytes": (lambda: torch.empty(0).resize_(H), "Storage size calculation overflowed with sizes="),
    "resize_room": (lambda: torch.empty(0).resize_(B), "tried to allocate 4503599627370496 bytes"),
    "empty": (lambda: torch.empty(H, 4), r"overflowed with sizes=\[4611686018427387904, 4\]"),
    "zeros": (lambda: torch.zeros(B), "tried to allocate 4503599627370496 bytes"),
    "randn": (lambda: torch.randn(B), "tried to allocate 4503599627370496 bytes"),
    "randperm": (lambda: torch.randperm(B), "tried to allocate 9007199254740992 bytes"),
    "eye": (lambda: torch.eye(2**40), "numel: integer multiplication overflow"),
    "arange": (lambda: torch.arange(2**60), "Storage size calculation overflowed with sizes="),
    "linspace": (lambda: torch.linspace(0, 1, 2**60), "tried to allocate 4611686018427387904 bytes"),
    "expand": (lambda: torch.ones(1).expand(H, 4), "numel: integer multiplication overflow"),
    "sum": (lambda: torch.ones(1).expand(B) + 1, "tried to allocate 4503599627370496 bytes"),
    "repeat": (lambda: torch.ones(3).repeat(B), "tried to allocate 13510798882111488 bytes"),
    "strided": (lambda: torch.empty_strided((2,), (H,)), r"overflowed with sizes=\[2\] and strides="),
    "storage": (lambda: torch.UntypedStorage(H), "tried to allocate 4611686018427387904 bytes"),
    "bincount": (lambda: torch.bincount(torch.tensor([B])), "tried to allocate 9007199254741000 bytes"),
    "histc": (lambda: torch.histc(torch.ones(3), bins=B), "tried to allocate 4503599627370500 bytes"),
    "tensor_split": (lambda: torch.ones(2).tensor_split(H), "larger than the memory"),
    "set_": (lambda: torch.ones(2).set_(torch.ones(2), 0, (-1,), (1,)), "numel: integer multiplication overflow"),
    "set_ strides": (lambda: torch.ones(2).set_(torch.ones(2), 0, (2,), (-1,)), r"got strides: \[-1\]"),
    "set_ offset": (lambda: torch.ones(2).set_(torch.ones(2), -1, (2,), (1,)), "invalid storage offset -1"),
    "negative": (lambda: torch.UntypedStorage(-1), "negative number: 18446744073709551615"),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_sizes_that_no_memory_holds(name: str):
    call, message = OVERFLOWS[name]
    with pytest.raises(RuntimeError, match=message):
        call()


def test_sizes_that_take_no_memory():
    assert torch.ones(1).expand(B).shape == torch.empty(B, device="meta").shape == (B,)
    assert torch.ones(3).resize_(H, 0).shape == (H, 0)


SAFETENSORS = """
import sys
import fgrad.torch as torch
sys.modules["torch"] = torch
import safetensors.torch as st
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
with torch.no_grad():
    model[0].bias.fill_(3)
given = {"half": torch.ones(2, dtype=torch.bfloat16), "flag": torch.tensor(True), "none": torch.zeros(0, 3)}
def seen(state):
    return {name: (x.dtype, x.tolist()) for name, x in state.items()}
for state in (dict(model.state_dict()), given):
    st.save_file(state, sys.argv[1])
    for found in (st.load_file(sys.argv[1]), st.load(st.save(state))):
        assert seen(found) == seen(state)
st.save_model(model, sys.argv[1])
other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
st.load_model(other, sys.argv[1])
assert other[0].bias.tolist() == [3, 3, 3, 3]
"""


def test_safetensors_reads_and_writes_these_tensors(tmp_path: Any):
    pytest.importorskip("safetensors")
    found = subprocess.run(
        [sys.executable, "-c", SAFETENSORS, str(tmp_path / "x.safetensors")], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


def test_a_storage_over_a_file(tmp_path: Any):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    assert torch.UntypedStorage.from_file(path, nbytes=8).tolist() == list(range(8))
    torch.UntypedStorage.from_file(path, True, 8)[0] = 9
    assert path.read_bytes()[0] == 9
    with pytest.raises(RuntimeError, match="unable to open file"):
        torch.UntypedStorage.from_file(tmp_path / "none")


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("source", [np.zeros(2, np.float32), bytearray(8), torch.zeros(2)])
def test_asarray_shares_the_memory_unless_asked_to_copy(source, copy):
    torch.asarray(source, copy=copy).fill_(1.0)
    assert torch.asarray(source).tolist() == [0.0 if copy else 1.0] * 2
    torch.asarray(source).fill_(0.0)


@pytest.mark.parametrize("make", ["tensor", "as_tensor", "Tensor"])
@pytest.mark.parametrize("dtype", ["float32", "int16", None])
def test_a_tensor_of_a_storage_reads_its_bytes_and_shares_them(make: str, dtype: str | None):
    def play(t: Any) -> Any:
        x = t.tensor([1.0, 2.0, 3.0])
        named = {} if make == "Tensor" or dtype is None else {"dtype": getattr(t, dtype)}
        seen = getattr(t, make)(x.untyped_storage(), **named)
        before = seen.tolist()
        return before, str(seen.dtype).split(".")[-1], seen.fill_(1).tolist(), x.tolist()

    assert play(torch) == play(pytest.importorskip("torch"))
