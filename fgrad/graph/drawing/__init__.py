"""Drawings of graphs: forward on the left, backward on the right, and what is saved between them."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.graph.drawing.drawing import Drawing as Drawing, Path as Path
    from fgrad.graph.drawing.ladder import ladder_of as ladder_of
else:
    __getattr__, __dir__ = deferred(
        __name__, {f"{__name__}.drawing": "Drawing Path", f"{__name__}.ladder": "ladder_of"}
    )
