"""fgrad: functional automatic differentiation on immutable graphs, over ``jax.numpy``."""

import fgrad.passes.regions  # noqa: F401  (enters the regions' rules)
from fgrad.api.forward import jvp, linear_transpose, linearize
from fgrad.api.reverse import grad, value_and_grad, vjp
from fgrad.run.program import cache_info, clear_cache

__all__ = ["cache_info", "clear_cache", "grad", "jvp", "linear_transpose", "linearize", "value_and_grad", "vjp"]
