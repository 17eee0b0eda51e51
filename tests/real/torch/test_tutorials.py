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


#: those that run in every test run: some ten seconds on each side
QUICK = [
    "amp_swa",
    "char_rnn_names",
    "double_backward",
    "dqn",
    "flow_realnvp",
    "functions_ctx",
    "gcn_gat",
    "hook_zoo",
    "inplace_zoo",
    "kv_cache_llama",
    "loaders",
    "lora",
    "mingpt",
    "neural_computer",
    "per_sample",
    "prune_param",
    "reinforce",
    "seq2seq_attention",
    "spiking_ste",
    "vae",
]


def left_by(programs, folder):
    """What programs leave on PyTorch and on fgrad, by program and name."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    return tuple([played_all(side, programs, folder) for side in ("pytorch", "fgrad")])


def check(program: str, left):
    theirs, ours = ({k: v for k, v in side.items() if k.startswith(f"{program}:")} for side in left)
    assert theirs and ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key].dtype == value.dtype
        np.testing.assert_allclose(ours[key], value, rtol=2e-4, atol=2e-5, err_msg=key)


def test_quick_tutorials(tmp_path):
    left = left_by([path for path in TUTORIALS if path.stem in QUICK], tmp_path)
    for program in QUICK:
        check(program, left)


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    return left_by(TUTORIALS, tmp_path_factory.mktemp("tutorials"))


@pytest.mark.real
@pytest.mark.parametrize("program", [path.stem for path in TUTORIALS])
def test_tutorial(program: str, left):
    check(program, left)
