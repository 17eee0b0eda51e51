"""pennylane: expectations of quantum circuits, differentiated by three of its methods."""

import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
qml = pytest.importorskip("pennylane")

X = jnp.array([0.3, 0.5])


def circuit(method):
    @qml.qnode(qml.device("default.qubit", wires=2), interface="jax", diff_method=method)
    def expectation(x):
        qml.RX(x[0], wires=0)
        qml.RY(x[1], wires=1)
        qml.CNOT(wires=[0, 1])
        return qml.expval(qml.PauliZ(1))

    return expectation


@pytest.mark.parametrize("method", ["backprop", "parameter-shift", "adjoint"])
def test_a_gradient(method):
    expectation = circuit(method)
    compare(lambda lib: lib.value_and_grad(lambda x: expectation(x) ** 2)(X))


def test_a_hessian():
    compare(lambda lib: lib.hessian(circuit("backprop"))(X))
