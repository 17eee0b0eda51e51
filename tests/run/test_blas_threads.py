"""BLAS computes small products on one thread for us, and afterwards on as many as before."""

import math
import signal
import threading
import time

import numpy as np
import pytest

from fgrad.run.kernels import blas_threads as module
from fgrad.run.kernels.blas_threads import GAINING, limit_threads, on_one_thread, on_threads_for, threads_of
from fgrad.run.kernels.helpers import Parts, limit


@pytest.fixture
def threads():
    functions = threads_of(np.linalg._umath_linalg)
    if functions is None:
        pytest.skip("NumPy is linked with another BLAS")
    get, put = functions
    before = get()
    put(2)
    yield get
    put(before)


def test_one_thread_while_it_computes(threads):
    assert on_one_thread(lambda: (on_one_thread(threads)(), threads()))() == (1, 1)
    assert threads() == 2


@pytest.mark.parametrize(
    "sizes, count",
    [
        ((4, 4, 4), 2),  # OpenBLAS itself does not split it
        ((128, 128, 64), 1),
        ((128, 128, GAINING >> 14), 2),
        ((512, 2, 512), 1),
        ((2048, 2048, 1), 2),
    ],
)
def test_threads_where_a_product_gains_from_them(threads, sizes, count):
    assert on_threads_for(*sizes, threads)() == count
    assert threads() == 2


def test_a_limit_holds_for_blas_and_for_helpers(threads, monkeypatch):
    monkeypatch.setattr(module, "THREADS", 2)
    monkeypatch.setattr(limit, "threads", 2)
    limit_threads(1)
    used: list[int] = []
    run = Parts()
    for _ in range(8):
        run([lambda: used.append(threading.get_ident())] * 2)
    assert threads() == limit.threads == 1 and set(used) == {threading.get_ident()}
    limit_threads(5)
    assert threads() == 2 and limit.threads == 5


def test_as_many_as_before_after_an_error(threads):
    with pytest.raises(ZeroDivisionError):
        on_one_thread(lambda: 1 / 0)()
    assert threads() == 2


def test_as_many_as_before_when_several_have_computed(threads):
    begun, may_end = threading.Event(), threading.Event()
    other = threading.Thread(target=on_one_thread(lambda: begun.set() or may_end.wait()))
    other.start()
    begun.wait()
    assert on_one_thread(threads)() == 1
    assert threads() == 1
    may_end.set()
    other.join()
    assert threads() == 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_as_many_as_before_after_an_interrupt_at_any_moment(threads):
    """The handler computes, too."""
    alone, met = on_one_thread(lambda: sum(range(20))), 0

    def handler(*_):
        alone()
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, handler)
    try:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003)
                while True:
                    alone()
            except KeyboardInterrupt:
                met += 1
                assert threads() == 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert met


def test_another_blas_is_left_alone():
    assert on_one_thread(len, math) is len
