"""``functionalize``: programs on mutable tensors as pure functions, which the functional layer and JAX take."""

from typing import Any

import jax
import numpy as np
import pytest

import fgrad
import fgrad.torch as torch

X = np.array([0.5, -1.0, 2.0], "float32")
BATCH = np.arange(12, dtype="float32").reshape(4, 3)


def filled(x: Any) -> Any:
    y = torch.zeros(3)
    for i in range(3):
        y[i] = x[i] ** 2
    return y.sum()


def differentiated(x: Any) -> Any:
    x.requires_grad_()
    (x**3).sum().backward()
    return (x.grad * 2).sum()


def step(w: Any, x: Any) -> Any:
    w.requires_grad_()
    loss = ((w * x).sin() ** 2).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    return loss


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, fgrad.jit], ids=["as it is", "jax.jit", "fgrad.jit"])
@pytest.mark.parametrize(
    ("function", "value", "gradient"),
    [(filled, lambda x: (x**2).sum(), lambda x: 2 * x), (differentiated, lambda x: (6 * x**2).sum(), lambda x: 12 * x)],
    ids=["filled", "differentiated"],
)
def test_values_and_gradients(transform: Any, function: Any, value: Any, gradient: Any) -> None:
    pure = torch.functionalize(function)
    np.testing.assert_allclose(transform(pure)(X), value(X), rtol=1e-6)
    np.testing.assert_allclose(transform(fgrad.grad(pure))(X), gradient(X), rtol=1e-6)
    np.testing.assert_allclose(fgrad.vmap(pure)(BATCH), [value(x) for x in BATCH], rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(pure))(BATCH), gradient(BATCH), rtol=1e-6)


def test_the_graph_has_no_writes() -> None:
    graph = fgrad.make_graph(torch.functionalize(filled))(X)
    np.testing.assert_allclose(graph(BATCH[1]), filled(torch.tensor(BATCH[1])), rtol=1e-6)


def test_inputs_come_back_as_they_were_left() -> None:
    pure = torch.functionalize(step, return_inputs=True)
    w = torch.tensor(X)
    loss = step(w, torch.tensor(BATCH[1]))
    for run in (pure, jax.jit(pure)):
        found, (new, same) = run(X, BATCH[1])
        np.testing.assert_allclose(found, loss.detach(), rtol=1e-6)
        np.testing.assert_allclose(new, w.detach(), rtol=1e-6)
        np.testing.assert_array_equal(same, BATCH[1])


def test_tensors_are_written() -> None:
    x = torch.tensor(X)
    assert torch.functionalize(lambda a: a.add_(1))(x) is x
    np.testing.assert_array_equal(x.numpy(), X + 1)


def test_tensors_from_outside_may_not_be_written() -> None:
    outside = torch.zeros(3)
    with pytest.raises(RuntimeError, match="tensor from outside of the function is written"):
        torch.functionalize(lambda x: outside.add_(x))(X)
    with pytest.raises(RuntimeError, match="tensor from outside of the function is written"):
        jax.jit(torch.functionalize(lambda x: outside[1:].add_(x[1:])))(X)
    outside.requires_grad_()
    with pytest.raises(RuntimeError, match="would set the .grad of a tensor from outside"):
        torch.functionalize(lambda x: (outside * x).sum().backward())(X)
    np.testing.assert_array_equal(outside.detach().numpy(), np.zeros(3))


def test_zeros_filled_inside_vmap() -> None:
    def doubled(x: Any) -> Any:
        y = torch.zeros(3)
        for i in range(3):
            y[i] = x[i] * 2
        return y

    found = torch.func.vmap(doubled)(torch.tensor(BATCH))
    np.testing.assert_array_equal(found.numpy(), BATCH * 2)
    gradient = torch.func.grad(lambda x: (torch.func.vmap(doubled)(x) ** 2).sum())(torch.tensor(BATCH))
    np.testing.assert_array_equal(gradient.numpy(), BATCH * 8)


def test_examples_may_not_be_written_to_a_tensor_from_outside() -> None:
    outside = torch.zeros(3)
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        torch.func.vmap(lambda x: outside.add_(x))(torch.tensor(BATCH))
    np.testing.assert_array_equal(outside.numpy(), np.zeros(3))


