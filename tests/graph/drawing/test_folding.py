"""Folding: what repeats, what one function did and what one line did are blocks, one inside the other."""

import itertools

import jax.numpy as jnp
import pytest

import fgrad
from fgrad.graph.drawing.folding import blocks, closed_at, folded, visible
from tests.graph.drawing.models import MODELS, block, normalised, of


def made(name):
    fun, types = MODELS[name]
    return fgrad.draw(fun)(*types).ladder


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("detail", ["operation", "line", "function", "module", None])
def test_what_is_drawn_covers_every_row_once(name, detail):
    found = made(name)
    shown = visible(blocks(found), folded(blocks(found), detail))
    rows = [row for each in shown for row in range(each.start, each.stop)]
    assert rows == list(range(len(found.rows)))


@pytest.mark.parametrize("name", MODELS)
def test_blocks_lie_one_inside_the_other(name):
    every = [each for top in blocks(made(name)) for each in top.walk()]
    assert len({each.id for each in every}) == len(every)
    for each in every:
        if each.children:
            edges = [each.start, *[child.stop for child in each.children]]
            assert [child.start for child in each.children] == edges[:-1]
            assert edges[-1] == each.stop


def test_a_loop_is_folded():
    found = blocks(made("deep"))
    assert found[0].label == "x12"
    shown = visible(found, folded(found))
    assert [(each.kind, each.label) for each in shown if each.kind == "more"] == [("more", "11 more")]
    assert len(shown) < 10


def test_functions_are_blocks():
    found = blocks(fgrad.draw(block)(*MODELS["block"][1]).ladder)
    labels = {each.label for each in found}
    assert {"normalised", "attention"} <= labels
    shown = visible(found, closed_at(found, "function"))
    assert [each.label for each in shown if each.kind == "function"][:2] == ["normalised", "attention"]


def test_more_detail_is_more_rows():
    found = blocks(made("block"))
    counts = [len(visible(found, closed_at(found, detail))) for detail in ("function", "line", "operation")]
    assert all(a < b for a, b in itertools.pairwise(counts))


def test_a_program_of_one_function_has_no_block_for_it():
    found = blocks(fgrad.draw(lambda x: jnp.sum(jnp.sin(x) * x))(of(3)).ladder)
    assert not [each for each in found if each.kind == "function"]


def test_turns_begin_where_the_loop_does():
    """Though the mask is made in the first turn alone, and each turn calls a function twice."""

    def causal(x):
        mask = jnp.tril(jnp.ones((5, 5), bool))
        scores = jnp.where(mask, x @ x.T, 0.0)
        return scores @ x

    def deep(scales, x):
        for scale in scales:
            x = x + causal(normalised(x, scale))
            x = x + jnp.tanh(normalised(x, scale))
        return jnp.sum(x)

    found = blocks(fgrad.draw(deep)([of(8)] * 4, of(5, 8)).ladder)
    assert [each.label for each in found if each.kind == "repeat"] == ["x4"]
    assert found[0].kind == "repeat"


def test_a_line_that_is_run_again_is_another_line():
    def twice(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    found = blocks(fgrad.draw(twice)([of(3, 3)] * 2, of(2, 3)).ladder)
    assert [each.stop - each.start for each in found] == [2, 2, 1]
