"""The buffers of BLAS, touched before the first product.

NOTE [The buffers of BLAS]
OpenBLAS copies the factors of a product, part by part, to a buffer; threads that multiply at the same time have one
each.  Its kernels prefetch from beyond the copied part.  As long as no product has been large enough to reach the pages
there, they are not mapped, and each prefetch walks the page tables in vain: in a virtual machine (AMD Zen, OpenBLAS
0.3.31) a product of 256x512 and 512x128 takes 3.5 ms then, and 1.0 ms afterwards; the step of a GPT takes 190 and 110
ms.  So before the first product, each thread multiplies matrices once that reach these pages; that takes 1 ms.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fgrad.run.kernels.helpers import together

#: in double precision, these fill the first megabyte of a buffer
_ROWS, _INNER = 8, 512


def touch(get: Callable[[], int], put: Callable[[int], Any]) -> None:
    """Touch a buffer for each thread; the functions get and set BLAS's number of threads."""
    left, right = np.ones((_ROWS, _INNER)), np.ones((_INNER, _INNER))
    before = get()
    put(1)
    try:
        together([partial(np.matmul, left, right)] * before)
    finally:
        put(before)
