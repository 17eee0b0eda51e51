"""Saving and loading: tensors, modules and optimisers, in PyTorch's own files, which each side reads of the other."""

import io
import json
import pickle
import re
from collections import Counter, OrderedDict
from typing import Any

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.types import dtypes
from fgrad.torch.pickle_names import find, public_name
from fgrad.torch.serialization import TensorFileError
from fgrad.torch.serialization.archive import Reader, Writer
from fgrad.torch.serialization.unpickler import Unpickler
from tests.torch.serialization.former import dump

oracle: Any = pytest.importorskip("torch")

HELD = [each.name for each in dtypes.ALL if each is not dtypes.complex32]
#: those that PyTorch's older files can have when only data are loaded
FORMER = [name for name in HELD if name not in ("uint16", "uint32", "uint64")]
SIDES = [(torch, oracle), (oracle, torch), (torch, torch)]
sides = pytest.mark.parametrize(("writer", "reader"), SIDES, ids=["to PyTorch", "from PyTorch", "and back"])
formats = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])


def saved(writer, obj, **named):
    stream = io.BytesIO()
    writer.save(obj, stream, **named)
    return stream.getvalue()


def through(writer, reader, obj, zipped=True, **named):
    return reader.load(io.BytesIO(saved(writer, obj, _use_new_zipfile_serialization=zipped)), **named)


def load(content, **named):
    return torch.load(io.BytesIO(content), **named)


@sides
@formats
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 2)])
def test_every_dtype_and_shape(writer, reader, zipped, shape):
    for name in HELD if zipped else FORMER:
        tensor = writer.arange(int(np.prod(shape))).reshape(shape).to(getattr(writer, name))
        if tensor.is_complex():
            tensor = tensor * (1 - 2j)
        found = through(writer, reader, tensor, zipped)
        assert type(found) is reader.Tensor and str(found.dtype) == str(tensor.dtype)
        assert found.shape == shape and found.tolist() == tensor.tolist()


@sides
@formats
def test_layouts_and_shared_memory_stay(writer, reader, zipped):
    base = writer.arange(24.0).reshape(2, 3, 4)
    views = [base, base.transpose(0, 2), base[:, 1:, ::2], base.diagonal(), base[0, 0].expand(3, 4), base.detach()]
    found = through(writer, reader, views, zipped)
    for one, other in zip(views, found, strict=True):
        assert (one.tolist(), one.stride(), one.storage_offset()) == (
            other.tolist(),
            other.stride(),
            other.storage_offset(),
        )
        assert other._version == 1
    found[0][0, 1, 2] = -1.0
    assert found[2][0, 0, 1] == -1.0 and found[3].tolist() == found[0].diagonal().tolist()
    assert len({each.untyped_storage()._cdata for each in found}) == 1


@sides
@formats
def test_conjugate_and_negative_views(writer, reader, zipped):
    x = writer.tensor([1j, 2.0])
    found = through(writer, reader, x.conj(), zipped)
    assert found.is_conj() and found.tolist() == [-1j, 2.0]
    found = through(writer, reader, x.conj().imag, zipped)
    assert found.is_neg() and found.tolist() == [-1.0, 0.0]


@sides
@formats
def test_containers_and_what_describes_tensors(writer, reader, zipped):
    state = {
        "model": OrderedDict({"0.weight": writer.ones(1, 2), "0.bias": writer.tensor([0.5])}),
        "optimizer": {"state": {0: {"step": writer.tensor(3.0), "seen": (1, None, "text")}}, "groups": [{"lr": 0.1}]},
        "numbers": [1 - 2j, float("inf"), 2**70, -(2**40), True, b"\x00\xff", {3, "a"}, bytearray(b"ab")],
        "about": [writer.float64, writer.device("cpu"), writer.Size([1, 2]), writer.strided],
        0: Counter("abba"),
    }
    found = through(writer, reader, state, zipped)
    assert list(found) == list(state) and type(found["model"]) is OrderedDict
    assert found["model"]["0.weight"].tolist() == [[1.0, 1.0]] and found["optimizer"]["state"][0]["step"] == 3.0
    assert found["numbers"] == state["numbers"] and found[0] == state[0] and type(found[0]) is Counter
    assert found["about"] == [reader.float64, reader.device("cpu"), reader.Size([1, 2]), reader.strided]
    assert type(found["about"][2]) is reader.Size


