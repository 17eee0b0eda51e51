import threading

import pytest

import fgrad.torch as torch
from fgrad.torch.futures import Future, collect_all, wait_all


def test_a_value_that_another_thread_sets():
    future = Future()
    assert not future.done()
    with pytest.raises(RuntimeError):
        future.value()
    thread = threading.Thread(target=lambda: future.set_result(torch.ones(2)))
    thread.start()
    assert future.wait().tolist() == [1.0, 1.0] and future.done() and future.value() is future.wait()
    thread.join()
    with pytest.raises(RuntimeError, match="a Future can only be marked completed once"):
        future.set_result(1)


def test_callbacks():
    future, seen = Future(), []
    future.add_done_callback(seen.append)
    after = future.then(lambda done: done.value() + 1)
    failed = future.then(lambda done: 1 / 0)
    future.set_result(1)
    assert seen == [future] and after.wait() == 2
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: ZeroDivisionError"):
        failed.wait()
    assert future.then(lambda done: done.value()).value() == 1  # at once, since it is done


def test_errors_instead_of_values():
    future = Future()
    with pytest.raises(AssertionError, match="not an Exception"):
        future.set_exception(3)  # pyright: ignore[reportArgumentType]
    future.set_exception(KeyError("a"))
    for ask in (future.wait, future.value, lambda: wait_all([future])):
        with pytest.raises(KeyError):
            ask()


def test_several_futures():
    one, two = Future(), Future()
    both = collect_all([one, two])
    two.set_result(2)
    assert not both.done()
    one.set_result(1)
    assert both.wait() == [one, two] and wait_all([one, two, one]) == [1, 2, 1] and wait_all([]) == []
    with pytest.raises(ValueError, match="Expected devices to have indices, got cpu"):
        Future(devices=["cpu"])
