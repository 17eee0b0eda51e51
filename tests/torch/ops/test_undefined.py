"""Gradients that PyTorch has none of: they are undefined, or refused with an error."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.mirror import first_part

theirs = pytest.importorskip("torch")

REAL = np.random.default_rng(0).standard_normal((3, 3))
COMPLEX = REAL + 1j * np.random.default_rng(1).standard_normal((3, 3))

UNDEFINED = {
    "vector_norm": lambda torch, x: torch.linalg.vector_norm(x, 0),
    "norm over an axis": lambda torch, x: torch.linalg.norm(x[0], 0),
    "former norm": lambda torch, x: torch.norm(x, 0),
    "dist": lambda torch, x: torch.dist(x, x.detach() + 1, 0),
    "householder_product": lambda torch, x: torch.linalg.householder_product(x, torch.ones(0).double()),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_undefined(name: str):
    def run(torch: Any) -> Any:
        x = torch.tensor(REAL, requires_grad=True)
        found = UNDEFINED[name](torch, x)
        (gradient,) = torch.autograd.grad(found.sum(), x, allow_unused=True)
        return found.requires_grad, found.grad_fn.name(), gradient is None

    assert run(ours) == run(theirs)


UNDERIVED = {
    "unique": lambda torch, x: torch.unique(x, return_counts=True),
    "unique rows": lambda torch, x: torch.unique(x, dim=0),
    "unique_consecutive": lambda torch, x: torch.unique_consecutive(x),
    "histogram": lambda torch, x: torch.histogram(x, 3),
    "histogram of weights": lambda torch, x: torch.histogram(x.detach(), 3, weight=x),
    "histogramdd": lambda torch, x: (lambda found: (found[0], *found[1]))(torch.histogramdd(x, [2, 2, 2])),
    "histogramdd by edges": lambda torch, x: torch.histogramdd(x, [torch.arange(3.0).double()] * 3)[0],
    "bincount": lambda torch, x: torch.bincount(torch.arange(3), x[0]),
}


@pytest.mark.parametrize("name", UNDERIVED)
def test_underived(name: str):
    def run(torch: Any) -> Any:
        x = torch.tensor(REAL, requires_grad=True)
        results = UNDERIVED[name](torch, x)
        seen = []
        for found in results if isinstance(results, tuple) else (results,):
            seen.append((found.requires_grad, found.grad_fn and found.grad_fn.name()))
            if found.requires_grad:
                with pytest.raises(RuntimeError) as caught:
                    (found.sum() + x.sum()).backward()
                seen.append((type(caught.value).__name__, first_part(str(caught.value))))
        return seen

    assert run(ours) == run(theirs)


#: functions of ``x``, tracked and positive, and ``y``, which have no derivative with respect to some operand
NOT_DERIVED: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{name: lambda torch, x, y, name=name: getattr(x + 0, name)() for name in ("acosh_", "asinh_", "atanh_")},
    **{name: lambda torch, x, y, name=name: getattr(torch, name)(x, y) for name in ("igamma", "igammac", "heaviside")},
    **{name: lambda torch, x, y, name=name: getattr(x + 0, name)(y) for name in ("igamma_", "floor_divide_")},
    "igamma, second operand": lambda torch, x, y: torch.igamma(y, x),
    "igamma, second operand alone": lambda torch, x, y: torch.igamma((y + 0).requires_grad_(), x),
    "igamma, both": lambda torch, x, y: torch.igamma(x, x),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("name", NOT_DERIVED)
def test_not_derived(name: str):
    """Reverse and forward mode; the gradient is asked for ``x`` alone."""

    def run(torch: Any) -> Any:
        x, y = torch.tensor([1.5, 2.5], requires_grad=True), torch.tensor([0.5, 3.0])
        seen: list[Any] = []
        try:
            (gradient,) = torch.autograd.grad(NOT_DERIVED[name](torch, x, y).sum(), x)
            seen.append(gradient.double().numpy().round(5).tolist())
        except (NotImplementedError, RuntimeError) as error:
            seen.append((type(error), first_part(str(error))))
        with torch.autograd.forward_ad.dual_level():
            try:
                NOT_DERIVED[name](torch, torch.autograd.forward_ad.make_dual(x.detach(), y), y)
            except NotImplementedError as error:
                seen.append(str(error).splitlines()[0])
        return seen

    assert run(ours) == run(theirs)


def test_the_second_operand_of_zeta_has_a_derivative():
    def run(torch: Any) -> Any:
        x, y = (torch.tensor([value], requires_grad=True) for value in (2.5, 1.5))
        found = torch.special.zeta(x, y)
        (gradient,) = torch.autograd.grad(found, y, retain_graph=True)
        with pytest.raises(NotImplementedError) as caught:
            torch.autograd.grad(found, x)
        return round(gradient.item(), 5), first_part(str(caught.value))

    assert run(ours) == run(theirs)


def _product(found: Any) -> Any:
    return (found.U @ found.Vh).real


LOSSES: dict[str, tuple[np.ndarray, Callable[..., Any]]] = {
    "eig": (COMPLEX, lambda torch, x: torch.linalg.eig(x).eigenvectors.real),
    "eig of a real matrix": (REAL, lambda torch, x: torch.linalg.eig(x).eigenvectors.imag.pow(3)),
    "eig without angles": (COMPLEX, lambda torch, x: torch.linalg.eig(x).eigenvectors.abs()),
    "eig, values only": (COMPLEX, lambda torch, x: torch.linalg.eig(x).eigenvalues.real),
    "eigh": (COMPLEX, lambda torch, x: torch.linalg.eigh(x).eigenvectors.real),
    "eigh of a real matrix": (REAL, lambda torch, x: torch.linalg.eigh(x).eigenvectors.abs()),
    "svd, left": (COMPLEX, lambda torch, x: torch.linalg.svd(x[:, :2], full_matrices=False).U.real),
    "svd, right": (COMPLEX, lambda torch, x: torch.linalg.svd(x).Vh.real),
    "svd, both": (COMPLEX, lambda torch, x: _product(torch.linalg.svd(x))),
    "qr, complete": (REAL, lambda torch, x: torch.linalg.qr(x[:, :2], "complete").Q),
    "qr, complete and square": (REAL, lambda torch, x: torch.linalg.qr(x, "complete").Q),
    "qr, R only": (REAL, lambda torch, x: torch.linalg.qr(x, "r").R),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_refused(name: str, create_graph: bool):
    matrix, loss = LOSSES[name]

    def run(torch: Any) -> Any:
        x = torch.tensor(matrix, requires_grad=True)
        try:
            (gradient,) = torch.autograd.grad(loss(torch, x).sum(), x, create_graph=create_graph)
        except RuntimeError as error:
            return first_part(str(error))
        return gradient.detach().numpy()

    wanted = run(theirs)
    if isinstance(wanted, str):
        assert run(ours) == wanted
    else:
        np.testing.assert_allclose(run(ours), wanted, atol=1e-8)
