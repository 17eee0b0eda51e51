"""``jax.nn`` with fgrad's fast lane: the same names and meaning, quicker where a derivative passes through.

On arrays every function is JAX's own; see `JAX's documentation <https://docs.jax.dev/en/latest/jax.nn.html>`_.

>>> import fgrad.nn
>>> fgrad.grad(fgrad.nn.relu)(2.0)
Array(1., dtype=float32, weak_type=True)
"""

from typing import TYPE_CHECKING, Any

import jax.nn as _jax_module

from fgrad.record.namespaces import export, public_names

__all__ = public_names(_jax_module)
__getattr__: Any = export(_jax_module, __name__, ("initializers",))


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from jax.nn import *

    from fgrad.nn import initializers as initializers
