"""``jax.lax.linalg`` with fgrad's fast lane: the same names and meaning, quicker where a derivative passes through.

On arrays every function is JAX's own; see `JAX's documentation <https://docs.jax.dev/en/latest/jax.lax.html>`_.

>>> import fgrad.lax.linalg
>>> fgrad.lax.linalg.cholesky(fgrad.numpy.eye(1))
Array([[1.]], dtype=float32)
"""

from typing import TYPE_CHECKING, Any

import jax.lax.linalg as _jax_module

from fgrad.record.namespaces import export, public_names

__all__ = public_names(_jax_module)
__getattr__: Any = export(_jax_module, __name__)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from jax.lax.linalg import *
