"""Threads that compute parts of a large operation.

NOTE [Helpers]
This thread computes the first part, and helper threads, which sleep in between, the others.  NumPy releases Python's
lock while it computes.  What no helper has begun when this thread is done, it computes itself: helpers may be busy, and
on a loaded machine they may wake late.  After an interrupt the helpers finish on arrays that nobody reads.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from typing import Any

#: the multiplications of a part of a product, some 2 ms: in a virtual machine a helper may take a millisecond to wake
PART = 1 << 26

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
