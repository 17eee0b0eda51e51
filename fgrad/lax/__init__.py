"""``jax.lax`` with fgrad's fast lane: the same names and meaning, quicker where a derivative passes through.

On arrays every function is JAX's own; see `JAX's documentation <https://docs.jax.dev/en/latest/jax.lax.html>`_.

>>> import fgrad.lax
>>> fgrad.grad(fgrad.lax.sin)(0.0)
Array(1., dtype=float32, weak_type=True)
"""

from typing import TYPE_CHECKING, Any

import jax.lax as _jax_module

from fgrad.record.namespaces import export, public_names

__all__ = public_names(_jax_module)
__getattr__: Any = export(_jax_module, __name__, ("linalg",))


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from jax.lax import *

    from fgrad.lax import linalg as linalg
