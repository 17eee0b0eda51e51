"""``torch.testing`` against PyTorch: what passes, the errors' types and texts, and which numbers are drawn."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "float32")
B = np.array([[1.0, 2.5, 3.0], [4.0, 5.0, 0.0]], "float32")
NAN = float("nan")
INF = float("inf")


def close(name: str, make: Callable[[Any], tuple[Any, Any]], longer: bool = False, **options: Any) -> Case:
    return Case(name, lambda t: t.testing.assert_close(*make(t), **options), longer=longer)


CLOSE = [
    close("equal", lambda t: (t.tensor(A), t.tensor(A))),
    close("within", lambda t: (t.tensor(A), t.tensor(A * (1 + 1e-6)))),
    close("apart", lambda t: (t.tensor(A), t.tensor(B))),
    close("apart float64", lambda t: (t.tensor(A, dtype=t.float64), t.tensor(B, dtype=t.float64))),
    close("apart float16", lambda t: (t.tensor(A).half(), t.tensor(B).half())),
    close("apart bfloat16", lambda t: (t.tensor(A).bfloat16(), t.tensor(B).bfloat16())),
    close("apart complex", lambda t: (t.tensor(A) * 1j, t.tensor(B) * (2 + 1j))),
    close("apart integers", lambda t: (t.tensor([1, 2, 200], dtype=t.uint8), t.tensor([1, 3, 0], dtype=t.uint8))),
    close("apart booleans", lambda t: (t.tensor([True, False]), t.tensor([True, True]))),
    close("requires grad", lambda t: (t.tensor(A, requires_grad=True), t.tensor(B, requires_grad=True))),
    close("scalars", lambda t: (t.tensor(1.0), t.tensor(1.5))),
    close("scalar booleans", lambda t: (t.tensor(True), t.tensor(False))),
    close("infinite", lambda t: (t.tensor([INF, -INF, 1.0]), t.tensor([INF, INF, INF]))),
    close("nan", lambda t: (t.tensor([NAN, 1.0]), t.tensor([NAN, 1.0]))),
    close("nan scalar", lambda t: (t.tensor(NAN), t.tensor(NAN))),
    close("nan equal", lambda t: (t.tensor([NAN, 1.0]), t.tensor([NAN, 1.0])), equal_nan=True),
    close("loose", lambda t: (t.tensor(A), t.tensor(B)), rtol=0.5, atol=1.0),
    close("exact", lambda t: (t.tensor(A), t.tensor(A + 1e-3)), rtol=0, atol=0),
    close("only rtol", lambda t: (t.tensor(A), t.tensor(B)), rtol=0.5),
    close("only atol", lambda t: ([1.0], [1.0]), atol=0.5),
    close("shape", lambda t: (t.tensor(A), t.tensor(A[0]))),
    close("dtype", lambda t: (t.tensor(A), t.tensor(A).double())),
    close("dtype unchecked", lambda t: (t.tensor(A), t.tensor(B).long()), check_dtype=False),
    close("wide", lambda t: (t.tensor([1, 2]).to(t.uint16), t.tensor([1, 3])), check_dtype=False),
    close("stride", lambda t: (t.tensor(A), t.tensor(A.T.copy()).T), check_stride=True),
    close("stride unchecked", lambda t: (t.tensor(A), t.tensor(A.T.copy()).T)),
    close("message", lambda t: (t.tensor(A), t.tensor(B)), msg="not at all"),
    close("message made", lambda t: ([t.tensor(A)], [t.tensor(B)]), msg=lambda m: f"<{m}>"),
    close("message and structure", lambda t: ([1], [1, 2]), msg="not at all"),
    close("numbers", lambda t: (1.0, 1.5)),
    close("numbers exact", lambda t: (1e-9, 1e-10), rtol=0, atol=0),
    close("integers", lambda t: (1, 3)),
    close("expected zero", lambda t: (1, 0)),
    close("complex numbers", lambda t: (1 + 2j, 1 - 2j)),
    close("types of numbers", lambda t: (1, 1.0)),
    close("types of numbers unchecked", lambda t: (1, 1.0), check_dtype=False),
    close("NumPy's numbers", lambda t: (np.float32(1.0), np.float64(1.25))),
    close("nan numbers", lambda t: (NAN, NAN), equal_nan=True),
    close("none", lambda t: (None, None)),
    close("none and more", lambda t: (None, 1)),
    close("booleans", lambda t: (True, np.bool_(True))),
    close("other booleans", lambda t: (True, False)),
    close("arrays", lambda t: (A, B)),
    close("arrays close", lambda t: (A, A.copy())),
    close("sequences", lambda t: ((t.tensor(A), 1.0), [t.tensor(A), 1.0])),
    close("nested", lambda t: ([1, {"a": (1, 2)}], [1, {"a": (1, 3)}])),
    close("lengths", lambda t: ([1, [1]], [1, [1, 2]])),
    close("keys", lambda t: ({"a": 1, "b": 2}, {"b": 2, "c": 3, "d": 4})),
    close("keys of different types", lambda t: ({"a": 1, 2: 3}, {"a": 1, 2: 3})),
    close("first of several", lambda t: ({"b": 1, "a": 2}, {"b": 2, "a": 3})),
    close("parameter", lambda t: (t.nn.Parameter(t.tensor(A)), t.tensor(A))),
    close("words", lambda t: ("a", "a")),
    close("array and number", lambda t: (A, 1.0)),
]  # fmt: skip


@pytest.mark.parametrize("case", CLOSE, ids=str)
def test_assert_close(case: Case):
    agree(case, torch)


def test_assert_close_of_other_types():
    """The types are named as they are here."""
    with pytest.raises(
        TypeError, match="No comparison pair was able to handle inputs of type .*ndarray.* and .*Tensor"
    ):
        ours.testing.assert_close(A, ours.tensor(A))
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type .*Parameter"):
        ours.testing.assert_close(ours.nn.Parameter(ours.tensor(A)), ours.tensor(A), allow_subclasses=False)


ALLCLOSE = [
    Case("lists", lambda t: t.testing.assert_allclose([1.0, 2.0], [1.0, 2.00001])),
    Case("apart", lambda t: t.testing.assert_allclose([1.0, 2.0], [1.0, 2.5])),
    Case("tensor", lambda t: t.testing.assert_allclose(t.tensor(A), A.tolist())),
    Case("nan", lambda t: t.testing.assert_allclose(t.tensor([NAN]), t.tensor([NAN]))),
    Case("message", lambda t: t.testing.assert_allclose([1.0], [2.0], msg="no")),
]


@pytest.mark.parametrize("case", ALLCLOSE, ids=str)
def test_assert_allclose(case: Case):
    agree(case, torch)


def test_assert_allclose_warns():
    with pytest.warns(FutureWarning, match="assert_close"):
        ours.testing.assert_allclose(1.0, 1.0)


def drawn(t: Any, dtype: str, shape: Any, options: dict[str, Any]) -> Any:
    t.manual_seed(3)
    found = t.testing.make_tensor(*shape, dtype=getattr(t, dtype), device="cpu", **options)
    return found.to(t.float32) if dtype == "bfloat16" else found, found.stride(), str(found.dtype)


TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
MADE = [
    *[(dtype, (2, 3), {}) for dtype in TYPES],
    ("float32", ((2, 3),), {"noncontiguous": True}),
    ("float32", (1,), {"noncontiguous": True}),
    ("float64", (), {"requires_grad": True}),
    ("float32", (2, 3), {"low": -1, "high": 1}),
    ("float32", (3,), {"low": -INF, "high": INF}),
    ("int8", (6,), {"low": -1000, "high": 1000}),
    ("int64", (6,), {"low": 0.5, "high": 2.5, "exclude_zero": True}),
    ("bool", (6,), {"exclude_zero": True}),
    ("int64", (2,), {"requires_grad": True}),
    ("float32", (2,), {"low": 2, "high": 1}),
    ("int64", (2,), {"low": 1, "high": 1}),
    ("uint8", (2,), {"low": -5, "high": -1}),
    ("float32", (2,), {"low": NAN}),
    ("float32", (2,), {"low": 1.0, "high": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "shape", "options"), MADE)
def test_make_tensor(dtype: str, shape: Any, options: dict[str, Any]):
    agree(Case(dtype, functools.partial(drawn, dtype=dtype, shape=shape, options=options)), torch)


FORMATS = [
    Case("format", lambda t: t.testing.make_tensor(1, 2, 2, 2, dtype=t.float32, device="cpu",
                                                    memory_format=t.channels_last).stride()),
    Case("both", lambda t: t.testing.make_tensor(1, dtype=t.float32, device="cpu", noncontiguous=True,
                                                  memory_format=t.contiguous_format)),
]  # fmt: skip


@pytest.mark.parametrize("case", FORMATS, ids=str)
def test_make_tensor_formats(case: Case):
    agree(case, torch)
