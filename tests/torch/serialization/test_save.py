"""Saving and loading tensors: values, types, sharing, requires_grad, paths and files."""

import io
import json
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.tensor.storage import VersionCounter
from fgrad.mutable.tensor.tensor import Tensor, alias, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type, type_of
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.formats import layout
from fgrad.mutable.types.size import Size
from fgrad.mutable.values.evaluation import concrete, constant
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.serialization import TensorFileError, load, safetensors, save

HELD = [each for each in dtypes.ALL if each is not dtypes.complex32]


def tensor(array, requires_grad=False):
    array = np.asarray(array)
    made = new_tensor(constant(array), type_of(array))
    made._requires_grad = requires_grad
    return made


def viewed(base, sizes, strides, offset):
    """A tensor over a part of another's memory."""
    view = alias(base)
    view._geometry = Geometry(sizes, strides, offset, base._type.dtype)
    view._type = tensor_type(base._type.dtype, sizes)
    return view


def values(of):
    return concrete(of._value())


def saved(obj):
    stream = io.BytesIO()
    save(obj, stream)
    return stream.getvalue()


def round_trip(obj):
    return load(io.BytesIO(saved(obj)))


@pytest.mark.parametrize("of", HELD, ids=str)
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 2)])
def test_every_dtype_and_shape(of, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(of.numpy)
    if of.is_complex:
        array = array * of.numpy.type(1 - 2j)
    found = round_trip(tensor(array))
    assert type(found) is Tensor and found._type is tensor_type(of, shape)
    assert values(found).tobytes() == array.tobytes()


def test_structure_stays():
    state = {
        "model": OrderedDict({"0.weight": tensor([[1.0, 2.0]]), "0.bias": tensor([0.5])}),
        "optimizer": {"state": {0: {"step": tensor(3.0), "seen": (1, None, "text")}}, "param_groups": [{"lr": 0.1}]},
        "best": float("inf"),
        0: tensor([7]),
    }
    found = round_trip(state)
    assert list(found) == list(state) and type(found["model"]) is OrderedDict
    assert values(found["model"]["0.weight"]).tolist() == [[1.0, 2.0]]
    assert values(found["optimizer"]["state"][0]["step"]) == 3.0
    assert found["optimizer"]["state"][0]["seen"] == (1, None, "text")
    assert found["optimizer"]["param_groups"] == [{"lr": 0.1}] and found["best"] == float("inf")
    assert values(found[0]).tolist() == [7]


def test_values_without_tensors():
    assert round_trip({"epoch": 3, "lr": [0.1, 0.01]}) == {"epoch": 3, "lr": [0.1, 0.01]}


def test_requires_grad_stays_and_history_does_not():
    kept, plain = round_trip([tensor([1.0], requires_grad=True), tensor([1.0])])
    assert kept.requires_grad and kept.is_leaf and not plain.requires_grad


def test_parameters_stay_parameters():
    first, second = Parameter(tensor([1.0])), Parameter(tensor([2.0]), requires_grad=False)
    found = round_trip({"first": first, "second": second, "again": first})
    assert type(found["first"]) is type(found["second"]) is Parameter and found["again"] is found["first"]
    assert found["first"].requires_grad and not found["second"].requires_grad
    assert values(found["first"]).tolist() == [1.0]


def test_one_tensor_in_two_places_is_one():
    one = tensor([1.0, 2.0])
    data = saved({"a": one, "b": [one]})
    found = load(io.BytesIO(data))
    assert found["a"] is found["b"][0]
    assert safetensors.loads(data)[0].keys() == {"a"}


def test_tensors_over_the_same_elements_share_memory_again():
    one = tensor([1.0, 2.0])
    found = round_trip({"a": one, "b": alias(one, VersionCounter()), "c": tensor([1.0, 2.0])})
    assert found["a"] is not found["b"] and found["a"]._storage is found["b"]._storage
    assert found["a"]._counter is not found["b"]._counter
    assert found["c"]._storage is not found["a"]._storage


def test_parts_of_one_memory():
    base = tensor(np.arange(6.0))
    left, right = viewed(base, (3,), (1,), 0), viewed(base, (3,), (1,), 3)
    found = round_trip([left, right])
    assert values(found[0]).tolist() == [0, 1, 2] and values(found[1]).tolist() == [3, 4, 5]
    assert values(round_trip(viewed(base, (2, 3), (1, 2), 0))).tolist() == [[0, 2, 4], [1, 3, 5]]


def test_tensors_that_overlap_share_memory_again():
    base = tensor(np.arange(6.0))
    for other in (base, viewed(base, (2,), (1,), 2), viewed(base, (3,), (2,), 1), viewed(base, (2, 3), (1, 2), 0)):
        data = saved({"a": viewed(base, (3,), (2,), 0), "b": other})
        found = load(io.BytesIO(data))
        assert values(found["a"]).tolist() == [0, 2, 4] and values(found["b"]).tolist() == values(other).tolist()
        assert found["a"]._storage is found["b"]._storage and found["a"]._counter is not found["b"]._counter
        assert found["b"].stride() == other.stride()
        assert safetensors.loads(data)[0].keys() == {"a"}


def test_one_memory_as_two_types_is_refused():
    base = tensor(np.arange(6.0))
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view the same data"):
        saved([base, base.view(dtypes.int64)])


def test_one_memory_as_it_is_and_conjugate_is_refused():
    base = tensor(np.array([1j, 2.0]))
    with pytest.raises(ValueError, match="one shows conjugate or negative"):
        saved([base, base.conj()])


def test_what_describes_tensors():
    value = {"size": Size((1, 2)), "type": dtypes.float64, "device": device("cpu"), "layout": layout.strided}
    found = round_trip(value)
    assert found == value and type(found["size"]) is Size


def test_numbers_texts_and_sets():
    value = [{3, "a"}, b"\x00b", 1 - 2j, set()]
    assert round_trip(value) == value


@pytest.mark.parametrize("strides", [(1, 2), (3, 1), (12, 4)])
def test_the_order_of_dimensions_in_memory_stays(strides):
    """As in PyTorch; the gaps of the last one go."""
    found = round_trip(viewed(tensor(np.arange(40.0)), (2, 3), strides, 0))
    assert found._geometry_of().strides == ((3, 1) if strides == (12, 4) else strides)
    places = np.arange(2)[:, None] * strides[0] + np.arange(3) * strides[1]
    assert (values(found) == places).all()


def test_a_flat_dictionary_is_an_ordinary_safetensors_file(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    arrays = {"layer.weight": np.eye(2, dtype="f4"), "layer.bias": np.ones(2, "f4"), "steps": np.array(3)}
    save({name: tensor(array) for name, array in arrays.items()}, tmp_path / "ours")
    read = reference.load_file(tmp_path / "ours")
    assert read.keys() == arrays.keys() and all((read[name] == arrays[name]).all() for name in arrays)
    reference.save_file(arrays, tmp_path / "theirs", {"format": "np"})
    found = load(tmp_path / "theirs")
    assert found.keys() == arrays.keys() and all((values(found[name]) == arrays[name]).all() for name in arrays)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "int64", "bool", "complex64", "uint16"])
