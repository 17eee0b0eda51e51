"""jmp: training in mixed precision with a loss scale that adapts."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
jmp = pytest.importorskip("jmp")
X = jnp.arange(12.0).reshape(4, 3) / 7


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_a_loss_scale(half):
    policy = jmp.get_policy(f"params=float32,compute={half},output=float32")

    def program(lib):
        scale, params = jmp.DynamicLossScale(jnp.array(2.0**15), period=2), {"w": jnp.array([0.3, -0.2, 0.5])}
        steps = []
        for _ in range(5):

            def loss(params, scale=scale):
                compute, x = policy.cast_to_compute((params, X))
                return scale.scale(policy.cast_to_output(jnp.sum((10 * x @ compute["w"]) ** 2)))

            grads = scale.unscale(lib.grad(loss)(params))
            finite = jmp.all_finite(grads)
            scale = scale.adjust(finite)
            new = jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads)
            params = jmp.select_tree(finite, new, params)
            steps.append((params, scale.loss_scale, finite))
        return steps

    compare(program, rtol=5e-2, atol=5e-3)
