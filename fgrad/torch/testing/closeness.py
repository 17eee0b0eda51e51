"""Assertions that tensors, numbers, and sequences and mappings of them are close.

NOTE [Pairs]
Containers are first taken apart into pairs: this checks lengths and keys, and whether types are comparable.  Then the
pairs are compared.  A custom message replaces those about values, not those about structure.
"""

import cmath
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.promotion import promote_types
from fgrad.torch.ops.creation.data import as_tensor, tensor
from fgrad.torch.testing import mismatches

#: rtol and atol for these dtypes; all others have to be equal
_TOLERANCES: dict[Any, tuple[float, float]] = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex32: (1e-3, 1e-5),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
#: the same for ``assert_allclose``
_OLD_TOLERANCES: dict[Any, tuple[float, float]] = {
    dtypes.float16: (1e-3, 1e-3),
    dtypes.float32: (1e-4, 1e-5),
    dtypes.float64: (1e-5, 1e-8),
}
_TYPES_OF_NUMBERS = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}
_WIDE = (dtypes.uint16, dtypes.uint32, dtypes.uint64)

Message = str | Callable[[str], str] | None


class _Failure(Exception):
    """A mismatch of the items at a path of indices and keys."""

    def __init__(self, kind: type[Exception], text: str, path: tuple[Any, ...]):
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.path = path

    def error(self, msg: Message = None) -> Exception:
        """The error to raise, with the caller's message if given."""
        if isinstance(msg, str):
            return self.kind(msg)
        text = self.text
        if self.path:
            text += f"\n\nThe failure occurred for item {''.join(str([step]) for step in self.path)}"
        return self.kind(msg(text) if callable(msg) else text)


@frozen
class _Options:
    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool
    check_device: bool
    check_dtype: bool
    check_stride: bool


@frozen
class _Pair:
    """Two values to compare, at ``path``."""

    actual: Any
    expected: Any
    path: tuple[Any, ...]

    def fail(self, text: str, kind: type[Exception] = AssertionError) -> _Failure:
        return _Failure(kind, text, self.path)

    def tolerances(self, options: _Options, *types: Dtype) -> tuple[float, float]:
        """The caller's tolerances, or the larger defaults of the two dtypes."""
        rtol, atol = options.rtol, options.atol
        if rtol is not None and atol is not None:
            return rtol, atol
        if rtol is not None or atol is not None:
            raise self.fail(
                "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                f"{'rtol' if rtol is None else 'atol'}.",
                ValueError,
            )
        return _loosest(_TOLERANCES, *types)


def _loosest(tolerances: dict[Any, tuple[float, float]], *types: Dtype) -> tuple[float, float]:
    pairs = [tolerances.get(dtype, (0.0, 0.0)) for dtype in types]
    return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


class _NonePair(_Pair):
    def compare(self) -> None:
        if self.actual is not self.expected:
            raise self.fail(f"None mismatch: {self.actual} is not {self.expected}")


class _BooleanPair(_Pair):
    def compare(self) -> None:
        if bool(self.actual) is not bool(self.expected):
            raise self.fail(f"Booleans mismatch: {bool(self.actual)} is not {bool(self.expected)}")


@frozen
class _NumberPair(_Pair):
    options: _Options
    rtol: float
    atol: float

    def compare(self) -> None:
        a, b = self.actual, self.expected
        if self.options.check_dtype and type(a) is not type(b):
            raise self.fail(f"The (d)types do not match: {type(a)} != {type(b)}.")
        if a == b or (self.options.equal_nan and cmath.isnan(a) and cmath.isnan(b)):
            return
        difference = abs(a - b)
        if not (cmath.isfinite(difference) and difference <= self.atol + self.rtol * abs(b)):
            raise self.fail(mismatches.of_scalars(a, b, self.rtol, self.atol))


@frozen
class _TensorPair(_Pair):
    options: _Options
    rtol: float
    atol: float

    def compare(self) -> None:
        options, a, b = self.options, self.actual, self.expected
        attributes = [
            ("shape", True, a.shape, b.shape),
            ("stride()", options.check_stride, a.stride(), b.stride()),
            ("device", options.check_device, a.device, b.device),
            ("dtype", options.check_dtype, a.dtype, b.dtype),
        ]
        for name, checked, one, other in attributes:
            if checked and one != other:
                raise self.fail(f"The values for attribute '{name}' do not match: {one} != {other}.")
        if a.device != b.device:
            a, b = a.cpu(), b.cpu()
        if a.dtype != b.dtype:
            dtype = promote_types(*[dtypes.int64 if t in _WIDE else t for t in (a.dtype, b.dtype)])
            a, b = a.to(dtype), b.to(dtype)
        matches = a.isclose(b, rtol=self.rtol, atol=self.atol, equal_nan=options.equal_nan)
        if not matches.all():
            if a.shape:
                raise self.fail(mismatches.of_tensors(a, b, matches, self.rtol, self.atol))
            raise self.fail(mismatches.of_scalars(a.item(), b.item(), self.rtol, self.atol))


