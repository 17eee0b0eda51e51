"""Special points: branch cuts, where the sign of a zero says from which side; exponentials far below 0; real powers."""

import itertools

import numpy as np
import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")

PARTS = (-3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0), (-2.0, -0.0, 0.0, 2.0)


def _value_and_gradient(torch, function, x):
    x = torch.from_numpy(x.copy()).requires_grad_()
    y = function(torch)(x)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    return [t.detach().resolve_conj().numpy().view(t.real.numpy().dtype) for t in (y.detach(), gradient)]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "name",
    ["sqrt", "rsqrt", "log", "log2", "log10", "log1p", "asin", "acos", "atan", "asinh", "acosh", "atanh"],
)
def test_values_and_gradients_on_branch_cuts_are_those_of_pytorch(name, dtype):
    # each number alone: PyTorch computes several by vector instructions, which agree less well with each other
    for parts in itertools.product(*PARTS):
        x = np.array([complex(*parts)], dtype)
        expected = _value_and_gradient(theirs, lambda torch: getattr(torch, name), x)
        actual = _value_and_gradient(ours, lambda torch: getattr(torch, name), x)
        for ours_, theirs_ in zip(actual, expected, strict=True):
            if np.isfinite(theirs_).all():
                np.testing.assert_allclose(ours_, theirs_, 2e-5, 1e-6, err_msg=str(x))
            else:  # a pole: which parts are infinite or NaN is the division's
                assert not np.isfinite(ours_).all(), x


@pytest.mark.parametrize("name", ["elu", "celu", "selu"])
@pytest.mark.parametrize("number", [-200.0, -100.0, -90.0, -20.0, 0.0, 1.0])
def test_the_derivative_of_an_exponential_unit_far_below_zero(name, number):
    x = np.array([number])
    expected = _value_and_gradient(theirs, lambda torch: getattr(torch.nn.functional, name), x)
    actual = _value_and_gradient(ours, lambda torch: getattr(torch.nn.functional, name), x)
    np.testing.assert_allclose(actual, expected, 1e-12)


def _cofactors(x):
    rows = range(len(x))
    minors = [[np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in rows] for i in rows]
    return np.array([[(-1) ** (i + j) * minors[i][j] for j in rows] for i in rows])


@pytest.mark.parametrize(
    "matrix",
    [
        np.ones((3, 3)),
        np.zeros((3, 3)),
        np.diag([1.0, 2, 3, 0]),
        np.eye(4)[[0, 0, 2, 3]],
        np.eye(4),
        np.outer([1, 2, 3], [1j, 1, 2]) + np.diag([1j, 0, 0]),
        np.arange(16.0).reshape(4, 4) ** 2,
    ],
)
def test_the_second_derivative_of_a_determinant(matrix):
    # PyTorch's is NaN where singular values are equal
    direction = np.random.default_rng(0).normal(size=matrix.shape).astype(matrix.dtype)
    step = 1e-3 * direction
    # exact up to rounding: cofactors are polynomials of degree 3 at most
    near, far = (_cofactors(matrix + k * step) - _cofactors(matrix - k * step) for k in (1, 2))
    expected = (8 * near - far) / 12e-3
    x = ours.tensor(matrix, requires_grad=True)
    _, found = ours.func.jvp(ours.func.grad(lambda x: ours.linalg.det(x).real), (x,), (ours.tensor(direction),))
    np.testing.assert_allclose(found.detach().resolve_conj().numpy(), expected.conj(), 1e-9, 1e-8)


@pytest.mark.parametrize("name", ["elu", "celu", "selu"])
@pytest.mark.parametrize("number", [-2.0, -0.0, 0.0, 1.0])
def test_the_second_derivative_of_an_exponential_unit(name, number):
    found = []
    for torch in (theirs, ours):
        x = torch.tensor([number], dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(getattr(torch.nn.functional, name)(x).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.sum(), x)[0].numpy())
    np.testing.assert_allclose(found[1], found[0], 1e-12)


@pytest.mark.parametrize("exponent", [0j, 1 + 0j, 2 + 0j, -1 + 0j, 0.5 + 0j, 2j])
def test_a_complex_exponent(exponent):
    x = np.array([1 + 2j, -0.5 + 0.1j])
    expected = _value_and_gradient(theirs, lambda torch: lambda x: torch.pow(x, exponent), x)
    actual = _value_and_gradient(ours, lambda torch: lambda x: torch.pow(x, exponent), x)
    for mine, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(mine, other, 1e-10)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_the_second_derivative_of_a_scattered_product_of_zeros(zeros, name, include_self):
    # PyTorch refuses it from two zeros on
    x = ours.tensor([0.5, 2.0], dtype=ours.float64, requires_grad=True)
    values = ours.tensor([0.0] * zeros + [4.0] * (4 - zeros), dtype=ours.float64, requires_grad=True)
    index = ours.tensor([0, 0, 0, 1])

    def product(x, values):
        return getattr(ours, name)(x, 0, index, values, "prod", include_self=include_self)

    assert ours.autograd.gradgradcheck(product, (x, values))


