"""BLAS on one thread.

NOTE [One thread for BLAS]
OpenBLAS shares a product out among threads, and these then look for the next one in a busy loop for some 30 ms.  From
one product of a network to the next it is less than that, so all of them always run: they take the processors from the
program, from the thread that compiles and from XLA's threads, and make slow what they were to make quick.  So while
NumPy computes for us BLAS has one thread, and afterwards as many as before, for the rest of the program.  What is large
enough for more threads to be worth while, XLA runs: NOTE [Rent or buy].
"""

import ctypes
import os
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from fgrad.run.kernels.kernel import Compute

#: the names of the functions that get and set the number of threads, as the builds of OpenBLAS have them
_NAMES = [
    (f"{before}openblas_get_num_threads{behind}", f"{before}openblas_set_num_threads{behind}")
    for before in ("scipy_", "")
    for behind in ("64_", "")
]


class OneThread:
    """The BLAS that an extension module is linked with, on one thread while anything computes with it."""

    def __init__(self, module: Any):
        library = ctypes.PyDLL(module.__file__)
        found = next((pair for pair in _NAMES if hasattr(library, pair[1])), None)
        #: None where it is another BLAS
        self._functions: tuple[Callable[[], int], Callable[[int], Any]] | None = None
        if found is not None:
            self._functions = getattr(library, found[0]), getattr(library, found[1])
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._in_forked_process)
        self._lock = Lock()
        #: how many compute, and the number of threads before
        self._computing = 0
        self._before = 1

    def __call__(self, compute: Compute) -> Compute:
        """A computation on one thread."""
        if self._functions is None:
            return compute
        get, put = self._functions

        def alone(*args: Any) -> Any:
            with self._lock:
                if not self._computing:
                    self._before = get()
                    put(1)
                self._computing += 1
            try:
                return compute(*args)
            finally:
                with self._lock:
                    self._computing -= 1
                    if not self._computing:
                        put(self._before)

        return alone

    def _in_forked_process(self) -> None:
        """Nobody else computes here."""
        self._lock = Lock()
        if self._computing and self._functions is not None:
            self._functions[1](self._before)
        self._computing = 0


on_one_thread = OneThread(np.linalg._umath_linalg)  # type: ignore[attr-defined]
