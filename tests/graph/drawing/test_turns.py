"""One turn of a loop: the bodies of the loop and of its derivative, side by side, compute what they do apart."""

import jax
import jax.numpy as jnp
import numpy as np

import fgrad
from fgrad.graph.check import check
from fgrad.graph.drawing.ladder import wires
from fgrad.graph.drawing.turns import turns
from fgrad.graph.regions import scan
from fgrad.run.executable import run
from tests.graph.drawing.models import MODELS


def turn_of(fun, args):
    drawing = fgrad.draw(fun)(*args)
    ((title, turn),) = turns(drawing.ladder)
    return drawing.ladder, title, turn


def test_a_turn_of_a_recurrent_network():
    _, title, turn = turn_of(*MODELS["recurrent"])
    assert title == "one turn of scan, x20"
    check(turn.graph)
    named = [(pair.value, pair.name) for pair in turn.arguments if pair.name]
    assert [(None if value is None else turn.names[value], name) for value, name in named] == [
        ("h before", "cotangent of h before"),
        ("xs[t]", "d recurrent / d xs[t]"),
        (None, "for the sums over all turns"),
    ]
    assert [(pair.name, turn.names[pair.partner]) for pair in turn.results] == [
        ("h, carried on", "cotangent of h, carried on"),
        ("hs[t]", "cotangent of hs[t]"),
    ]
    nodes = [k for row in turn.rows for k in (*row.forward, *row.backward)]
    assert sorted(nodes) == list(range(len(turn.graph)))
    assert {wire.name for wire in wires(turn) if wire.saved} == {"params['w']", "params['u']", "h"}


def test_a_turn_computes_what_the_bodies_do():
    ladder, _, turn = turn_of(*MODELS["recurrent"])
    loops = [node for node in ladder.graph.nodes if node.op.primitive is scan]
    forward, backward = [node.params["body"] for node in loops]
    keys = iter(jax.random.split(jax.random.key(0), 20))
    given = [jax.random.normal(next(keys), t.shape) for t in turn.graph.in_types]
    got = run(turn.graph, given)
    one = run(forward, given[: len(forward.in_types)])
    w, u = given[:2]
    rest = given[len(forward.in_types) :]
    for a, b in zip(got, one, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    # its own inputs: the cotangent of what is carried, and that of the output
    own = dict(zip(turn.names[len(forward.in_types) :], rest, strict=False))
    carried, element = own["cotangent of h, carried on"], own["cotangent of hs[t]"]
    other = run(backward, [w, u, carried, one[1], element])
    for a, b in zip(got[len(one) :], other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_loop_without_sequences():
    def loss(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) * x, x)

    _, title, turn = turn_of(loss, (1.5,))
    assert title == "one turn of scan, x3"
    check(turn.graph)


def test_a_program_without_loops_has_no_turns():
    fun, types = MODELS["perceptron"]
    assert not list(turns(fgrad.draw(fun)(*types).ladder))
