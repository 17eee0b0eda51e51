"""Files that were made to mislead: whatever is in them, loading data runs nothing and ends soon, with a clear error."""

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from functools import partial
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import fgrad.torch as torch

RUN: list[str] = []


def ran(*args):
    RUN.append("ran")


class Reduced:
    """Runs when it is unpickled."""

    def __init__(self, *call: Any):
        self.call = call

    def __reduce__(self):
        return self.call


class Built:
    def __setstate__(self, state):
        ran()

    def __getstate__(self):
        return {"a": 1}


def archive(content, records=(), name="archive", compression=zipfile.ZIP_STORED):
    """An archive around a pickle."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        file.writestr(f"{name}/data.pkl", content)
        for record, elements in dict(records).items():
            file.writestr(f"{name}/{record}", elements)
    return stream.getvalue()


def pickled(obj):
    return archive(pickle.dumps(obj, 2))


def program(*parts):
    """A pickle of our own opcodes."""
    return archive(pickle.PROTO + b"\2" + b"".join(parts) + pickle.STOP)


def name(module, name):
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def text(value):
    return pickle.BINUNICODE + struct.pack("<I", len(value)) + value.encode()


def integer(value):
    size = (value.bit_length() + 8) // 8
    return pickle.LONG1 + bytes([size]) + value.to_bytes(size, "little", signed=True)


def many(*parts):
    return pickle.MARK + b"".join(parts) + pickle.TUPLE


def mention(kind="FloatStorage", key="0", location="cpu", count=2, module="torch"):
    return many(text("storage"), name(module, kind), text(key), text(location), integer(count)) + pickle.BINPERSID


def tensor(storage, offset=0, sizes=(2,), strides=(1,), more=()):
    arguments = many(
        storage,
        integer(offset),
        many(*map(integer, sizes)),
        many(*map(integer, strides)),
        pickle.NEWFALSE,
        name("collections", "OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE,
        *more,
    )
    return name("torch._utils", "_rebuild_tensor_v2") + arguments + pickle.REDUCE


def with_storage(*parts, **records):
    return archive(
        pickle.PROTO + b"\2" + b"".join(parts) + pickle.STOP, records or {"data/0": struct.pack("<2f", 1, 2)}
    )


ORDERED = name("collections", "OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE
DEEP = pickle.EMPTY_TUPLE + pickle.TUPLE1 * 200_000
COPIES = (
    pickle.EMPTY_LIST
    + pickle.BINPUT
    + b"\0"
    + pickle.MARK
    + (pickle.BININT1 + b"\1") * 50_000
    + pickle.APPENDS
    + (name("builtins", "bytearray") + pickle.BINGET + b"\0" + pickle.TUPLE1 + pickle.REDUCE) * 50_000
)

HOSTILE = {
    "a call of the system": (pickled(Reduced(os.system, ("exit 1",))), "module (posix|nt) is blocked"),
    "a call of a builtin": (pickled(Reduced(eval, ("ran()",))), "GLOBAL eval was not an allowed global"),
    "a call of getattr": (pickled(Reduced(getattr, (1, "real"))), "GLOBAL getattr was not an allowed"),
    "a call of ours": (pickled(Reduced(ran, ())), "test_hostile.ran was not an allowed global by default"),
    "a partial": (pickled(partial(ran)), "functools.partial was not an allowed global"),
    "a class with __setstate__": (pickled(Built()), "copy_reg|_reconstructor|Built was not an allowed global"),
    "a name with points": (program(name("torch", "Tensor.backward")), "was not an allowed global"),
    "a name within a name": (program(name("torch._utils", "os.system")), "was not an allowed global"),
    "a call of a type": (program(name("torch", "float32"), pickle.EMPTY_TUPLE, pickle.REDUCE), "unrecognized function"),
    "a call of a list": (program(pickle.EMPTY_LIST, pickle.EMPTY_TUPLE, pickle.REDUCE), "unrecognized function a list"),
    "a huge tensor": (
        program(name("torch", "Tensor"), many(integer(10**12)), pickle.REDUCE),
        "unrecognized function a tensor|unrecognized function a _Named",
    ),
    "a huge bytearray": (program(name("builtins", "bytearray"), many(integer(2**40)), pickle.REDUCE), "made of bytes"),
    "another codec": (
        program(name("_codecs", "encode"), many(text("a"), text("zip_codec")), pickle.REDUCE),
        "not in 'zip_codec'",
    ),
    "copies of copies": (program(COPIES), "copies its own contents"),
    "a method that is overwritten": (
        program(ORDERED, pickle.EMPTY_DICT, text("items"), pickle.NONE, pickle.SETITEM, pickle.BUILD),
        "stand for its own methods",
    ),
    "a state that is no dictionary": (program(ORDERED, pickle.NONE, pickle.BUILD), "stand for its own methods"),
    "a state of a function": (
        program(name("torch._utils", "_rebuild_tensor_v2"), pickle.EMPTY_DICT, pickle.BUILD),
        "Can only build Tensor, Parameter, OrderedDict",
    ),
    "a new object of a function": (
        program(name("torch._utils", "_rebuild_tensor_v2"), pickle.EMPTY_TUPLE, pickle.NEWOBJ),
        "Can only create new object",
    ),
    "an item of a tensor": (
        with_storage(tensor(mention()), pickle.NONE, pickle.NONE, pickle.SETITEM),
        "Can only SETITEM for dict",
    ),
    "an item of a set": (program(pickle.EMPTY_SET, pickle.NONE, pickle.APPEND), "Can only append to lists"),
    "tuples in tuples": (program(pickle.EMPTY_DICT, DEEP, pickle.NONE, pickle.SETITEM), "more than 100 deep"),
    "an empty stack": (program(pickle.TUPLE2), "damaged: IndexError"),
    "no mark": (program(pickle.TUPLE), "damaged: IndexError"),
    "an unknown opcode": (program(b"\xff"), "Unsupported operand 255"),
    "an opcode of another protocol": (program(pickle.DUP), "Unsupported operand 50"),
    "another protocol": (archive(pickle.dumps([1], 4)), "of protocol 4"),
    "a key that cannot be one": (program(pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.NONE, pickle.SETITEM), "damaged"),
    "a number that was not put": (program(pickle.LONG_BINGET, b"\xff" * 4), "damaged: KeyError"),
    "a text longer than the file": (program(pickle.BINUNICODE, b"\xff" * 4), "truncated"),
    "no end": (archive(pickle.PROTO + b"\2" + pickle.NONE), "truncated"),
    "a mention of something else": (
        program(text("module"), pickle.TUPLE1, pickle.BINPERSID),
        "Only persistent_load of",
    ),
    "a mention that is none": (program(pickle.NONE, pickle.BINPERSID), "persistent_load id must be tuple"),
    "a mention of a list": (program(many(text("storage"), pickle.EMPTY_LIST), pickle.BINPERSID), "not PyTorch's"),
    "a tensor of no storage": (program(tensor(pickle.NONE)), "damaged: AttributeError|NoneType"),
    "attributes that are the tensor's own": (
        with_storage(
            name("torch._tensor", "_rebuild_from_type_v2"),
            many(
                name("torch._utils", "_rebuild_tensor"),
                name("torch", "Tensor"),
                many(mention(), integer(0), many(integer(2)), many(integer(1))),
                pickle.EMPTY_DICT + text("_storage") + pickle.NONE + pickle.SETITEM,
            ),
            pickle.REDUCE,
        ),
        "'_storage' is no attribute of the user's",
    ),
    "a function of another table": (
        with_storage(
            name("torch._tensor", "_rebuild_from_type_v2"),
            many(name("builtins", "bytearray"), name("torch", "Tensor"), pickle.EMPTY_TUPLE, pickle.NONE),
            pickle.REDUCE,
        ),
        "unrecognized function",
    ),
    "a sparse tensor": (
        program(name("torch._utils", "_rebuild_sparse_tensor"), pickle.EMPTY_TUPLE, pickle.REDUCE),
        "no sparse tensors",
    ),
    "no such record": (with_storage(mention(key="7")), "failed locating file data/7"),
    "a path out of the archive": (with_storage(mention(key="../../../etc/passwd")), "failed locating file"),
    "an absolute path": (with_storage(mention(key="/etc/passwd")), "failed locating file"),
    "a huge storage": (with_storage(mention(count=2**40)), "in the file it has 8 bytes"),
    "a negative storage": (with_storage(mention(count=-1)), "not PyTorch's"),
    "a storage of another class": (with_storage(mention("Tensor")), "not PyTorch's"),
    "an unknown place": (with_storage(mention(location="nowhere")), "Expected one of|nowhere"),
    "a size past the end": (with_storage(tensor(mention(), sizes=(3,))), "out of bounds for storage of size 8"),
    "a stride past the end": (with_storage(tensor(mention(), strides=(2,))), "out of bounds"),
    "an offset past the end": (with_storage(tensor(mention(), offset=1)), "out of bounds"),
    "a negative offset": (with_storage(tensor(mention(), offset=-1)), "must be a natural number"),
    "a negative size": (with_storage(tensor(mention(), sizes=(-1,))), "must be a natural number"),
    "a negative stride": (with_storage(tensor(mention(), strides=(-1,))), "must be a natural number"),
    "sizes that overflow": (with_storage(tensor(mention(), sizes=(2**62,) * 2, strides=(1, 1))), "out of bounds"),
    "a stride too few": (with_storage(tensor(mention(), strides=())), "must be a natural number"),
    "integers that require grad": (
        with_storage(
            name("torch._utils", "_rebuild_parameter"),
            many(tensor(mention("IntStorage")), pickle.NEWTRUE, ORDERED),
            pickle.REDUCE,
        ),
        "Only Tensors of floating point",
    ),
    "a parameter of a list": (
        program(
            name("torch._utils", "_rebuild_parameter"), many(pickle.EMPTY_LIST, pickle.NEWTRUE, ORDERED), pickle.REDUCE
        ),
        "made of a tensor, not of list",
    ),
    "nothing": (b"", "Invalid magic number"),
    "no file of tensors": (b"hello, world" * 3, "Invalid magic number"),
    "half an archive": (pickled([1])[:-30], "failed finding central directory"),
    "the start of an archive": (b"PK\3\4", "failed finding central directory"),
    "no pickle": (archive(b"", name="other").replace(b"data.pkl", b"data.pkx"), "TorchScript archive, or one that"),
    "a compressed bomb": (
        archive(b"\0" * 10**7, compression=zipfile.ZIP_DEFLATED),
        "compressed or encrypted",
    ),
    "a pickle alone": (pickle.dumps(Reduced(ran, ()), 2), "was not an allowed global"),
    "an old file with a call": (
        b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {}, Reduced(ran, ()))),
        "was not an allowed global",
    ),
    "an old file with a huge storage": (
        b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {}))
        + pickle.PROTO
        + b"\2"
        + many(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), integer(2**40), pickle.NONE)
        + pickle.BINPERSID
        + pickle.STOP,
        "more than the file",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(kind):
    content, message = HOSTILE[kind]
    RUN.clear()
    tracemalloc.start()
    try:
        with pytest.raises((pickle.UnpicklingError, RuntimeError), match=message):
            torch.load(io.BytesIO(content))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not RUN and peak < 40 * len(content) + 10**7


def test_records_that_overlap():
    """Many records of an archive may be said to lie in one place, so that together they are longer than the file."""
    content = archive(pickle.dumps(1, 2), {f"data/{i}": b"x" * 10 for i in range(3)})
    longer = content.replace(struct.pack("<II", 10, 10), struct.pack("<II", 10**6, 10**6))
    with pytest.raises(RuntimeError, match="records are longer than the file"):
        torch.load(io.BytesIO(longer))


class Point:
    """A class of the user's."""

    def __init__(self, x: int = 0):
        self.x = x


