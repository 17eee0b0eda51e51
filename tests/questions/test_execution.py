"""Executions give the values and cotangents that compiled programs give, loops opened or not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.graph.regions import Scan, While
from fgrad.questions.asked import asked
from fgrad.questions.execution import Execution, bodies, quietly
from fgrad.questions.nonfinite import seeds
from tests.graph.corpus import MORE
from tests.graph.programs import PROGRAMS

X = np.array([0.3, 0.5, 0.7], np.float32)


def loops_in(graph):
    """The loops of a graph and of the graphs in it."""
    found, todo = set(), [graph]
    while todo:
        for node in todo.pop().nodes:
            if isinstance(node.op.primitive, Scan | While):
                found.add(node.op)
            todo += bodies(node.op)
    return found


def close(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        if jnp.issubdtype(jax.typeof(theirs).dtype, jnp.inexact):
            np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opened", [False, True], ids=["whole", "step by step"])
@pytest.mark.parametrize("name", sorted({*PROGRAMS, *MORE} - {"print", "rng_uniform", "poisson"}))
def test_values_and_cotangents(name, opened):
    function = {**PROGRAMS, **MORE}[name]
    question = quietly(asked, function, (X,), {}, None, "a test")
    execution = Execution(loops_in(question.graph) if opened else ())
    frame = quietly(execution.run, question.graph, [execution.cell(x) for x in question.values])
    close([execution.values[cell] for cell in frame.outputs()], jax.tree.leaves(function(jnp.asarray(X))))
    leaves = lambda x: [  # noqa: E731
        y for y in jax.tree.leaves(function(x)) if jnp.issubdtype(jax.typeof(y).dtype, jnp.inexact)
    ]
    try:
        outs, pull = fgrad.vjp(leaves, X)
        (expected,) = pull([jnp.ones_like(y) for y in outs])
    except Exception:  # no derivative: that is not asked here
        return
    question_cts = quietly(execution.pull, frame, seeds(execution, question), question.wrt)
    found = execution.values[question_cts[0]] if 0 in question_cts else np.zeros_like(X)
    if question.is_scalar and len(outs) > 1:
        return  # the first of several alone is differentiated
    close([found], [expected])
