"""Steps that write large parameters where they are: nobody else sees more of it than in PyTorch."""

import copy
import threading
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.mutable.operation import capture
from fgrad.run.blocks import LARGE

SIDE = 400
assert SIDE * SIDE >= LARGE

OPTIMIZERS = {
    "SGD": ("SGD", {"lr": 0.1}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    "Adam": ("Adam", {"weight_decay": 0.1}),
    "AdamW": ("AdamW", {"amsgrad": True}),
    "RMSprop": ("RMSprop", {"momentum": 0.9, "centered": True}),
    "Adagrad": ("Adagrad", {}),
    "NAdam": ("NAdam", {}),
    "RAdam": ("RAdam", {}),
    "Adadelta": ("Adadelta", {}),
    "Adamax": ("Adamax", {}),
    "ASGD": ("ASGD", {}),
}


@pytest.fixture
def overwritten(monkeypatch: Any) -> list[int]:
    """How many calls were made in each step."""
    counts: list[int] = []
    make_calls = capture.make_calls

    def counted(parts: Any, done: list[bool]) -> None:
        listed = [list(part) for part in parts]
        counts.append(sum(map(len, listed)))
        make_calls(listed, done)

    monkeypatch.setattr(capture, "make_calls", counted)
    return counts


def trained(torch: Any, name: str, steps: int = 5, held: list[Any] | None = None) -> tuple[list[Any], Any]:
    """Parameters after some steps, and the optimizer; ``held`` keeps the values before each step."""
    random = np.random.default_rng(0)
    large, small = (random.standard_normal((n, SIDE)).astype("float32") for n in (SIDE, 2))
    params = [torch.nn.Parameter(torch.tensor(x)) for x in (large, small, large * 2)]
    optimizer, options = OPTIMIZERS[name]
    optimizer = getattr(torch.optim, optimizer)(params, **options)
    for _ in range(steps):
        for p in params:
            p.grad = torch.tensor(random.standard_normal(tuple(p.shape)).astype("float32"))
        if held is not None:
            held += [x._value() for p in params for x in (p, *optimizer.state[p].values())]
        optimizer.step()
    return params, optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_and_states_are_those_of_steps_that_make_new_arrays(name, overwritten):
    params, optimizer = trained(torch, name)
    assert sum(map(bool, overwritten)) >= 4  # a first step may make the states
    overwritten.clear()
    others, other = trained(torch, name, held=[])
    assert not any(overwritten)
    for p, q in zip(params, others, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
        assert p._version == q._version
        for key, value in optimizer.state[p].items():
            np.testing.assert_array_equal(value.numpy(), other.state[q][key].numpy())
            assert value._version == other.state[q][key]._version


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_and_states_are_pytorch_s(name):
    real = pytest.importorskip("torch")
    (params, optimizer), (others, other) = trained(torch, name), trained(real, name)
    for p, q in zip(params, others, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert p._version == q._version
        for key, value in optimizer.state[p].items():
            np.testing.assert_allclose(value.numpy(), other.state[q][key].numpy(), rtol=1e-4, atol=1e-5)


def test_the_memory_stays_where_it_is(overwritten):
    params, optimizer = trained(torch, "momentum")
    p = params[0]
    tensors = [p, optimizer.state[p]["momentum_buffer"]]
    places = [x._value().ctypes.data for x in tensors]
    optimizer.step()
    assert overwritten[-1] and [x._value().ctypes.data for x in tensors] == places
    assert not any(x._value().flags.writeable for x in tensors)


def step_of(p: Any) -> None:
    p.grad = torch.ones_like(p)
    torch.optim.SGD([p], lr=1.0).step()


#: what is made of a parameter of zeros before a step that makes it -1, and what it holds afterwards
HOLDERS = {
    "clone": (lambda p: p.detach().clone(), 0),
    "detached": (lambda p: p.detach(), -1),
    "data": (lambda p: p.data, -1),
    "NumPy's array": (lambda p: p.detach().numpy(), -1),
    "a copy of that": (lambda p: p.detach().numpy().copy(), 0),
    "view": (lambda p: p.detach().view(-1), -1),
    "transposed": (lambda p: p.detach().t(), -1),
    "copied deeply": (lambda p: copy.deepcopy(p), 0),
    "state_dict": (lambda p: next(iter(torch.nn.ParameterList([p]).state_dict().values())), -1),
    "result": (lambda p: p.detach() + 0, 0),
    "contiguous": (lambda p: p.detach().contiguous(), -1),
    "of JAX": (lambda p: jnp.asarray(p.detach()), 0),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_who_holds_the_elements_sees_what_pytorch_shows(name):
    make, want = HOLDERS[name]
    p = torch.nn.Parameter(torch.zeros(SIDE, SIDE) + 0)
    for k in range(3):
        holder = make(p)
        step_of(p)
        elements = np.asarray(holder.detach() if isinstance(holder, torch.Tensor) else holder)
        np.testing.assert_array_equal(elements, np.full(elements.shape, want - k))
        np.testing.assert_array_equal(p.detach().numpy(), np.full((SIDE, SIDE), -1 - k))


def test_what_backward_has_saved_is_missed(overwritten):
    p = torch.nn.Parameter(torch.ones(SIDE, SIDE) + 0)
    y = (p * p).sum()
    step_of(p)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_gradient_that_is_the_parameter():
    p = torch.nn.Parameter(torch.ones(SIDE, SIDE) + 0)
    p.grad = p.detach()
    torch.optim.SGD([p], lr=0.5).step()
    assert p.detach().unique().tolist() == [0.5] and p.grad.unique().tolist() == [0.5]


def test_states_that_share_memory():
    params, optimizer = trained(torch, "Adam")
    for p in params:
        optimizer.state[p]["exp_avg_sq"] = optimizer.state[p]["exp_avg"]
    others, other = trained(torch, "Adam")
    for p in others:
        other.state[p]["exp_avg_sq"] = other.state[p]["exp_avg"]
    with torch.no_grad():
        held = [x._value() for p in others for x in (p, *other.state[p].values())]
    optimizer.step()
    other.step()
    for p, q in zip(params, others, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    assert held


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_leaves_elements_and_version_as_before_or_as_after(after, monkeypatch):
    p = torch.nn.Parameter(torch.zeros(SIDE, SIDE) + 0)
    step_of(p)
    make_calls = capture.make_calls

    def interrupted(calls: Any, done: list[bool]) -> None:
        if after:
            make_calls(calls, done)
        raise KeyboardInterrupt

    monkeypatch.setattr(capture, "make_calls", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step_of(p)
    assert (p._version, p.detach().unique().tolist()) == ((2, [-2]) if after else (1, [-1]))
    monkeypatch.setattr(capture, "make_calls", make_calls)
    step_of(p)
    assert p.detach().unique().tolist() == ([-3] if after else [-2])


def test_a_thread_that_reads_meanwhile():
    p = torch.nn.Parameter(torch.zeros(SIDE, SIDE) + 0)
    failed: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            found = (p.detach() * 2).unique().tolist()
            if any(x % 2 for x in found):
                failed.append(found)

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(20):
        step_of(p)
    stop.set()
    thread.join()
    assert not failed and p.detach().unique().tolist() == [-20]


def test_the_reproducible_policy_overwrites_nothing(overwritten):
    with fgrad.policy("reproducible"):
        trained(torch, "momentum")
    assert not any(overwritten)


def test_tensors_elsewhere_make_no_difference(overwritten):
    assert (torch.empty(3, device="meta") + 1).device.type == "meta"
    trained(torch, "momentum")
    assert any(overwritten)


def test_a_result_that_is_an_operand_keeps_its_elements(overwritten):
    params, _ = trained(torch, "momentum")
    x, y = params[0].detach(), params[2].detach()

    def update(item: Any, tensors: Any, numbers: Any) -> Any:
        x, y = item
        return x + y, x, x.view(-1)

    built = lambda form, operands: tuple(operands)  # noqa: E731
    for _ in range(2):
        made = capture.fused_each(
            update, [("pair", [x, y])], built, {}, {}, lambda item, result: [(result[0], item[0])]
        )
        (new, old, flat) = (made.values[k] for k in made.results[0])
        assert new is capture.OVERWRITING
        before = x._value().copy()
        capture.overwrite([(x, 1)], made.calls)
        np.testing.assert_array_equal(old, before)
        np.testing.assert_array_equal(flat, before.reshape(-1))
        np.testing.assert_array_equal(x._value(), before + y._value())
