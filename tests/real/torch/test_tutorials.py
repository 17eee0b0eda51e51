"""PyTorch's tutorials and examples: these, and what is built like them, leave the same on both sides.

All run in one process for each side, with ``fgrad.torch.install()`` on ours.  They draw random numbers, train for some
steps, and leave losses, weights and what they predict in ``outputs``.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.real.torch.test_programs import played_all

TUTORIALS = sorted((Path(__file__).parent / "tutorials").glob("*.py"))


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """What all programs leave on PyTorch and on fgrad, by program and name."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    folder = tmp_path_factory.mktemp("tutorials")
    return tuple([played_all(side, TUTORIALS, folder) for side in ("pytorch", "fgrad")])


@pytest.mark.real
@pytest.mark.parametrize("program", [path.stem for path in TUTORIALS])
def test_tutorial(program: str, left):
    theirs, ours = ({k: v for k, v in side.items() if k.startswith(f"{program}:")} for side in left)
    assert theirs and ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key].dtype == value.dtype
        np.testing.assert_allclose(ours[key], value, rtol=2e-4, atol=2e-5, err_msg=key)
