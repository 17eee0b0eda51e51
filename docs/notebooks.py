"""Pages as notebooks: the text in cells of Markdown, the code in cells of code, with the outputs that the page shows.

The build writes one beside each page that shows code; the page links to it.  A cell of code ends where something is
printed, so that running it prints what the page shows.  What raises an error on the page is marked, and running the
whole notebook goes on behind it.
"""

import doctest
import json
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: a block of code, a directive of Sphinx, or a comment
PART = re.compile(
    r"^```python\n(?P<code>.*?)^```\n"
    r"|^(?P<fence>```+|:::+)\{[\w-]+\}.*?^(?P=fence)\n"
    r"|^\([\w-]+\)=\n|^<!--.*?-->\n",
    re.DOTALL | re.MULTILINE,
)
#: the title of a tab, and the content of a directive
INSIDE = re.compile(r"[`:]+\{(?:tab-item\} *(.*)|[\w-]+\}.*)\n(?::[\w-]+:.*\n)*((?:.*\n)*?)[`:]+\n")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^):#\s]+)\.md(#[^)\s]*)?\)")
PICTURE = re.compile(r"(!\[[^\]]*\])\((?:\.\./)*_build/pictures/([^)]+)\)")
ROLE = re.compile(r"\{[\w:]+\}`([^`<]+?)(?:\s*<[^`>]+>)?`")
OPTION = re.compile(r"\s*# doctest: .*$", re.MULTILINE)


def has_notebook(page: Path) -> bool:
    return page.exists() and "```python\n" in page.read_text()


def notebook(page: Path) -> dict[str, Any]:
    """The notebook of a page, as what its JSON says."""
    cells = list(cells_of(page.read_text(), page))
    cells.insert(1, markdown("*A page of fgrad's documentation. Run its cells in order, where fgrad is installed.*"))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def cells_of(text: str, page: Path) -> Iterator[dict[str, Any]]:
    """The cells of a text.  Of a directive only the code counts, and the titles of tabs that it stands in."""
    at = 0
    for found in PART.finditer(text):
        yield from prose(text[at : found.start()], page)
        if found["code"] is not None:
            yield from session(found["code"]) if found["code"].startswith(">>>") else [code(found["code"], "", False)]
        elif found["fence"] is not None and "```python\n" in found[0]:
            opening, inside = INSIDE.fullmatch(found[0]).groups()  # type: ignore[union-attr]
            yield from prose(f"**{opening}**" if opening else "", page)
            yield from cells_of(inside, page)
        at = found.end()
    yield from prose(text[at:], page)


def prose(text: str, page: Path) -> Iterator[dict[str, Any]]:
    """A cell of Markdown, if there is any text; links lead to notebooks, pictures are those that the cells draw."""

    def link(found: re.Match[str]) -> str:
        other = page.parent / f"{found[2]}.md"
        return f"[{found[1]}]({found[2]}.ipynb)" if has_notebook(other) else found[1]

    text = ROLE.sub(r"\1", PICTURE.sub(r"\1(\2)", LINK.sub(link, text))).strip()
    if text:
        yield markdown(text)


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(source: str, output: str, raises: bool) -> dict[str, Any]:
    """A cell of code and what it printed; ``raises`` says that it ends with an error."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {"tags": ["raises-exception"]} if raises else {},
        "source": source.strip("\n"),
        "outputs": outputs,
    }


def session(block: str) -> Iterator[dict[str, Any]]:
    """Cells of what is typed at the prompt: each ends with a statement that prints or raises something."""
    statements = ""
    for example in doctest.DocTestParser().get_examples(textwrap.dedent(block)):
        statements += OPTION.sub("", example.source)
        if example.want or example.exc_msg:
            yield code(statements, example.want.replace("<BLANKLINE>", ""), example.exc_msg is not None)
            statements = ""
    if statements:
        yield code(statements, "", False)


def link_notebook(app: Any, pagename: str, templatename: str, context: Any, doctree: Any) -> None:
    """Tell the template of a page where its notebook is."""
    if doctree is not None and has_notebook(Path(app.srcdir) / f"{pagename}.md"):
        context["notebook"] = f"{os.path.basename(pagename)}.ipynb"


def write_notebooks(app: Any, error: Exception | None) -> None:
    """After the pages, their notebooks."""
    if error is not None or app.builder.name != "html":
        return
    for name in app.env.found_docs:
        page = Path(app.srcdir) / f"{name}.md"
        if has_notebook(page):
            (Path(app.outdir) / f"{name}.ipynb").write_text(json.dumps(notebook(page), indent=1))
