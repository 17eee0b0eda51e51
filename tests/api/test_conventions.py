"""The two conventions for complex gradients."""

import jax
import jax.numpy as jnp
import numpy as np

import fgrad
import fgrad.torch as torch


def test_swapped_the_functional_gradient_is_the_mutable_one():
    z = np.array([1 + 2j, -0.5j], np.complex64)
    gradient = fgrad.grad(lambda z: jnp.sum(jnp.abs(jnp.sin(z)) ** 2))(z)
    tensor = torch.tensor(z, requires_grad=True)
    (tensor.sin().abs() ** 2).sum().backward()
    np.testing.assert_allclose(fgrad.swap_convention(gradient), tensor.grad.numpy(), rtol=1e-5)
    assert np.abs(np.imag(gradient)).max() > 0.1


def test_trees_keep_their_structure_and_real_leaves_their_values():
    tree = {"w": jnp.ones(2), "z": [np.complex64(1 + 2j), 3.0]}
    swapped = fgrad.swap_convention(tree)
    assert swapped["w"] is tree["w"]
    assert swapped["z"] == [1 - 2j, 3.0]
    assert jax.tree.all(jax.tree.map(jnp.array_equal, fgrad.swap_convention(swapped), tree))
