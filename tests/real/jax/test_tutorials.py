"""JAX's tutorials and examples: these, and what is built like them, give the same with ``jax`` and with ``fgrad``."""

import pytest

from tests.real.jax import tutorials
from tests.real.jax.compare import compare


@pytest.mark.real
@pytest.mark.parametrize("program", tutorials.P)
def test_tutorial(program: str):
    compare(tutorials.P[program], rtol=2e-4, atol=2e-5)
