"""BLAS on one thread.

NOTE [One thread for BLAS]
OpenBLAS shares a product out among threads, and these then look for the next one in a busy loop for some 30 ms.  From
one product of a network to the next it is less than that, so all of them always run: they take the processors from the
program, from the thread that compiles and from XLA's threads, and make slow what they were to make quick.  So while
NumPy computes for us BLAS has one thread, and afterwards as many as before, for the rest of the program.  What is large
enough for more threads to be worth while, XLA runs, NOTE [Rent or buy], or is cut: NOTE [Products in parts].

Nothing is kept between computations, so that an interrupt, a signal handler that computes or a fork has nothing to
spoil.  A computation within another, or beside one in another thread, finds one thread and leaves it at that; where the
other ends first, the rest of this one may have several.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fgrad.run.kernels.kernel import Compute

#: the names of the functions that get and set the number of threads, as the builds of OpenBLAS have them
_NAMES = [
    (f"{before}openblas_get_num_threads{behind}", f"{before}openblas_set_num_threads{behind}")
    for before in ("scipy_", "")
    for behind in ("64_", "")
]


@cache
def threads_of(module: Any) -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """What gets and sets the number of threads of the OpenBLAS that an extension module is linked with, if it is."""
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    library = ctypes.PyDLL(path)
    names = next((pair for pair in _NAMES if hasattr(library, pair[1])), None)
    return None if names is None else (getattr(library, names[0]), getattr(library, names[1]))


def on_one_thread(compute: Compute, module: Any = None) -> Compute:
    """A computation with the BLAS of NumPy, or that of another extension module, on one thread."""
    functions = threads_of(getattr(np.linalg, "_umath_linalg", None) if module is None else module)
    if functions is None:
        return compute
    get, put = functions

    def alone(*args: Any) -> Any:
        before = get()
        if before == 1:
            return compute(*args)
        try:
            put(1)
            return compute(*args)
        finally:
            put(before)

    return alone
