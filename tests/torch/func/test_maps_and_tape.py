"""``vmap`` and the tape: gradients asked for inside of a map, hooks and checkpoints around one, against PyTorch's."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree
from tests.torch.mirror import first_part

torch = pytest.importorskip("torch")

BATCH = np.random.RandomState(0).randn(4, 3).astype("float32")


def made_inside(t: Any, x: Any) -> Any:
    """The gradient that is asked for inside of a map is that of each example."""

    def pulled(ct: Any) -> Any:
        first = t.autograd.grad([x.sin() * x], [x], grad_outputs=[ct])
        gradient = t.autograd.grad((x**3).sum(), x, create_graph=True)[0]
        return *first, *t.autograd.grad(gradient, x, ct)

    return t.vmap(pulled)(t.eye(3)), t.vmap(t.vmap(pulled))(t.ones(2, 2, 3).cumsum(0).cumsum(1))


def hooked_batches(t: Any, x: Any) -> Any:
    """Hooks have whole batches, here as NumPy's arrays; their shapes are sorted, since the order is not PyTorch's."""
    shapes = []

    def pack(saved: Any) -> Any:
        shapes.append(tuple(saved.shape))
        return saved.detach().numpy().copy()

    with t.autograd.graph.saved_tensors_hooks(pack, t.from_numpy):
        out = t.vmap(lambda a: a.sin() * a.exp())(x)
    first = t.autograd.grad(out.sum(), x, create_graph=True)[0]
    return sorted(shapes), first, t.autograd.grad((first**2).sum(), x)


def checkpointed_batches(t: Any, x: Any) -> Any:
    w = t.ones(3, requires_grad=True)
    out = t.utils.checkpoint.checkpoint(t.vmap(lambda a: (a.sin() * w * a).exp()), x, use_reentrant=False)
    first = t.autograd.grad(out.sum(), (x, w), create_graph=True)
    return first, t.autograd.grad(sum((each**2).sum() for each in first), (x, w))


#: functions of an example and another number of it, and the axes that are mapped
ALIASES: dict[str, Any] = {
    "itself": (lambda t, a: a, 0, 0),
    "itself, in another place": (lambda t, a: a, 1, 0),
    "itself, in its place": (lambda t, a: a, 1, 1),
    "itself, in its place, counted from the end": (lambda t, a: a, 1, -2),
    "written": (lambda t, a: a.mul_(2), 0, 0),
    "written, in its place": (lambda t, a: a.mul_(2), 2, 2),
    "partly written": (lambda t, a: (a[0].mul_(2), a)[1], 0, 1),
    "a view": (lambda t, a: a[1:, ::2].t(), 0, 0),
    "a view, in another place": (lambda t, a: a.unfold(0, 2, 1)[1], 0, 1),
    "a view of the last axis": (lambda t, a: a[1], 2, 1),
    "a view, unevenly spaced": (lambda t, a: a[1:, ::2].t(), 1, 0),
    "a diagonal": (lambda t, a: a[:, :3].diagonal(), 1, 1),
    "windows": (lambda t, a: a[1].unfold(0, 2, 1), 1, 0),
    "no elements": (lambda t, a: a[5:], 1, 0),
    "as complex": (lambda t, a: t.view_as_complex(a.reshape(a.shape[0], -1, 2)), 0, 0),
    "axes of a nested map": (lambda t, a: t.vmap(lambda row: row[1:], in_dims=1)(a), 1, 0),
    "detached": (lambda t, a: a.detach(), 0, 0),
    "twice": (lambda t, a: (a, a[1]), 0, 0),
    "nested": (lambda t, a: t.vmap(lambda row: row)(a), 0, 0),
    "nested, in its place": (lambda t, a: t.vmap(lambda row: row, in_dims=1, out_dims=1)(a), 1, 1),
    "not a view": (lambda t, a: a.flip(0), 0, 0),
}


def aliasing(t: Any, name: str, tracked: bool) -> Any:
    """Whether a result is the argument, and what is written to one of them shows in the other."""
    function, in_dim, out_dim = ALIASES[name]
    x = t.arange(60.0).reshape(5, 3, 4).requires_grad_(tracked) * 1
    result = t.vmap(lambda a: function(t, a), in_dims=in_dim, out_dims=out_dim)(x)
    first = result[0] if isinstance(result, tuple) else result
    same = first is x
    first += 100
    return same, x.detach(), x._version, x.requires_grad, result


def written_tangents(t: Any, x: Any) -> Any:
    """A write to a dual tensor writes the tangent that it was given, here a batch, and counts there."""

    def pushed(x: Any, tangent: Any, y: Any) -> Any:
        _, pushed = t.func.jvp(lambda a, b: a.copy_(b), (x, y), (tangent, y * 2))
        return pushed + tangent, pushed

    tangents = x + 1
    result = t.vmap(pushed)(x.clone(), tangents, x)
    return result, tangents, tangents._version


def running_statistics(t: Any, x: Any) -> Any:
    """The running statistics of each model of an ensemble are written, which counts nowhere."""
    mean, var = t.zeros(2, 3), t.ones(2, 3)
    result = t.vmap(lambda m, v: (t.nn.functional.batch_norm(x, m, v, training=True), m))(mean, var)
    return result, mean, var, mean._version, result[1] is mean


def mapped_weight(t: Any, x: Any) -> Any:
    """The running statistics do not depend on the weight and the bias, which alone are mapped."""
    mean, var, fixed = t.zeros(3), t.ones(3), t.arange(12.0).view(4, 3)
    result = t.vmap(lambda w: t.nn.functional.batch_norm(fixed, mean, var, w, w, training=True))(x)
    return result, mean, var


def shared(t: Any, x: Any) -> Any:
    """What all examples share comes out as a view that repeats it."""
    w = t.arange(3.0)
    found = t.vmap(lambda a: (w, w[1:], t.zeros(2)))(x)
    w += 1
    return found, [each.stride() for each in found], found[1]._base is w


#: what draws random numbers in the shape of an example
DRAWING: dict[str, Any] = {
    "uniform": lambda t, a: a.uniform_(),
    "normal": lambda t, a: a.normal_(),
    "bernoulli": lambda t, a: a.bernoulli_(0.4),
    "bernoulli of a tensor": lambda t, a: a.bernoulli_(t.tensor([0.2, 0.8, 0.4, 0.6])[: a.shape[-1]]),
    "bernoulli of itself": lambda t, a: a.bernoulli_(a / 60),
    "like": lambda t, a: t.rand_like(a),
    "like, contiguous": lambda t, a: t.rand_like(a, memory_format=t.contiguous_format),
    "normal, like": lambda t, a: t.randn_like(a),
}


def drawing(t: Any, function: Any) -> Any:
    """Random numbers for the examples of a batch are drawn in the order of the batch's memory."""
    found = []
    for axis in (0, 1, 2):
        for randomness in ("different", "same"):
            t.manual_seed(0)
            x = t.arange(60.0).reshape(5, 3, 4)
            try:
                found.append(t.vmap(lambda a: function(t, a), in_dims=axis, randomness=randomness)(x))
            except RuntimeError as error:
                found.append(first_part(str(error)))
    return found


