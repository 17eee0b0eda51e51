"""Matplotlib's pictures for light and for dark surroundings: ink and paper follow the reader's choice, data do not.

A drawing of fgrad's brings colours for both. Matplotlib writes black on white, which dazzles on a dark page. What is
black or white is given a name here, and a style sheet says what that is.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes

STYLE = (
    "svg{--ink:#000000;--paper:#ffffff;fill:var(--ink)}"
    "@media (prefers-color-scheme:dark){svg{--ink:#e5e7eb;--paper:#131416}}"
)
MADE_BY = "<dc:title>Matplotlib"
#: in points: a picture that is no wider can still be read when it is as wide as a phone
NARROW = 510


def for_light_and_dark(text: str) -> str:
    """The picture in which ink and paper follow the surroundings; as it is, if it does already."""
    if MADE_BY not in text or STYLE in text:
        return text
    for what in ("fill", "stroke"):
        text = text.replace(f"{what}: #ffffff", f"{what}: var(--paper)").replace(
            f"{what}: #000000", f"{what}: var(--ink)"
        )
    start = text.index(">", text.index("<svg")) + 1
    return f"{text[:start]}<style>{STYLE}</style>{text[start:]}"


def recolour(folder: Path) -> None:
    """Do so for every picture in a folder."""
    for path in folder.glob("*.svg"):
        path.write_text(for_light_and_dark(path.read_text(encoding="utf-8")), encoding="utf-8")


def mark_plots(app: Any, doctree: Any) -> None:
    """Plots that need not be scrolled on a phone belong to a class of their own."""
    folder = Path(app.srcdir)
    for image in doctree.findall(nodes.image):
        path = folder / image["uri"]
        if path.suffix == ".svg" and path.exists():
            text = path.read_text(encoding="utf-8")
            width = re.search(r'width="([\d.]+)pt"', text)
            if MADE_BY in text and width is not None and float(width[1]) <= NARROW:
                image["classes"].append("plot")
