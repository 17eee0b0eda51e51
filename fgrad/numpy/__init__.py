"""``jax.numpy`` with fgrad's fast lane: the same names and meaning, quicker where a derivative passes through.

On arrays every function is JAX's own; see `JAX's documentation <https://docs.jax.dev/en/latest/jax.numpy.html>`_.

>>> import fgrad.numpy
>>> fgrad.grad(lambda x: fgrad.numpy.sum(x**2))(fgrad.numpy.ones(2))
Array([2., 2.], dtype=float32)
"""

from typing import TYPE_CHECKING, Any

import jax.numpy as _jax_module

from fgrad.record.namespaces import export, public_names

__all__ = public_names(_jax_module)
__getattr__: Any = export(_jax_module, __name__, ("fft", "linalg"))


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from jax.numpy import *

    from fgrad.numpy import fft as fft, linalg as linalg
