"""``jax.scipy.special`` with fgrad's fast lane: the same names and meaning, quicker where a derivative passes through.

On arrays every function is JAX's own; see `JAX's documentation <https://docs.jax.dev/en/latest/jax.scipy.html>`_.

>>> import fgrad.scipy.special
>>> fgrad.grad(fgrad.scipy.special.erf)(0.0)
Array(1.1283792, dtype=float32, weak_type=True)
"""

from typing import TYPE_CHECKING, Any

import jax.scipy.special as _jax_module

from fgrad.record.namespaces import export, public_names

__all__ = public_names(_jax_module)
__getattr__: Any = export(_jax_module, __name__)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from jax.scipy.special import *