@sides
@formats
def test_requires_grad_stays_and_history_does_not(writer, reader, zipped):
    leaf = writer.ones(1, requires_grad=True)
    kept, plain, result = through(writer, reader, [leaf, writer.ones(1), leaf * 2], zipped)
    assert kept.requires_grad and kept.is_leaf and not plain.requires_grad
    assert result.requires_grad and result.is_leaf and result.tolist() == [2.0]


@sides
@formats
def test_parameters_attributes_and_one_tensor_in_two_places(writer, reader, zipped):
    first = writer.nn.Parameter(writer.ones(2))
    second = writer.nn.Parameter(first.detach(), requires_grad=False)
    first.note = "kept"
    third = writer.ones(1)
    third.note = [1]
    found = through(writer, reader, {"a": first, "b": second, "again": first, "c": third}, zipped)
    assert type(found["a"]) is type(found["b"]) is reader.nn.Parameter and found["again"] is found["a"]
    assert found["a"].requires_grad and not found["b"].requires_grad
    assert found["a"].note == "kept" and found["c"].note == [1]
    found["a"].data[0] = 5.0
    assert found["b"].tolist() == [5.0, 1.0]


@sides
def test_meta_tensors(writer, reader):
    found = through(writer, reader, writer.empty(2, 3, device="meta"))
    assert found.is_meta and found.shape == (2, 3)


def test_storages():
    content = oracle.tensor([1, 2], dtype=oracle.uint8)
    assert through(oracle, torch, content.untyped_storage()).tolist() == [1, 2]
    assert through(torch, torch, torch.ones(2).untyped_storage()).nbytes() == 8


def network(side):
    nn = side.nn
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, bias=False),
        nn.BatchNorm2d(2),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 4),
        nn.ModuleDict({"a": nn.Softmax(-1)})["a"],
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.Dropout(0.1),
    ).eval()


