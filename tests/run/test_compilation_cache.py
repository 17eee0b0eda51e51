"""JAX's persistent compilation cache: a second process compiles nothing that the first one has."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import jax

misses = []
jax.monitoring.register_event_listener(lambda event, **_: misses.append(event) if "cache_misses" in event else None)
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

import fgrad
import fgrad.torch as torch

with fgrad.policy("compiled"):
    fgrad.grad(lambda x: (jax.numpy.sin(x) * x).sum())(jax.numpy.ones(3))
    w = torch.ones(3, requires_grad=True)
    (w * w).tanh().sum().backward()
print(len(misses))
"""


@pytest.mark.thorough
def test_a_second_process_compiles_nothing(tmp_path: Path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    first, second = (int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(2))
    assert first > 0
    assert second == 0