def test_classes_that_the_user_allows():
    content = io.BytesIO()
    torch.save({"p": Point(1), "built": Built()}, content)
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[.*test_hostile.Point\]\)"):
        torch.load(io.BytesIO(content.getvalue()))
    RUN.clear()
    with torch.serialization.safe_globals([Point, Built]):
        assert torch.load(io.BytesIO(content.getvalue()))["p"].x == 1 and RUN
        assert torch.serialization.get_safe_globals() == [Point, Built]
    assert torch.serialization.get_safe_globals() == []
    for wrong, error in ((("a", "b", "c"), ValueError), ((Point, 1), TypeError)):
        with pytest.raises(error, match="Expected"):
            torch.serialization.add_safe_globals([wrong])


def test_classes_of_pytorch_are_allowed_by_the_names_that_files_have():
    content = io.BytesIO()
    torch.save([torch.distributions.AffineTransform(1.0, 2.0), torch.nn.Softmax(0)], content)
    content.seek(0)
    with torch.serialization.safe_globals([torch.distributions.AffineTransform, torch.nn.Softmax, set]):
        assert torch.load(content)[0](3.0) == 7.0


def test_only_for_weights_only_false_runs_what_the_file_says():
    RUN.clear()
    assert torch.load(io.BytesIO(pickled(Reduced(ran, ()))), weights_only=False) is None and RUN == ["ran"]
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module"):
        torch.load(io.BytesIO(pickled(1)), pickle_module=pickle)


def valid(zipped):
    stream = io.BytesIO()
    state = OrderedDict(w=torch.arange(4.0).view(2, 2).t(), b=torch.tensor([True]), p=torch.nn.Parameter(torch.ones(1)))
    torch.save([state, {1, 2.5}, 1j, b"x"], stream, _use_new_zipfile_serialization=zipped)
    return stream.getvalue()


VALID = [valid(True), valid(False)]


@hypothesis.given(st.data())
@hypothesis.settings(deadline=None)
def test_damaged_files_are_refused_or_read(data):
    """One byte changed, or the end cut off, leads to no other error."""
    whole = data.draw(st.sampled_from(VALID))
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = b"%c" % data.draw(st.integers(0, 255))
    damaged = data.draw(st.sampled_from([whole[:place], whole[:place] + byte + whole[place + 1 :]]))
    try:
        torch.load(io.BytesIO(damaged))
    except (RuntimeError, ValueError, pickle.UnpicklingError):
        return


@hypothesis.given(st.binary(max_size=60))
@hypothesis.settings(deadline=None)
def test_random_pickles(content):
    try:
        torch.load(io.BytesIO(archive(pickle.PROTO + b"\2" + content)))
    except (RuntimeError, ValueError, pickle.UnpicklingError):
        return
