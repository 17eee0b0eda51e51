"""What PyTorch 2.13 gives, written down, for where it is not installed."""

import numpy as np
import pytest

import fgrad.torch as torch
from tests.torch.mirror import first_part

nn = torch.nn

#: a module, the shape of its input of ones, the sum of magnitudes of each parameter, the sum of the output
RECORDED = [
    ("nn.Linear(3, 4)", (2, 3), [2.552502, 1.193324], -3.105761),
    ("nn.Conv2d(2, 3, 3, groups=1)", (1, 2, 4, 4), [6.332798, 0.340739], -2.249494),
    ("nn.BatchNorm1d(3)", (2, 3), [3.0, 0.0], 0.0),
    ("nn.LayerNorm(3)", (2, 3), [3.0, 0.0], 0.0),
    ("nn.GRU(2, 3)", (4, 1, 2), [4.320497, 8.663968, 2.52766, 2.81608], 0.891159),
    (
        "nn.LSTM(2, 3, num_layers=2)",
        (4, 1, 2),
        [6.203305, 11.289481, 3.124523, 4.814323, 10.0152, 10.239796, 2.98681, 4.171195],
        -1.211465,
    ),
    ("nn.MultiheadAttention(4, 2).out_proj", (1, 4), [3.243981, 0.0], -1.344834),
    ("nn.PReLU()", (2,), [0.25], 2.0),
    (
        "nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 1))",
        (3, 2),
        [4.587681, 3.009785, 1.497881, 0.229166],
        -0.564562,
    ),
]


@pytest.mark.parametrize(("expression", "shape", "parameters", "output"), RECORDED, ids=lambda value: str(value)[:40])
def test_values_are_those_written_down(expression: str, shape: tuple[int, ...], parameters: list[float], output: float):
    torch.manual_seed(0)
    module = eval(expression, {"nn": nn, "torch": torch})
    sums = [parameter.detach().abs().sum().item() for parameter in module.parameters()]
    np.testing.assert_allclose(sums, parameters, rtol=1e-5)
    result = module(torch.ones(shape))
    result = result[0] if isinstance(result, tuple) else result
    np.testing.assert_allclose(result.detach().sum().item(), output, rtol=1e-4, atol=1e-5)


def test_a_model_shows_itself():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ModuleList([nn.ReLU(), nn.ReLU()]), nn.Sequential(nn.Linear(1, 2)))
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))\n"
        "  (1): ModuleList(\n"
        "    (0-1): 2 x ReLU()\n"
        "  )\n"
        "  (2): Sequential(\n"
        "    (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  )\n"
        ")"
    )


def test_what_does_not_fit_is_listed():
    with pytest.raises(RuntimeError) as caught:
        nn.Linear(2, 1).load_state_dict({"weight": torch.ones(3, 3), "other": torch.ones(1)})
    assert first_part(str(caught.value)) == (
        "Error(s) in loading state_dict for Linear:\n"
        '\tMissing key(s) in state_dict: "bias". \n'
        '\tUnexpected key(s) in state_dict: "other". \n'
        "\tsize mismatch for weight: copying a param with shape torch.Size([3, 3]) from checkpoint, the shape in "
        "current model is torch.Size([1, 2])."
    )


def test_backward_hooks_see_the_gradients():
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, 2.0)
    seen = []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    layer(torch.ones(1, 1, requires_grad=True)).backward(torch.full((1, 1), 3.0))
    ((grad_input,), (grad_output,)) = seen[0]
    assert (grad_input.item(), grad_output.item()) == (6.0, 3.0)
