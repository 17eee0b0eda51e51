"""The safetensors format: what we write others read, what they write we read, and what is wrong is refused."""

import io
import json
import struct

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from fgrad.mutable.types import dtypes
from fgrad.torch.serialization import safetensors
from fgrad.torch.serialization.safetensors import TensorFileError
from tests.torch.serialization.former import dump

HELD = [each for each in dtypes.ALL if each not in (dtypes.complex32, dtypes.complex128)]


def dumped(arrays, metadata=None):
    stream = io.BytesIO()
    dump(stream, arrays, metadata or {})
    return stream.getvalue()


def crafted(header, block=b"", length=None):
    """A file with a header of our making."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + block


def entry(offsets=(0, 8), shape=(2,), dtype="F32", **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def sample(of, shape=(2, 3)):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(of.numpy)


@st.composite
def collections(draw):
    """Arrays by name, some of them with gaps or in another order in memory."""
    found = {}
    for name in draw(st.lists(st.text(max_size=8), unique=True, max_size=6)):
        array = sample(draw(st.sampled_from(HELD)), draw(array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
        found[name] = draw(st.sampled_from([array, array.T, array[..., ::2] if array.ndim else array]))
    return found


@hypothesis.given(collections(), st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2))
def test_round_trip(arrays, metadata):
    hypothesis.assume("__metadata__" not in arrays)
    found, found_metadata = safetensors.loads(dumped(arrays, metadata))
    assert found.keys() == arrays.keys() and found_metadata == metadata
    for name, array in arrays.items():
        assert same(found[name], array) and found[name].flags.aligned


# the reference implementation has no bfloat16 for NumPy; test_save asks it through PyTorch
@pytest.mark.parametrize("of", [of for of in HELD if of is not dtypes.bfloat16], ids=str)
def test_the_reference_implementation_reads_and_writes_the_same(of):
    reference = pytest.importorskip("safetensors.numpy")
    arrays = {"whole": sample(of), "scalar": sample(of, ()), "empty": sample(of, (0, 2)), "ü": sample(dtypes.float64)}
    read = reference.load(dumped(arrays, {"made by": "hand"}))
    assert read.keys() == arrays.keys() and all(same(read[name], arrays[name]) for name in arrays)
    found, metadata = safetensors.loads(reference.save(arrays, {"made by": "hand"}))
    assert found.keys() == arrays.keys() and all(same(found[name], arrays[name]) for name in arrays)
    assert metadata == {"made by": "hand"}


def test_what_the_format_has_no_place_for():
    for arrays in ({"__metadata__": np.zeros(1)}, {"z": np.zeros(1, "c16")}):
        with pytest.raises(ValueError, match="has no place"):
            dumped(arrays)
    with pytest.raises(TypeError, match="can't convert"):
        dumped({"text": np.array(["a"])})


def test_what_is_read_cannot_be_written():
    found, _ = safetensors.loads(dumped({"x": np.zeros(2)}))
    with pytest.raises(ValueError, match="read-only"):
        found["x"][0] = 1


EIGHT = b"\0" * 8

WRONG = {
    "nothing": (b"", "has 0 bytes"),
    "seven bytes": (b"1234567", "has 7 bytes"),
    "no header": (crafted(b""), "not JSON"),
    "header longer than the file": (crafted({"a": entry()}, EIGHT, length=2**60), "header would have"),
    "header as long as the file": (crafted({"a": entry()}, EIGHT, length=10**6), "header would have"),
    "no JSON": (crafted(b'{"a":}'), "not JSON"),
    "no text": (crafted(b'{"\xff":1}'), "not JSON"),
    "a list": (crafted(b"[1]"), "not a JSON object"),
    "nan": (crafted(b'{"a":NaN}'), "NaN is no number"),
    "nested too deep": (crafted(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"), "not JSON"),
    "a name twice": (crafted(b'{"a":{},"a":{}}'), "twice"),
    "metadata that are a list": (crafted({"__metadata__": ["a"]}), "texts by name"),
    "metadata that are numbers": (crafted({"__metadata__": {"a": 1}}), "texts by name"),
    "an entry that is a number": (crafted({"a": 1}), "does not say"),
    "a missing field": (crafted({"a": {"dtype": "F32", "shape": [2]}}, EIGHT), "does not say"),
    "an unknown type": (crafted({"a": entry(dtype="F31")}, EIGHT), "unknown type 'F31'"),
    "a type that is a list": (crafted({"a": entry(dtype=["F32"])}, EIGHT), "unknown type"),
    "8-bit floats": (crafted({"a": entry((0, 2), dtype="F8_E4M3")}, EIGHT[:2]), "unknown type 'F8_E4M3'"),
    "a negative length": (crafted({"a": entry(shape=(-2,))}, EIGHT), "shape that no array"),
    "a fractional length": (crafted({"a": entry(shape=(2.0,))}, EIGHT), "shape that no array"),
    "a boolean length": (crafted({"a": entry((0, 4), (True,))}, EIGHT[:4]), "shape that no array"),
    "too many dimensions": (crafted({"a": entry((0, 4), [1] * 65)}, EIGHT[:4]), "shape that no array"),
    "a shape that overflows": (crafted({"a": entry(shape=(2**62, 4))}, EIGHT), "its shape and type need"),
    "a shape of more bytes": (crafted({"a": entry(shape=(3,))}, EIGHT), "has 8 bytes, its shape and type need 12"),
    "a negative offset": (crafted({"a": entry((-8, 0))}, EIGHT), "lies nowhere"),
    "three offsets": (crafted({"a": entry((0, 4, 8))}, EIGHT), "lies nowhere"),
    "offsets in reverse": (crafted({"a": entry((8, 0))}, EIGHT), "has -8 bytes"),
    "a gap": (crafted({"a": entry(), "b": entry((12, 20))}, EIGHT * 3), "'b' comes after bytes that belong to none"),
    "an overlap": (crafted({"a": entry(), "b": entry((4, 12))}, EIGHT * 2), "'b' overlaps"),
    "one place for two": (crafted({"a": entry(), "b": entry()}, EIGHT), "overlaps"),
    "a missing byte": (crafted({"a": entry()}, EIGHT[:7]), "its tensors have 8 bytes, and it holds 7"),
    "a byte too many": (crafted({"a": entry()}, EIGHT + b"x"), "its tensors have 8 bytes, and it holds 9"),
    "a boolean of two": (crafted({"a": entry((0, 2), dtype="BOOL")}, b"\1\2"), "neither 0 nor 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name):
    data, message = WRONG[name]
    with pytest.raises(TensorFileError, match=message):
        safetensors.loads(data)


def test_what_is_odd_but_right():
    assert safetensors.loads(crafted(b"  {}  ")) == ({}, {})
    spread = {"b": entry((8, 16)), "none": entry((8, 8), (0,)), "": entry((0, 8), more=1)}
    found, _ = safetensors.loads(crafted(spread, EIGHT * 2))
    assert {name: array.shape for name, array in found.items()} == {"b": (2,), "none": (0,), "": (2,)}
    found, _ = safetensors.loads(crafted({"a": entry((0, 1), (1,), "U8"), "b": entry((1, 9))}, b"x" * 9))
    assert found["b"].flags.aligned


@hypothesis.given(st.data())
def test_damaged_files_are_refused_or_read(data):
    """One byte changed, or the end cut off, never leads to any other error."""
    whole = dumped({"a": sample(dtypes.float32), "b": sample(dtypes.bool_)}, {"made by": "hand"})
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(
        st.sampled_from([whole[:place], whole[:place] + b"%c" % data.draw(st.integers(0, 255)) + whole[place + 1 :]])
    )
    try:
        found, _ = safetensors.loads(damaged)
    except TensorFileError:
        return
    assert sum(array.nbytes for array in found.values()) <= len(whole)
