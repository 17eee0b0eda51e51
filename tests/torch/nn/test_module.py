"""``Module`` against PyTorch's: each scenario is played with both libraries and must tell the same story."""

import copy
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch
from tests.torch.nn.story import Story, assert_same, played

SCENARIOS: list[Callable[[Any, Story], None]] = []


def scenario(play: Callable[[Any, Story], None]) -> Callable[[Any, Story], None]:
    SCENARIOS.append(play)
    return play


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
def test_module_is_pytorchs(play: Callable[[Any, Story], None]):
    pytorch = pytest.importorskip("torch")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def net(torch: Any) -> Any:
    nn = torch.nn
    torch.manual_seed(0)
    return nn.Sequential(
        OrderedDict(first=nn.Linear(2, 3), norm=nn.BatchNorm1d(3), inner=nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    )


# --------------------------------------------------------------------------------------------------------------------
# registration


@scenario
def functions_of_pytorch_as_attributes_of_a_class(torch: Any, tell: Story) -> None:
    class Own(torch.nn.Module):
        activation, product, convolution = torch.tanh, torch.mul, torch.nn.functional.conv1d
        factor = staticmethod(torch.neg)

        def forward(self, x: Any) -> Any:
            return self.product(self.activation(x), self.factor(x)), self.convolution(x, weight=torch.ones(1, 2, 1))

    class Late(Own):
        activation = torch.sigmoid

        def unlike(self, x: Any) -> Any:
            return self.activation(x)

    x = torch.ones(2, 3)
    tell(*Own()(x), *Late()(x), Late().unlike(x), Own.activation is torch.tanh, Own().activation is torch.tanh)


@scenario
def registering_parameters(torch: Any, tell: Story) -> None:
    nn, module = torch.nn, torch.nn.Module()
    one = torch.ones(2, requires_grad=True)
    module.plain = 1
    for name, value in [
        ("a", nn.Parameter(one)), ("b", None), ("a", None), (3, None), ("x.y", None), ("", None), ("plain", None),
        ("forward", None), ("c", one), ("c", "text"), ("c", nn.Linear(1, 1)), ("c", nn.Linear), ("c", one * 2),
    ]:  # fmt: skip
        tell.attempt(module.register_parameter, name, value)
    tell(sorted(module._parameters), type(module._parameters), type(module._buffers))
    tell.attempt(lambda: nn.Module._parameters)
    module._parameters, module._buffers = {"d": nn.Parameter(one)}, {"e": one}
    tell(module.d, module.e, [name for name, _ in module.named_parameters()], list(module.state_dict()))
    del module._buffers
    tell.attempt(lambda: module._buffers)

    class Early(nn.Module):
        def __init__(self, act: Any):
            act(self)

    tell.attempt(Early, lambda self: self.register_parameter("a", None))
    tell.attempt(Early, lambda self: self.register_buffer("a", None))
    tell.attempt(Early, lambda self: setattr(self, "a", nn.Parameter(one)))
    tell.attempt(Early, lambda self: setattr(self, "a", nn.Buffer(one)))
    tell.attempt(Early, lambda self: setattr(self, "a", nn.ReLU()))
    tell.attempt(Early, lambda self: self.a)
    tell.attempt(nn.Module, 1, 2)
    tell.attempt(nn.Module, a=3)
    tell.attempt(nn.Module())


@scenario
def registering_buffers(torch: Any, tell: Story) -> None:
    nn, module = torch.nn, torch.nn.Module()
    module.plain = 1
    for name, value in [
        ("a", torch.ones(2)), ("b", None), (3, None), ("x.y", None), ("", None), ("plain", None), ("c", "text"),
        ("c", [1.0]),
    ]:  # fmt: skip
        tell.attempt(module.register_buffer, name, value)
    module.register_buffer("transient", torch.zeros(1), persistent=False)
    module.b = torch.ones(1)
    tell.attempt(setattr, module, "b", 3)
    module.kept = nn.Buffer(torch.full((1,), 2.0))
    module.lost = nn.Buffer(torch.full((1,), 3.0), persistent=False)
    tell([(name, value.tolist()) for name, value in module.named_buffers()], list(module.state_dict()))
    tell(isinstance(module.kept, nn.Buffer), isinstance(module.a, nn.Buffer), type(module.kept) is torch.Tensor)
    module.transient = torch.ones(1)
    module.lost = torch.ones(1)
    tell(list(module.state_dict()))
    del module.lost
    module.lost = torch.ones(1)
    tell(list(module.state_dict()), "lost" in module._buffers)
    module.a = nn.Parameter(torch.ones(1))
    tell(list(module._buffers), list(module._parameters))


@scenario
def registering_modules(torch: Any, tell: Story) -> None:
    nn, module = torch.nn, torch.nn.Module()
    module.plain = 1
    relu = nn.ReLU()
    for name, value in [
        ("a", relu), ("b", None), (3, relu), ("x.y", relu), ("", relu), ("plain", relu), ("c", 3), ("c", torch.ones(1)),
    ]:  # fmt: skip
        tell.attempt(module.add_module, name, value)
    module.register_module("d", nn.Tanh())
    tell(repr(module))
    module.a = nn.Linear(1, 1)
    tell.attempt(setattr, module, "a", 3)
    module.a = None
    tell(repr(module), list(module._modules))
    module.d = nn.Parameter(torch.ones(1))
    tell(list(module._modules), list(module._parameters))
    tell.attempt(setattr, module, "d", nn.ReLU())
    tell.attempt(setattr, module, "missing", 1)
    tell.attempt(delattr, module, "never")
    for name in ("d", "a", "plain"):
        delattr(module, name)
    tell(list(module._modules), hasattr(module, "plain"))


@scenario
def assigning_to_a_parameter(torch: Any, tell: Story) -> None:
    nn, module = torch.nn, torch.nn.Linear(2, 1)
    for value in (torch.ones(1, 2), 3, nn.ReLU(), [1], None, nn.Parameter(torch.ones(1, 2))):
        tell.attempt(setattr, module, "weight", value)
    tell(module.weight.tolist(), list(module._parameters))
    del module.bias
    tell.attempt(getattr, module, "bias")
    tell.attempt(lambda: module.undefined)


@scenario
def older_register_buffer(torch: Any, tell: Story) -> None:
    class Old(torch.nn.Module):
        def register_buffer(self, name: str, tensor: Any) -> None:
            super().register_buffer(name, tensor)

    module = Old()
    module.a = torch.nn.Buffer(torch.ones(1))
    tell(list(module._buffers))
    tell.attempt(setattr, module, "b", torch.nn.Buffer(torch.ones(1), persistent=False))


@scenario
def names_in_dir(torch: Any, tell: Story) -> None:
    module = net(torch)
    module.buf = torch.nn.Buffer(torch.ones(1))
    names = dir(module)
    tell([name for name in ("first", "buf", "training", "forward", "0") if name in names])
    tell(names == sorted(names), "0" in dir(torch.nn.Sequential(torch.nn.ReLU())))


@scenario
def super_init(torch: Any, tell: Story) -> None:
    class Mixin:
        def __init__(self, tag: str):
            tell(f"mixin {tag}")

    class Both(torch.nn.Module, Mixin):
        call_super_init = True

    Both("x")


@scenario
def registration_hooks(torch: Any, tell: Story) -> None:
    nn, m = torch.nn, torch.nn.modules.module

    def hook(module: Any, name: str, value: Any) -> Any:
        tell(type(module).__name__, name, value is None)
        return nn.Tanh() if isinstance(value, nn.ReLU) else None

    with m.register_module_parameter_registration_hook(hook), m.register_module_buffer_registration_hook(hook):
        nn.BatchNorm1d(1)
    with m.register_module_module_registration_hook(hook):
        module = nn.Sequential(nn.ReLU())
        module.other = nn.ReLU()
    tell(repr(module))
    nn.Linear(1, 1)


# --------------------------------------------------------------------------------------------------------------------
# the tree


@scenario
def walking(torch: Any, tell: Story) -> None:
    nn, module = torch.nn, net(torch)
    module.again = module.inner
    module.nothing = None
    module.shared = nn.ParameterList([module.first.weight])
    for duplicates in (True, False):
        tell([name for name, _ in module.named_modules(remove_duplicate=duplicates)])
        tell([name for name, _ in module.named_parameters("p", remove_duplicate=duplicates)])
        tell(len(list(module.modules(duplicates))))
    tell([name for name, _ in module.named_children()], [type(child).__name__ for child in module.children()])
    tell(
        [name for name, _ in module.named_buffers(prefix="b")],
        [name for name, _ in module.named_parameters(recurse=False)],
    )
    tell(len(list(module.parameters())), len(list(module.buffers())), len(list(module.first.parameters(recurse=False))))
    module.apply(lambda child: tell(type(child).__name__))


@scenario
def getting_by_dotted_name(torch: Any, tell: Story) -> None:
    nn, module = torch.nn, net(torch)
    for path in ("", "inner", "inner.0", "inner.5", "first.weight", "first.weight.x", "missing.x"):
        tell.attempt(lambda path=path: type(module.get_submodule(path)).__name__)
    for path in ("first.weight", "first", "norm.running_mean", "nope.x", "first.nope", "inner.1.bias"):
        tell.attempt(lambda path=path: tuple(module.get_parameter(path).shape))
        tell.attempt(lambda path=path: tuple(module.get_buffer(path).shape))
    for path, value, options in [
        ("inner.1", nn.Tanh(), {}), ("inner.7", nn.Tanh(), {}), ("inner.9", nn.Tanh(), {"strict": True}),
        ("", nn.ReLU(), {}), ("first.weight", nn.ReLU(), {}), ("inner.0", 3, {}), ("new", nn.ReLU(), {}),
        ("first.x.y", nn.ReLU(), {}),
    ]:  # fmt: skip
        tell.attempt(module.set_submodule, path, value, **options)
    tell(repr(module))


@scenario
def training_and_zeroing(torch: Any, tell: Story) -> None:
    module = net(torch)
    tell([child.training for child in module.eval().modules()], [child.training for child in module.train().modules()])
    tell.attempt(module.train, 1)
    module.requires_grad_(False)
    tell([parameter.requires_grad for parameter in module.parameters()])
    module.requires_grad_()
    module(torch.ones(2, 2)).sum().backward(create_graph=False)
    grad = module.first.bias.grad
    module.zero_grad(set_to_none=False)
    tell(module.first.bias.grad is grad, grad.tolist())
    module.zero_grad()
    tell(module.first.bias.grad is None)


@scenario
def converting(torch: Any, tell: Story) -> None:
    module = net(torch)
    module(torch.ones(2, 2)).sum().backward()
    weight = module.first.weight
    for convert in (
        lambda: module.double(), lambda: module.float(), lambda: module.half(), lambda: module.bfloat16(),
        lambda: module.type(torch.float64), lambda: module.to(torch.float32), lambda: module.to("cpu", torch.float64),
        lambda: module.to(torch.ones(1)), lambda: module.to(device="cpu", dtype=None), lambda: module.to(None),
        lambda: module.to(dtype=torch.float64, non_blocking=True), lambda: module.cpu(),
        lambda: module.to(tensor=torch.ones(1)), lambda: module.to(torch.int64), lambda: module.to("nowhere"),
        lambda: module.to(torch.ones(1), torch.float32), lambda: module.to(foo=1), lambda: module.to(copy=True),
        lambda: module.to("cpu", torch.float32, False, False, 1), lambda: module.to(1.5, torch.float32, "x"),
        lambda: module.to_empty(device="cpu", recurse=False),
    ):  # fmt: skip
        tell.attempt(lambda convert=convert: convert() is module)
        tell(str(weight.dtype), str(weight.grad.dtype), str(module.norm.running_var.dtype))
        tell(str(module.norm.num_batches_tracked.dtype), module.first.weight is weight, weight.is_leaf)


@scenario
def copying(torch: Any, tell: Story) -> None:
    module = net(torch)
    module.first.register_forward_hook(lambda *_: tell("hook"))
    twin = copy.deepcopy(module)
    twin.first.weight.data.zero_()
    tell(
        type(twin.first.weight) is torch.nn.Parameter,
        bool((module.first.weight == 0).any()),
        twin.first.bias.requires_grad,
    )
    twin(torch.ones(2, 2))
    shared = torch.nn.Sequential(torch.nn.Linear(1, 1))
    shared.again = shared[0]
    other = copy.deepcopy(shared)
    tell(other.again is other[0], other[0].weight is shared[0].weight)
    state = dict(module.__dict__)
    del state["_forward_hooks_with_kwargs"], state["_is_full_backward_hook"]
    bare = torch.nn.Sequential.__new__(torch.nn.Sequential)
    bare.__setstate__(state)
    tell(len(bare._forward_hooks_with_kwargs), bare._is_full_backward_hook, list(bare.state_dict()))


@scenario
def showing(torch: Any, tell: Story) -> None:
    nn = torch.nn

    class Lines(nn.Module):
        def __init__(self, text: str, *children: Any):
            super().__init__()
            self.text = text
            for i, child in enumerate(children):
                self.add_module(f"child{i}", child)

        def extra_repr(self) -> str:
            return self.text

    tell(repr(Lines("")), repr(Lines("one")), repr(Lines("two\nlines")), repr(Lines("", nn.ReLU(), net(torch))))
    tell(repr(Lines("one", nn.ReLU())), repr(Lines("two\n\nlines", Lines("a\n\nb"), None)))


# --------------------------------------------------------------------------------------------------------------------
# state dicts


@scenario
def state_dicts(torch: Any, tell: Story) -> None:
    module = net(torch)
    state = module.state_dict()
    tell(type(state).__name__, list(state), [(key, dict(value)) for key, value in state._metadata.items()])
    tell(state["first.weight"].requires_grad, state["first.weight"].data_ptr() == module.first.weight.data_ptr())
    tell(module.state_dict(keep_vars=True)["first.weight"] is module.first.weight, list(module.state_dict(prefix="p.")))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tell(list(module.state_dict({}, "q.")))
    tell([str(each.message) for each in caught])
    into = {"other": 1}
    tell(module.first.state_dict(destination=into) is into, list(into))


@scenario
def loading(torch: Any, tell: Story) -> None:
    module = net(torch)
    state = {key: value + 1 for key, value in module.state_dict().items()}
    bias = module.first.bias
    version = bias._version
    tell(repr(module.load_state_dict(state)), module.first.bias is bias, bias._version - version)
    tell(bias.tolist() == state["first.bias"].tolist())
    partial = {
        "first.weight": torch.ones(3, 2),
        "unknown": torch.ones(1),
        "first.other": torch.ones(1),
        "inner.1.x.y": 1,
    }
    tell.attempt(module.load_state_dict, partial)
    tell(repr(module.load_state_dict(partial, strict=False)))
    tell.attempt(module.load_state_dict, {**state, "first.weight": torch.ones(2, 2), "norm.weight": torch.ones(7)})
    tell.attempt(module.load_state_dict, {**state, "first.weight": "text"})
    tell.attempt(module.load_state_dict, [("first.weight", 1)])
    result = module.load_state_dict(partial, strict=False)
    tell(list(result.missing_keys)[:2], tuple(result) == (result.missing_keys, result.unexpected_keys))
    old = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    tell(repr(module.load_state_dict(old)))
    scalar = torch.nn.Module()
    scalar.p = torch.nn.Parameter(torch.tensor(1.0))
    scalar.load_state_dict({"p": torch.tensor([2.0])})
    tell(scalar.p.item())


@scenario
def assigning(torch: Any, tell: Story) -> None:
    module = torch.nn.BatchNorm1d(1)
    module.weight.requires_grad_(False)
    state = {key: value.clone() for key, value in torch.nn.BatchNorm1d(1).double().state_dict().items()}
    state["bias"] = torch.nn.Parameter(torch.ones(1))
    module.load_state_dict(state, assign=True)
    tell(str(module.weight.dtype), module.weight.requires_grad, isinstance(module.weight, torch.nn.Parameter))
    tell(module.bias is state["bias"], module.running_mean is state["running_mean"])


@scenario
def loading_failures(torch: Any, tell: Story) -> None:
    class Stubborn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.ones(1))

    module = Stubborn()
    module.p.data = torch.ones(1).expand(3)
    tell.attempt(module.load_state_dict, {"p": torch.ones(3)})
    instance = torch.nn.InstanceNorm1d(2)
    tell.attempt(instance.load_state_dict, {"running_mean": torch.ones(2), "running_var": torch.ones(2)})


