"""What was measured last: the rows of ``measured.json``, of which the documents show a table and a picture.

``python -m tests.benchmarks.measured`` makes both from the file; ``run.py --write`` measures and does the same.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from tests.benchmarks.picture import svg

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_suffix(".json")
#: the page with the table, between two comments, and the picture
PAGE, BEGIN, END = ROOT / "docs" / "speed.md", "<!-- benchmark:begin -->\n", "<!-- benchmark:end -->"
PICTURE = ROOT / "docs" / "_static" / "speed.svg"


@frozen
class Row:
    """A ratio, what it was measured against, and the most that it should be: None where it is measured to be known."""

    work: str
    against: str
    ratio: float
    wanted: float | None
    detail: str = ""

    @property
    def missed(self) -> bool:
        return self.wanted is not None and self.ratio > self.wanted


@frozen
class Measured:
    """The rows of one run, and the machine that it ran on."""

    machine: str
    rows: Sequence[Row]

    def table(self) -> str:
        return f"Measured on {self.machine}.\n\n{table(self.rows)}\n"

    def picture(self) -> str:
        return svg(self.machine, self.rows)


def table(rows: Sequence[Row]) -> str:
    lines = ["| work | against | ratio | wanted at most | fgrad / other |", "|---|---|---|---|---|"]
    for row in rows:
        wanted = "stated" if row.wanted is None else f"{row.wanted:g}"
        mark = " (missed)" if row.missed else ""
        lines.append(f"| {row.work} | {row.against} | {row.ratio:.3f} | {wanted}{mark} | {row.detail} |")
    return "\n".join(lines)


def read() -> Measured:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return Measured(found["machine"], tuple(Row(**row) for row in found["rows"]))


def write(measured: Measured) -> None:
    """Keep a run, a line for each row."""
    rows = ",\n".join("    " + json.dumps(asdict(row) | {"ratio": round(row.ratio, 3)}) for row in measured.rows)
    FILE.write_text(f'{{\n  "machine": {json.dumps(measured.machine)},\n  "rows": [\n{rows}\n  ]\n}}\n')


def page_with(measured: Measured) -> str:
    """The page of measurements, with the table of a run."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{measured.table()}{END}{after}"


def write_documents(measured: Measured) -> None:
    """The table and the picture."""
    PAGE.write_text(page_with(measured))
    PICTURE.write_text(measured.picture())


if __name__ == "__main__":
    write_documents(read())
