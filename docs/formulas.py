"""Formulas as MathML, which browsers draw themselves: nothing is loaded from elsewhere, and no script runs."""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.math import get_node_equation_number


def inline(self: Any, node: Any) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block(self: Any, node: Any) -> None:
    number = f'<span class="eqno">({get_node_equation_number(self, node)})</span>' if node["number"] else ""
    self.body.append(f'<div class="math">{number}{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
