"""``swap_tensors`` and modules that swap their parameters, against PyTorch."""

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")


def test_what_is_swapped():
    def run(torch):
        a, b = torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.zeros(3))
        a.mark, a.grad = 1, torch.full((2,), 5.0)
        first = a
        torch.utils.swap_tensors(a, b)
        (b * 2).sum().backward()
        return [
            first is a, type(a).__name__, type(b).__name__, a.tolist(), b.tolist(), hasattr(a, "mark"), b.mark,
            a.grad is None, b.grad.tolist(), a.requires_grad, b.is_leaf,
        ]  # fmt: skip

    assert run(ours) == run(theirs)


def test_graphs_of_a_swapped_leaf_are_poisoned():
    def run(torch):
        a, b = torch.ones(2, requires_grad=True), torch.ones(2)
        loss = (a * 2).sum()
        torch.utils.swap_tensors(a, b)
        with pytest.raises(RuntimeError, match="poisoned by swap_tensors") as caught:
            loss.backward()
        return str(caught.value).splitlines()[0]

    assert run(ours) == run(theirs)


def test_a_saved_tensor_that_is_swapped_is_noticed():
    """PyTorch refuses to swap it."""
    a, b, w = ours.ones(2), ours.zeros(2), ours.ones(2, requires_grad=True)
    loss = (a * w).sum()
    ours.utils.swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_modules_swap_their_parameters():
    def run(torch):
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            layer = torch.nn.Linear(2, 1)
            layer(torch.ones(1, 2)).sum().backward()
            optimizer, weight = torch.optim.SGD(layer.parameters(), lr=0.1), layer.weight
            layer.double()
            optimizer.step()
            return layer.weight is weight, str(weight.dtype), str(weight.grad.dtype), type(weight).__name__
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    assert run(ours) == run(theirs)
