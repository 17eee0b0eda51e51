"""Random programs of the mutable layer against real torch, or against what torch once showed of them."""

import gzip
import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

import fgrad.torch as ours
from tests.torch.mirror import WEIGHTS, Player, Step, alike, described, difference, random_program

try:
    import torch as theirs
except ImportError:
    theirs = None

needs_torch = pytest.mark.skipif(theirs is None, reason="real torch is the oracle")

#: seeds of programs in which the libraries differ, and why
OTHERWISE: dict[int, str] = {}

RECORDED = Path(__file__).parent / "mirror.json.gz"

STEPS = st.builds(
    lambda name, a, b, c, mode: (name, a, b, c, mode),
    st.sampled_from([name for name, weight in WEIGHTS.items() for _ in range(weight)]),
    st.integers(0, 15),
    st.integers(0, 59),
    st.integers(0, 59),
    st.sampled_from([0] * 8 + [1, 2]),
)


# the same programs each time: of others, one or two in a thousand differ (``python -m tests.torch.mirror`` plays them)
@needs_torch
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=1, max_size=12))
def test_hypothesis_programs(program: list[Step]):
    found = difference(program, ours, theirs)
    assert found is None, found


@needs_torch
@pytest.mark.parametrize("block", range(80))
def test_random_programs(block: int):
    """2000 programs from seeds, in blocks of 25."""
    for seed in range(25 * block, 25 * block + 25):
        if seed not in OTHERWISE:
            found = difference(random_program(seed, 8), ours, theirs)
            assert found is None, f"seed {seed}: {found}"


@pytest.mark.skipif(theirs is not None, reason="torch itself is here")
@pytest.mark.parametrize("block", range(10))
def test_recorded_programs(block: int):
    """A thousand programs, with what torch 2.13 showed of them."""
    with gzip.open(RECORDED, "rt") as file:
        recorded = json.load(file)
    for seed, (program, wanted) in enumerate(recorded[100 * block : 100 * block + 100], 100 * block):
        if seed in OTHERWISE:
            continue
        player = Player(ours)
        for at, (step, expected) in enumerate(zip(program, wanted, strict=True)):
            seen = player.play(tuple(step))
            assert alike(seen, expected), described(program, at, seen, expected)
