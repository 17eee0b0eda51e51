"""Programs about one thing each print what real torch prints of them; see ``programs/``."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from tests import documents

HERE = Path(__file__).parent / "programs"
PROGRAMS = sorted(HERE.glob("*.py"))


@pytest.fixture(autouse=True)
def warned_anew():
    """What is warned of once in a process is warned of, though another test has been warned."""
    libraries = [importlib.import_module(name) for name in ("fgrad.torch", "torch") if importlib.util.find_spec(name)]
    for library in libraries:
        library.set_warn_always(True)
    yield
    for library in libraries:
        library.set_warn_always(False)


def neutral(text: str) -> str:
    """What was printed, without addresses and without the names that differ."""
    return re.sub(r"0x[0-9a-f]+", "0x", text).replace("fgrad.", "").replace("torch.autograd.function.", "")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path):
    assert neutral(documents.program(program)) == program.with_suffix(".txt").read_text()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="real torch is the oracle")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_recorded_output_is_torchs(program: Path, tmp_path: Path):
    source = re.sub(r"^(import|from) fgrad\.torch as", r"\1 torch as", program.read_text(), flags=re.M)
    source = re.sub(r"^(import|from) fgrad\.torch", r"\1 torch", source, flags=re.M)
    copy = tmp_path / program.name
    copy.write_text(source)
    assert neutral(documents.program(copy)) == program.with_suffix(".txt").read_text()
