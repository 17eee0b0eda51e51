"""``functionalize``: programs on mutable tensors as pure functions of arrays.

NOTE [Pure outside]
A function that creates tensors, writes to them and calls ``backward`` on them is pure if it writes only to its own
tensors.  Run on tensors that hold traced values it becomes, operation by operation, a graph without writes (NOTE
[Capture]).  Writes to its inputs are local too, since arrays have no identity; ``return_inputs`` returns them.  Only
writes to tensors from outside would be lost when a recorded graph runs again, and are refused.

NOTE [Arrays at the border]
Unless ``jax_enable_x64`` is set, JAX converts NumPy's 64-bit arrays to 32 bits, and so the arguments that it traces.
Untraced NumPy floats are converted too: otherwise they would meet converted ones, and PyTorch multiplies no matrices of
two dtypes.  Integers keep their 64 bits, which labels and indices need; PyTorch promotes those of different widths.
Inside, ``long()`` and ``double()`` have 64 bits whatever the flag.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import tree_util

from fgrad.graph.source import boundary
from fgrad.jaxcore import as_typed
from fgrad.mutable.operation.capture import flatten
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.transforms.levels import capturing
from fgrad.mutable.values.evaluation import as_jax, constant


def functionalize(f: Callable[..., Any], *, return_inputs: bool = False) -> Callable[..., Any]:
    """A function of tensors as a pure function of arrays.

    Arguments:
      f: takes and returns trees of tensors.  It may write to its arguments and to tensors that it makes, set
        ``requires_grad``, and call ``backward``; tensors from outside are constants to it.
      return_inputs: return ``(result, args)``, where ``args`` are the positional arguments as ``f`` left them.

    Returns:
      A function of the same arguments.  NumPy and JAX arrays, also traced ones, replace tensors in its arguments
      and results, so that ``fgrad.grad``, ``fgrad.vmap``, ``fgrad.make_graph``, ``jax.jit`` and so on accept it.
      Called with tensors it calls ``f``.  Its derivative is that of ``torch.func.grad``: ``detach``, ``no_grad``
      and ``.data`` cut it, and a custom ``Function`` has the one that its ``backward`` says (NOTE [Cuts]).

    Raises:
      RuntimeError: ``f`` writes to a tensor from outside.

    >>> import fgrad, numpy as np
    >>> import fgrad.torch as torch
    >>> def f(x):
    ...     y = torch.zeros(3)
    ...     for i in range(3):
    ...         y[i] = x[i] ** 2
    ...     return y.sum()
    >>> fgrad.grad(torch.functionalize(f))(np.array([1., 2., 3.], 'float32'))
    Array([2., 4., 6.], dtype=float32)
    """

    @boundary
    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        if any(isinstance(x, Tensor) for x in leaves):
            result = f(*args, **kwargs)
            return (result, args) if return_inputs else result
        with capturing():
            inside = [_tensor(x) if isinstance(x, np.ndarray | jax.Array) else x for x in leaves]
            args, kwargs = tree_util.tree_unflatten(structure, inside)
            result = f(*args, **kwargs)
            return _arrays((result, args) if return_inputs else result)

    return wrapped


def _tensor(x: Any) -> Tensor:
    """An array as a tensor: see NOTE [Arrays at the border]."""
    x = as_typed(x)
    if isinstance(x, np.ndarray):
        x = constant(x) if x.dtype.kind in "iu" else jax.numpy.asarray(x)
    return new_tensor(x, type_of(x))


def _arrays(tree: Any) -> Any:
    leaves, structure = flatten(tree)
    return tree_util.tree_unflatten(structure, [as_jax(x._value()) if isinstance(x, Tensor) else x for x in leaves])


_OPTIONS = (
    " Valid options are:\n     remove='mutations': all inplace and out= operators will be removed from the program, "
    "and replaced with their out-of-place equivalents.\n     remove='mutations_and_views': In addition to the above, "
    "all aliasing operators {view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
)


def without_mutations(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``torch.func.functionalize``: the function itself.

    No operation of this library mutates memory, and no view aliases any, so there is nothing to remove; writes to the
    arguments take effect as in PyTorch.  For a pure function of arrays see ``fgrad.torch.functionalize``.

    Raises:
      RuntimeError: ``remove`` is not one of PyTorch's options.

    Source: `torch.func.functionalize
    <https://docs.pytorch.org/docs/stable/generated/torch.func.functionalize.html>`_.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}." + _OPTIONS
        )

    @boundary
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
