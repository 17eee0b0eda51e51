"""How operations get their values: small ones from NumPy, the same to whoever looks."""

import gc
import time
import warnings

import jax
import numpy as np
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.run.background import wait_for_compilations
from fgrad.run.policy import POLICIES


def test_infinities_and_nans_come_without_a_word():
    x = torch.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert torch.isnan(x / x).all()
            assert (1 / x).tolist() == [float("inf")] * 3
            assert (torch.full((2,), 200, dtype=torch.uint8) + 100).tolist() == [44, 44]


def test_what_is_written_from_outside_is_one_tensors():
    """An array that shows a tensor's memory is that tensor's alone, though values are shared inside."""
    product = torch.ones(3) * 2
    copy = product.clone()
    product.numpy()[0] = 5.0
    assert product.tolist() == [5.0, 2.0, 2.0]
    assert copy.tolist() == (torch.ones(3) * 2).tolist() == [2.0] * 3


def test_jax_gets_its_own_arrays():
    product = torch.ones(3, dtype=torch.float64) * 2
    array = torch.to_jax(product)
    assert isinstance(array, jax.Array)
    assert array.dtype == np.float64
    assert isinstance(torch.functionalize(lambda x: torch.ones(3) * 2)(np.ones(3, "float32")), jax.Array)


def test_what_jax_shall_look_at_it_does():
    x = torch.zeros(3)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        torch.div(x, x)


def test_an_array_that_was_put_on_a_device_stays_there():
    device = jax.devices()[3]
    x = torch.from_jax(jax.device_put(np.ones(3, "float32"), device))
    for _ in range(50):
        assert torch.to_jax(x * x).devices() == {device}


def test_operations_inside_a_finalizer():
    """The collector may run anywhere, in the middle of another operation too."""

    class Finalized:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            found.append((x * x).sum().item())

    found: list[float] = []
    x = torch.ones(3)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(50):
            Finalized()
            y = x * x + x
            assert y.shape == (3,)
    finally:
        gc.set_threshold(*before)
    # while a collection runs in another thread, one that compiles, this thread's does nothing
    deadline = time.monotonic() + 60
    while len(found) < 50 and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert found == [3.0] * 50


def test_numpy_begets_numpy():
    """And what a large program gave is not waited for, except by operations that are new."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert isinstance((x * 2 + x)._value(), np.ndarray)
    assert isinstance((x.t() * 2)._value(), np.ndarray)
    assert isinstance((x @ x).exp()._value(), np.ndarray)
    for _ in range(10):
        assert isinstance(torch.lgamma(x)._value(), np.ndarray)  # by XLA: NumPy has none
        wait_for_compilations()
    with fgrad.policy("compiled"):
        total = torch.ones(1 << 18).sum()
    assert isinstance(total._value(), jax.Array)
    assert isinstance((total * 2)._value(), np.ndarray)
    for _ in range(int(POLICIES["default"].operations.numpy_runs)):
        doubled = total * 2
    wait_for_compilations()
    doubled = total * 2
    assert isinstance(doubled._value(), jax.Array)


def test_a_copy_shares_what_is_immutable():
    x = torch.tensor([1.0, 2.0])
    assert x.clone()._value() is x._value()
    y = x.clone()
    y.add_(1)
    assert x.tolist() == [1, 2]


def test_what_is_overwritten_whole_is_not_read():
    x = torch.zeros(3, 2, requires_grad=True)
    y = x * 2
    y[1] = 5.0
    y[0].fill_(float("nan")).zero_()
    assert y.tolist() == [[0, 0], [5, 5], [0, 0]]
    y.sum().backward()
    assert x.grad.tolist() == [[0, 0], [0, 0], [2, 2]]


def test_a_new_graph_is_not_compiled(monkeypatch: pytest.MonkeyPatch):
    """See NOTE [Back ends in order]: a sequence that grows meets new graphs at every step."""
    weight = torch.lgamma(torch.rand(16, 16) + 1)
    monkeypatch.setattr(jax, "jit", None)
    with fgrad.policy("default"):  # where all graphs begin anew
        for length in range(1, 5):
            x = torch.nn.functional.layer_norm(torch.ones(length, 16) @ weight, (16,))
            x = torch.nn.functional.gelu(x).softmax(-1)
    assert x.shape == (4, 16)
    assert isinstance(x._value(), np.ndarray)


def test_small_parameters_are_numpys_after_a_compiled_step():
    """Else all that the next step computes from them would go to XLA, too."""
    small, large = torch.ones(3, requires_grad=True), torch.ones(1 << 18, requires_grad=True)
    optimizer = torch.optim.SGD([small, large], lr=0.5, momentum=0.9)
    with fgrad.policy("compiled"):
        (2 * small.sum() + large.sum()).backward()
        optimizer.step()
    assert small.tolist() == [0.0] * 3
    assert type(small._storage.array) is np.ndarray
    assert isinstance(large._storage.array, jax.Array)


def test_parameters_on_a_device_stay_there():
    device = jax.devices()[3]
    weight = torch.from_jax(jax.device_put(np.ones(3, "float32"), device)).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.5)
    with fgrad.policy("compiled"):
        weight.sum().backward()
        optimizer.step()
    assert torch.to_jax(weight.detach()).devices() == {device}


def test_what_xla_makes_of_small_arrays_of_numpy_is_numpys():
    with fgrad.policy("compiled"):
        x = torch.rand(600, requires_grad=True)
        small = x * 2
        small.sum().backward()
        large = x[:, None] * x
    assert x.grad is not None
    assert {type(t._storage.array) for t in (small, x.grad)} == {np.ndarray}
    assert isinstance(large._storage.array, jax.Array)
    np.testing.assert_allclose(large.detach().numpy(), np.outer(x.detach().numpy(), x.detach().numpy()), rtol=1e-6)
