"""Every code block in the README, the documentation and the docstrings runs, and prints what it shows."""

import importlib
import inspect
import os
import re
from operator import attrgetter

import pytest

import fgrad
import fgrad.torch
from fgrad.torch.ops.table.table import TABLE
from tests.benchmarks import measured
from tests.documents import ROOT, docstrings, pages, run_docstring, run_page
from tests.pictures import GRADIENT, gradient

PAGES = [ROOT / "README.md", *pages()]
#: what modules of ``fgrad.torch`` import for themselves
INNER = {"Any", "enter_methods", "names", "submodules"}
#: these run on the oldest Python alone: they are programs, and what they show is JAX's and fgrad's everywhere
GALLERY = ROOT / "docs" / "gallery"
CASES = [pytest.param(page, marks=[pytest.mark.slow] if page.parent == GALLERY else []) for page in PAGES]
MODULES = sorted(path for path in (ROOT / "fgrad").rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("page", CASES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages save graphs and pictures
    failed = run_page(page)
    assert not failed, "\n\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_docstrings(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module = importlib.import_module(name)
    failed = []
    for line, document in docstrings(path):
        failed += [f"docstring of line {line}: {failure}" for failure in run_docstring(document, vars(module))]
    assert not failed, "\n\n".join(failed)


def test_pages_hold_no_block_that_is_not_run():
    """A block of Python is either run, or marked as something else (``text``, ``sh``)."""
    for page in PAGES:
        languages = re.findall(r"^```+([^`\n]+)$", page.read_text(), re.MULTILINE)
        known = {"python", "sh", "text", "mermaid", "{eval-rst}", "{toctree}", "{figure}", "{include}", "{glossary}"}
        for language in languages:
            assert language.split()[0] in known, f"{page.name}: ```{language}"


def test_links_of_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in target and "_build/" not in target:
                assert os.path.exists(page.parent / target), f"{page.name} links to {target}, which does not exist"


@pytest.mark.slow  # what JAX records differs from release to release
def test_the_front_pages_picture_is_what_it_draws():
    assert GRADIENT.read_text() == gradient(), "python -m tests.pictures"


def test_the_documents_show_what_was_measured():
    found = measured.read()
    again = "python -m tests.benchmarks.measured"
    assert measured.PAGE.read_text() == measured.page_with(found), again
    assert measured.PICTURE.read_text() == found.picture(), again


def documented() -> set[str]:
    """The names that the pages of the reference have entries for."""
    found = set()
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        module = "fgrad"
        for directive, name in re.findall(r"^\.\. (\w+):: ([\w.]+)$", page.read_text(), re.MULTILINE):
            if directive == "currentmodule":
                module = name
            elif directive != "autosummary":
                found.add(name if name.startswith("fgrad.") else f"{module}.{name}")
    return found


def test_the_reference_has_every_public_name():
    missing = {f"fgrad.{name}" for name in fgrad.__all__ if name != "testing"} - documented()
    assert not missing, "they belong into docs/reference"
    assert "fgrad.testing.check_grads" in documented()


def test_the_reference_has_what_fgrad_adds_to_pytorch():
    added = {}
    for module in ("torch", "torch.compiler", "torch.func"):
        ours, theirs = importlib.import_module(f"fgrad.{module}"), pytest.importorskip(module)
        for name in set(dir(ours)) - set(dir(theirs)) - INNER:
            value = getattr(ours, name)
            public = not name.startswith("_") and name.removesuffix("_") not in TABLE
            if public and (inspect.isfunction(value) or inspect.isclass(value)):
                added[value] = f"fgrad.{module}.{name}"
    known = {attrgetter(name.removeprefix("fgrad."))(fgrad) for name in documented() if name.startswith("fgrad.torch.")}
    missing = [name for value, name in added.items() if value not in known]
    assert not missing, "they belong into docs/reference/torch.md"
