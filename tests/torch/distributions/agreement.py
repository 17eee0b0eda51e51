"""What ours and PyTorch's give, made comparable and compared; without PyTorch the tests that need this are skipped."""

import warnings
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.distributions.table import Case
from tests.torch.mirror import first_part

theirs = pytest.importorskip("torch")


def parameters_of(torch: Any, case: Case) -> list[Any]:
    return [torch.tensor(each, dtype=torch.float32, requires_grad=True) for each in case.parameters]


def value_of(torch: Any, case: Case) -> Any:
    return torch.tensor(case.value)


def shown(torch: Any, function: Any) -> Any:
    """What a function gives, or the type of its error and the text of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function()
        except theirs.linalg.LinAlgError:
            # whose text says where the factorization of what is not a number stopped
            return "_LinAlgError"
        except (NotImplementedError, ValueError, AttributeError) as error:
            return type(error).__name__, first_part(str(error)).replace("fgrad.torch", "torch")
        except ours.linalg.LinAlgError:
            return "_LinAlgError"
    if isinstance(found, torch.Tensor):
        return found
    return repr(found)


def same(found: Any, wanted: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    if not isinstance(wanted, theirs.Tensor):
        assert found == wanted
        return
    assert isinstance(found, ours.Tensor), found
    assert tuple(found.shape) == tuple(wanted.shape)
    assert str(found.dtype) == str(wanted.dtype)
    assert found.requires_grad == wanted.requires_grad
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=rtol, atol=atol)


def gradients_of(torch: Any, result: Any, parameters: list[Any]) -> list[Any]:
    # not all the same, so that gradients do not cancel
    weights = torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)
    return list(torch.autograd.grad((result * weights).sum(), parameters, allow_unused=True))


def same_gradients(found: list[Any], wanted: list[Any], rtol: float = 1e-3) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=1e-4)
