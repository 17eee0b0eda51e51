"""Large batches of small products of matrices are computed in parts by several threads."""

import warnings
from contextvars import copy_context

import numpy as np
import pytest

from fgrad.run.kernels import products
from fgrad.run.kernels.products import product_of

#: the multiplications of a part, in these tests
PART = 1 << 22

SIZES = [
    ((), 512, 128, 257),  # by the threads of BLAS
    ((), 1 << 11, 1 << 11, 1),
    ((6, 2), 96, 96, 100),  # the first axis is cut
]
#: a batch that is cut in two
SMALL = ((8,), 128, 64, 128)


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
    assert product_of((2,), 16, PART // 64, 1, 2) is np.matmul
    assert product_of((1,), 128, 128, 128, 2) is np.matmul
    assert product_of(SMALL[0], *SMALL[1:], 1) is np.matmul
    assert product_of(SMALL[0], *SMALL[1:], 2) is not np.matmul


def test_large_products_are_left_to_blas():
    assert product_of((), 512, 512, 512, 2) is product_of((4,), 512, 512, 512, 2) is np.matmul


def test_transposed_factors_are_read_where_they_lie():
    x, y = factors(*SMALL)
    columns = [np.swapaxes(np.swapaxes(part, 1, 2).copy(), 1, 2) for part in (x, y)]
    np.testing.assert_allclose(product_of(*SMALL, 2)(*columns), x @ y, rtol=1e-4, atol=1e-4)


def test_helpers_are_silent_where_the_caller_is():
    x, y = factors(*SMALL)
    x[-1] = np.inf
    context = copy_context()
    context.run(np.seterr, all="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.isfinite(context.run(product_of(*SMALL, 2), x, y)[-1]).any()


def test_an_error_of_a_helper_is_raised():
    x, y = factors(*SMALL)
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        x[-1] = np.inf
        y[:, 0], y[:, 1] = 1, -1
        product_of(*SMALL, 2)(x, y)
