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


@pytest.mark.parametrize("assign", [False, True])
def test_loading_swaps_what_the_class_makes_of_a_tensor(assign):
    def run(torch):
        class Doubling(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is torch.Tensor.module_load:
                    return (args[1] * 2).detach()
                return super().__torch_function__(func, types, args, kwargs or {})

        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            layer, source = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
            layer.bias = torch.nn.Parameter(Doubling(torch.zeros(2)), requires_grad=False)
            with torch.no_grad():
                source.weight.fill_(3)
                source.bias.fill_(4)
            weight, mean = layer.weight, layer.running_mean
            keys = layer.load_state_dict(source.state_dict(), assign=assign)
            same = layer.weight is weight, layer.running_mean is mean
            refused = torch.nn.Linear(1, 1, bias=False)
            refused.weight.module_load = lambda other, assign: other
            with pytest.raises(RuntimeError, match="While swapping the parameter") as caught:
                refused.load_state_dict(torch.nn.Linear(1, 1, bias=False).state_dict())
            return (
                keys, same, weight.tolist(), layer.bias.tolist(), layer.bias.requires_grad, type(mean).__name__,
                str(caught.value).splitlines()[:2],
            )  # fmt: skip
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    assert run(ours) == run(theirs)
