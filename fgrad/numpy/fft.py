"""``jax.numpy.fft`` with fgrad's fast lane: the same names and meaning, quicker where a derivative passes through.

On arrays every function is JAX's own; see `JAX's documentation <https://docs.jax.dev/en/latest/jax.numpy.html>`_.

>>> import fgrad.numpy.fft
>>> fgrad.numpy.fft.rfft(fgrad.numpy.ones(2))
Array([2.+0.j, 0.+0.j], dtype=complex64)
"""

from typing import TYPE_CHECKING, Any

import jax.numpy.fft as _jax_module

from fgrad.record.namespaces import export, public_names

__all__ = public_names(_jax_module)
__getattr__: Any = export(_jax_module, __name__)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from jax.numpy.fft import *
