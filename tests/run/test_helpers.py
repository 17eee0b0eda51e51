"""Parts of an operation, computed by several threads."""

import os
import threading

import numpy as np
import pytest

from fgrad.run.kernels import helpers as module
from fgrad.run.kernels.helpers import PROCESSORS, RETRIED, Parts, Task, helpers, slices_of, submit, together


def test_slices_cover_an_axis_evenly():
    assert slices_of(10, 3) == [slice(0, 3), slice(3, 6), slice(6, 10)]


def test_a_helper_computes_meanwhile():
    begun, threads = threading.Event(), []

    def other():
        threads.append(threading.get_ident())
        begun.set()

    together([lambda: begun.wait(10), other])
    assert begun.is_set() and threads[0] != threading.get_ident()


def test_what_no_helper_begins_the_caller_computes():
    """Also a task that was computed here is computed once."""
    may_end, threads = threading.Event(), []
    all_begun = threading.Barrier(max(PROCESSORS, 2))
    busy = [Task(lambda: (all_begun.wait(10), may_end.wait(10))) for _ in range(max(PROCESSORS - 1, 1))]
    for task in busy:
        submit(task)
    all_begun.wait(10)
    together([lambda: None, lambda: threads.append(threading.get_ident())])
    may_end.set()
    for task in busy:
        task.complete()
    together([lambda: None] * 2)  # a helper comes past the task that was computed here
    assert threads == [threading.get_ident()]


def test_tasks_have_the_error_state_of_the_caller():
    states = []
    with np.errstate(over="raise"):
        together([lambda: states.append(np.geterr()["over"])] * 2)
    assert states == ["raise", "raise"]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_is_raised(failing):
    tasks = [lambda: None, lambda: None]
    tasks[failing] = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        together(tasks)


def test_without_threads_the_caller_does_it_all(monkeypatch):
    def start(_):
        raise RuntimeError("can't start new thread")

    helpers.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", start)
    done = []
    together([lambda: done.append(1)] * 3)
    assert done == [1, 1, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_forked_process_has_helpers_of_its_own():
    together([lambda: None] * 2)
    child = os.fork()
    if child == 0:
        done = []
        together([lambda: done.append(1)] * 2)
        os._exit(0 if done == [1, 1] else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("helped", "alone"), [(1.0, 3.0), (3.0, 1.0)])
def test_parts_are_computed_the_way_that_takes_less(monkeypatch, helped, alone):
    now, ways = [0.0], []

    def taking(seconds, way):
        now[0] += seconds
        ways.append(way)

    monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    monkeypatch.setattr(module, "together", lambda tasks: taking(helped, "helped"))
    run = Parts()
    for _ in range(4 * RETRIED):
        run([lambda: taking(alone, "alone")])
    slower = "helped" if helped > alone else "alone"
    assert set(ways[:4]) == {"helped", "alone"}
    assert ways[2 * RETRIED :].count(slower) == 2
