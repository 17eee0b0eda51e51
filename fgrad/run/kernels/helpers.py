"""Threads that compute parts of a large operation.

NOTE [Helpers]
This thread computes the first part, and helper threads, which sleep in between, the others.  NumPy releases Python's
lock while it computes.  What no helper has begun when this thread is done, it computes itself: helpers may be busy, and
on a loaded machine they may wake late.  After an interrupt the helpers finish on arrays that nobody reads.

A signal handler may raise at any moment in this thread, never in a helper.  An executor of the standard library may
keep a lock for good then.  So a task has two locks, of which whoever closes the first one computes; this thread does,
and notes that it did, in one call of a function written in C.

NOTE [Alone or with helpers]
A helper wakes within 0.1 ms on a quiet machine.  In a virtual machine whose host is busy that takes a millisecond, and
a thread that loses its processor while it holds Python's lock stops all others.  So an operation is timed both ways,
and computed the way that has taken less of late; now and then the other way is tried again.  The parts are the same
either way, and so are the bits of the results.
"""

import os
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any

#: the multiplications of a part of a product: as long as it takes to wake a helper at best
PART = 1 << 22
#: the slower way is tried again every so many calls, and sooner at first
RETRIED = 64

Compute = Callable[[], Any]

#: as many threads compute at most, this one and the helpers
PROCESSORS: int = os.cpu_count() or 1


class _Limit:
    """How many threads the user lets compute."""

    threads: int = PROCESSORS


limit: _Limit = _Limit()


class Task:
    """A computation that a helper makes, unless the thread that waits for it comes first: see NOTE [Helpers]."""

    __slots__ = ("_compute", "_context", "_gate", "_closed", "_ended", "_over", "_failed")

    def __init__(self, compute: Compute) -> None:
        self._compute: Compute = compute
        self._context: Context = copy_context()
        #: closed by the thread that computes
        self._gate: Lock = Lock()
        #: whether the waiting thread closed the gate, each time it tried
        self._closed: list[bool] = []
        #: whether a helper is at its end, and a lock that is held until then
        self._ended: bool = False
        self._over: Lock = Lock()
        self._over.acquire()
        self._failed: BaseException | None = None

    def help(self) -> None:
        """Compute, in a helper, unless that has begun."""
        if self._gate.acquire(False):
            try:
                self._context.run(self._compute)
            except BaseException as error:  # raised in the thread that waits
                self._failed = error
            finally:
                self._ended = True
                self._over.release()

    def complete(self) -> None:
        """Compute, or wait until a helper has.

        After an error or an interrupt this may be called again, if the computation may.

        Raises:
          Exception: what the computation raises.
        """
        if not any(self._closed):
            self._closed.extend(map(self._gate.acquire, (False,)))
        if any(self._closed):
            self._compute()
            return
        if not self._ended:
            self._over.acquire()
        failed = self._failed
        if failed is not None:
            self._closed.append(True)
            raise failed


def submit(task: Task) -> None:
    """Have a helper compute a task, if there is any."""
    try:
        helpers().put(task)
    except RuntimeError:  # the system is out of threads
        return


def together(computations: Sequence[Compute]) -> None:
    """Compute at the same time, all under this thread's NumPy error state.

    Raises:
      Exception: what the first computation in order raises.
    """
    first, *others = computations
    tasks = [Task(compute) for compute in others]
    for task in tasks:
        submit(task)
    first()
    for task in tasks:
        task.complete()


class Parts:
    """Computes the parts of one operation: see NOTE [Alone or with helpers]."""

    __slots__ = ("_alone", "_helped", "_calls")

    def __init__(self) -> None:
        #: the seconds that both ways have taken of late; 0 until they are known, so that both are tried
        self._alone: float = 0.0
        self._helped: float = 0.0
        self._calls: int = 0

    def __call__(self, computations: Sequence[Compute]) -> None:
        """Compute.

        Raises:
          Exception: what the first computation in order raises.
        """
        self._calls = calls = self._calls + 1
        retried = calls % RETRIED == 0 or calls & (calls - 1) == 0  # or a power of two
        began = perf_counter()
        if limit.threads > 1 and (self._helped <= self._alone) != retried:
            together(computations)
            self._helped = _averaged(self._helped, perf_counter() - began)
        else:
            for compute in computations:
                compute()
            self._alone = _averaged(self._alone, perf_counter() - began)


def _averaged(before: float, seconds: float) -> float:
    """The running average with another time, of which a long one counts as twice the average."""
    return (before + min(seconds, 2 * before)) / 2 if before else seconds


def slices_of(length: int, count: int) -> list[slice]:
    """Slices of an axis, as many as this, and as long as each other but for one index."""
    bounds = [length * k // count for k in range(count + 1)]
    return [slice(*ends) for ends in pairwise(bounds)]


def _serve(queue: "SimpleQueue[Task]") -> None:
    while True:
        queue.get().help()


@cache
def helpers() -> "SimpleQueue[Task]":
    """The queue that the helper threads serve, made at the first use.

    Raises:
      RuntimeError: the system is out of threads.
    """
    queue: SimpleQueue[Task] = SimpleQueue()
    for k in range(max(PROCESSORS - 1, 1)):
        Thread(target=_serve, args=(queue,), name=f"fgrad computes {k}", daemon=True).start()
    return queue


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=helpers.cache_clear)  # a forked process has only the forking thread
