"""Listings whose columns stand below each other are not wrapped but scrolled: tables, and graphs with their lines.

All other code wraps, errors above all: what an error says last, the ways out, must be seen.
"""

import re
from typing import Any

from docutils import nodes

#: a line with columns: two gaps, or an operation of a graph and the user's line
COLUMNS = re.compile(r"\S {2,}\S.*\S {2,}\S|^\s+%\d+.*\S {2,}# ")
#: what only errors and answers in sentences say
SENTENCES = re.compile(r"^(Traceback|Ways? out)", re.MULTILINE)


def is_listing(text: str) -> bool:
    printed = [line for line in text.splitlines() if not line.startswith((">>>", "..."))]
    return sum(COLUMNS.search(line) is not None for line in printed) > 2 and not SENTENCES.search(text)


def mark_listings(app: Any, doctree: Any) -> None:
    for block in doctree.findall(lambda node: isinstance(node, nodes.literal_block | nodes.doctest_block)):
        if is_listing(block.astext()):
            block["classes"].append("listing")
