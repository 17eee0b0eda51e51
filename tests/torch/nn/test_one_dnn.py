"""A layer of an LSTM as one operation, against its cells."""

import numpy as np
import pytest

import fgrad.torch as torch


def _lstm(bidirectional=False, bias=True, seed=0):
    torch.manual_seed(seed)
    return torch.nn.LSTM(3, 4, num_layers=2, bidirectional=bidirectional, bias=bias), torch.randn(5, 2, 3)


def _derivatives(model, x):
    """The gradient of a loss with respect to its input and the weights, and that of the gradient's square."""
    x = x.clone().requires_grad_()
    output, (hidden, cell) = model(x)
    loss = output.square().sum() + hidden.sum() + (cell * cell).sum()
    leaves = [x, *model.parameters()]
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    second = torch.autograd.grad(first[0].square().sum(), leaves)
    return [*first, *second]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_first_and_second_derivatives_are_those_of_the_cells(bidirectional, bias):
    model, x = _lstm(bidirectional, bias)
    as_one = _derivatives(model, x)
    with torch.backends.mkldnn.flags(enabled=False):
        cells = _derivatives(model, x)
    for one, other in zip(as_one, cells, strict=True):
        np.testing.assert_allclose(one.detach(), other.detach(), rtol=2e-4, atol=2e-5)


def test_backward_reads_a_workspace_and_runs_no_step_again():
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3, requires_grad=True)
    node = layer(x)[0].grad_fn
    assert node.name() == "MkldnnRnnLayerBackward0" and node._saved_train
    assert node._saved_result3.shape == (5, 2, 4) and not node._saved_result3.requires_grad
    loops = [each.op for each in node.pullback.routine.graph.nodes if each.op.name == "scan"]
    assert len(loops) == 1 and loops[0].params["reverse"]


def test_nothing_is_kept_for_a_backward_that_cannot_be():
    layer, x = torch.nn.LSTM(3, 4), torch.randn(5, 2, 3)
    with torch.no_grad():
        layer(x)
    (plan,) = [plan for (_, params), plan in _plans().items() if params == (False, True, False)][-1:]
    assert len(plan.out_types) == 3


def _plans():
    return torch.nn.one_dnn._layer.operation.plans
