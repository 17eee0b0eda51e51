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