def test_pytorch_reads_and_writes_the_same(name, tmp_path):
    torch = pytest.importorskip("torch")
    reference = pytest.importorskip("safetensors.torch")
    theirs = {"a": torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, name)), "b": torch.tensor(1.5)}
    reference.save_file(theirs, tmp_path / "theirs")
    found = load(tmp_path / "theirs")
    save(found, tmp_path / "ours")
    read = reference.load_file(tmp_path / "ours")
    assert read.keys() == theirs.keys()
    for key, other in theirs.items():
        assert read[key].dtype == other.dtype and torch.equal(read[key], other)


def test_names_are_made_unique():
    tensors = [tensor([float(i)]) for i in range(5)]
    nested = {"a": {"b": tensors[0]}, "a.b": tensors[1], 1: tensors[2], "1": tensors[3], "__metadata__": tensors[4]}
    found = round_trip(nested)
    assert values(found["a"]["b"]) == 0 and [float(values(found[key])[0]) for key in list(nested)[1:]] == [1, 2, 3, 4]


def test_paths_and_files(tmp_path):
    path = tmp_path / "state"
    save(tensor([1.0]), path)
    save(tensor([2.0]), str(path))
    assert values(load(str(path), weights_only=True)) == 2.0
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    with open(path, "rb") as stream:
        assert values(load(stream, map_location="cpu")) == 2.0
    with pytest.raises(AttributeError, match="expected 'f' to be string, path"):
        save(1, 3)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'seek'"):
        load(3)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(TypeError, match="must be torch.device, not float"):
        load(path, map_location=1.5)


@pytest.mark.parametrize(
    "mapped", [lambda storage, location: storage, lambda storage, location: None, {"cpu": "cpu"}, {"cuda:0": "cpu"}]
)
def test_functions_and_dictionaries_say_where_tensors_go(mapped):
    assert values(load(io.BytesIO(saved(tensor([1.0]))), map_location=mapped)) == 1.0


def test_a_failed_save_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "state"
    save(tensor([1.0]), path)
    with pytest.raises(TypeError, match="there is a range"):
        save([tensor([2.0]), range(1)], path)
    assert values(load(path)) == 1.0 and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there(device):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(RuntimeError, match=r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is"):
        load(io.BytesIO(saved(tensor([1.0]))), map_location=device)


class Malice:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a file was unpickled",)


def test_pickles_are_not_loaded():
    torch = pytest.importorskip("torch")
    stream = io.BytesIO()
    torch.save(torch.ones(1), stream)
    for data in (pickle.dumps(Malice()), stream.getvalue()):
        with pytest.raises(TensorFileError, match="This is no safetensors file"):
            load(io.BytesIO(data))
    with pytest.raises(TensorFileError, match=r"zip archive(.|\n)*safetensors\.torch\.save_file"):
        load(io.BytesIO(stream.getvalue()))


def with_structure(value, version=1):
    stream = io.BytesIO()
    text = value if isinstance(value, str) else json.dumps({"version": version, "value": value})
    safetensors.dump(stream, {"a": np.zeros((1, 2)), "i": np.zeros(1, "i4")}, {"fgrad.torch": text})
    return stream.getvalue()


FLOATS, INTS = {"tensor": "a"}, {"tensor": "i"}

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
        load(io.BytesIO(with_structure(WRONG[name])))


def test_other_versions():
    with pytest.raises(TensorFileError, match="not of version 1"):
        load(io.BytesIO(with_structure([FLOATS, INTS], version=2)))
    assert values(load(io.BytesIO(with_structure([{**FLOATS, "complex": True}, INTS])))[0]) == 0j
