"""signax: signatures of paths."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
signax = pytest.importorskip("signax")

PATH = jax.random.normal(jax.random.key(0), (6, 2))


@pytest.mark.parametrize("name", ["signature", "logsignature"])
def test_a_signature(name):
    transform = getattr(signax, name)
    compare(lambda lib: lib.value_and_grad(lambda p: sum(jnp.sum(s**2) for s in transform(p, 3)))(PATH))
