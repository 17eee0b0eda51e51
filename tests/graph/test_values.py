"""Values by the names of the user's code, and graphs in which some of them are replaced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
from fgrad.graph.graph import Const

X = jnp.array([0.3, -1.2, 0.7])
PARAMS = {"w": jnp.ones((3, 3)) * 0.1, "b": jnp.array([0.1, 0.2, 0.3])}


def net(params, x):
    z = x @ params["w"] + params["b"]
    h = jnp.tanh(z)
    q, r = jnp.linalg.qr(jnp.outer(h, x) + jnp.eye(3))
    loss = jnp.sum(h) + jnp.sum(q @ r)
    return loss  # noqa: RET504  (it has a name)


GRAPH = fgrad.make_graph(net)(PARAMS, X)


def test_values_by_name_and_number():
    values = GRAPH.values
    h = values["h"]
    assert (h.name, h.node.op.name, h.type.shape, h.is_output) == ("h", "tanh", (3,), False)
    assert values[h.number] == h == values[f"%{h.number}"]
    assert h.number in h.readers[0].inputs
    assert len(h.readers) == 2
    assert values["params['w']"].node is None
    assert values["loss"].is_output
    assert values["q"].node is values["r"].node
    assert values["q"].number != values["r"].number
    assert list(values)[:3] == list(GRAPH.names)
    assert len(values) == len(GRAPH.core.types)
    assert "h: f32[3] = tanh  # test_values.py:" in repr(values)


def test_a_name_that_is_not_there():
    with pytest.raises(KeyError, match=r"no value of the graph is called 'los'; there are loss"):
        GRAPH.values["los"]
    with pytest.raises(KeyError, match="%0 to %"):
        GRAPH.values["%999"]
    assert "h" in GRAPH.values
    assert "nothing" not in GRAPH.values


def close(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), a, b)


def with_h(change):
    def f(params, x):
        h = change(jnp.tanh(x @ params["w"] + params["b"]))
        q, r = jnp.linalg.qr(jnp.outer(h, x) + jnp.eye(3))
        return jnp.sum(h) + jnp.sum(q @ r)

    return f


@pytest.mark.parametrize(
    "change",
    [jax.lax.stop_gradient, lambda h: h.clip(0, 0.1), lambda h: h * 2, jnp.sin],
    ids=["cut", "clip", "2", "sin"],
)
def test_replaced_by_a_function_of_itself(change):
    new = GRAPH.replace("h", change).check()
    close(new(PARAMS, X), with_h(change)(PARAMS, X))
    close(new.grad()(PARAMS, X), jax.grad(with_h(change))(PARAMS, X))


def test_another_operation_on_the_same_operands():
    new = GRAPH.replace("h", jax.nn.relu, "z").check()
    close(new(PARAMS, X), (lambda p, x: with_h(lambda _: jax.nn.relu(x @ p["w"] + p["b"]))(p, x))(PARAMS, X))
    assert not any(node.op.name == "tanh" for node in new)


def test_several_at_once_inputs_and_outputs():
    new = GRAPH.replace({"x": lambda x: x + 1, "h": jnp.cos, "loss": lambda v: -v}).check()
    expected = -with_h(jnp.cos)(PARAMS, X + 1)
    close(new(PARAMS, X), expected)
    assert new.names == GRAPH.names


def test_one_of_several_results():
    new = GRAPH.replace("q", jnp.zeros_like).check()
    close(new(PARAMS, X), jnp.sum(jnp.tanh(X @ PARAMS["w"] + PARAMS["b"])))


def test_what_does_not_fit():
    with pytest.raises(TypeError, match=r"must have its type: f32\[3\], and not f32\[\]"):
        GRAPH.replace("h", jnp.sum)
    with pytest.raises(ValueError, match="loss is computed after h"):
        GRAPH.replace("h", lambda v: v, "loss")
    with pytest.raises(TypeError, match="replaced by a function"):
        GRAPH.replace("h", 3.0)


def test_a_constant_stays_of_its_type_whatever_the_flag():
    with jax.enable_x64(False):
        graph = fgrad.make_graph(lambda x: jax.lax.add(x, np.int64(2)))(np.int32(1))
        assert Const.of(np.arange(2)).value.dtype == np.int32
    with jax.enable_x64(True):
        assert graph(np.int32(1)).dtype == np.int32
