"""``torch.draw``: the drawing of a loss, from its leaves down and back up to their gradients."""

import xml.dom.minidom

import pytest

import fgrad.torch as torch
from fgrad.graph.drawing.folding import blocks, folded, visible
from fgrad.graph.drawing.ladder import wires
from fgrad.torch import nn
from tests.graph.drawing.test_svg import is_well_laid_out


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = [nn.Linear(width, width) for _ in range(3)]

    def forward(self, x):
        q = self.q(x)
        k = self.k(x)
        scores = q @ k.transpose(-1, -2) / 4.0
        weights = torch.softmax(scores, -1)
        return weights @ self.v(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        h = x + self.attention(x)
        return h + self.mlp(h)


def drawn(model, width):
    x = torch.randn(5, width)
    loss = (model(x) ** 2).mean()
    return torch.draw(loss)


def test_leaves_stand_with_their_gradients():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    ladder = drawn(model, 4).ladder
    named = {ladder.names[pair.value]: pair.name for pair in ladder.arguments if pair.name}
    assert named == {name: f"d loss / d {name}" for name, _ in model.named_parameters()}
    assert [(pair.name, ladder.names[pair.partner]) for pair in ladder.results] == [("loss", "d loss / d loss")]
    assert any(wire.saved for wire in wires(ladder))


def test_a_transformers_block_is_well_laid_out(tmp_path):
    drawing = drawn(Block(8), 8)
    for detail in ("operation", "line", "function", "module"):
        is_well_laid_out(drawing.ladder, detail)
    path = tmp_path / "block.svg"
    xml.dom.minidom.parseString(drawing.to_svg(path))
    assert "attention" in path.read_text(encoding="utf-8")


def test_blocks_are_folded_by_module():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(8) for _ in range(5)])
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    ladder = drawn(Stack(), 8).ladder
    found = blocks(ladder)
    repeat = next(block for block in found if block.kind == "repeat")
    assert repeat.label == "blocks x5"
    first = repeat.children[0]
    assert [child.label for child in first.children if child.kind == "module"] == ["attention", "mlp"]
    assert "head" in [block.label for block in found]
    shown = [(block.kind, block.label) for block in visible(found, folded(found, "module"))]
    assert [("module", name) for name in ("q", "k", "v")] == [each for each in shown if each[1] in ("q", "k", "v")]
    assert ("more", "4 more") in shown
    assert len(shown) < 18


def test_after_backward_too():
    w = torch.ones(3, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    assert "d loss / d w" in str(torch.draw(loss))


def test_what_has_no_history_is_refused():
    with pytest.raises(RuntimeError, match="no history"):
        torch.draw(torch.ones(3))
