"""Initial values against PyTorch's: a seed gives the same numbers, and leaves the generator in the same place."""

from typing import Any

import numpy as np
import pytest

import fgrad.torch

pytorch = pytest.importorskip("torch")

FILLINGS = """
init.uniform_(torch.empty(3, 4), -2, 5)
init.normal_(torch.empty(3, 7), 1.0, 3.0)
init.normal_(torch.empty(3, 7, dtype=torch.float64), 1.0, 3.0)
init.trunc_normal_(torch.empty(50))
init.trunc_normal_(torch.empty(50), mean=0.5, std=2.0, a=-1.0, b=1.0)
init.trunc_normal_(torch.empty(50, dtype=torch.float64), a=2.0, b=3.0)
init.trunc_normal_(torch.empty(50), mean=1.0, std=0.5, a=0.9, b=1.1)
init.constant_(torch.empty(3), 2.5)
init.ones_(torch.empty(3))
init.zeros_(torch.empty(3))
init.eye_(torch.empty(3, 2))
init.eye_(torch.nn.Parameter(torch.empty(2, 3)))
init.dirac_(torch.empty(4, 2, 3))
init.dirac_(torch.empty(4, 2, 3, 2), groups=2)
init.dirac_(torch.empty(2, 3, 1, 2, 3))
init.xavier_uniform_(torch.empty(3, 4), gain=2.0)
init.xavier_normal_(torch.empty(3, 4, 5))
init.kaiming_uniform_(torch.empty(3, 4), a=0.5)
init.kaiming_uniform_(torch.empty(3, 4, 2), mode='fan_out', nonlinearity='relu')
init.kaiming_normal_(torch.empty(6, 4), nonlinearity='tanh')
init.orthogonal_(torch.empty(3, 5))
init.orthogonal_(torch.empty(5, 3), gain=2.0)
init.orthogonal_(torch.empty(2, 3, 4, dtype=torch.float64))
init.sparse_(torch.empty(6, 5), 0.3)
init.sparse_(torch.empty(3, 3), 0.5, std=2.0)
init.normal_(torch.empty(20), generator=torch.Generator().manual_seed(3))
init.xavier_uniform_(torch.empty(3, 4), generator=torch.Generator().manual_seed(3))
init.trunc_normal_(torch.empty(20), generator=torch.Generator().manual_seed(3))
init._no_grad_uniform_(torch.empty(3, 4), -2.0, 5.0)
init._no_grad_normal_(torch.empty(3, 7), 1.0, 3.0)
init._no_grad_trunc_normal_(torch.empty(50), 0.5, 2.0, -1.0, 1.0)
init._no_grad_fill_(torch.empty(3), 2.5)
init._no_grad_zero_(torch.empty(3))
""".strip().split("\n")


def filled(expression: str, torch: Any) -> list[np.ndarray]:
    torch.manual_seed(0)
    tensor = eval(expression, {"init": torch.nn.init, "torch": torch})
    return [tensor.detach().numpy(), torch.rand(2).numpy(), np.array([tensor._version, tensor.requires_grad])]


@pytest.mark.parametrize("expression", FILLINGS)
def test_filling_is_pytorchs(expression: str):
    values, after, facts = filled(expression, fgrad.torch)
    expected, expected_after, expected_facts = filled(expression, pytorch)
    np.testing.assert_allclose(values, expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(after, expected_after)
    np.testing.assert_array_equal(facts, expected_facts)


@pytest.mark.parametrize(
    "arguments",
    [
        "'linear'",
        "'conv3d'",
        "'sigmoid'",
        "'tanh'",
        "'relu'",
        "'leaky_relu'",
        "'leaky_relu', 0.5",
        "'leaky_relu', 1",
        "'selu'",
    ],
)
def test_gain_is_pytorchs(arguments: str):
    expression = f"nn.init.calculate_gain({arguments})"
    assert eval(expression, {"nn": fgrad.torch.nn}) == eval(expression, {"nn": pytorch.nn})
