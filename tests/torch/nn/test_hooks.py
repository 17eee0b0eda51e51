"""Hooks of modules against PyTorch's: their order, what they are given, what they may return, what they refuse."""

import copy
import gc
import pickle
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch
from tests.torch.nn.story import Story, assert_same, played

SCENARIOS: list[Callable[[Any, Story], None]] = []

Pair = namedtuple("Pair", ["left", "right"])


def scenario(play: Callable[[Any, Story], None]) -> Callable[[Any, Story], None]:
    SCENARIOS.append(play)
    return play


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_hooks_are_pytorchs(play: Callable[[Any, Story], None]):
    pytorch = pytest.importorskip("torch")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def teller(tell: Story, tag: str, result: Any = None) -> Callable[..., Any]:
    def hook(module: Any, *args: Any) -> Any:
        tell(tag, type(module).__name__, [shown(arg) for arg in args])
        return result

    return hook


def shown(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value if isinstance(value, int | None) else str(value)


@scenario
def forward_order(torch: Any, tell: Story) -> None:
    m = torch.nn.modules.module
    module = torch.nn.Sequential(torch.nn.Identity())
    x = torch.ones(1)
    handles = [
        module.register_forward_pre_hook(teller(tell, "pre")),
        module.register_forward_pre_hook(teller(tell, "first pre"), prepend=True),
        module.register_forward_hook(teller(tell, "post")),
        module.register_forward_hook(teller(tell, "first post"), prepend=True),
        m.register_module_forward_pre_hook(teller(tell, "global pre")),
        m.register_module_forward_hook(teller(tell, "global post")),
        m.register_module_forward_hook(teller(tell, "global kwargs"), with_kwargs=True),
    ]
    module(x)
    for handle in handles:
        handle.remove()
        handle.remove()
    module(x)
    tell(len(module._forward_hooks), len(module._forward_pre_hooks))


@scenario
def forward_results(torch: Any, tell: Story) -> None:
    class Scale(torch.nn.Module):
        def forward(self, x: Any, by: int = 1) -> Any:
            return x * by

    module, x = Scale(), torch.ones(1)
    module.register_forward_pre_hook(lambda module, args: args[0] + 1)
    module.register_forward_pre_hook(lambda module, args: (args[0] * 10,))
    handle = module.register_forward_pre_hook(lambda module, args, kwargs: (args, {"by": 3}), with_kwargs=True)
    tell(module(x))
    tell(module(x, by=5))
    tell.attempt(module, by=2)
    handle.remove()
    tell(module(x, by=5), len(module._forward_pre_hooks_with_kwargs))
    module.register_forward_hook(lambda module, args, output: output + 0.5)
    module.register_forward_hook(lambda module, args, kwargs, output: (output, kwargs), with_kwargs=True)
    tell(module(x, by=2))
    module.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    tell.attempt(module, x)


@scenario
def always_called(torch: Any, tell: Story) -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("broken")

    def failing(module: Any, *args: Any) -> None:
        raise KeyError("hook")

    module = Broken()
    with torch.nn.modules.module.register_module_forward_hook(teller(tell, "global"), always_call=True):
        module.register_forward_hook(teller(tell, "never"))
        module.register_forward_hook(teller(tell, "always"), always_call=True)
        module.register_forward_hook(teller(tell, "kwargs"), always_call=True, with_kwargs=True)
        module.register_forward_hook(failing, always_call=True)
        tell.attempt(module, torch.ones(1))
    working = torch.nn.Identity()
    working.register_forward_hook(teller(tell, "once"), always_call=True)
    working.register_forward_hook(failing)
    working.register_forward_hook(teller(tell, "left over"), always_call=True)
    tell.attempt(working, torch.ones(1))


@scenario
def full_backward(torch: Any, tell: Story) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Identity())
    module[0].weight.data.fill_(2.0)
    for child in module.modules():
        child.register_full_backward_hook(teller(tell, "backward"))
        child.register_full_backward_pre_hook(teller(tell, "pre"))
        child.register_full_backward_hook(teller(tell, "first backward"), prepend=True)
        child.register_full_backward_pre_hook(teller(tell, "first pre"), prepend=True)
    x = torch.ones(1, requires_grad=True)
    y = module(x)
    tell(type(y.grad_fn).__name__, y.grad_fn.name())
    y.backward()
    tell(x.grad, module[0].weight.grad)
    # inputs that require no gradient
    module(torch.ones(1)).backward()
    with torch.no_grad():
        tell(module(torch.ones(1)).requires_grad)


