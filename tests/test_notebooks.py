"""Pages as notebooks: they are valid, hold the code of the page with what it prints, and run."""

import importlib.util
import json

import pytest

from tests.documents import ROOT, pages

path = ROOT / "docs" / "notebooks.py"
spec = importlib.util.spec_from_file_location("notebooks", path)
assert spec is not None and spec.loader is not None
notebooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebooks)

PAGES = [page for page in pages() if notebooks.has_notebook(page)]


def test_a_page_becomes_cells_of_text_and_of_code(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\nSee [that](other.md), {term}`tangent` and ![it](../_build/pictures/it.svg).\n\n"
        "```python\n# f.py\ndef f(x):\n    return 1 / x\n```\n\n"
        "```python\n>>> y = 2\n>>> f(y)\n0.5\n"
        ">>> f(0)\nTraceback (most recent call last):\n  ...\nZeroDivisionError: no\n```\n"
        "\n```{toctree}\nother\n```\n"
    )
    cells = notebooks.notebook(page)["cells"]
    sources = [cell["source"] for cell in cells]
    assert sources[0] == "# Title\n\nSee that, tangent and ![it](it.svg)."
    assert sources[2:] == ["# f.py\ndef f(x):\n    return 1 / x", "y = 2\nf(y)", "f(0)"]
    assert cells[3]["outputs"][0]["text"] == "0.5\n"
    assert [cell["metadata"] for cell in cells[3:]] == [{}, {"tags": ["raises-exception"]}]


def test_code_in_columns_and_tabs_is_in_the_notebook(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "::::{grid} 1 2 2 2\n:gutter: 2\n:::{grid-item}\n```python\nx = 1\n```\n:::\n"
        ":::{grid-item}\n```python\ny = 2\n```\n:::\n::::\n\n"
        "::::{tab-set}\n:::{tab-item} JAX\n```python\nz = 3\n```\n:::\n::::\n"
        "::::{grid} 1\n:::{grid-item-card} A card\n:link: there\n:::\n::::\n"
    )
    first, _, *others = [cell["source"] for cell in notebooks.notebook(page)["cells"]]
    assert [first, *others] == ["x = 1", "y = 2", "**JAX**", "z = 3"]


def test_the_notebooks_of_all_pages_are_valid():
    nbformat = pytest.importorskip("nbformat")
    for page in PAGES:
        nbformat.validate(nbformat.reads(json.dumps(notebooks.notebook(page)), as_version=4))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["index", "quickstart", "from_pytorch", "learn/modes", "understanding/nonfinite"])
def test_the_notebook_of_a_page_runs(name, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    read = nbformat.reads(json.dumps(notebooks.notebook(ROOT / "docs" / f"{name}.md")), as_version=4)
    ran = nbclient.NotebookClient(read, resources={"metadata": {"path": tmp_path}}).execute()
    errors = [cell for cell in ran.cells if any(each.output_type == "error" for each in cell.get("outputs", ()))]
    assert all("raises-exception" in cell.metadata.get("tags", ()) for cell in errors)