def test_transformations_leave_no_history() -> None:
    x = torch.tensor(X)
    value, pull_back = torch.func.vjp(torch.sin, x)
    assert not any(
        t.requires_grad for t in (torch.func.grad(filled)(x), value, *pull_back(x), torch.func.hessian(filled)(x))
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.argmax(),
        lambda x: x[x.argmin(0)],
        lambda x: x.median(0).indices,
        lambda x: x.mode(0).indices,
        lambda x: torch.nn.functional.max_pool1d(x[None], 2, return_indices=True)[1],
    ],
)
def test_places_are_counted_without_jaxs_wide_types(function: Any) -> None:
    pure = torch.functionalize(function)
    np.testing.assert_array_equal(jax.jit(pure)(X), pure(X))


LABELS = np.array([0, 2, 1, 1])
ROWS = np.random.default_rng(0).normal(size=(4, 5))
WEIGHTS = np.random.default_rng(1).normal(size=(5, 3))
WIDE = {
    "cross_entropy": lambda y, t: torch.nn.functional.cross_entropy(y, t),
    "nll_loss": lambda y, t: torch.nn.functional.nll_loss(y.log_softmax(1), t),
    "gather": lambda y, t: y.gather(1, t[:, None]).sum(),
    "index_select": lambda y, t: y.index_select(0, t).pow(2).sum(),
    "one_hot": lambda y, t: (torch.nn.functional.one_hot(t, 3) * y).sum(),
    "argmax": lambda y, t: (y.gather(1, y.argmax(1, keepdim=True)) * t).sum(),
    "arange": lambda y, t: y[torch.arange(4), t].sum(),
    "scatter": lambda y, t: torch.zeros(4, 3).scatter(1, t[:, None], y).pow(2).sum(),
    "double": lambda y, t: (y.double() ** 2).sum(),
}
LANES = {
    "jax.grad": jax.grad,
    "fgrad.grad": fgrad.grad,
    "jax.jit": lambda f: jax.jit(jax.grad(f)),
    "fgrad.jit": lambda f: fgrad.jit(fgrad.grad(f)),
    "jax.vmap": lambda f: lambda w, x, t: jax.vmap(jax.grad(f), (0, None, None))(w[None], x, t)[0],
}


#: programs whose derivatives need JAX's flag in some operation, and how fgrad alone transforms them
DEEP = {
    "embedding": lambda y, t: torch.nn.functional.embedding(t, y).pow(2).sum(),
    "double times labels": lambda y, t: (y.double() ** 2 * t[:, None]).sum(),
    "double softplus": lambda y, t: torch.nn.functional.softplus(y.double()).sum(),
    "double cross_entropy": lambda y, t: torch.nn.functional.cross_entropy(y.double(), t),
    "double lgamma": lambda y, t: ((y.double().abs() + 1).lgamma() * t[:, None]).sum(),
    "double svdvals": lambda y, t: torch.linalg.svdvals(y.double()).sum(),
    "double cumprod": lambda y, t: y.double().cumprod(1).sum(),
}
OWN_LANES = {
    "fgrad.grad": fgrad.grad,
    "fgrad.jit": lambda f: fgrad.jit(fgrad.grad(f)),
    "jax.jit": lambda f: jax.jit(fgrad.grad(f)),
    "jax.jit inside": lambda f: fgrad.grad(jax.jit(f)),
    "fgrad.vmap": lambda f: (
        lambda w, *xs: fgrad.vmap(fgrad.grad(f), (0, None, None))(jax.numpy.asarray(w)[None], *xs)[0]
    ),
}


