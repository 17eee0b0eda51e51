"""The two conventions for gradients with respect to complex numbers.

NOTE [Complex gradients]
For a real function of ``z = x + iy``, JAX, HIPS/autograd and the functional layer return ``df/dx - i df/dy``; PyTorch
and ``fgrad.torch`` return its conjugate ``df/dx + i df/dy``, the direction of steepest ascent.
"""

from typing import Any

import jax
import numpy as np
from jax import tree_util

from fgrad.api.arguments import flattened


def swap_convention(gradients: Any) -> Any:
    """Convert gradients from JAX's convention to PyTorch's or back, by conjugating complex leaves.

    Arguments:
      gradients: a pytree of arrays or numbers; real ones are unchanged.

    Returns:
      The same pytree in the other convention; applied twice it is the identity.

    >>> import fgrad, jax.numpy as jnp
    >>> gradient = fgrad.grad(lambda z: jnp.abs(z) ** 2)(jnp.complex64(3 + 4j))
    >>> print(gradient, swap_convention({"z": gradient})["z"])
    (6-8j) (6+8j)

    Source: `Autograd for complex numbers
    <https://docs.pytorch.org/docs/2.13/notes/autograd.html#autograd-for-complex-numbers>`_; `Complex numbers and
    differentiation <https://docs.jax.dev/en/latest/notebooks/autodiff_cookbook.html#complex-numbers-and-differentiation>`_.
    """
    flat, tree = flattened(gradients, "gradients", "swap_convention")
    return tree_util.tree_unflatten(tree, [jax.numpy.conj(x) if np.iscomplexobj(x) else x for x in flat])
