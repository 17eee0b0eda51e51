"""The pictures that are kept beside the documents, because pages read on a code host cannot make them.

``python -m tests.pictures`` writes them: the drawing of the program on the front page.
"""

import contextlib
import tempfile
from pathlib import Path

from tests.documents import ROOT, run_page

GRADIENT = ROOT / "docs" / "_static" / "gradient.svg"


def gradient() -> str:
    """What the front page draws."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        failed = run_page(ROOT / "docs" / "index.md")
        if failed:
            raise RuntimeError("\n\n".join(failed))
        return Path("first.svg").read_text()


if __name__ == "__main__":
    GRADIENT.write_text(gradient())
