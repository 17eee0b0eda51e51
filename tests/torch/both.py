"""One function of ``torch``, run on PyTorch and on ``fgrad.torch``: what it gives, and what it raises, has to agree."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

import fgrad.torch as ours
from tests.torch.mirror import first_part


@frozen
class Case:
    """A function of (torch, *tensors), and the arrays that the tensors are made of.

    ``longer`` says that our error begins with PyTorch's and goes on.
    """

    name: str
    run: Callable[..., Any]
    arrays: tuple[np.ndarray, ...] = ()
    longer: bool = False

    def __str__(self) -> str:
        return self.name


def agree(case: Case, theirs: Any) -> None:
    """Check that both come to the same: structure, shapes, types, ``requires_grad`` and elements, or the same error."""
    wanted, found = _outcome(case, theirs), _outcome(case, ours)
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        assert type(found).__name__ == type(wanted).__name__, (found, wanted)
        assert first_part(str(found)) == first_part(str(wanted))
        return
    assert len(found) == len(wanted), (found, wanted)
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        else:
            assert a == b


def _outcome(case: Case, torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(_flat(case.run(torch, *[torch.tensor(a) for a in case.arrays])))
        except Exception as error:
            return error


def _flat(found: Any) -> Any:
    if hasattr(found, "requires_grad") and hasattr(found, "detach"):
        yield tuple(found.shape), str(found.dtype), bool(found.requires_grad)
        yield found.detach().numpy()
    elif isinstance(found, dict):
        for key, value in found.items():
            yield key
            yield from _flat(value)
    elif isinstance(found, list | tuple):
        yield type(found).__name__
        for value in found:
            yield from _flat(value)
    else:
        yield found
