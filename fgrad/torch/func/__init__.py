"""``torch.func``: derivatives and maps as functions of functions, which nest to any depth.

Source: `torch.func <https://docs.pytorch.org/docs/stable/func.html>`_.
"""

from fgrad.torch.func.forward import jvp, linearize
from fgrad.torch.func.functionalization import without_mutations as functionalize
from fgrad.torch.func.jacobians import hessian, jacfwd, jacrev
from fgrad.torch.func.maps import vmap
from fgrad.torch.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from fgrad.torch.func.reverse import grad, grad_and_value, vjp
from fgrad.torch.printing.levels import debug_unwrap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
