"""``hook_schedule``: what it says is what a backward then does, in that order."""

import gc
import inspect
import warnings

import pytest

import fgrad.torch as torch
from fgrad.mutable.tensor import hooks


class Ran:
    """Hooks that note their names as they run."""

    def __init__(self):
        self.names = []

    def __call__(self, name, result=False):
        def hook(*args):
            self.names.append(name)
            return args[0] if result else None

        hook.__name__ = name
        return hook


def agrees(loss, ran, **backward):
    """The hooks of the schedule in order, which a backward has run in that order."""
    said = [entry.name for entry in torch.hook_schedule(loss).hooks if entry.kind != "retain_grad"]
    assert not ran.names, "asking runs nothing"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss.backward(**backward)
    assert ran.names == said
    return said


def test_the_line_of_a_hook_is_known_as_long_as_the_hook():
    gc.collect()
    before = len(hooks._registered)
    net, x = torch.nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    first = net.weight.register_hook(lambda grad: grad)
    net.register_full_backward_hook(lambda *args: None)  # which registers others at each call
    for _ in range(100):
        net(x).sum().backward()
    (entry,) = [each for each in torch.hook_schedule(net(x).sum()).hooks if each.kind == "tensor hook"]
    assert "test_hook_schedule.py" in entry.registered
    gc.collect()
    assert len(hooks._registered) <= before + 4
    first.remove()
    del net, entry
    gc.collect()
    assert len(hooks._registered) == before


def test_every_kind_of_hook():
    ran = Ran()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    net[2].register_full_backward_hook(ran("module"))
    net[2].register_full_backward_pre_hook(ran("module pre"))
    net[0].weight.register_hook(ran("weight"))
    net[0].weight.register_post_accumulate_grad_hook(ran("accumulated"))
    h = net(torch.ones(2, 3))
    h.register_hook(ran("tensor"))
    h.register_hook(ran("second"))
    h.retain_grad()
    h.grad_fn.register_prehook(ran("pre"))
    h.grad_fn.register_hook(ran("post"))
    loss = h.sum()
    schedule = torch.hook_schedule(loss)
    assert agrees(loss, ran) == [
        "tensor", "second", "pre", "module pre", "post", "module", "weight", "accumulated",
    ]  # fmt: skip
    kinds = [entry.kind for entry in schedule.hooks]
    assert kinds == [
        "tensor hook", "tensor hook", "retain_grad", "pre-hook", "module pre-hook", "post-hook", "module hook",
        "tensor hook", "post-accumulate hook",
    ]  # fmt: skip


def test_a_module_without_inputs_that_require_gradients():
    ran = Ran()
    net = torch.nn.Linear(3, 1)
    net.register_full_backward_pre_hook(ran("pre"))
    net.register_full_backward_hook(ran("full"))
    assert agrees(net(torch.ones(2, 3)).sum(), ran) == ["pre", "full"]


def test_saved_tensors():
    ran = Ran()
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, ran("unpack", result=True)):
        y = x.exp() * x.sin()
    assert agrees(y.sum(), ran) == ["unpack"] * 4


def test_hooks_of_several_tensors_show_the_users_function():
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))

    def both(grads):
        pass

    torch.autograd.graph.register_multi_grad_hook((x, y), both)
    assert [entry.name for entry in torch.hook_schedule((x * y).sum()).hooks] == ["both", "both"]


def test_nodes_are_in_the_engines_order():
    x = torch.ones(3, requires_grad=True)
    a = x.sin()
    b = x.cos()
    c = a * b + a
    loss = c.sum() + (b * 2).sum()
    said = torch.hook_schedule(loss).nodes
    ran = []
    for node in said:
        node.register_prehook(lambda grads, node=node: ran.append(node))
    loss.backward()
    assert ran == list(said)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.out(self.norm(x))


def test_a_small_transformer_with_a_hook_on_everything():
    ran = Ran()
    net = torch.nn.Sequential(Block(), Block())
    for name, module in net.named_modules():
        module.register_full_backward_hook(ran(f"module {name}"))
    for name, parameter in net.named_parameters():
        parameter.register_hook(ran(f"hook {name}"))
        parameter.register_post_accumulate_grad_hook(ran(f"accumulated {name}"))
    said = agrees(net(torch.randn(2, 3, 4)).sum(), ran)
    assert len(said) > 50 and "module 1.attention" in said


def test_names_lines_and_modules():
    ran = Ran()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    net[0].weight.register_hook(ran("weight"))
    h = net(torch.ones(2, 3))
    h.retain_grad()
    loss = h.sum()
    schedule = torch.hook_schedule(loss)
    (hook,) = [entry for entry in schedule.hooks if entry.name == "weight"]
    assert hook.of == "0.weight of net" and "in Ran.__call__.<locals>.hook" in hook.line
    (retained,) = [entry for entry in schedule.hooks if entry.kind == "retain_grad"]
    assert (retained.of, retained.module) == ("h", "1")
    text = str(schedule)
    assert "ReluBackward0" in text and __file__ in text
    assert "<table>" in schedule._repr_html_()


def test_without_hooks_it_is_false_and_without_history_an_error():
    x = torch.ones(2, requires_grad=True)
    assert not torch.hook_schedule(x.sum())
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.hook_schedule(torch.ones(2))


def test_a_custom_functions_saved_tensors():
    ran = Ran()

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, ran("unpack", result=True)):
        y = Square.apply(x)
    assert agrees(y.sum(), ran) == ["unpack"]


def test_lines_of_registration():
    def log(grad):
        pass

    here = inspect.currentframe()
    net = torch.nn.Linear(2, 2)
    net.register_full_backward_hook(lambda *args: None)
    lines = [here.f_lineno - 1]
    net.weight.register_hook(log)
    lines.append(here.f_lineno - 1)
    handle = net.weight.register_hook(log)
    lines.append(here.f_lineno - 1)
    net.weight.register_post_accumulate_grad_hook(log)
    lines.append(here.f_lineno - 1)
    h = net(torch.ones(1, 2, requires_grad=True))
    h.grad_fn.register_hook(lambda *args: None)
    lines.append(here.f_lineno - 1)
    found = torch.hook_schedule(h.sum()).hooks
    assert sorted(int(entry.registered.split(":")[1].split(",")[0]) for entry in found) == sorted(lines)
    assert all(entry.registered.startswith(__file__) for entry in found)
    handle.remove()
    assert len(torch.hook_schedule(h.sum()).hooks) == len(found) - 1
