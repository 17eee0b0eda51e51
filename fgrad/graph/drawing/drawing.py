"""A drawing that is yet to be put into a form: SVG, HTML, DOT or Mermaid, as text or in a file."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from fgrad.graph.drawing.folding import Detail
from fgrad.graph.drawing.ladder import Ladder
from fgrad.graph.drawing.languages import to_dot, to_mermaid
from fgrad.graph.drawing.page import to_html
from fgrad.graph.drawing.svg import to_svg
from fgrad.graph.graph import Graph

Path = str | os.PathLike[str]


@frozen(repr=False)
class Drawing:
    """Forward and backward side by side, as one picture.

    Every form takes a ``path``, to which it is also written, and a ``detail``: ``operation``, ``line``,
    ``function`` or ``module`` says what is drawn as one box; left out, it is the finest that fits a page.

    Attributes:
      ladder: what is drawn, as data: rows, pairs, and values with their names.
      title: the title of the HTML page.
      rules: what to say of the derivative of each primitive.
      numbers: from the arguments of a call and the graph to what to say of the numbers of each value.
    """

    ladder: Ladder
    title: str = "graph"
    rules: Mapping[str, str] = field(factory=dict)
    numbers: Callable[[Graph, Sequence[Any]], Mapping[int, str]] | None = None

    def to_svg(self, path: Path | None = None, detail: Detail | None = None) -> str:
        """An SVG image."""
        return _written(to_svg(self.ladder, detail), path)

    def to_html(self, path: Path | None = None, detail: Detail | None = None, args: Sequence[Any] | None = None) -> str:
        """One HTML page that loads nothing from anywhere: it zooms, searches and folds, and tells more at a click.

        With ``args``, the arguments of a call, it also tells the numbers of values.
        """
        numbers = None if args is None or self.numbers is None else self.numbers(self.ladder.graph, args)
        return _written(to_html(self.ladder, self.title, detail, self.rules, numbers), path)

    def to_dot(self, path: Path | None = None, detail: Detail | None = None) -> str:
        """The DOT language of Graphviz."""
        return _written(to_dot(self.ladder, detail), path)

    def to_mermaid(self, path: Path | None = None, detail: Detail | None = None) -> str:
        """A Mermaid flowchart, for Markdown pages."""
        return _written(to_mermaid(self.ladder, detail), path)

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _written(text: str, path: Path | None) -> str:
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text
