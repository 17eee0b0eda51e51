"""The steps of ``vmap`` can be replaced, as libraries do that map over containers of tensors of their own."""

import importlib

import numpy as np
import pytest

import fgrad.torch

torch = pytest.importorskip("torch")


class Box:
    """A tensor in a container that ``vmap`` does not know."""

    def __init__(self, content):
        self.content = content


@pytest.mark.parametrize("t", (torch, fgrad.torch), ids=("pytorch", "fgrad"))
def test_steps_can_be_replaced(t, monkeypatch):
    vmap = importlib.import_module(f"{t.__name__}._functorch.vmap")
    functorch = importlib.import_module(f"{t.__name__}._C._functorch")
    seen = []

    def process(in_dims, args, func):
        boxes, structure = vmap.tree_flatten(args)
        dims = vmap._broadcast_to_and_flatten(in_dims, structure)
        return boxes[0].content.shape[dims[0]], dims, boxes, structure

    def create(dims, boxes, level, structure):
        inside = [Box(functorch._add_batch_dim(box.content, dim, level)) for box, dim in zip(boxes, dims, strict=True)]
        seen.append(functorch.is_batchedtensor(inside[0].content))
        return vmap.tree_unflatten(inside, structure)

    def unwrap(outputs, out_dims, level, size, func):
        boxes, structure = vmap.tree_flatten(outputs)
        outside = [Box(vmap._maybe_remove_batch_dim("f", box.content, level, size, out_dims)) for box in boxes]
        return vmap.tree_unflatten(outside, structure)

    for name, step in (
        ("_process_batched_inputs", process),
        ("_create_batched_inputs", create),
        ("_unwrap_batched", unwrap),
    ):
        monkeypatch.setattr(vmap, name, step)
    x = t.arange(6.0).reshape(2, 3).requires_grad_()
    result = t.func.vmap(lambda box: (Box(box.content * box.content.sum()),), in_dims=1, out_dims=1)(Box(x))
    assert seen == [True] and not functorch.is_batchedtensor(x)
    np.testing.assert_array_equal(result[0].content.tolist(), [[0.0, 5.0, 14.0], [9.0, 20.0, 35.0]])
    result[0].content[0].sum().backward()
    np.testing.assert_array_equal(x.grad.tolist(), [[3.0, 6.0, 9.0], [0.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    ("batch", "in_dims"),
    [(lambda t: t.arange(24.0).reshape(2, 3, 4), 1), (lambda t: t.arange(24.0).reshape(2, 4, 3).mT, 0)],
    ids=("another axis", "a transposed batch"),
)
def test_as_strided_of_examples_that_are_not_contiguous(batch, in_dims):
    """Their strides are not those of the batch, so the elements would be others than PyTorch's."""
    ours = fgrad.torch
    for function in (lambda a: a.as_strided((2, 2), (4, 1)), lambda a: a[1:].as_strided((2,), (1,))):
        with pytest.raises(NotImplementedError, match="contiguous batch with its mapped axis first"):
            ours.func.vmap(function, in_dims=in_dims)(batch(ours))
        with pytest.raises(NotImplementedError):
            ours.func.vmap(ours.func.grad(lambda a, f=function: f(a).sum()), in_dims=in_dims)(batch(ours))


def test_as_strided_of_contiguous_examples():
    expected, found = (
        t.func.vmap(lambda a: a.as_strided((2, 2), (1, 4), 1))(t.arange(24.0).reshape(2, 3, 4))
        for t in (torch, fgrad.torch)
    )
    np.testing.assert_array_equal(found.tolist(), expected.tolist())


def test_a_tensor_that_escaped_is_told_apart():
    kept = []
    torch.vmap(lambda x: kept.append(x * 2) or x)(torch.ones(2))
    with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
        (kept[0] + 1).item()


@pytest.mark.parametrize("t", [torch, fgrad.torch], ids=["torch", "fgrad"])
def test_an_example_is_a_view_and_not_detached_in_place(t):
    x = t.arange(6.0).view(2, 3)
    for function in (lambda a: a.detach_(), lambda a: (a * 2).detach_() * a):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            t.vmap(function)(x)
    assert t.vmap(lambda a: t.ones(3).detach_() * a)(x).tolist() == x.tolist()
    found = t.vmap(t.func.grad(lambda a: ((a * 2).detach_() * a).sum()))(x)
    assert found.tolist() == (2 * x).tolist()


def test_an_example_has_no_storage_to_be_set():
    ours = fgrad.torch
    x = ours.arange(6.0).view(2, 3)
    for function in (lambda a: ours.zeros(3).set_(a), lambda a: a.set_(ours.ones(3)), lambda a: a.set_()):
        with pytest.raises(NotImplementedError, match="no storage of its own"):
            ours.vmap(function)(x)


def _higher(t, function, of):
    """The sums of squares of the first three gradients of a mapped function in two tensors."""
    tensors, found = [t.tensor(a, requires_grad=True) for a in of], []
    grads = t.autograd.grad(function(t, *tensors).sin().sum(), tensors, create_graph=True, allow_unused=True)
    for _ in range(3):
        found.append([None if g is None else g.square().sum().item() for g in grads])
        loss = sum(g.square().sum() for g in grads if g is not None)
        grads = t.autograd.grad(loss, tensors, create_graph=True, allow_unused=True)
    return found


MAPPED = {
    "an example": lambda t, x, w: t.vmap(lambda a: (a * w).sin().sum())(x),
    "no example": lambda t, x, w: t.vmap(lambda a: w.sum() * w)(x),
    "a gradient": lambda t, x, w: t.func.grad(lambda b: t.vmap(lambda a: (a * w).sin().sum())(b).sum())(x),
    "gradients": lambda t, x, w: t.vmap(t.func.grad(lambda a: (a * w).sin().sum()))(x),
    "maps in a map": lambda t, x, w: t.vmap(lambda a: t.vmap(lambda b: b.sin() * a.sum())(w))(x),
    "an axis of one of them": lambda t, x, w: t.vmap(t.vmap(t.mul, in_dims=(None, 0)), in_dims=(0, None))(x, w),
}


@pytest.mark.parametrize("name", MAPPED)
def test_gradients_of_gradients_through_a_map(name):
    of = np.linspace(-1, 1, 6).reshape(3, 2), np.linspace(0.5, 1, 2)
    expected, found = (_higher(t, MAPPED[name], of) for t in (torch, fgrad.torch))
    for row, wanted in zip(found, expected, strict=True):
        for a, b in zip(row, wanted, strict=True):
            np.testing.assert_allclose(a or 0.0, b or 0.0, rtol=1e-6, atol=1e-12)
