"""Policies: which one is in force."""

from threading import Event, Lock, Thread

import fgrad
from fgrad.run import policy as module
from fgrad.run.policy import POLICIES, active, enforce


def test_blocks_of_two_threads_that_overlap_leave_no_policy_behind():
    before, (one, other) = active(), (fgrad.policy("compiled"), fgrad.policy("numpy"))
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert active() is POLICIES["numpy"]
    other.__exit__(None, None, None)
    assert active() is before


def test_a_policy_enforced_in_a_block_ends_with_it():
    before = active()
    with fgrad.policy("compiled"), fgrad.policy("numpy"):
        enforce(POLICIES["interpreted"])
    assert active() is before


class Held:
    """A lock that holds a thread up when it has just let go of it."""

    def __init__(self):
        self.lock, self.armed, self.released, self.go_on = Lock(), False, Event(), Event()

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()
        if self.armed:
            self.armed = False
            self.released.set()
            assert self.go_on.wait(10)


def test_a_block_entered_while_another_thread_leaves_its_own_is_in_force(monkeypatch):
    before, lock = active(), Held()
    monkeypatch.setattr(module._active, "lock", lock)

    def other():
        with fgrad.policy("numpy"):
            lock.armed = True

    thread = Thread(target=other)
    thread.start()
    assert lock.released.wait(10)
    with fgrad.policy("compiled") as chosen:
        lock.go_on.set()
        thread.join()
        assert active() is chosen
    assert active() is before
