"""BLAS on one thread.

NOTE [One thread for BLAS]
OpenBLAS splits a product among threads, which then wait for the next one in a busy loop for some 30 ms.  A network's
products follow each other faster than that, so the threads never stop: they take processor time from the program, the
compiling thread and XLA's threads, and everything gets slower.  So BLAS has one thread while NumPy computes for us,
and afterwards as many as before.  Products large enough to gain from several threads are run by XLA, NOTE [Rent or
buy], or cut, NOTE [Products in parts].

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


_numpy = threads_of(getattr(np.linalg, "_umath_linalg", None))
#: how many threads NumPy's BLAS started with; 1 if we cannot set it
THREADS: int = 1 if _numpy is None else _numpy[0]()


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
