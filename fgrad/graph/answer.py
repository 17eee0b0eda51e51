"""The common form of answers: text for a terminal, HTML for a notebook, fields for a program, false when empty."""

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

#: cells of one column that are numbers stand flush right
_RIGHT = (int, float)
#: two columns are this far apart
_GAP = "  "


@frozen
class Table:
    """Rows of cells under a head.

    Attributes:
      columns: the head's cells.
      rows: a sequence of cells each, as long as the head; numbers are set flush right.
      title: a line above, if any.

    >>> print(Table(("name", "bytes"), [("h", 1200), ("loss", 4)]).text())
    name  bytes
    h      1200
    loss      4
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""

    def text(self) -> str:
        """The table in a fixed-width font."""
        cells = [list(map(str, self.columns)), *([_cell(x) for x in row] for row in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        right = self._right
        lines = [
            _GAP.join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([self.title, *lines] if self.title else lines)

    def html(self) -> str:
        """The table as HTML; its cells say how they stand, since a notebook has its own idea of that."""
        head = self._html_row("th", self.columns)
        body = "".join([self._html_row("td", row) for row in self.rows])
        caption = f'<caption style="text-align:left">{html.escape(self.title)}</caption>' if self.title else ""
        return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"

    def _html_row(self, tag: str, row: Sequence[Any]) -> str:
        cells = [
            f'<{tag} style="text-align:{"right" if right else "left"}">{html.escape(_cell(x))}</{tag}>'
            for x, right in zip(row, self._right, strict=True)
        ]
        return f"<tr>{''.join(cells)}</tr>"

    @property
    def _right(self) -> list[bool]:
        """For each column whether it stands flush right."""
        return [any(isinstance(row[k], _RIGHT) for row in self.rows) for k in range(len(self.columns))]


def _cell(x: Any) -> str:
    return f"{x:,}" if isinstance(x, int) and not isinstance(x, bool) and x >= 10_000 else str(x)


class Answer:
    """What a question returns: prints as text, shows as HTML, and is false where there is nothing to report.

    A subclass, an ``attrs.frozen`` record, says what it reports by ``findings`` and how by ``parts``.
    """

    __slots__ = ()

    def findings(self) -> Sequence[Any]:
        """What there is to report, one entry each; none makes the answer false."""
        raise NotImplementedError

    def parts(self) -> Iterable["str | Table"]:
        """What is shown, from top to bottom: paragraphs, and tables between them."""
        raise NotImplementedError

    def text(self) -> str:
        """The whole answer in a fixed-width font."""
        return "\n".join(part.text() if isinstance(part, Table) else part for part in self.parts())

    def __bool__(self) -> bool:
        return bool(self.findings())

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        shown: list[str] = []
        lines: list[str] = []
        for part in (*self.parts(), None):
            if isinstance(part, str):
                lines.append(part)
                continue
            if lines:
                shown.append(f"<pre>{html.escape(chr(10).join(lines))}</pre>")
                lines = []
            if part is not None:
                shown.append(part.html())
        return "".join(shown)


class Records(Answer, Mapping[str, list[Any]]):
    """An answer that is a mapping: by name, the records of each turn in which the thing occurred."""

    __slots__ = ()

    records: dict[str, list[Any]]

    def __getitem__(self, name: str) -> list[Any]:
        return self.records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def findings(self) -> Sequence[Any]:
        return [record for many in self.records.values() for record in many]
