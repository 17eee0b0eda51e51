"""lineax: its primitive ``linear_solve`` has rules of its own for both modes."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare, compare_errors

lx = pytest.importorskip("lineax")

A = jnp.array([[5.0, 1.0, 0.5], [1.0, 4.0, 0.2], [0.5, 0.2, 3.0]])
B = jnp.array([1.0, -2.0, 0.5])


def solution(matrix, vector, solver, tags=()):
    return lx.linear_solve(lx.MatrixLinearOperator(matrix, tags), vector, solver=solver).value


def least_squares(lib):
    """The example of the readme, with a derivative."""
    matrix = jax.random.normal(jax.random.key(0), (10, 8))
    vector = jax.random.normal(jax.random.key(1), (10,))
    loss = lambda m, v: jnp.sum(solution(m, v, lx.QR()) ** 2)  # noqa: E731
    return lib.value_and_grad(loss, (0, 1))(matrix, vector)


def test_lu():
    def program(lib):
        loss = lambda a, b: jnp.sum(jnp.sin(solution(a, b, lx.LU())))  # noqa: E731
        return lib.grad(loss, (0, 1))(A, B), lib.jvp(loss, (A, B), (A, B))

    compare(program)


@pytest.mark.real
def test_least_squares():
    compare(least_squares)


SOLVERS = {
    "auto": (lx.AutoLinearSolver(well_posed=True), (), None),
    "auto, ill-posed": (lx.AutoLinearSolver(well_posed=False), (), None),
    "QR": (lx.QR(), (), None),
    "SVD": (lx.SVD(), (), None),
    "Cholesky": (lx.Cholesky(), lx.positive_semidefinite_tag, None),
    "Triangular": (lx.Triangular(), lx.lower_triangular_tag, jnp.tril),
    "Diagonal": (lx.Diagonal(), lx.diagonal_tag, lambda a: jnp.diag(jnp.diag(a))),
    "Tridiagonal": (lx.Tridiagonal(), lx.tridiagonal_tag, lambda a: jnp.triu(jnp.tril(a, 1), -1)),
    "CG": (lx.CG(1e-6, 1e-6), lx.positive_semidefinite_tag, None),
    "GMRES": (lx.GMRES(1e-6, 1e-6), (), None),
    "BiCGStab": (lx.BiCGStab(1e-6, 1e-6), (), None),
    "normal equations": (lx.Normal(lx.CG(1e-6, 1e-6)), (), None),
}


@pytest.mark.real
@pytest.mark.parametrize("name", SOLVERS)
def test_solver(name):
    solver, tags, made = SOLVERS[name]
    matrix = A if made is None else made(A)

    def program(lib):
        loss = lambda a, b: jnp.sum(jnp.sin(solution(a, b, solver, tags)))  # noqa: E731
        many = jax.vmap(lib.grad(loss), (None, 0))(matrix, jnp.stack([B, 2 * B]))
        return lib.grad(loss, (0, 1))(matrix, B), many, lib.jvp(loss, (matrix, B), (matrix, B))

    compare(program, rtol=1e-3, atol=1e-4)


@pytest.mark.real
def test_an_operator_that_is_a_function():
    def program(lib):
        def loss(p):
            shape = jax.ShapeDtypeStruct((3,), jnp.float32)
            operator = lx.FunctionLinearOperator(lambda x: p * x + 0.1 * jnp.roll(x, 1), shape)
            return jnp.sum(lx.linear_solve(operator, B).value ** 2)

        return lib.grad(loss)(jnp.array([2.0, 3.0, 4.0]))

    compare(program)


@pytest.mark.real
def test_an_operator_that_is_a_jacobian():
    def program(lib):
        def loss(p):
            operator = lx.JacobianLinearOperator(lambda x, args: jnp.tanh(p * x) + x, jnp.ones(3), None)
            return jnp.sum(lx.linear_solve(operator, B).value)

        return lib.grad(loss)(jnp.array([2.0, 3.0, 4.0]))

    compare(program)


@pytest.mark.real
def test_second_derivatives():
    compare(lambda lib: lib.hessian(lambda a: jnp.sum(solution(a, B, lx.LU()) ** 2))(A), rtol=1e-3)


@pytest.mark.real
def test_a_singular_matrix_raises():
    compare_errors(lambda lib: lib.grad(lambda a: jnp.sum(solution(a, B[:2], lx.LU())))(jnp.ones((2, 2))))
