"""Linear algebra at its edges: what is singular, empty or infinite, and what gradients take for constant."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import fgrad.torch as ours
from tests.torch.ops.expressions import outcome

theirs = pytest.importorskip("torch")

EXPRESSIONS = """
torch.linalg.cond(torch.zeros(0, 0)).clone()
torch.linalg.cond(torch.zeros(3, 0, 2), 2).clone()
torch.linalg.cond(torch.zeros(3, 0, 0, dtype=torch.complex64), -2).clone()
torch.linalg.cond(torch.zeros(0, 3, 3), "fro").clone()
torch.linalg.cond(torch.ones(3, 3), "nuc")
torch.linalg.cond(torch.stack([torch.eye(3), torch.zeros(3, 3)]), "nuc")
torch.linalg.cond(torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), "nuc")
torch.cholesky_inverse(torch.tensor([[1.0, 0.0], [5.0, 0.0]]))
torch.cholesky_inverse(torch.stack([torch.eye(3), torch.eye(3, dtype=torch.complex64).triu(1)]), upper=True)
torch.cholesky_inverse(torch.zeros(2, 0, 0)).clone()
torch.baddbmm(torch.ones(1, 2, 2), *torch.ones(2, 1, 2, 2, dtype=torch.float64))
torch.baddbmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2), torch.ones(1, 2, 2).half())
torch.ones(1, 2, 2).long().baddbmm_(*torch.ones(2, 1, 2, 2))
torch.addbmm(torch.ones(2, 2).half(), *torch.ones(2, 1, 2, 2))
torch.addbmm(torch.ones(2, 2), torch.ones(1, 2, 2).half(), torch.ones(1, 2, 2))
torch.einsum("", [])
torch.linalg.householder_product(torch.ones(3, 3), torch.ones(3).int())
torch.linalg.householder_product(torch.ones(3, 3), torch.ones(3).double())
torch.linalg.householder_product(torch.ones(2, 3, 2), torch.ones(3, 2))
torch.linalg.householder_product(torch.ones(2, 3, 2), torch.ones(2))
torch.linalg.lu_solve(torch.eye(2), torch.tensor([0, 1], dtype=torch.int32), torch.ones(2, 1))
torch.linalg.lu_solve(torch.eye(2), torch.tensor([1, 3], dtype=torch.int32), torch.ones(2, 1))
torch.linalg.lu_solve(torch.eye(2), torch.tensor([1, 2]), torch.ones(2, 1))
torch.linalg.lu_solve(torch.eye(2)[None], torch.tensor([1, 2], dtype=torch.int32), torch.ones(1, 2, 1))
torch.lu_unpack(torch.eye(2), torch.tensor([0, 1], dtype=torch.int32))
torch.lu_unpack(torch.eye(2), torch.tensor([1, 3], dtype=torch.int32))
torch.lu_unpack(torch.eye(2), torch.tensor([0, 1], dtype=torch.int32), unpack_pivots=False)[1:]
torch.linalg.lstsq(torch.ones(2, 3), torch.ones(2), driver="gels")
torch.linalg.lstsq(torch.stack([torch.eye(3), torch.ones(3, 3)]), torch.ones(2, 3, 1), driver="gels")
[each.clone() for each in torch.linalg.lstsq(x[:, :2], x[:, 2:], 0.9, driver="gels")]
[each.clone() for each in torch.linalg.lstsq(x[:, :2], x[:, 2:], 0.9, driver="gelsd")]
[each.clone() for each in torch.linalg.lstsq(x[:, :2], x[:, 2:], 1.0, driver="gelsd")]
[each.clone() for each in torch.linalg.lstsq(x[:, :2], x[:, 2:], -1, driver="gelsd")]
[each.clone() for each in torch.linalg.lstsq(x[:, :2], x[:, 2:], 1.0, driver="gelss")]
torch.linalg.lstsq(torch.ones(2, 2), torch.ones(2, 1), -1, driver="gelss")
torch.linalg.lstsq(x[:, 2:], x[:, :2], 2.0, driver="gelsy").rank
torch.linalg.lstsq(torch.ones(2, 2), torch.tensor(1.0))
torch.linalg.lstsq(torch.ones(2, 3, 2), torch.ones(3))
torch.linalg.lstsq(torch.ones(2, 3, 2), torch.ones(4, 3, 2))
torch.linalg.lstsq(torch.ones(2, 2).long(), torch.ones(2, 2).long())
torch.linalg.lstsq(x[None, :, :2], x[:, 2:].expand(2, 3, 2), 0.1, driver="gelsy")[0].shape
torch.linalg.svd(torch.eye(2), driver="gesvd")
torch.linalg.svdvals(torch.eye(2), driver="gesvd")
torch.linalg.svdvals(torch.full((3, 3), np.nan))
torch.linalg.svd(torch.stack([torch.eye(3), torch.eye(3) * np.nan]))
torch.linalg.svdvals(torch.eye(3) * np.inf)
torch.linalg.svdvals(torch.tensor([[np.inf, 1.0], [0.0, 1.0]]))
torch.linalg.pinv(torch.full((3, 2), np.nan))
torch.linalg.pinv(torch.stack([torch.eye(3), torch.eye(3) * np.nan]), atol=torch.tensor(0.1))
torch.linalg.pinv(torch.full((2, 2), np.nan), hermitian=True)
torch.pinverse(torch.tensor([[np.inf, 1.0], [0.0, 1.0]]))
torch.linalg.eigh(torch.stack([torch.eye(3), torch.eye(3) * np.nan]))
torch.linalg.matrix_norm(torch.eye(3) * np.nan, 2)
torch.linalg.pinv(x[:2, :2], rtol=torch.tensor(0.5)).round(decimals=4)
torch.linalg.pinv(x.reshape(3, 2, 2), atol=torch.tensor([0.1, 3.0, 7.0])).add(1).round(decimals=4)
torch.linalg.pinv(x.reshape(3, 2, 2), rtol=torch.tensor([[0.1, 0.3, 0.9]])).add(1).round(decimals=4)
torch.linalg.pinv(x.reshape(3, 2, 2), atol=torch.tensor([1, 3, 0]), rtol=torch.tensor(0.2).double()).round(decimals=4)
torch.linalg.pinv(x.reshape(3, 2, 2), atol=torch.ones(2))
torch.linalg.pinv(x[:2, :2], atol=torch.tensor([1j]))
torch.linalg.pinv(torch.ones(2, 3), hermitian=True)
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().split("\n"))
def test_comes_to_what_it_does_in_pytorch(expression: str):
    assert outcome(ours, expression) == outcome(theirs, expression)


