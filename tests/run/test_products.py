"""Large products of matrices are computed in parts by several threads."""

import warnings
from contextvars import copy_context

import numpy as np
import pytest

from fgrad.run.kernels import products
from fgrad.run.kernels.products import product_of

#: the multiplications of a part, in these tests
PART = 1 << 22

SIZES = [
    ((), 512, 128, 257),  # rows are cut
    ((), 129, 256, 512),  # columns
    ((), 1 << 11, 1 << 11, 1),
    ((6, 2), 96, 96, 100),  # the first axis of many
]


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    monkeypatch.setattr(products, "PART", PART)


def factors(batch, rows, inner, columns):
    random = np.random.default_rng(0)
    return [random.standard_normal((*batch, *sizes), np.float32) for sizes in ((rows, inner), (inner, columns))]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_give_the_product_and_the_same_bits_each_time(sizes, threads):
    x, y = factors(*sizes)
    product = product_of(*sizes, threads)
    found = product(x, y)
    np.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)
    assert found.flags.c_contiguous and np.array_equal(found, product(x, y))


def test_small_products_and_few_threads_are_not_cut():
    assert product_of((), 16, PART // 16, 1, 2) is np.matmul
    assert product_of((1,), 512, 512, 512, 2) is np.matmul
    assert product_of((), 512, 512, 512, 1) is np.matmul


def test_transposed_factors_are_read_where_they_lie():
    x, y = factors((), 512, 128, 256)
    columns = [np.asfortranarray(x), np.asfortranarray(y)]
    np.testing.assert_allclose(product_of((), 512, 128, 256, 2)(*columns), x @ y, rtol=1e-4, atol=1e-4)


def test_helpers_are_silent_where_the_caller_is():
    x, y = factors((), 512, 128, 256)
    x[-1] = np.inf
    context = copy_context()
    context.run(np.seterr, all="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.isfinite(context.run(product_of((), 512, 128, 256, 2), x, y)[-1]).any()


def test_an_error_of_a_helper_is_raised():
    x, y = factors((), 512, 128, 256)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        x[-1] = np.inf
        y[0], y[1] = 1, -1
        product_of((), 512, 128, 256, 2)(x, y)
