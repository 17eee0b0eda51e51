"""Dtypes, their limits and the default dtype, against PyTorch's."""

import copy
import pickle
import re
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import fgrad.torch
from fgrad.mutable.types import dtypes, limits
from tests.torch.oracle import outcome

torch = pytest.importorskip("torch")

HELD = [each for each in dtypes.ALL if each is not dtypes.complex32]


@pytest.fixture
def default_dtype():
    """Lets a test change the default dtype of both."""
    yield
    dtypes.set_default_dtype(dtypes.float32)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", dtypes.NAMES)
def test_is_as_in_pytorch(name):
    ours, theirs = dtypes.NAMES[name], getattr(torch, name)
    assert repr(ours) == str(ours) == repr(theirs)
    for attribute in ("is_floating_point", "is_complex", "is_signed", "itemsize", "abbr"):
        assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
    for method in ("to_real", "to_complex"):
        assert outcome(getattr(ours, method)) == outcome(getattr(theirs, method))


def test_every_ordinary_name_of_pytorch_is_there():
    odd = re.compile(r"q.*|bit.*|float4_.*|u?int[1-7]")  # quantized or of parts of bytes
    theirs = {name for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    assert {name for name in theirs if not odd.fullmatch(name)} == dtypes.NAMES.keys()


@pytest.mark.parametrize("each", [*dtypes.ALL, *dtypes.FLOAT8], ids=str)
def test_is_one_object(each):
    assert pickle.loads(pickle.dumps(each)) is copy.copy(each) is copy.deepcopy(each) is each
    assert each != str(each) and len({each, each}) == 1
    with pytest.raises(AttributeError):
        each.name = "other"


def test_cannot_be_made():
    assert outcome(dtypes.dtype) == outcome(torch.dtype)


@pytest.mark.parametrize("each", HELD, ids=str)
def test_array_types(each):
    assert dtypes.from_numpy(each.numpy) is each
    assert jnp.zeros(1, "bool").astype(jnp.bfloat16).dtype == dtypes.bfloat16.numpy
    if each is not dtypes.bfloat16:  # which PyTorch refuses to hand to NumPy
        assert torch.zeros(1, dtype=getattr(torch, each.name)).numpy().dtype == each.numpy


@pytest.mark.parametrize("array_type", ["U1", "O", "M8[s]", ">i4", np.longdouble, [("a", "i4")]])
def test_arrays_that_tensors_cannot_hold(array_type):
    array = np.zeros(1, array_type)
    assert outcome(lambda: dtypes.from_numpy(array.dtype)) == outcome(lambda: torch.from_numpy(array))


def test_half_precision_complex_is_refused():
    with pytest.raises(TypeError, match=r"use torch\.complex64"):
        _ = dtypes.complex32.numpy


@pytest.mark.parametrize("each", dtypes.FLOAT8, ids=str)
def test_numbers_of_8_bits_are_refused(each):
    with pytest.raises(TypeError, match=r"use torch\.bfloat16"):
        _ = each.numpy


@pytest.mark.parametrize("given", [bool, int, float, complex])
def test_python_types_are_dtypes(given):
    assert repr(dtypes.argument(given, "zeros")) == repr(torch.zeros(1, dtype=given).dtype)


@pytest.mark.parametrize("given", ["float32", 3, str, np.float32, np.dtype("float32"), [], ([].__iter__())])
def test_what_is_no_dtype(given):
    assert outcome(lambda: dtypes.argument(given, "zeros")) == outcome(lambda: torch.zeros(1, dtype=given))


# float8_e5m2fnuz keeps two bits, so the number after 1 is 1.25, where PyTorch says 1.125
@pytest.mark.parametrize("each", [*dtypes.ALL, *(x for x in dtypes.FLOAT8 if x.name != "float8_e5m2fnuz")], ids=str)
@pytest.mark.parametrize("kind", ["finfo", "iinfo"])
def test_limits(each, kind):
    ours, theirs = outcome(getattr(limits, kind), each), outcome(getattr(torch, kind), getattr(torch, each.name))
    assert ours == theirs
    if not ours.raised:
        for attribute in dir(theirs.value):
            if not attribute.startswith("__"):
                mine, its = getattr(ours.value, attribute), getattr(theirs.value, attribute)
                assert type(mine) is type(its) and mine == its, attribute


@pytest.mark.parametrize("given", [3, "float32", None, np.float32])
@pytest.mark.parametrize("kind", ["finfo", "iinfo"])
def test_limits_of_what_is_no_dtype(given, kind):
    assert outcome(getattr(limits, kind), given) == outcome(getattr(torch, kind), given)


def test_limits_are_values(default_dtype):
    assert limits.finfo() == limits.finfo(dtypes.float32) == limits.finfo(dtypes.complex64)
    assert limits.finfo(dtypes.float32) != limits.finfo(dtypes.float64)
    assert limits.iinfo(dtypes.int8) == limits.iinfo(type=dtypes.int8) != limits.iinfo(dtypes.uint8)
    dtypes.set_default_dtype(dtypes.float64)
    assert limits.finfo().dtype == "float64"


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int32", "complex64", "bool"])
def test_default_dtype(name, default_dtype):
    ours = outcome(dtypes.set_default_dtype, dtypes.NAMES[name])
    assert ours == outcome(torch.set_default_dtype, getattr(torch, name))
    assert repr(dtypes.get_default_dtype()) == repr(torch.get_default_dtype())
    assert repr(dtypes.default_complex_dtype()) == repr(torch.result_type(1, 1j))


@pytest.mark.parametrize("given", ["float32", None, 3, float])
def test_what_is_no_default_dtype(given):
    assert outcome(dtypes.set_default_dtype, given) == outcome(torch.set_default_dtype, given)


def test_all_threads_share_the_default_dtype(default_dtype):
    seen = []

    def other():
        seen.append(dtypes.get_default_dtype())
        dtypes.set_default_dtype(dtypes.float16)

    dtypes.set_default_dtype(dtypes.float64)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [dtypes.float64] and dtypes.get_default_dtype() is dtypes.float16


@pytest.mark.parametrize("each", HELD, ids=str)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_legacy_tensor_types(each, device):
    name = dtypes.tensor_type(each, device)
    assert name == torch.zeros(1, dtype=getattr(torch, each.name), device=device).type()
    assert dtypes.parse_tensor_type(name) == (each, device)


def test_legacy_tensor_types_of_other_devices(default_dtype):
    assert dtypes.parse_tensor_type("torch.cuda.FloatTensor") == (dtypes.float32, "cuda")
    dtypes.set_default_dtype(dtypes.float64)
    assert dtypes.parse_tensor_type("torch.Tensor") == (dtypes.float64, "cpu")


@pytest.mark.parametrize("name", ["torch.Foo", "int", "FloatTensor", "torch.tpu.Float"])
def test_what_is_no_legacy_tensor_type(name):
    assert outcome(dtypes.parse_tensor_type, name) == outcome(torch.zeros(1).type, name)


@pytest.mark.parametrize(
    "function",
    [
        lambda t, x: x + 0.5,
        lambda t, x: x * 0.5j,
        lambda t, x: x / x,
        lambda t, x: x.sin(),
        lambda t, x: t.where(x > 0, x, 0.5),
        lambda t, x: t.func.vmap(t.sin)(x),
        lambda t, x: t.func.grad(lambda y: (y + x / 2).sum())(t.ones(3)),
        lambda t, x: t.ones(3, requires_grad=True) + x.sqrt(),
    ],
)
def test_integers_follow_the_default_dtype_when_it_changes(function, default_dtype):
    found = []
    for t in (fgrad.torch, torch):
        results = []
        for name in ("float32", "float64", "float32", "float64"):
            t.set_default_dtype(getattr(t, name))
            results.append(str(function(t, t.tensor([1, 2, 3])).dtype))
        found.append(results)
    assert found[0] == found[1]
