"""The threads of BLAS: one for a small product, all for a large one.

NOTE [Threads of BLAS]
OpenBLAS splits a product among its threads from 2**18 multiplications on.  They wait for the next one in a busy loop,
for 0.1 s and more, so they begin at once; a thread that sleeps is up to 0.3 ms late in a virtual machine, longer than
most products take.  But in that loop they take processor time from the compiling thread and from XLA's threads, and a
product gains from them only beyond some 2**22 multiplications.  So BLAS has one thread while NumPy computes smaller
ones for us, and afterwards as many as before.  Whether it has depends on the sizes alone, so equal factors give equal
bits.

No state is kept between computations, so an interrupt, a signal handler that computes or a fork cannot corrupt any.  A
nested or concurrent computation finds one thread and does not change that; if the other computation ends first, the
rest of this one may run on several.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fgrad.run.kernels.blas_buffers import touch
from fgrad.run.kernels.helpers import limit
from fgrad.run.kernels.kernel import Compute

#: the names, in various builds of OpenBLAS, of the functions that get and set the number of threads
_NAMES = [
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
]


@cache
def threads_of(module: Any) -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """The getter and setter of the number of threads of the OpenBLAS to which an extension module is linked, if any."""
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    library = ctypes.PyDLL(path)
    names = next((pair for pair in _NAMES if hasattr(library, pair[1])), None)
    return None if names is None else (getattr(library, names[0]), getattr(library, names[1]))


#: a product gains from several threads from this many multiplications on; with a vector, from this many
GAINING, GAINING_WITH_VECTOR = 1 << 23, 1 << 21
#: OpenBLAS uses several threads for products of more multiplications than these
_THREADED, _THREADED_WITH_VECTOR = 1 << 18, 9216

_numpy = threads_of(getattr(np.linalg, "_umath_linalg", None))
#: how many threads NumPy's BLAS started with; 1 if we cannot set it
THREADS: int = 1 if _numpy is None else _numpy[0]()


def limit_threads(count: int) -> None:
    """Let at most so many threads compute: those of NumPy's BLAS, for other programs of it as well, and helpers."""
    limit.threads = count
    if _numpy is not None:
        _numpy[1](min(count, THREADS))


def on_threads_for(rows: int, inner: int, columns: int, compute: Compute) -> Compute:
    """A computation that multiplies matrices of these sizes, on one thread if these gain nothing from several."""
    threaded = _THREADED if min(rows, columns) > 1 else _THREADED_WITH_VECTOR
    alone = rows * inner * columns > threaded and not gains(rows, inner, columns)
    return on_one_thread(compute) if alone else compute


def gains(rows: int, inner: int, columns: int) -> bool:
    """Whether a product of matrices of these sizes gains from several threads."""
    return rows * inner * columns >= (GAINING if min(rows, columns) > 1 else GAINING_WITH_VECTOR)


def on_one_thread(compute: Compute, module: Any = None) -> Compute:
    """A computation with the BLAS of NumPy, or that of another extension module, on one thread."""
    functions = _numpy if module is None else threads_of(module)
    if functions is None:
        return compute
    get, put = functions
    if module is None:
        _touch_buffers()

    def alone(*args: Any, **options: Any) -> Any:
        before = get()
        if before == 1:
            return compute(*args, **options)
        try:
            put(1)
            return compute(*args, **options)
        finally:
            put(before)

    return alone


@cache
def _touch_buffers() -> None:
    if _numpy is not None:
        touch(*_numpy)