@pytest.mark.parametrize("number", [np.nan, np.inf, 0.0])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_renorm_leaves_the_gradient_of_slices_that_it_does_not_scale(number, p):
    x = np.array([[1.0, 0.1], [number, 0.1], [3.0, 0.1]])
    for axis in (0, 1):
        expected = _value_and_gradient(theirs, lambda torch, axis=axis: lambda x: x.renorm(p, axis, 0.5), x)
        actual = _value_and_gradient(ours, lambda torch, axis=axis: lambda x: x.renorm(p, axis, 0.5), x)
        np.testing.assert_allclose(actual, expected, 1e-12)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_gradient_of_smooth_l1_loss_far_away(beta):
    x = np.array([np.inf, -np.inf, np.nan, 1e300, 0.0, 0.5, -2.0])
    for swapped in (False, True):

        def loss(torch, swapped=swapped):
            def of(x):
                pair = (torch.zeros_like(x), x) if swapped else (x, torch.zeros_like(x))
                return torch.nn.functional.smooth_l1_loss(*pair, beta=beta, reduction="none")

            return of

        np.testing.assert_allclose(_value_and_gradient(ours, loss, x), _value_and_gradient(theirs, loss, x), 1e-12)


@pytest.mark.parametrize("p", [1.5, 2.5, 3, 4])
@pytest.mark.parametrize("numbers", [(0.0, 0.0), (1.0, -2.0)])
def test_the_second_derivative_of_a_norm(numbers, p):
    found = []
    for torch in (theirs, ours):
        x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(torch.linalg.vector_norm(x, p), x, create_graph=True)
        found.append(torch.autograd.grad((first * first).sum(), x)[0].numpy())
    np.testing.assert_allclose(found[1], found[0], 1e-9, 1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", [0.0, 1e-9, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_gradients_of_the_cross_entropy_of_logits(dtype, target, weighted):
    x = np.array([-90.0, -20.0, -10.0, -1.0, 0.0, 3.0, 20.0], dtype)

    def loss(torch):
        def of(x):
            y = torch.full_like(x, target)
            weight = torch.full_like(x, 3.0) if weighted else None
            return torch.nn.functional.binary_cross_entropy_with_logits(x, y, pos_weight=weight, reduction="none")

        return of

    expected, actual = _value_and_gradient(theirs, loss, x), _value_and_gradient(ours, loss, x)
    np.testing.assert_allclose(actual, expected, 1e-5 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("size", [1e20, 3e38, 1e-30])
@pytest.mark.parametrize("name", ["std", "var", "pdist"])
def test_squares_beyond_the_range_of_single_precision(name, size):
    x = np.array([[0.1, 0.2, -0.3], [0.1, 0.9, 0.0]], np.float32)

    def loss(torch):
        return {
            "std": lambda x: (x * size).std(1),
            "var": lambda x: (x * size).var(1),
            "pdist": lambda x: torch.pdist(x * min(size, 1.0)),
        }[name]

    for expected, actual in zip(_value_and_gradient(theirs, loss, x), _value_and_gradient(ours, loss, x), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-5)


@pytest.mark.parametrize("p", [1, np.inf, -np.inf])
def test_the_sign_of_nan_in_the_gradient_of_a_norm(p):
    x = np.array([1.0, np.nan, -2.0])
    for of in (lambda torch: lambda x: x.norm(p), lambda torch: lambda x: torch.dist(x, torch.ones_like(x), p)):
        for expected, actual in zip(_value_and_gradient(theirs, of, x), _value_and_gradient(ours, of, x), strict=True):
            np.testing.assert_allclose(actual, expected, 1e-12)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_the_second_derivative_of_distances_between_equal_rows(p):
    x = ours.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, 4.5]], dtype=ours.float64, requires_grad=True)
    apart = ~ours.eye(3, dtype=ours.bool)

    def hessian(of):
        return ours.autograd.functional.hessian(lambda x: of(x).sum(), x).numpy()

    of_others = hessian(lambda x: (x[:, None] - x)[apart].norm(p, dim=-1) ** 3)
    np.testing.assert_allclose(hessian(lambda x: ours.cdist(x, x, p) ** 3), of_others, 1e-12, 1e-12)