@scenario
def backward_results(torch: Any, tell: Story) -> None:
    class Two(torch.nn.Module):
        def forward(self, a: Any, tag: str, b: Any, extra: Any = None) -> Any:
            tell(tag)
            return a * 2, b * 3, tag

    module = Two()
    module.register_full_backward_hook(teller(tell, "seen"))
    changing = module.register_full_backward_hook(lambda m, grad_in, grad_out: (grad_in[0] + 1, None, grad_in[2]))
    module.register_full_backward_hook(teller(tell, "changed"))
    doubling = module.register_full_backward_pre_hook(lambda m, grad_out: (grad_out[0] * 2, grad_out[1], None))
    a, b = torch.ones(1, requires_grad=True), torch.ones(1)
    for wanted in (a, b):
        wanted.requires_grad_()
        p, q, tag = module(a, "called", b)
        (p + q).sum().backward()
        tell(tag, a.grad, b.grad)
    changing.remove()
    doubling.remove()
    tell.attempt(lambda: torch.autograd.grad(module(a, "one", b)[0], a))
    short = module.register_full_backward_hook(lambda m, grad_in, grad_out: (None,))
    tell.attempt(lambda: torch.autograd.grad(module(a, "two", b)[0], a))
    short.remove()
    module.register_full_backward_pre_hook(lambda m, grad_out: (None,))
    tell.attempt(lambda: torch.autograd.grad(module(a, "three", b)[0], a))


@scenario
def backward_without_input_gradients(torch: Any, tell: Story) -> None:
    module = torch.nn.Linear(1, 1)
    module.weight.data.fill_(2.0)
    handle = module.register_full_backward_hook(teller(tell, "outputs only"))
    module(torch.ones(1)).backward()
    handle.remove()
    handle = module.register_full_backward_hook(lambda m, grad_in, grad_out: (None,))
    module(torch.ones(1)).backward()
    handle.remove()
    module.register_full_backward_hook(lambda m, grad_in, grad_out: (torch.ones(1),))
    tell.attempt(lambda: module(torch.ones(1)).backward())


