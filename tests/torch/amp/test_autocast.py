"""``torch.autocast`` against PyTorch's: what is cast to what, contexts, the settings, functions of one's own."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch
import fgrad.torch.cuda.amp
from fgrad.mutable.context.torch_function.protocol import watch
from tests.torch.amp.cast_cases import CASES
from tests.torch.nn.story import Story, assert_same, played

TYPES = ("float32", "bfloat16", "float16", "float64")


def attempt(torch: Any, name: str, dtype: str, target: str) -> Any:
    """The type and the value of a case, or the type of its error."""
    rng = np.random.default_rng(0)

    def t(*shape: int) -> Any:
        return torch.tensor(rng.uniform(0.3, 0.8, shape)).to(getattr(torch, dtype))

    with torch.autocast("cpu", dtype=getattr(torch, target)):
        try:
            found = CASES[name](torch, t)
        except (RuntimeError, NotImplementedError) as error:
            return type(error).__name__, None
    wide = found.to(torch.complex128 if found.is_complex() else torch.float64)
    return str(found.dtype), np.asarray(wide.detach().numpy())


@pytest.mark.parametrize("name", CASES)
def test_casts(name: str):
    """Every type of arguments: the result's type, and its value to the precision of the type."""
    pytorch = pytest.importorskip("torch")
    for dtype in TYPES:
        kind, value = attempt(fgrad.torch, name, dtype, "bfloat16")
        wanted, other = attempt(pytorch, name, dtype, "bfloat16")
        assert kind == wanted, dtype
        if other is not None:
            np.testing.assert_allclose(value, other, rtol=2e-2, atol=2e-2)


SCENARIOS: list[Callable[[Any, Story], None]] = []


def scenario(play: Callable[[Any, Story], None]) -> Callable[[Any, Story], None]:
    SCENARIOS.append(play)
    return play


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_autocast_is_pytorchs(play: Callable[[Any, Story], None]):
    pytorch = pytest.importorskip("torch")
    pytest.importorskip("torch.utils.checkpoint")
    entered = watch.within()
    assert_same(played(play, fgrad.torch), played(play, pytorch))
    assert watch.within() == entered


def graph(fn: Any) -> Any:
    if fn is None:
        return None
    return [fn.name(), *[graph(each) for each, _ in fn.next_functions]]


def parts(torch: Any) -> tuple[Any, Any, Any]:
    weight = torch.arange(6.0).reshape(2, 3).requires_grad_()
    return torch.ones(4, 3), weight, torch.ones(2, requires_grad=True)


def kind(x: Any) -> str:
    return str(x.dtype)


@scenario
def nodes_and_gradients(torch: Any, tell: Story) -> None:
    F = torch.nn.functional
    x, weight, bias = parts(torch)
    with torch.autocast("cpu"):
        y = F.linear(x, weight, bias)
        z = F.linear(y.relu() @ weight, weight)
        loss = F.mse_loss(z, torch.zeros(4, 2))
        tell(kind(y), kind(z), kind(loss), graph(loss.grad_fn), graph(torch.cat([y, torch.ones(4, 2)]).grad_fn))
    loss.backward()
    tell(kind(weight.grad), kind(bias.grad), weight.grad, bias.grad)


@scenario
def kept_casts(torch: Any, tell: Story) -> None:
    F = torch.nn.functional
    x, weight, _ = parts(torch)

    def cast_of(y: Any) -> Any:
        return y.grad_fn.next_functions[1][0].next_functions[0][0]

    for enabled in (True, False):
        with torch.autocast("cpu", cache_enabled=enabled):
            tell(cast_of(F.linear(x, weight)) is cast_of(F.linear(x, weight)), torch.is_autocast_cache_enabled())
    with torch.autocast("cpu"):
        with torch.no_grad():
            F.linear(x, weight)
        first = F.linear(x, weight)
        tell(graph(first.grad_fn))
        with torch.no_grad():
            weight.zero_()
        tell(F.linear(x, weight))
        torch.clear_autocast_cache()
        tell(F.linear(x, weight))
        with torch.autocast("cpu", dtype=torch.float16):
            tell(kind(F.linear(x, weight.detach())))
            tell.attempt(F.linear, x, weight)


