"""Operands: numbers as arrays, conversions, and what may be written where."""

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.mutable.operation.operands import (
    NUMBERS_KEPT,
    array_type_of,
    cast,
    cast_into,
    check_cast,
    number,
    promoted,
    with_unsigned,
)
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types.dtypes import bool_, complex64, float16, float32, float64, int8, int32, int64

pytestmark = pytest.mark.fast


def test_a_number_is_an_array_of_64_bits_and_kept():
    assert number(2).dtype == np.int64 and number(0.5).dtype == np.float64 and number(1j).dtype == np.complex128
    assert number(0.5) is number(0.5)
    assert number(True).dtype == np.bool_ and number(1).dtype == np.int64  # equal, and not the same


def test_zeros_of_either_sign_are_told_apart():
    assert np.signbit(np.asarray(number(-0.0))) and not np.signbit(np.asarray(number(0.0)))
    assert [np.signbit(np.asarray(number(complex(1, zero))).imag) for zero in (0.0, -0.0, 0.0)] == [False, True, False]


def test_numbers_kept_are_bounded():
    for i in range(NUMBERS_KEPT + 2):
        number(i)
    from_one = number(float("nan"))
    assert from_one is not number(float("nan"))


def test_an_integer_from_2_to_the_63_on_is_a_float_or_the_signed_one_of_the_same_bits():
    assert with_unsigned((None, 1, 1 << 63), float32) == (None, 1, 2.0**63)
    assert with_unsigned((2.0, (1 << 64) - 1), int64) == (2.0, -1)


def test_an_integer_beyond_64_bits_names_the_way_out():
    with pytest.raises(OverflowError, match="Way out: a float"):
        with_unsigned((1 << 70,), float32)


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (np.float32([-1.7, 2.9]), int32, [-1, 2]),
        (np.float32([0.0, 0.5, np.nan]), bool_, [False, True, True]),
        (np.complex64([1 + 2j]), float32, [1.0]),
        (np.float64([np.inf, 300.0]), int8, [0, 44]),  # the lowest bits of what the processor makes of them
        (np.int32([3]), float16, [3.0]),
    ],
)
def test_elements_are_converted_as_in_pytorch(value, dtype, wanted):
    assert np.asarray(cast(value, dtype)).tolist() == wanted
    assert cast(value, dtype).dtype == dtype.numpy


def test_a_result_is_written_in_its_shape_and_to_its_kind():
    into = tensor_type(float32, (2,))
    assert cast_into(np.float64([1, 2]), into, float64).dtype == np.float32
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3\]"):
        cast_into(np.float32([1, 2, 3]), into, None)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        check_cast(float32, int64)


def test_numbers_are_promoted_by_their_kind_alone():
    vector, scalar = tensor_type(float32, (2,)), tensor_type(float64, ())
    assert promoted((vector, float)) is float32
    assert promoted((vector, scalar)) is float32
    assert promoted((vector, None, complex)) is complex64
    assert promoted((tensor_type(int64, (2,)), float)) is torch.get_default_dtype()
    assert array_type_of(float).dtype == np.float64 and array_type_of(vector).shape == (2,)
