"""BLAS computes on one thread for us, and afterwards on as many as before."""

import os
import threading

import numpy as np
import pytest

from fgrad.run.kernels.one_thread import OneThread


@pytest.fixture
def blas():
    found = OneThread(np.linalg._umath_linalg)
    if found._functions is None:
        pytest.skip("NumPy is linked with another BLAS")
    get, put = found._functions
    before = get()
    put(2)
    yield found, get
    put(before)


def test_one_thread_while_it_computes(blas):
    alone, threads = blas
    assert alone(lambda: (alone(threads)(), threads()))() == (1, 1)
    assert threads() == 2


def test_as_many_as_before_after_an_error(blas):
    alone, threads = blas
    with pytest.raises(ZeroDivisionError):
        alone(lambda: 1 / 0)()
    assert threads() == 2


def test_until_the_last_of_several_threads_has_computed(blas):
    alone, threads = blas
    begun, may_end = threading.Event(), threading.Event()
    other = threading.Thread(target=alone(lambda: begun.set() or may_end.wait()))
    other.start()
    begun.wait()
    assert alone(threads)() == 1
    assert threads() == 1
    may_end.set()
    other.join()
    assert threads() == 2


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="needs forks")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_as_many_as_before(blas):
    alone, threads = blas
    begun, may_end = threading.Event(), threading.Event()
    other = threading.Thread(target=alone(lambda: begun.set() or may_end.wait()))
    other.start()
    begun.wait()
    child = os.fork()
    if not child:
        os._exit(0 if threads() == 2 and alone(threads)() == 1 and threads() == 2 else 1)
    may_end.set()
    other.join()
    assert os.waitpid(child, 0)[1] == 0


def test_another_blas_is_left_alone():
    class Other:
        __file__ = None

    assert OneThread(Other)(len) is len
