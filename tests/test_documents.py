"""Every code block in the README, the documentation and the docstrings runs, and prints what it shows."""

import importlib
import os
import re

import pytest

from tests.documents import ROOT, docstrings, pages, run_docstring, run_page

PAGES = [ROOT / "README.md", *pages()]
MODULES = sorted(path for path in (ROOT / "fgrad").rglob("*.py") if any(docstrings(path)))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
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
        languages = re.findall(r"^```([^\n]+)$", page.read_text(), re.MULTILINE)
        known = {"python", "sh", "text", "mermaid", "{eval-rst}", "{toctree}", "{figure}", "{include}"}
        for language in languages:
            assert language.split()[0] in known, f"{page.name}: ```{language}"


def test_links_of_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in target and "_build/" not in target:
                assert os.path.exists(page.parent / target), f"{page.name} links to {target}, which does not exist"
