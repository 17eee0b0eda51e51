"""``torch.draw``: the drawing of a loss, from its leaves down and back up to their gradients."""

import xml.dom.minidom

import pytest

import fgrad.torch as torch
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
    for detail in ("operation", "line", "function"):
        is_well_laid_out(drawing.ladder, detail)
    path = tmp_path / "block.svg"
    xml.dom.minidom.parseString(drawing.to_svg(path))
    assert "Attention.forward" in path.read_text(encoding="utf-8")


def test_after_backward_too():
    w = torch.ones(3, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    assert "d loss / d w" in str(torch.draw(loss))


def test_what_has_no_history_is_refused():
    with pytest.raises(RuntimeError, match="no history"):
        torch.draw(torch.ones(3))
