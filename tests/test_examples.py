"""The examples run as they are, and do what they say."""

import os
import subprocess
import sys

import pytest

from tests.documents import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(name: str, *options: str) -> str:
    """What an example prints; it must end well, and without a warning."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *options]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_digits(tmp_path):
    printed = run("digits.py", "--epochs", "15", "--out", str(tmp_path))
    assert "params" not in printed.partition("->")[0]
    for operation in ("dot_general", "tanh", "derivative of tanh", "derivative of dot_general"):
        assert operation in printed
    assert "unseen digits are right" in printed
    svg = (tmp_path / "layer_gradient.svg").read_text()
    assert svg.startswith("<svg") and "tanh" in svg
    assert (tmp_path / "layer_loss.svg").read_text().startswith("<svg")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.thorough
def test_digits_says_when_it_learnt_too_little(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "digits.py"), "--epochs", "1", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert found.returncode == 1 and "less than the 97%" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.name != "digits.py"], ids=lambda p: p.name)
def test_other_examples(path):
    assert run(path.name)