CASES = [
    *[Case(f"drawing: {name}", lambda t, f=f: drawing(t, f)) for name, f in DRAWING.items()],
    Case(
        "drawn by a batch",
        lambda t, w, p: t.vmap(lambda a: w.bernoulli_(a), randomness="different")(p),
        (BATCH[0], BATCH * 0 + 0.5),
    ),
    Case("shared", shared, (BATCH,)),
    Case("drawn", lambda t, w: t.vmap(lambda a: w.normal_(), randomness="different")(t.ones(2)), (BATCH,)),
    Case("written tangents", written_tangents, (BATCH,)),
    Case("running statistics", running_statistics, (BATCH,)),
    Case("running statistics, mapped weight", mapped_weight, (BATCH,)),
    *[Case(f"aliasing: {name}", lambda t, name=name: aliasing(t, name, False)) for name in ALIASES],
    *[
        Case(f"aliasing: {name}, with a history", lambda t, name=name: aliasing(t, name, True))
        for name in (
            "itself",
            "itself, in its place",
            "written",
            "written, in its place",
            "partly written",
            "nested",
            "not a view",
        )
    ],
    Case("autograd.grad inside", lambda t, x: made_inside(t, x.requires_grad_()), (BATCH[0],)),
    Case("hooks around", lambda t, x: hooked_batches(t, x.requires_grad_()), (BATCH,)),
    Case("checkpoint around", lambda t, x: checkpointed_batches(t, x.requires_grad_()), (BATCH,)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results(case: Case) -> None:
    agree(case, torch)


#: what is mapped over the rows of a batch, beside a weight, and what writes to the batch or the result afterwards
WRITTEN_AFTERWARDS = {
    "the batch": (lambda x, w: x * w, lambda x, y: x.add_(1)),
    "a row of it": (lambda x, w: x * w, lambda x, y: x[0].zero_()),
    "of a view": (lambda x, w: x.view(-1) * w, lambda x, y: x.add_(1)),
    "of a copy": (lambda x, w: x.clone() * w, lambda x, y: x.add_(1)),
    "the result": (lambda x, w: (x * w).exp(), lambda x, y: y.add_(1)),
    "a row of the result": (lambda x, w: (x * w).exp(), lambda x, y: y[0].zero_()),
    "another result": (lambda x, w: (x * w).exp() * 2, lambda x, y: y.add_(1)),
    "the batch inside": (lambda x, w: x.add_(1) * w, lambda x, y: None),
    "the result inside": (lambda x, w: (x * w).add_(1), lambda x, y: None),
}


@pytest.mark.parametrize("name", WRITTEN_AFTERWARDS)
def test_what_was_saved_in_a_map_and_written_afterwards(name: str):
    """The examples have the version counter of the batch, and the result that of its examples."""

    def run(torch: Any) -> Any:
        function, write = WRITTEN_AFTERWARDS[name]
        x, w = torch.arange(6.0).reshape(2, 3), torch.ones(3, requires_grad=True)
        y = torch.func.vmap(lambda row: function(row, w))(x)
        write(x, y)
        versions = x._version, y._version
        try:
            y.sum().backward()
        except RuntimeError as error:
            return versions, "modified by an inplace operation" in str(error)
        return versions, w.grad.numpy().round(2).tolist()

    assert run(ours) == run(torch)


def test_versions_of_gradients_in_a_map():
    def run(torch: Any) -> list[int]:
        rows, x = torch.ones(2, 3), torch.ones(3)
        gradient = torch.func.grad(lambda x: (x * x).sum())
        results = (
            torch.func.vmap(gradient)(rows),
            torch.func.jacrev(lambda x: x * x)(x),
            torch.func.hessian(gradient)(x),
        )
        return [each._version for each in results]

    assert run(ours) == run(torch)