@scenario
def state_dict_hooks(torch: Any, tell: Story) -> None:
    module = net(torch)
    module.register_state_dict_pre_hook(lambda m, prefix, keep: tell("pre", type(m).__name__, prefix, keep))

    def post(m: Any, state: Any, prefix: str, metadata: Any) -> None:
        tell("post", type(m).__name__, prefix, dict(metadata))
        state["more"] = 1

    module.inner.register_state_dict_post_hook(post)
    tell(list(module.state_dict()))
    tell.attempt(module._register_state_dict_hook, post)
    module._register_state_dict_hook(lambda m, state, prefix, metadata: {"replaced": prefix})
    tell(list(module.state_dict()))
    bad = torch.nn.Linear(1, 1)
    handle = bad.register_state_dict_post_hook(lambda *_: {})
    tell.attempt(bad.state_dict)
    handle.remove()
    tell(list(bad.state_dict()))


@scenario
def load_hooks(torch: Any, tell: Story) -> None:
    module = net(torch)
    state = module.state_dict()

    def rename(
        m: Any, state: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        tell("load", type(m).__name__, prefix, strict, list(state))
        if prefix + "old" in state:
            state[prefix + "bias"] = state.pop(prefix + "old")

    module.first.register_load_state_dict_pre_hook(rename)
    module.inner._register_load_state_dict_pre_hook(lambda *args: tell(len(args), args[1]))
    handle = module.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state["first.old"] = state.pop("first.bias")
    tell(repr(module.load_state_dict(state)), repr(module.load_state_dict({})))
    copy.deepcopy(module).load_state_dict({})
    handle.remove()
    module.register_load_state_dict_post_hook(lambda m, keys: keys)
    tell.attempt(module.load_state_dict, {}, strict=False)


@scenario
def extra_state(torch: Any, tell: Story) -> None:
    class Counter(torch.nn.Module):
        count = 3

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    module = torch.nn.Sequential(Counter())
    state = module.state_dict()
    tell(dict(state))
    state["0._extra_state"] = {"count": 5}
    tell(repr(module.load_state_dict(state)), module[0].count)
    tell.attempt(module.load_state_dict, {})
    tell.attempt(torch.nn.ReLU().load_state_dict, {"_extra_state": 1})
    tell.attempt(torch.nn.ReLU().get_extra_state)
    tell.attempt(torch.nn.ReLU().set_extra_state, 1)


@scenario
def weights_of_recurrent_layers_by_name(torch: Any, tell: Story) -> None:
    for layer in (torch.nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2), torch.nn.GRU(2, 3, bias=False)):
        tell(layer._flat_weights_names, layer._all_weights)
        pairs = zip(layer._flat_weights_names, layer._flat_weights, strict=True)
        tell(all(layer._parameters[name] is weight for name, weight in pairs))