@scenario
def contexts(torch: Any, tell: Story) -> None:
    x = torch.ones(2, 2)

    def look() -> None:
        tell(kind(x @ x), torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu")))

    look()
    with torch.autocast("cpu") as outer:
        tell(type(outer).__name__)
        look()
        with torch.autocast("cpu", enabled=False):
            look()
            with torch.autocast(device_type="cpu", dtype=torch.float16):
                look()
            look()
        with torch.amp.autocast("cuda", enabled=False):
            look()
        look()
        with torch.autocast("cpu", dtype=torch.float32):
            look()
        seen: list[bool] = []
        thread = threading.Thread(target=lambda: seen.append(torch.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
        tell(seen)
    look()
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            look()
        look()
        torch.set_autocast_enabled("cpu", False)
        look()
        with torch.autocast("cpu"):
            torch.set_autocast_enabled("cpu", False)
            look()
        torch.set_autocast_enabled("cpu", True)
        look()
    look()
    torch.set_autocast_enabled("cpu", True)
    with torch.autocast("cpu", enabled=False):
        look()
    look()
    torch.set_autocast_enabled("cpu", False)
    look()

    @torch.autocast("cpu", dtype=torch.float16)
    def decorated(x: Any, *, y: Any) -> Any:
        """Text."""
        return x @ y

    tell(kind(decorated(x, y=x)), decorated.__name__, decorated.__doc__)
    with torch.autocast("cuda"):
        look()
    with torch.cuda.amp.autocast(), torch.cpu.amp.autocast():
        look()
    look()


@scenario
def mistaken_contexts(torch: Any, tell: Story) -> None:
    for device in (1, "foo", "meta"):
        tell.attempt(torch.autocast, device)
        tell.attempt(torch.get_autocast_dtype, device)
        tell.attempt(torch.is_autocast_enabled, device)
    tell.attempt(torch.set_autocast_enabled, "cpu")
    tell.attempt(torch.set_autocast_enabled, "cpu", 1)
    tell.attempt(torch.set_autocast_dtype, "cpu", 1)
    tell.attempt(torch.amp.custom_fwd, None, device_type=1)
    tell.attempt(torch.amp.custom_bwd, None, device_type=1)
    for device in ("cpu", "cuda", "mps", "xpu", "meta", "cpu:0"):
        tell(torch.amp.is_autocast_available(device))


@scenario
def settings(torch: Any, tell: Story) -> None:
    x = torch.ones(2, 2)
    tell(torch.is_autocast_enabled(), torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cuda")))
    torch.set_autocast_enabled("cpu", True)
    tell(kind(x @ x), torch.is_autocast_enabled("cpu"))
    torch.set_autocast_dtype("cpu", torch.float16)
    tell(kind(x @ x), str(torch.get_autocast_dtype("cpu")))
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    tell(kind(x @ x), torch.autocast_increment_nesting(), torch.autocast_decrement_nesting())
    torch.set_autocast_enabled(True)
    tell(torch.is_autocast_enabled(), kind(x @ x))
    torch.set_autocast_enabled(False)


def test_former_settings_warn():
    torch = fgrad.torch
    with pytest.warns(DeprecationWarning, match=r"torch.is_autocast_cpu_enabled\(\) is deprecated") as seen:
        assert not torch.is_autocast_cpu_enabled()
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="use torch.get_autocast_dtype"):
        assert torch.get_autocast_cpu_dtype() is torch.bfloat16


@scenario
def functions_of_ones_own(torch: Any, tell: Story) -> None:
    for cast_inputs in (None, torch.float32, torch.float16):

        class Product(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                ctx.save_for_backward(a, b)
                tell(kind(a), kind(b), torch.is_autocast_enabled("cpu"))
                return a.mm(b)

            @staticmethod
            @torch.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, grad: Any) -> Any:
                a, b = ctx.saved_tensors
                tell(torch.is_autocast_enabled("cpu"), kind(grad))
                return grad.mm(b.t()), a.t().mm(grad)

        a, b = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
        with torch.autocast("cpu"):
            y = Product.apply(a, b)
        tell(kind(y))
        y.sum().backward()
        tell(kind(a.grad), a.grad)
        tell(kind(Product.apply(a, b)))


@scenario
def modules(torch: Any, tell: Story) -> None:
    torch.manual_seed(0)
    nn = torch.nn
    x = torch.ones(2, 1, 4)
    for module in (nn.MultiheadAttention(4, 2), nn.GRU(4, 3), nn.RNN(4, 3), nn.LSTMCell(4, 3), nn.GRUCell(4, 3)):
        given = (x[0],) if isinstance(module, nn.LSTMCell | nn.GRUCell) else (x,)
        with torch.autocast("cpu"):
            found = module(*given * 3) if isinstance(module, nn.MultiheadAttention) else module(*given)
        for y in found if isinstance(found, tuple) else (found,):
            tell(kind(y))
    net = nn.Sequential(nn.Conv1d(1, 2, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Flatten(), nn.Linear(6, 2))
    with torch.autocast("cpu"):
        loss = nn.CrossEntropyLoss()(net(x), torch.tensor([0, 1]))
        tell(kind(loss))
    loss.backward()
    tell([kind(p.grad) for p in net.parameters()])


@scenario
def checkpoints(torch: Any, tell: Story) -> None:
    checkpoint = torch.utils.checkpoint.checkpoint
    for reentrant in (False, True):
        x, weight = (torch.ones(2, 2, requires_grad=True) for _ in range(2))

        def product(a: Any, weight: Any = weight) -> Any:
            tell(torch.is_autocast_enabled("cpu"))
            return (a @ weight).relu()

        with torch.autocast("cpu"):
            y = checkpoint(product, x, use_reentrant=reentrant)
        tell(kind(y))
        y.sum().backward()
        tell(kind(weight.grad), weight.grad, x.grad)


def test_literal_casts():
    torch = fgrad.torch
    x, half = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.bfloat16)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.bfloat16
        assert torch.nn.functional.mse_loss(half, half).dtype is torch.float32
        assert torch.cat([x, half]).dtype is torch.float32
        assert x.sum().dtype is torch.float32
        assert (x.double() @ x.double()).dtype is torch.float64
    assert (x @ x).dtype is torch.float32


def test_former_names_are_importable():
    assert issubclass(fgrad.torch.cuda.amp.autocast, fgrad.torch.autocast)
