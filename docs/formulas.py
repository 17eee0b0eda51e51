"""Formulas as MathML, which browsers draw themselves: nothing is loaded from elsewhere, and no script runs."""

import html
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

LOG = logging.getLogger(__name__)


def mathml(node: Any, as_block: bool) -> str:
    """The formula of a node; one that cannot be read is shown as it was written, with a warning."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        LOG.warning("formula: %s", error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def inline(self: Any, node: Any) -> None:
    self.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def block(self: Any, node: Any) -> None:
    number = f'<span class="eqno">({get_node_equation_number(self, node)})</span>' if node["number"] else ""
    self.body.append(f'<div class="math">{number}{mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