@scenario
def pickled_parameters_keep_their_attributes(torch: Any, tell: Story) -> None:
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    parameter.note = "kept"
    copied = pickle.loads(pickle.dumps(parameter))
    tell(type(copied).__name__, copied.note, copied.requires_grad, copied.tolist())


@scenario
def parameters_overwritten_on_conversion(torch: Any, tell: Story) -> None:
    future, module = torch.__future__, torch.nn.Linear(2, 1)
    module(torch.ones(1, 2)).sum().backward()
    weight = module.weight
    for overwrites in (True, False):
        future.set_overwrite_module_params_on_conversion(overwrites)
        before = module.weight
        module.double() if overwrites else module.float()
        tell(future.get_overwrite_module_params_on_conversion(), module.weight is before, str(weight.dtype))
        tell(str(module.weight.dtype), module.weight.grad, module.weight.is_leaf, weight.grad is not None)
    tell(future.get_swap_module_params_on_conversion())


@scenario
def copied(torch: Any, tell: Story) -> None:
    """A shallow copy shares the tables."""
    module = torch.nn.Linear(1, 1)
    twin = copy.copy(module)
    twin.weight = torch.nn.Parameter(torch.zeros(1, 1))
    twin.register_buffer("more", torch.ones(1))
    tell(module.weight is twin.weight, hasattr(module, "more"), twin.eval().training, module.training)