@pytest.mark.parametrize("rcond", [1e-3, 1e-2, 0.1, 0.5])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_least_squares_with_pivoted_columns(rcond: float, batch: tuple[int, ...]):
    # PyTorch passes uninitialised pivots to LAPACK, so the oracle of the values is SciPy
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(*batch, 5, 4)), rng.normal(size=(*batch, 4, 4))
    a = factors[0] * np.array([1, 0.2, 0.03, 0.004]) @ factors[1]
    b = rng.normal(size=(*batch, 5, 2))
    found = ours.linalg.lstsq(ours.tensor(a), ours.tensor(b), rcond=rcond)
    for index in np.ndindex(*batch):
        expected: Any = scipy.linalg.lstsq(a[index], b[index], rcond, lapack_driver="gelsy")
        solution, _, rank, _ = expected
        assert found.rank[index] == rank
        np.testing.assert_allclose(found.solution[index].numpy(), solution, 1e-8)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
def test_the_tangents_of_all_singular_vectors(shape: tuple[int, int]):
    a = np.random.default_rng(0).normal(size=(2, *shape))

    def run(torch: Any) -> Any:
        forward = torch.autograd.forward_ad
        with (
            forward.dual_level(),
            warnings.catch_warnings(action="ignore"),
        ):  # PyTorch's of its own deprecated functions
            found = torch.linalg.svd(forward.make_dual(torch.tensor(a[0]), torch.tensor(a[1])))
            return [forward.unpack_dual(x).tangent.numpy() for x in found]

    for found, expected in zip(run(ours), run(theirs), strict=True):
        np.testing.assert_allclose(np.abs(found), np.abs(expected), 1e-9, 1e-12)  # LAPACKs choose signs differently


def test_the_gradient_of_least_squares_does_not_depend_on_the_tolerance():
    def run(torch: Any) -> Any:
        a = torch.tensor([[1.0, 1, 0], [1, 2, 1], [0, 1, 1.1], [2, 2, 2]], dtype=torch.float64, requires_grad=True)
        b = torch.arange(4.0, dtype=torch.float64)[:, None].requires_grad_()
        solution = torch.linalg.lstsq(a, b, rcond=0.5, driver="gelsd").solution
        return [x.numpy() for x in (solution.detach(), *torch.autograd.grad(solution.sum(), (a, b)))]

    for one, other in zip(run(ours), run(theirs), strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-12)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_failed_cholesky_factor_is_right_before_the_failing_minor(upper, dtype):
    matrix = np.array([[4.0, 2, 1, 0], [2, 5, 3, 1], [1, 3, -5, 2], [0, 1, 2, 7]]).astype(dtype)
    both = np.stack([matrix, np.eye(4, dtype=dtype)])
    found, wanted = (lib.linalg.cholesky_ex(lib.tensor(both), upper=upper) for lib in (ours, theirs))
    np.testing.assert_allclose(found.L.numpy(), wanted.L.numpy(), rtol=1e-6)
    assert found.info.tolist() == wanted.info.tolist() == [3, 0] and found.L.stride() == wanted.L.stride()