@pytest.mark.parametrize("lane", OWN_LANES)
@pytest.mark.parametrize("name", DEEP)
def test_derivatives_of_64_bits_are_recorded_and_run_whatever_the_flag(name: str, lane: str):
    def loss(w: Any, x: Any, t: Any) -> Any:
        return DEEP[name](x @ w, t.long())

    w = torch.tensor(WEIGHTS, dtype=torch.float32, requires_grad=True)
    loss(w, torch.tensor(ROWS, dtype=torch.float32), torch.tensor(LABELS)).backward()
    gradient = OWN_LANES[lane](torch.functionalize(loss))
    for array in (np.asarray, jax.numpy.asarray):
        np.testing.assert_allclose(gradient(array(WEIGHTS), array(ROWS), array(LABELS)), w.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("name", WIDE)
def test_64_bits_inside_whatever_the_flag(name: str, lane: str):
    """Labels of 64 bits, and inputs that are NumPy's or JAX's, traced or not."""

    def loss(w: Any, x: Any, t: Any) -> Any:
        return WIDE[name](x @ w, t.long())

    w = torch.tensor(WEIGHTS, dtype=torch.float32, requires_grad=True)
    loss(w, torch.tensor(ROWS, dtype=torch.float32), torch.tensor(LABELS)).backward()
    gradient = LANES[lane](torch.functionalize(loss))
    for array in (np.asarray, jax.numpy.asarray):
        for labels in (LABELS, LABELS.astype("int32"), jax.numpy.asarray(LABELS)):
            found = gradient(array(WEIGHTS), array(ROWS), labels)
            np.testing.assert_allclose(found, w.grad, rtol=1e-4, atol=1e-5)


def written(y: Any) -> Any:
    z = torch.zeros(4, 3)
    z[1:3] = y[:2] * 2
    return z


#: programs in which some operation has JAX's flag on
MAPPED = {
    "index_add": lambda y, t: y.index_add(0, t, y).pow(2).sum(),
    "index_put": lambda y, t: y.index_put((t,), y[0]).pow(2).sum(),
    "take_along_dim": lambda y, t: y.take_along_dim(t[:, None], 1).pow(2).sum(),
    "take": lambda y, t: y.take(t).pow(2).sum(),
    "getitem": lambda y, t: y[t].pow(2).sum(),
    "slice write": lambda y, t: written(y).pow(2).sum(),
    "topk": lambda y, t: (y.topk(3, 1).values * t[:, None]).sum(),
    "searchsorted": lambda y, t: (torch.searchsorted(torch.arange(4.0), y) * y).sum(),
    "double": lambda y, t: (y.double() ** 2).sum(),
}


@pytest.mark.parametrize("vmap", [fgrad.vmap, jax.vmap])
@pytest.mark.parametrize("name", MAPPED)
def test_mapped_arrays_of_64_bits_have_their_types_throughout(name: str, vmap: Any):
    """JAX's tracer for a mapped or differentiated array of NumPy's holds its 64 bits behind a type of 32."""

    def loss(y: Any, t: Any) -> Any:
        return MAPPED[name](y, t.long())

    pure = torch.functionalize(loss)
    values, gradients = [], []
    labels = np.stack([LABELS, LABELS[::-1]])
    rows = np.stack([ROWS[:, :3], ROWS[:, 2:]])
    for row, label in zip(rows, labels, strict=True):
        y = torch.tensor(row, dtype=torch.float32, requires_grad=True)
        value = loss(y, torch.tensor(label))
        value.backward()
        values.append(value.item())
        gradients.append(y.grad.numpy())
    for type in ("float32", "float64"):
        y = rows.astype(type)
        np.testing.assert_allclose(vmap(pure)(y, labels), values, rtol=1e-4)
        for transform in (fgrad.grad, lambda f: fgrad.grad(jax.jit(f)), fgrad.jacrev):
            np.testing.assert_allclose(vmap(transform(pure))(y, labels), gradients, rtol=1e-4, atol=1e-5)
        for transform in (fgrad.grad, jax.grad):
            found = vmap(vmap(transform(pure)))(y[None], labels[None])[0]
            np.testing.assert_allclose(found, gradients, rtol=1e-4, atol=1e-5)
        _, tangents = vmap(lambda y, t: fgrad.jvp(lambda y: pure(y, t), (y,), (np.ones((4, 3)),)))(y, labels)
        np.testing.assert_allclose(tangents, np.sum(gradients, (1, 2)), rtol=1e-4, atol=1e-5)


def test_values_of_64_bits_keep_them_when_mapped():
    """A true value of 64 bits is left alone where its graph is run for many."""
    with jax.enable_x64(True):
        counts = jax.numpy.asarray([5 * 10**9, 7 * 10**9])
    pure = torch.functionalize(lambda x, n: x * (n // 10**9))
    np.testing.assert_array_equal(jax.vmap(fgrad.grad(pure))(np.ones(2), counts), [5.0, 7.0])


def test_untraced_integers_keep_their_bits():
    gradient = jax.grad(torch.functionalize(lambda x, n: x * (n // 10**9)))
    assert gradient(1.0 * X[0], np.array(5 * 10**9)) == 5.0


def test_values_written_to_one_element_are_summed_as_such():
    """Run in parallel, a sum over indices that are said to be unique and are not is wrong."""

    def tangent(y: Any, t: Any) -> Any:
        return fgrad.jvp(lambda y: torch.functionalize(MAPPED["index_put"])(y, t), (y,), (y,))[1]

    sums = [
        node.op
        for node in fgrad.make_graph(tangent)(ROWS[:, :3], LABELS).nodes
        if str(node.op.primitive) == "scatter-add"
    ]
    assert sums and not any(op.params["unique_indices"] for op in sums)