@scenario
def backward_of_structures(torch: Any, tell: Story) -> None:
    class Named(torch.nn.Module):
        def forward(self, pair: Any, x: Any) -> Any:
            return Pair(x * 2, x * 3)

    module = Named()
    module.register_full_backward_hook(teller(tell, "named"))
    x = torch.ones(1, requires_grad=True)
    out = module(Pair(x, x), x)
    tell(type(out).__name__)
    (out.left + out.right).backward()

    class Dictionary(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return {"out": x * 2}

    module = Dictionary()
    module.register_full_backward_hook(teller(tell, "never"))
    module(x)["out"].backward()

    class Constant(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ones(1)

    module = Constant()
    module.register_full_backward_hook(teller(tell, "never"))
    tell(module(x).requires_grad)


@scenario
def double_backward(torch: Any, tell: Story) -> None:
    module = torch.nn.Tanh()
    module.register_full_backward_hook(teller(tell, "backward"))
    x = torch.ones(1, requires_grad=True)
    (grad,) = torch.autograd.grad(module(x * 1), x, create_graph=True)
    tell(round(torch.autograd.grad(grad, x)[0].item(), 5))


@scenario
def in_place_after_hooks(torch: Any, tell: Story) -> None:
    module = torch.nn.ReLU(inplace=True)
    module.register_full_backward_hook(teller(tell, "backward"))
    x = torch.ones(2, requires_grad=True)
    tell.attempt(lambda: module(x * 1))
    module = torch.nn.Tanh()
    module.register_full_backward_hook(teller(tell, "backward"))
    y = module(x)
    tell.attempt(lambda: y.add_(1) is y)


@scenario
def deprecated_backward(torch: Any, tell: Story) -> None:
    class Odd(torch.nn.Module):
        def __init__(self, result: Callable[[Any], Any]):
            super().__init__()
            self.result = result

        def forward(self, x: Any) -> Any:
            return self.result(x)

    x = torch.ones(1, requires_grad=True)
    for result in (
        lambda x: x * 2, lambda x: (x * 2) + x, lambda x: [x * 2], lambda x: {"a": x * 2}, lambda x: (x * 2, x * 3),
        lambda x: torch.ones(2),
    ):  # fmt: skip
        module = Odd(result)
        module.register_backward_hook(teller(tell, "old"))
        y = module(x * 1)
        while not hasattr(y, "backward"):
            y = next(iter(y.values() if isinstance(y, dict) else y))
        if y.requires_grad:
            y.backward()
    tell.attempt(module.register_full_backward_hook, teller(tell, "new"))
    module = Odd(lambda x: x * 2)
    module.register_full_backward_hook(teller(tell, "new"))
    tell.attempt(module.register_backward_hook, teller(tell, "old"))


@scenario
def what_backward_hooks_may_not_return(torch: Any, tell: Story) -> None:
    x = torch.ones(3, requires_grad=True)

    def of_node(register: str, hook: Callable[..., Any]) -> None:
        y = x * 2
        getattr(y.grad_fn, register)(hook)
        y.sum().backward()

    for result in (1, (1, None), [x, None], (x[:2], None), (x.double(), None), (x, x), (x,), (None, None)):
        tell.attempt(of_node, "register_hook", lambda grad_in, grad_out, result=result: result)
    for result in (1, (1,), (x[:2],), (x.double(),), (), (None,)):
        tell.attempt(of_node, "register_prehook", lambda grad_out, result=result: result)

    def of_module(register: str, result: Any) -> None:
        module = torch.nn.Tanh()
        getattr(module, register)(lambda module, *grads: result)
        module(x).sum().backward()

    for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        for result in (1, (1,), x, [x], (x[:2],), (x.double(),), (None,)):
            tell.attempt(of_module, register, result)

    def shortening(module: Any, grad_input: Any, grad_output: Any) -> Any:
        return ()

    module = torch.nn.Tanh()
    module.register_backward_hook(shortening)
    tell.attempt(lambda: module(x).sum().backward())


@scenario
def copies_have_their_own_hooks(torch: Any, tell: Story) -> None:
    for copied in (copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))):
        lazy = torch.nn.LazyLinear(2)
        twin = copied(lazy)
        tell(tuple(twin(torch.ones(1, 3)).shape), type(twin), type(lazy))
        tell(tuple(lazy(torch.ones(1, 4)).shape), type(lazy), len(lazy._forward_pre_hooks))
        tell(len(twin._forward_pre_hooks), len(twin._load_state_dict_pre_hooks), tuple(twin(torch.ones(2, 3)).shape))
        module = torch.nn.Tanh()
        module.handles = [module.register_forward_hook(len), module.register_full_backward_hook(len)]
        twin = copied(module)
        for handle in twin.handles:
            handle.remove()
        tell(*map(len, (module._forward_hooks, module._backward_hooks, twin._forward_hooks, twin._backward_hooks)))


@scenario
def global_backward(torch: Any, tell: Story) -> None:
    m = torch.nn.modules.module
    module, x = torch.nn.Tanh(), torch.zeros(1, requires_grad=True)
    module.register_full_backward_hook(teller(tell, "own"))
    module.register_full_backward_pre_hook(teller(tell, "own pre"))
    with (
        m.register_module_full_backward_hook(teller(tell, "everywhere")),
        m.register_module_full_backward_pre_hook(teller(tell, "everywhere pre")),
    ):
        module(x).backward()
    tell.attempt(m.register_module_backward_hook, teller(tell, "old"))
    module(x).backward()


def test_a_hook_does_not_keep_its_module_alive():
    module = fgrad.torch.nn.Identity()
    module.register_load_state_dict_pre_hook(lambda *_: None)
    handle = module.register_forward_hook(lambda *_: None)
    alive = weakref.ref(module)
    del module
    gc.collect()
    assert alive() is None
    handle.remove()
