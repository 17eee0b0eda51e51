"""The Sphinx configuration: ``python -m sphinx -W -b html docs docs/_build/html``.

Before the pages are read, the code that they show is run, and so their pictures and the tables of primitives and of
operations are made.
"""

import contextlib
import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any

import attrs

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import inventories  # noqa: E402 (these are found by the path above)
import links  # noqa: E402
import listings  # noqa: E402
import notebooks  # noqa: E402
import pictures  # noqa: E402

project = "fgrad"
author = "the fgrad developers"
release = "0.1.0"

extensions = [
    "formulas",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "fgrad"
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_theme_options = {"top_of_page_buttons": ["view"]}
html_copy_source = False
html_show_copyright = False
html_math_renderer = "mathml"
#: a click copies what was typed, without prompts and without what was printed
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

#: made here and now, so that no other site is asked
INVENTORIES = HERE / "_build" / "inventories"
inventories.write(INVENTORIES)
intersphinx_mapping = {name: (site, str(INVENTORIES / f"{name}.inv")) for name, site in inventories.SITES.items()}

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Fields", "params_style")]
autosummary_generate = False
#: pages whose code writes pictures, which the page then shows from here
PICTURES = HERE / "_build" / "pictures"


def make_pictures(app: Any) -> None:
    """Run the pages that show pictures, in the folder where their pictures belong."""
    documents = importlib.import_module("tests.documents")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for page in documents.pages():
        if "_build/pictures/" in page.read_text():
            with contextlib.chdir(PICTURES):
                failed = documents.run_page(page)
            if failed:
                raise RuntimeError("\n\n".join(failed))
    pictures.recolour(PICTURES)


def make_primitives(app: Any) -> None:
    """Write the table that the page on primitives includes."""
    table = importlib.import_module("make_primitives").table()
    (HERE / "_build" / "primitives.md").write_text(table)


def make_operations(app: Any) -> None:
    """Write the table that the page on the mutable layer's operations includes."""
    table = importlib.import_module("make_operations").table()
    (HERE / "_build" / "operations.md").write_text(table)


def make_messages(app: Any) -> None:
    """Write what JAX, PyTorch and fgrad say of the same mistakes."""
    table = importlib.import_module("make_messages").table()
    (HERE / "_build" / "messages.md").write_text(table)


#: sections of docstrings by other names
SECTIONS = {"Raises, when called:": "Raises:", "Attributes:": "Fields:"}


def plain_sections(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Sections of docstrings as napoleon knows them; what is returned is said in sentences, without a type before."""
    if name == "fgrad.errors":  # the page says it for users
        lines.clear()
    within = False
    for number, line in enumerate(lines):
        if line in SECTIONS:
            within, lines[number] = False, SECTIONS[line]
        elif line == "Returns:":
            within, lines[number] = True, ":returns:"
        elif within and line and not line.startswith(" "):
            within = False
        elif within:
            lines[number] = f"  {line}".rstrip()


def plain_signature(app: Any, what: str, name: str, value: Any, *rest: Any) -> tuple[str, str] | None:
    """Answers are made by asking, so that nobody calls their classes."""
    return ("", "") if what == "class" and attrs.has(value) and name != "fgrad.Graph" else None


def only_classes(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Of the module of errors, its errors: what raises and words them is not for users."""
    return True if getattr(value, "__module__", "") == "fgrad.errors" and inspect.isfunction(value) else None


def setup(app: Any) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    app.connect("builder-inited", make_pictures)
    app.connect("builder-inited", make_primitives)
    app.connect("builder-inited", make_operations)
    app.connect("builder-inited", make_messages)
    app.connect("doctree-read", links.link_names)
    app.connect("doctree-read", listings.mark_listings)
    app.connect("doctree-read", pictures.mark_plots)
    app.connect("missing-reference", links.look_in_pytorch, priority=400)  # before the other sites
    app.connect("html-page-context", notebooks.link_notebook)
    app.connect("html-page-context", links.mend_backlinks)
    app.connect("build-finished", notebooks.write_notebooks)
    app.connect("autodoc-skip-member", only_classes)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("autodoc-process-docstring", plain_sections, priority=400)  # before napoleon
