"""A buffer of BLAS is touched for each thread, on which BLAS computes alone meanwhile."""

import threading

import numpy as np
import pytest

from fgrad.run.kernels import blas_buffers
from fgrad.run.kernels.blas_buffers import touch


class Setting:
    def __init__(self):
        self.threads = 3
        self.met = []

    def get(self):
        return self.threads

    def put(self, threads):
        self.threads = threads


@pytest.fixture
def products(monkeypatch):
    """The setting, and the sizes and threads of the products that are computed."""
    setting, met = Setting(), []

    def matmul(x, y):
        met.append((threading.get_ident(), setting.threads, x.nbytes + y.nbytes))
        return x @ y

    monkeypatch.setattr(np, "matmul", matmul)
    return setting, met


def test_each_thread_touches_a_megabyte(products):
    setting, met = products
    touch(setting.get, setting.put)
    assert len(met) == 3 and all(threads == 1 and size > 1 << 20 for _, threads, size in met)
    assert met[0][0] == threading.get_ident() or len({thread for thread, *_ in met}) > 1
    assert setting.threads == 3


def test_the_setting_is_restored_after_an_error(monkeypatch):
    setting = Setting()
    monkeypatch.setattr(blas_buffers, "together", lambda tasks: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        touch(setting.get, setting.put)
    assert setting.threads == 3
