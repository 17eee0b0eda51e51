"""Names of arguments and results: readable paths, and for derivatives what is differentiated by what."""

import functools
import io

import jax.numpy as jnp
import pytest

import fgrad

PARAMS = {"b": jnp.ones(()), "layers": [jnp.ones(3)]}
X = jnp.ones(3)


def loss(params, x):
    h = jnp.tanh(params["layers"][0] * x)
    return (h * h).sum() + params["b"]


def pair(x):
    return {"twice": 2 * x}, x.sum()


W, B = "params['layers'][0]", "params['b']"


@pytest.mark.parametrize(
    ("function", "args", "names"),
    [
        (loss, (PARAMS, X), ["loss"]),
        (pair, (X,), ["pair[0]['twice']", "pair[1]"]),
        (lambda x: x, (X,), ["output"]),
        (fgrad.grad(loss), (PARAMS, X), [f"d loss / d {B}", f"d loss / d {W}"]),
        (fgrad.grad(loss, -1), (PARAMS, X), ["d loss / d x"]),
        (fgrad.grad(loss, (1,)), (PARAMS, X), ["d loss / d x"]),
        (fgrad.jit(fgrad.grad(loss, 1)), (PARAMS, X), ["d loss / d x"]),
        (
            fgrad.value_and_grad(loss, (0, 1)),
            (PARAMS, X),
            ["loss", f"d loss / d {B}", f"d loss / d {W}", "d loss / d x"],
        ),
        (fgrad.grad(lambda x: (x * 2, {"a": x}), has_aux=True), (1.0,), ["d output / d x", "aux['a']"]),
        (
            fgrad.value_and_grad(lambda x: (x * 2, {"a": x}), has_aux=True),
            (1.0,),
            ["output", "aux['a']", "d output / d x"],
        ),
        (fgrad.jacrev(pair), (X,), ["d pair[0]['twice'] / d x", "d pair[1] / d x"]),
        (fgrad.hessian(loss, 1), (PARAMS, X), ["d (d loss / d x) / d x"]),
        (
            fgrad.hessian(loss),
            (PARAMS, X),
            [f"d (d loss / d {one}) / d {other}" for one in (B, W) for other in (B, W)],
        ),
    ],
)
def test_results_are_called_by_what_they_are(function, args, names):
    assert list(fgrad.make_graph(function)(*args).out_names) == names


def test_a_function_that_only_took_the_name_of_a_gradient():
    @functools.wraps(fgrad.grad(loss))
    def updated(params, x):
        return params

    assert fgrad.make_graph(updated)(PARAMS, X).out_names == ("loss['b']", "loss['layers'][0]")


def test_graphs_made_of_a_graph_keep_its_names():
    graph = fgrad.make_graph(loss)(PARAMS, X)
    assert graph.grad().out_names == (f"d loss / d {B}", f"d loss / d {W}")
    assert graph.value_and_grad(1).out_names == ("loss", "d loss / d x")
    assert graph.vjp().names == (B, W, "x", "cotangent of loss")
    assert graph.vjp().out_names == ("loss", f"cotangent of {B}", f"cotangent of {W}", "cotangent of x")
    assert graph.jvp().out_names == ("loss", "tangent of loss")
    assert graph.simplify().out_names == ("loss",)


def test_names_go_through_a_file():
    graph = fgrad.make_graph(fgrad.grad(loss))(PARAMS, X)
    file = io.BytesIO()
    graph.save(file)
    found = fgrad.load(io.BytesIO(file.getvalue()))
    assert found.out_names == graph.out_names
    assert str(found) == str(graph)
    assert " h: f32[3] = tanh" in str(found)


def test_the_listing_says_what_each_output_is():
    lines = str(fgrad.make_graph(fgrad.grad(loss))(PARAMS, X)).splitlines()
    assert [line.split("  # ")[1] for line in lines[-3:-1]] == [f"d loss / d {B}", f"d loss / d {W}"]