def _pairs(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The pairs to compare: see NOTE [Pairs]."""
    pair = _Pair(actual, expected, path)
    both = (actual, expected)
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in both):
        if len(actual) != len(expected):
            raise pair.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for i in range(len(actual)):
            yield from _pairs(actual[i], expected[i], options, (*path, i))
    elif all(isinstance(x, Mapping) for x in both):
        _check_keys(pair)
        keys: Any = set(actual)
        with contextlib.suppress(TypeError):
            keys = sorted(keys)
        for key in keys:
            yield from _pairs(actual[key], expected[key], options, (*path, key))
    else:
        yield _single(pair, options)


def _check_keys(pair: _Pair) -> None:
    actual, expected = set(pair.actual), set(pair.expected)
    if actual != expected:
        raise pair.fail(
            "The keys of the mappings do not match:\nMissing keys in the actual mapping: "
            f"{sorted(expected - actual)}\nAdditional keys in the actual mapping: {sorted(actual - expected)}"
        )


def _single(pair: _Pair, options: _Options) -> Any:
    """Two values that are not containers, as a pair of the class that can compare them."""
    both = actual, expected = pair.actual, pair.expected
    if actual is None or expected is None:
        return _NonePair(actual, expected, pair.path)
    if all(isinstance(x, bool | np.bool_) for x in both):
        return _BooleanPair(actual, expected, pair.path)
    numbers = [x.item() if isinstance(x, np.number) else x for x in both]
    if all(type(x) in _TYPES_OF_NUMBERS for x in numbers):
        rtol, atol = pair.tolerances(options, *[_TYPES_OF_NUMBERS[type(x)] for x in numbers])
        return _NumberPair(numbers[0], numbers[1], pair.path, options, rtol, atol)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if related and (options.allow_subclasses or type(actual) is type(expected)):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            tensors = [x.detach() if isinstance(x, Tensor) else as_tensor(x) for x in both]
            rtol, atol = pair.tolerances(options, *[x.dtype for x in tensors])
            return _TensorPair(tensors[0], tensors[1], pair.path, options, rtol, atol)
    raise pair.fail(
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", TypeError
    )


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise unless ``|actual - expected| <= atol + rtol * |expected|`` for all elements.

    Arguments:
      actual, expected: tensors, arrays, numbers, or sequences and mappings of them.
      allow_subclasses: accept types of which one is a subclass of the other.
      rtol, atol: the tolerances; the defaults depend on the dtypes.
      equal_nan: whether NaNs are equal.
      check_device, check_dtype, check_stride: whether these have to agree.
      check_layout: whether the layouts have to agree; here there is only one.
      msg: replaces the error's text, or is a function from this text to another.

    Raises:
      AssertionError: shapes, lengths, keys, or other checked attributes differ, or values are not close.
      TypeError: the inputs cannot be compared.
      ValueError: only one of ``rtol`` and ``atol`` is given.

    >>> import fgrad.torch as torch
    >>> torch.testing.assert_close(torch.tensor([1., 2.]), torch.tensor([1., 2.000001]))
    >>> torch.testing.assert_close({"a": 1.0}, {"a": 1.5})
    Traceback (most recent call last):
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 1.5 but got 1.0.
    Absolute difference: 0.5 (up to 1e-07 allowed)
    Relative difference: 0.3333333333333333 (up to 1e-07 allowed)
    <BLANKLINE>
    The failure occurred for item ['a']

    Source: `torch.testing.assert_close <https://docs.pytorch.org/docs/2.13/testing.html>`_.
    """
    __tracebackhide__ = True
    options = _Options(rtol, atol, equal_nan, allow_subclasses, check_device, check_dtype, check_stride)
    try:
        pairs = list(_pairs(actual, expected, options))
    except _Failure as failure:
        raise failure.error() from None
    for pair in pairs:
        try:
            pair.compare()
        except _Failure as failure:
            raise failure.error(msg) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The former ``assert_close``: it converts its arguments to tensors, and does not compare dtypes.

    Deprecated, with PyTorch's warning.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     assert_allclose([1., 2.], [1., 2.00001])

    Source: `torch.testing.assert_allclose <https://docs.pytorch.org/docs/2.13/testing.html>`_.
    """
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
    )
    if not isinstance(actual, Tensor):
        actual = tensor(actual)
    if not isinstance(expected, Tensor):
        expected = tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _loosest(_OLD_TOLERANCES, actual.dtype, expected.dtype)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)
