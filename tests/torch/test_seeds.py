"""The programs of the seed documents print what real torch prints."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fgrad.mutable.context.emulation import compat
from tests import documents
from tests.documents import ROOT

SEEDS = sorted((ROOT / "examples" / "seeds").glob("*.py"))
#: what torch 2.13 prints
RECORDED = Path(__file__).parent / "seeds"


def neutral(text: str) -> str:
    """What was printed, without addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def printed(path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    found = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, timeout=300)
    assert found.returncode == 0, found.stderr
    return neutral(found.stdout)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.stem)
def test_seed(seed: Path):
    assert printed(seed) == (RECORDED / f"{seed.stem}.txt").read_text()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="real torch is the oracle")
@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.stem)
def test_recorded_output_is_torchs(seed: Path, tmp_path: Path):
    source = seed.read_text().replace("import fgrad.torch.nn as nn", "import torch.nn as nn")
    source = source.replace("import fgrad.torch as torch", "import torch").replace("from fgrad.torch", "from torch")
    program = tmp_path / seed.name
    program.write_text(source)
    assert neutral(documents.program(program)) == (RECORDED / f"{seed.stem}.txt").read_text()


def test_assigning_data_in_the_first_releases():
    """The document shows that an assignment to .data does not reach what backward reads; 2.13 does reach it."""
    source = (ROOT / "examples" / "seeds" / "backward_and_inplace_assignment.py").read_text()
    scope: dict[str, object] = {}
    exec(compile(source.split("# second")[0].split("# first")[0], "seed", "exec"), scope)
    with compat("1.x"):
        x, w, z = scope["graph"]()  # type: ignore[operator]
        w.data = w.data * 2
        z.backward()
    assert x.grad.tolist() == [4.0] and w.grad.tolist() == [1.0]
