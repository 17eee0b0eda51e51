"""What fgrad says of typical mistakes, to the letter, and that its peer says what we have written down of it.

``functional.txt`` and ``mutable.txt`` hold the texts; ``python -m tests.messages.record`` writes them anew.
"""

import builtins
import importlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import pytest

import fgrad
import fgrad.torch
from fgrad.graph.op import BATCHING
from tests.messages import functional, mutable
from tests.messages.mistake import Mistake, Said, read, said

HERE = Path(__file__).parent
LAYERS = {"functional": functional.MISTAKES, "mutable": mutable.MISTAKES}
TEXTS = {layer: read(HERE / f"{layer}.txt") for layer in LAYERS}
CASES = [pytest.param(layer, name, id=f"{layer}: {name}") for layer, table in LAYERS.items() for name in table]

#: releases of JAX and PyTorch whose texts are written down; others may word an error anew
JAX, TORCH = "0.10.2", "2.13"


@pytest.fixture(autouse=True)
def no_batching_rules():
    """Rules that other tests have defined make ``vmap`` record what it maps."""
    with patch.dict(BATCHING, clear=True):
        yield


def mistake(layer: str, name: str) -> Mistake:
    return LAYERS[layer][name]


@pytest.mark.parametrize(("layer", "name"), CASES)
def test_fgrad_says_what_is_written_down(layer: str, name: str):
    found = said(mistake(layer, name), fgrad if layer == "functional" else fgrad.torch)
    expected = TEXTS[layer][name]["fgrad"]
    if jax.__version__ == JAX or layer == "mutable":
        assert found == expected
    else:
        assert (found.kind, found.text.splitlines()[-1:]) == (expected.kind, expected.text.splitlines()[-1:])


@pytest.mark.parametrize("name", functional.MISTAKES)
@pytest.mark.skipif(jax.__version__ != JAX, reason="the texts are those of another release of JAX")
def test_jax_says_what_is_written_down(name: str):
    assert said(functional.MISTAKES[name], jax) == TEXTS["functional"][name]["JAX"]


def pytorch() -> Any:
    if importlib.util.find_spec("torch") is None or not importlib.metadata.version("torch").startswith(TORCH):
        pytest.skip("the texts are those of PyTorch " + TORCH)
    return importlib.import_module("torch")


@pytest.mark.parametrize("name", mutable.MISTAKES)
def test_pytorch_says_what_is_written_down(name: str):
    assert said(mutable.MISTAKES[name], pytorch()) == TEXTS["mutable"][name]["PyTorch"]


@pytest.mark.parametrize("name", mutable.MISTAKES)
def test_pytorchs_text_comes_first_and_unchanged(name: str):
    theirs, ours = TEXTS["mutable"][name]["PyTorch"], TEXTS["mutable"][name]["fgrad"]
    assert ours.kind == theirs.kind
    assert ours.text.startswith(theirs.text.partition(" (Triggered internally")[0])


@pytest.mark.parametrize("name", functional.MISTAKES)
def test_errors_are_caught_as_jaxs_are(name: str):
    theirs, ours = TEXTS["functional"][name]["JAX"], TEXTS["functional"][name]["fgrad"]
    if ours.kind != "no error":
        assert issubclass(kind(ours.kind), kind(theirs.kind))


def kind(name: str) -> type:
    """The class of errors that goes by a name."""
    return next(getattr(m, name) for m in (fgrad.errors, jax.errors, builtins) if hasattr(m, name))


@pytest.mark.parametrize("layer", LAYERS)
def test_so_many_are_better(layer: str):
    """No text is the same where it is said to be better, and at least 30 of at least 48 are."""
    table = LAYERS[layer]
    peer = "JAX" if layer == "functional" else "PyTorch"
    better = [name for name, m in table.items() if m.better]
    for name in better:
        assert TEXTS[layer][name]["fgrad"] != TEXTS[layer][name][peer]
    assert len(table) >= 48
    assert len(better) >= 30


def test_what_is_written_down_can_be_read():
    assert read(HERE / "mutable.txt")["a reshape to another size"]["PyTorch"] == Said(
        "RuntimeError", "shape '[2, 16]' is invalid for input of size 30"
    )
