"""``vmap`` and the tape: gradients asked for inside of a map, hooks and checkpoints around one, against PyTorch's."""

from typing import Any

import numpy as np
import pytest

from tests.torch.both import Case, agree

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


CASES = [
    Case("autograd.grad inside", lambda t, x: made_inside(t, x.requires_grad_()), (BATCH[0],)),
    Case("hooks around", lambda t, x: hooked_batches(t, x.requires_grad_()), (BATCH,)),
    Case("checkpoint around", lambda t, x: checkpointed_batches(t, x.requires_grad_()), (BATCH,)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results(case: Case) -> None:
    agree(case, torch)