@sides
@formats
@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
def test_whole_modules(writer, reader, zipped):
    net = network(writer)
    found = through(writer, reader, net, zipped, weights_only=False)
    assert str(found) == str(net) and [*found.state_dict()] == [*net.state_dict()]
    x = np.linspace(-1, 1, 32, dtype="f4").reshape(2, 1, 4, 4)
    ours, theirs = (side(lib.tensor(x)).detach().numpy() for side, lib in ((net, writer), (found, reader)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@sides
@formats
@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_whole_recurrent_layers(writer, reader, zipped, name):
    layer = getattr(writer.nn, name)(2, 3, num_layers=2, bidirectional=True)
    found = through(writer, reader, layer, zipped, weights_only=False)
    for module, lib in ((layer, writer), (found, reader)):
        with lib.no_grad():
            module.weight_hh_l1.fill_(0.5)
    x = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 2, 2)
    ours, theirs = (side(lib.tensor(x))[0].detach().numpy() for side, lib in ((layer, writer), (found, reader)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@sides
@formats
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS"])
def test_optimisers_continue(writer, reader, zipped, name):
    def step(side, optimizer, w):
        def closure():
            optimizer.zero_grad()
            loss = (w * w * side.arange(1.0, 4.0)).sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    w = writer.nn.Parameter(writer.ones(3))
    optimizer = getattr(writer.optim, name)([w], lr=0.1)
    step(writer, optimizer, w)
    content = {"w": w, "optimizer": optimizer.state_dict()}
    found = through(writer, reader, content, zipped)
    other = getattr(reader.optim, name)([found["w"]], lr=0.3)
    other.load_state_dict(found["optimizer"])
    whole = through(writer, reader, {"w": w, "optimizer": optimizer}, zipped, weights_only=False)
    step(writer, optimizer, w)
    step(reader, other, found["w"])
    assert type(whole["optimizer"]) is getattr(reader.optim, name)
    np.testing.assert_allclose(found["w"].detach().numpy(), w.detach().numpy(), rtol=1e-5)
    if name != "LBFGS":  # of which a copy cannot step in PyTorch either
        step(reader, whole["optimizer"], whole["w"])
        np.testing.assert_allclose(whole["w"].detach().numpy(), w.detach().numpy(), rtol=1e-5)


@sides
def test_schedulers_arrays_and_plain_objects(writer, reader):
    optimizer = writer.optim.SGD([writer.nn.Parameter(writer.ones(1))], lr=1.0)
    scheduler = writer.optim.lr_scheduler.StepLR(optimizer, 1)
    content = {"scheduler": scheduler.state_dict(), "array": np.arange(3), "error": Point(1), "f": writer.relu}
    found = through(writer, reader, content, weights_only=False)
    assert found["scheduler"] == scheduler.state_dict() and found["array"].tolist() == [0, 1, 2]
    assert found["error"].x == 1


class Point:
    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize("space", ["nn", "optim", "optim.lr_scheduler", "distributions"])
def test_classes_have_the_names_of_pytorch(space):
    ours, theirs = torch, oracle
    for part in space.split("."):
        ours, theirs = getattr(ours, part), getattr(theirs, part)
    for name, cls in vars(ours).items():
        other = getattr(theirs, name, None)
        if isinstance(cls, type) and isinstance(other, type) and cls.__module__.startswith("fgrad.torch"):
            assert public_name(cls, cls.__qualname__) == (other.__module__, other.__qualname__)
            assert find(other.__module__, other.__qualname__) is cls


def test_what_pytorch_does_not_know_is_not_saved():
    with pytest.raises(pickle.PicklingError, match="PyTorch knows nothing of the name fgrad"):
        saved(torch, torch.serialization.archive._CountingStream)
    with pytest.raises(pickle.PicklingError, match="call the module once"):
        saved(torch, torch.nn.LazyLinear(2))


def test_one_memory_as_two_types_is_refused():
    base = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view the same data"):
        saved(torch, [base, base.view(torch.int32)])


def test_files_of_machines_with_another_byte_order():
    stream = io.BytesIO()
    with Writer(stream, "archive") as archive:
        content = Reader(saved(oracle, oracle.tensor([1.0, 2.0])))
        archive.write("data.pkl", content.read("data.pkl"))
        archive.write("byteorder", b"big")
        archive.write("data/0", np.array([1.0, 2.0], ">f4").tobytes())
    assert load(stream.getvalue()).tolist() == oracle.load(io.BytesIO(stream.getvalue())).tolist() == [1.0, 2.0]


# ----------------------------------------------------------------------------------------------------------------------
# files


def test_paths_and_files(tmp_path):
    path = tmp_path / "state.pt"
    torch.save(torch.tensor([1.0]), path)
    torch.save(torch.tensor([2.0]), str(path))
    assert torch.load(str(path), weights_only=True) == 2.0 and oracle.load(path, mmap=True) == 2.0
    for library in (torch, oracle):
        with open(path, "rb") as stream, pytest.raises(ValueError, match="must be a file path"):
            library.load(stream, mmap=True)
    assert [each.name for each in tmp_path.iterdir()] == ["state.pt"]
    with open(path, "rb") as stream:
        assert torch.load(stream, map_location="cpu") == 2.0
    with pytest.raises(AttributeError, match="expected 'f' to be string, path"):
        torch.save(1, 3)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'seek'"):
        torch.load(3)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none")
    with pytest.raises(TypeError, match="must be torch.device, not float"):
        torch.load(path, map_location=1.5)


def test_a_missing_folder_is_named(tmp_path):
    for each in (torch, oracle):
        with pytest.raises(RuntimeError, match=rf"^Parent directory {tmp_path}/missing does not exist\.$"):
            each.save(1, tmp_path / "missing" / "file.pt")


def test_streams_that_only_go_forwards():
    class Forwards:
        def __init__(self):
            self.content = b""

        def write(self, content):
            self.content += content
            return len(content)

    stream = Forwards()
    torch.save(torch.ones(2), stream)
    assert load(stream.content).tolist() == oracle.load(io.BytesIO(stream.content)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "mapped", [lambda storage, location: storage, lambda storage, location: None, {"cpu": "cpu"}, {"cuda:0": "cpu"}]
)
def test_functions_and_dictionaries_say_where_tensors_go(mapped):
    assert load(saved(torch, torch.ones(1)), map_location=mapped).tolist() == [1.0]


def test_a_failed_save_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "state"
    torch.save(torch.ones(1), path)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        torch.save([torch.ones(1), lambda: 1], path)
    assert torch.load(path).tolist() == [1.0] and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there(device):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(RuntimeError, match=r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is"):
        load(saved(torch, torch.ones(1)), map_location=device)


# ----------------------------------------------------------------------------------------------------------------------
# safetensors files, and the nested values that were kept in them


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "int64", "bool", "complex64", "uint16"])
def test_safetensors_files(name, tmp_path):
    reference = pytest.importorskip("safetensors.torch")
    theirs = {"a": oracle.tensor([[0, 1], [1, 0]]).to(getattr(oracle, name)), "b": oracle.tensor(1.5)}
    reference.save_file(theirs, tmp_path / "theirs.safetensors")
    found = torch.load(tmp_path / "theirs.safetensors")
    assert found.keys() == theirs.keys()
    for key, other in theirs.items():
        assert str(found[key].dtype) == str(other.dtype) and found[key].tolist() == other.tolist()


def with_structure(value, version=1):
    stream = io.BytesIO()
    text = value if isinstance(value, str) else json.dumps({"version": version, "value": value})
    dump(stream, {"a": np.arange(2.0)[None], "i": np.zeros(1, "i4")}, {"fgrad.torch": text})
    return stream.getvalue()


FLOATS, INTS = {"tensor": "a"}, {"tensor": "i"}


def test_nested_values_in_safetensors_files():
    code = {"dict": [["x", FLOATS], ["y", [INTS, {"tensor": "a", "handle": 1, "parameter": True}]]]}
    found = load(with_structure(code))
    assert found["x"].tolist() == [[0.0, 1.0]] and found["y"][0].tolist() == [0]
    assert type(found["y"][1]) is torch.nn.Parameter and found["y"][1].requires_grad
    found["x"][0, 0] = 5.0
    assert found["y"][1].tolist() == [[5.0, 1.0]]
    part = load(with_structure([{**FLOATS, "complex": True}, INTS, {**FLOATS, "handle": 2, "complex": True}]))
    assert part[0].tolist() == [1j]


WRONG = {
    "no JSON": "{",
    "nested too deep": "[" * 100000,
    "no document": "[1]",
    "a missing tensor": [FLOATS],
    "an unknown tensor": [FLOATS, INTS, {"tensor": "b"}],
    "an unknown detail": [{"tensor": "a", "grad_fn": "os.system"}, INTS],
    "a detail of another type": [{"tensor": "a", "requires_grad": 1}, INTS],
    "a handle that is no number": [{"tensor": "a", "handle": "x"}, INTS],
    "integers that require grad": [FLOATS, {"tensor": "i", "requires_grad": True}],
    "integers as parameters": [FLOATS, {"tensor": "i", "parameter": True}],
    "integers as complex numbers": [FLOATS, {"tensor": "i", "complex": True}],
    "strides with gaps": [{"tensor": "a", "strides": [4, 2]}, INTS],
    "strides that overlap": [{"tensor": "a", "strides": [1, 0]}, INTS],
    "strides of another dimension": [{"tensor": "a", "strides": [1]}, INTS],
    "strides that are no numbers": [{"tensor": "a", "strides": ["2", 1]}, INTS],
    "an unknown tag": {"frozenset": [FLOATS, INTS]},
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_structures(name):
    with pytest.raises(TensorFileError, match="do not tell the structure"):
        load(with_structure(WRONG[name]))


def test_other_versions():
    with pytest.raises(TensorFileError, match="not of version 1"):
        load(with_structure([FLOATS, INTS], version=2))


def test_texts_of_python_2_stay_bytes():
    content = saved(oracle, ["é", oracle.zeros(2)], _use_new_zipfile_serialization=False, pickle_protocol=2)
    content = re.sub(rb"X(.)\0\0\0", rb"U\1", content)  # Python 2 wrote texts as bytes
    found = [side.load(io.BytesIO(content), encoding="bytes", weights_only=False) for side in (torch, oracle)]
    assert [(text, x.tolist()) for text, x in found] == [("é".encode(), [0, 0])] * 2


def test_a_plain_pickle_of_pytorch():
    def mentioned(pid: Any) -> Any:
        raise AssertionError(pid)

    tensors = [oracle.arange(6.0).reshape(2, 3).t(), oracle.nn.Parameter(oracle.ones(2))]
    found = Unpickler(io.BytesIO(pickle.dumps(tensors)), mentioned).load()
    assert [type(each) for each in found] == [torch.Tensor, torch.nn.Parameter]
    for ours, theirs in zip(found, tensors, strict=True):
        assert ours.tolist() == theirs.tolist() and ours.stride() == theirs.stride()


@sides
def test_files_of_the_old_format_may_follow_each_other(writer, reader):
    stream = io.BytesIO(b"".join(saved(writer, [i], _use_new_zipfile_serialization=False) for i in range(3)))
    assert [reader.load(stream) for _ in range(3)] == [[0], [1], [2]]
