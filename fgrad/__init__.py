"""fgrad: functional automatic differentiation on immutable graphs, over ``jax.numpy``."""

from typing import TYPE_CHECKING

from fgrad import errors, numpy as numpy
from fgrad.api.custom import custom_jvp, custom_vjp
from fgrad.api.reverse import (
    fwd_and_bwd,
    grad,
    value_and_grad,
    vjp,
)
from fgrad.api.staging import (
    closure_convert,
    eval_shape,
    jit,
    stop_gradient,
    vmap,
)
from fgrad.deferred import deferred as _deferred
from fgrad.passes import regions as _regions  # noqa: F401  (defers the rules of regions)
from fgrad.record import protocols as _protocols  # noqa: F401  (has NumPy ask the tracer)
from fgrad.run.executable import cache_info, clear_cache
from fgrad.run.policy import policy

if TYPE_CHECKING:
    from fgrad import lax as lax, nn as nn, random as random, scipy as scipy, testing
    from fgrad.api.checkpoint import (
        checkpoint,
        checkpoint_name,
        remat,
    )
    from fgrad.api.conventions import swap_convention
    from fgrad.api.files import load
    from fgrad.api.forward import jvp, linear_transpose, linearize
    from fgrad.api.graphs import Graph, make_graph
    from fgrad.api.jacobians import (
        hessian,
        hvp,
        jacfwd,
        jacobian,
        jacrev,
    )
    from fgrad.api.loops import bounded_while
    from fgrad.api.rules import check_rule, define_rule
    from fgrad.graph.remat_policies import checkpoint_policies
    from fgrad.questions.compare import compare
    from fgrad.questions.compile_cost import compile_cost
    from fgrad.questions.draw import draw
    from fgrad.questions.nonfinite import nonfinite
    from fgrad.questions.residuals import residuals
    from fgrad.questions.watch import watch
    from fgrad.questions.why_zero import why_zero
else:
    __getattr__, __dir__ = _deferred(
        __name__,
        {
            "fgrad": "lax nn random scipy testing",
            "fgrad.api.checkpoint": "checkpoint checkpoint_name remat",
            "fgrad.api.conventions": "swap_convention",
            "fgrad.api.files": "load",
            "fgrad.api.forward": "jvp linear_transpose linearize",
            "fgrad.api.graphs": "Graph make_graph",
            "fgrad.api.jacobians": "hessian hvp jacfwd jacobian jacrev",
            "fgrad.api.loops": "bounded_while",
            "fgrad.api.rules": "check_rule define_rule",
            "fgrad.graph.remat_policies": "checkpoint_policies",
            "fgrad.questions.compare": "compare",
            "fgrad.questions.compile_cost": "compile_cost",
            "fgrad.questions.draw": "draw",
            "fgrad.questions.nonfinite": "nonfinite",
            "fgrad.questions.residuals": "residuals",
            "fgrad.questions.watch": "watch",
            "fgrad.questions.why_zero": "why_zero",
        },
    )

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "bounded_while",
    "cache_info",
    "check_rule",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_cache",
    "closure_convert",
    "compare",
    "compile_cost",
    "custom_jvp",
    "custom_vjp",
    "define_rule",
    "draw",
    "errors",
    "eval_shape",
    "fwd_and_bwd",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "load",
    "make_graph",
    "nonfinite",
    "policy",
    "remat",
    "residuals",
    "stop_gradient",
    "swap_convention",
    "testing",
    "value_and_grad",
    "vjp",
    "vmap",
    "why_zero",
    "watch",
]
