"""Threads that compute parts of a large operation.

NOTE [Helpers]
This thread computes the first part, and helper threads, which sleep in between, the others.  NumPy releases Python's
lock while it computes.  What no helper has begun when this thread is done, it computes itself: helpers may be busy, and
on a loaded machine they may wake late.  After an interrupt the helpers finish on arrays that nobody reads.

NOTE [Alone or with helpers]
A helper wakes within 0.1 ms on a quiet machine.  In a virtual machine whose host is busy that takes a millisecond, and
a thread that loses its processor while it holds Python's lock stops all others.  So an operation is timed both ways,
and computed the way that has taken less of late; now and then the other way is tried again.  The parts are the same
either way, and so are the bits of the results.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from time import perf_counter
from typing import Any

#: the multiplications of a part of a product: as long as it takes to wake a helper at best
PART = 1 << 22
#: the slower way is tried again every so many calls, and sooner at first
RETRIED = 64

Task = Callable[[], Any]


def together(tasks: Sequence[Task]) -> None:
    """Run tasks at the same time, all of them under this thread's NumPy error state.

    Raises:
      Exception: what the first task in order raises.
    """
    first, *others = tasks
    submitted = [(task, _submit(task)) for task in others]
    first()
    for task, future in submitted:
        if future is None or future.cancel():
            task()
        else:
            future.result()


class Parts:
    """Computes the parts of one operation: see NOTE [Alone or with helpers]."""

    __slots__ = ("_alone", "_helped", "_calls")

    def __init__(self) -> None:
        #: the seconds that both ways have taken of late; 0 until they are known, so that both are tried
        self._alone: float = 0.0
        self._helped: float = 0.0
        self._calls: int = 0

    def __call__(self, tasks: Sequence[Task]) -> None:
        """Run the tasks.

        Raises:
          Exception: what the first task in order raises.
        """
        self._calls = calls = self._calls + 1
        retried = calls % RETRIED == 0 or calls & (calls - 1) == 0  # or a power of two
        began = perf_counter()
        if (self._helped <= self._alone) != retried:
            together(tasks)
            self._helped = _averaged(self._helped, perf_counter() - began)
        else:
            for task in tasks:
                task()
            self._alone = _averaged(self._alone, perf_counter() - began)


def _averaged(before: float, seconds: float) -> float:
    """The running average with another time, of which a long one counts as twice the average."""
    return (before + min(seconds, 2 * before)) / 2 if before else seconds


def slices_of(length: int, count: int) -> list[slice]:
    """Slices of an axis, as many as this, and as long as each other but for one index."""
    bounds = [length * k // count for k in range(count + 1)]
    return [slice(*ends) for ends in pairwise(bounds)]


def _submit(task: Task) -> Future[Any] | None:
    """Have a helper run a task; None if there is none."""
    try:
        return helpers().submit(copy_context().run, task)
    except RuntimeError:  # the interpreter is exiting, or the system is out of threads
        return None


#: as many threads compute at most, this one and the helpers
PROCESSORS: int = os.cpu_count() or 1


@cache
def helpers() -> ThreadPoolExecutor:
    """The helper threads, made at the first use."""
    return ThreadPoolExecutor(max(PROCESSORS - 1, 1), "fgrad computes")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=helpers.cache_clear)  # a forked process has only the forking thread
