"""What the layer promises beyond single operations: freeing, depth, threads, and answers to questions."""

import gc
import threading
import traceback
import weakref

import jax
import jax.numpy as jnp
import pytest

import fgrad
import fgrad.torch as torch

pytestmark = pytest.mark.fast


def test_graph_is_freed_after_backward():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    node = weakref.ref(y.grad_fn)
    loss = y.sum()
    del y
    loss.backward()
    del loss
    assert node() is None


def test_saved_values_are_freed_by_backward():
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    array = weakref.ref(h._storage)
    y = (h * h).sum()
    del h
    assert array() is not None
    y.backward()
    gc.collect()
    assert array() is None


def test_long_chain():
    """Building, running and freeing recurse nowhere."""
    x = torch.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(5_000):
        y = y * 1.0
    y.backward()
    del y
    assert x.grad.item() == 1.0


class Reentrant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        if ctx.depth:
            with torch.enable_grad():
                x = torch.ones(1, requires_grad=True)
                Reentrant.apply(x, ctx.depth - 1).sum().backward()
        return grad, None


def test_backward_within_backward_to_great_depth():
    x = torch.ones(1, requires_grad=True)
    Reentrant.apply(x, 300).sum().backward()
    assert x.grad.item() == 1.0


def test_threads():
    raised = []

    def work():
        try:
            assert torch.is_grad_enabled()
            x = torch.ones(10, requires_grad=True)
            for _ in range(20):
                (x * x).sum().backward()
            assert x.grad[0].item() == 40
        except Exception as error:
            raised.append(error)

    with torch.no_grad():
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not raised


def test_errors_in_backward_show_the_users_line():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        Bad.apply(torch.ones(1, requires_grad=True)).sum().backward()
    assert 'raise ValueError("mine")' in "".join(traceback.format_exception(caught.value))


def test_inplace_error_explains_itself():
    weights = torch.ones(3, requires_grad=True)
    hidden = weights * weights
    result = hidden * hidden  # the reader
    hidden[0].mul_(2)  # the writer
    with pytest.raises(RuntimeError) as caught:
        result.sum().backward()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("one of the variables needed for gradient computation has been modified by an inplace")
    assert lines[2].startswith("Who needs it: mul, at") and "reads its operand 'other'" in lines[2]
    assert lines[3] == "    result = hidden * hidden  # the reader"
    assert lines[4] == "Who wrote it since:" and "mul_ through a view" in lines[5]
    assert lines[6] == "    hidden[0].mul_(2)  # the writer"
    assert "The tensor is 'hidden'." in lines
    assert lines[-1].startswith("Way out:")


def test_inplace_error_knows_the_optimiser_and_the_parameters_name():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first, second = model(torch.ones(1, 2)).sum(), model(torch.ones(1, 2)).sum()
    first.backward()
    optimizer.step()
    with pytest.raises(RuntimeError) as caught:
        second.backward()
    assert "optimizer step" in str(caught.value) and "before optimizer.step()" in str(caught.value)
    assert "'1.weight' of 'model'" in str(caught.value)


def test_second_backward_says_who_freed():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="a second time") as caught:
        y.backward()
    assert "What was freed: the values saved by mul" in str(caught.value)
    assert "Who freed it: the backward at" in str(caught.value)


def test_snapshot_is_right_where_strict_raises():
    def gradient():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        z = y.sum()
        y.mul_(3)
        z.backward()
        return x.grad

    with pytest.raises(RuntimeError):
        gradient()
    with torch.inplace("snapshot"):
        assert torch.allclose(gradient(), torch.tensor([1.0, 2.0]).exp())


def test_audit_finds_both_kinds():
    def program():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.sigmoid()
        y.data.zero_()
        y.sum().backward()
        return x.grad

    found = torch.audit(program)
    assert [finding.kind for finding in found] == ["silent"]
    assert found.error is None

    def raising():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        z = y.sum()
        y.mul_(2)
        z.backward()
        return x.grad

    found = torch.audit(raising)
    assert [finding.kind for finding in found] == ["raises"] and isinstance(found.error, RuntimeError)
    assert torch.allclose(found.result, torch.tensor([1.0, 2.0]).exp())


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda x: (x * 2).detach().sin(), "detach"),
        (lambda x: torch.no_grad()(lambda: x * 2)().sin(), "no_grad"),
        (lambda x: (x * 2).argmax().float(), "not differentiable"),
        (lambda x: (x * 2).long() * 1.0, "not differentiable"),
        (lambda x: (x * 2).data * 3, "data"),
        (lambda x: (x * 2).detach().requires_grad_() * 3, "detach"),
        (lambda x: torch.tensor(x[0].item()), "item()"),
    ],
)
def test_why_no_grad(broken, reason):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    why = torch.why_no_grad(broken(x), x)
    words = {"detach": "detach() cuts", "no_grad": "recording off", "not differentiable": "no derivative"}
    assert not why.connected
    assert words.get(reason, reason) in why.reason
    assert "test_autograd.py" in why.reason


def test_why_no_grad_says_when_there_is_one():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert torch.why_no_grad((x * 2).sin(), x).connected
    assert "does not require grad" in torch.why_no_grad(torch.ones(1), torch.ones(1)).reason


def test_functions_with_tensors_inside_are_pure_functions():
    def f(x):
        out = torch.zeros(3)
        for i in range(3):
            out[i] = x[i] ** 2
        return out.sum()

    def g(x):
        x = x.detach().requires_grad_()
        (x**3).sum().backward()
        return x.grad

    pure = torch.functionalize(f)
    x = jnp.array([1.0, 2.0, 3.0])
    assert fgrad.grad(pure)(x).tolist() == [2.0, 4.0, 6.0]
    assert float(jax.jit(pure)(x)) == 14.0
    assert fgrad.vmap(pure)(jnp.ones((2, 3))).tolist() == [3.0, 3.0]
    assert torch.functionalize(g)(x).tolist() == [3.0, 12.0, 27.0]


def test_x64_flag_is_left_alone():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.dtype is torch.float64 and torch.arange(3).dtype is torch.int64
    assert jnp.ones(1).dtype == jnp.float32 and not jax.config.jax_enable_x64
