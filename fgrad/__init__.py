"""fgrad: functional automatic differentiation on immutable graphs, over ``jax.numpy``."""

import fgrad.passes.regions  # enters the regions' rules
import fgrad.record.protocols  # noqa: F401  (has NumPy ask the tracer)
from fgrad import errors, lax as lax, nn as nn, numpy as numpy, random as random, scipy as scipy, testing
from fgrad.api.checkpoint import checkpoint, checkpoint_name, checkpoint_policies, remat
from fgrad.api.conventions import swap_convention
from fgrad.api.custom import custom_jvp, custom_vjp
from fgrad.api.files import load
from fgrad.api.forward import jvp, linear_transpose, linearize
from fgrad.api.graphs import Graph, make_graph
from fgrad.api.jacobians import hessian, hvp, jacfwd, jacobian, jacrev
from fgrad.api.loops import bounded_while
from fgrad.api.reverse import fwd_and_bwd, grad, value_and_grad, vjp
from fgrad.api.rules import check_rule, define_rule
from fgrad.api.staging import closure_convert, eval_shape, jit, stop_gradient, vmap
from fgrad.questions.compare import compare
from fgrad.questions.compile_cost import compile_cost
from fgrad.questions.draw import draw
from fgrad.questions.nonfinite import nonfinite
from fgrad.questions.residuals import residuals
from fgrad.questions.watch import watch
from fgrad.questions.why_zero import why_zero
from fgrad.run.executable import cache_info, clear_cache
from fgrad.run.policy import policy

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
