"""``jax.numpy.linalg`` with fgrad's fast lane: the same names and meaning, quicker where a derivative passes through.

On arrays every function is JAX's own; see `JAX's documentation <https://docs.jax.dev/en/latest/jax.numpy.html>`_.

>>> import fgrad.numpy.linalg
>>> fgrad.grad(fgrad.numpy.linalg.norm)(fgrad.numpy.array([3.0, 4.0]))
Array([0.6, 0.8], dtype=float32)
"""

from typing import TYPE_CHECKING, Any

import jax.numpy.linalg as _jax_module

from fgrad.record.namespaces import export, public_names

__all__ = public_names(_jax_module)
__getattr__: Any = export(_jax_module, __name__)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from jax.numpy.linalg import *
