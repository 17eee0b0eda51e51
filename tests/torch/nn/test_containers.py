"""Containers and parameters against PyTorch's: each scenario is played with both libraries."""

import copy
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
def test_containers_are_pytorchs(play: Callable[[Any, Story], None]):
    pytorch = pytest.importorskip("torch")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def acts(torch: Any) -> list[Any]:
    return [torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.Sigmoid(), torch.nn.GELU()]


@scenario
def sequential(torch: Any, tell: Story) -> None:
    nn = torch.nn
    s = nn.Sequential(*acts(torch))
    tell(len(s), repr(s[1]), repr(s[-1]), repr(s[1:3]), repr(s[::2]), [repr(each) for each in s])
    for index in (7, -5, "x", 1.0):
        tell.attempt(s.__getitem__, index)
        tell.attempt(s.__delitem__, index)
    s[0] = nn.Softsign()
    tell.attempt(s.__setitem__, 9, nn.ReLU())
    del s[1:3]
    tell(repr(s), list(s._modules))
    tell(repr(s.pop(0)), repr(s), repr(s.append(nn.ReLU()) is s), repr(s.extend(acts(torch)[:2])))
    tell(repr(s.insert(1, nn.Mish())), repr(s.insert(-1, nn.SELU())), repr(s.insert(len(s), nn.ELU())))
    tell.attempt(s.insert, 50, nn.ReLU())
    tell.attempt(s.insert, 0, 3)
    t = nn.Sequential(nn.ReLU())
    tell(repr(t + s[:1]), repr(t * 2), repr(3 * t))
    t += s[:2]
    t *= 2
    tell(repr(t))
    for wrong in (lambda: t + 3, lambda: t * 1.5, lambda: t * 0, lambda: t.__iadd__([1]), lambda: t.__imul__(-1)):
        tell.attempt(wrong)
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    tell(repr(named), repr(named[1:]), repr(named.b))
    del named[0]
    tell(repr(named))
    tell.attempt(nn.Sequential, 3)
    tell.attempt(nn.Sequential, [nn.ReLU()])
    tell(repr(nn.Sequential(nn.ReLU(), None) if False else nn.Sequential()))


@scenario
def module_list(torch: Any, tell: Story) -> None:
    nn = torch.nn
    m = nn.ModuleList(acts(torch))
    tell(len(m), repr(m[1]), repr(m[-1]), repr(m[1:3]), [repr(each) for each in m])
    for index in (7, -5, "x"):
        tell.attempt(m.__getitem__, index)
        tell.attempt(m.__delitem__, index)
        tell.attempt(m.__setitem__, index, nn.ReLU())
    m[0] = nn.Softsign()
    del m[1:3], m[-1]
    tell(repr(m))
    m.insert(0, nn.ReLU())
    m += [nn.ReLU(), nn.ReLU()]
    tell(
        repr(m), repr(m.pop(1)), repr(m.append(nn.Linear(1, 1))), repr(m + [nn.ReLU()]), repr(m.extend(nn.ModuleList()))
    )
    tell.attempt(m.extend, 3)
    tell.attempt(m.append, 3)
    tell.attempt(m, 3)
    nested = nn.ModuleList(
        [nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU()), nn.ModuleList(), nn.ModuleList(acts(torch))]
    )
    tell(repr(nested), repr(nn.Sequential(nested)), repr(nn.ModuleList()))


@scenario
def module_dict(torch: Any, tell: Story) -> None:
    nn = torch.nn
    m = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    tell(repr(m), len(m), list(m), list(m.keys()), [repr(each) for each in m.values()], "a" in m, "c" in m)
    m.update([("c", nn.SELU())])
    m.update(nn.ModuleDict({"d": nn.ELU()}))
    m["e"] = nn.Mish()
    tell(list(m), repr(m.pop("c")), [name for name, _ in m.items()])
    for wrong in (3, [1], [("a",)], {"x": 1}):
        tell.attempt(m.update, wrong)
    tell.attempt(m.__getitem__, "no")
    tell.attempt(m.pop, "no")
    del m["a"]
    m.clear()
    tell(repr(m))


@scenario
def parameter_list(torch: Any, tell: Story) -> None:
    nn = torch.nn
    p = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1, 3)), 3, None, nn.ReLU()])
    tell(repr(p), len(p), list(p._parameters), repr(p[1:3]), p[-3], [type(each).__name__ for each in p])
    p.append(torch.ones(1)).extend([torch.ones(()), "x"])
    p += [torch.ones(1)]
    p[2] = torch.ones(4)
    tell(repr(p), list(p.state_dict()), repr(nn.Sequential(p)), repr(nn.ParameterList()), repr(nn.ParameterList([1])))
    for wrong in (lambda: p[50], lambda: p["x"], lambda: p.extend(3), lambda: p.extend(torch.ones(2)), lambda: p(1)):
        tell.attempt(wrong)
    p[2] = torch.ones(1, dtype=torch.float64)
    tell(repr(p))


@scenario
def parameter_dict(torch: Any, tell: Story) -> None:
    nn = torch.nn
    p = nn.ParameterDict({"b": torch.ones(2), "a": nn.Parameter(torch.zeros(1, 3)), "c": 3})
    tell(
        repr(p),
        len(p),
        list(p),
        list(reversed(p)),
        list(p._parameters),
        "a" in p,
        p.get("x", 7),
        p["c"],
        repr(p.copy()),
    )
    p.update(OrderedDict(z=torch.ones(1), y=2))
    p.update([("x", torch.ones(1))])
    tell(list(p), p.setdefault("x", 3).tolist(), p.setdefault("w", 4), p.pop("w"), p.popitem()[0], list(p.keys()))
    tell(list(p.fromkeys(["k", "l"], 1).items()), [type(each).__name__ for each in p.values()])
    tell(repr(p | nn.ParameterDict({"n": 1})), list(p.state_dict()))
    p |= nn.ParameterDict({"m": torch.ones(1)})
    tell(repr(p), repr(nn.ParameterDict({"one": torch.ones(1)})))
    for wrong in (3, [1], [("a",)]):
        tell.attempt(p.update, wrong)
    for wrong in (
        lambda: p["no"],
        lambda: p[3],
        lambda: p(1),
        lambda: p.pop("no"),
        lambda: nn.ParameterDict().popitem(),
    ):
        tell.attempt(wrong)
    tell.attempt(p.__setitem__, 3, torch.ones(1))
    del p["m"]
    p = nn.ParameterDict({"a": torch.ones(1)})
    p.clear()
    tell(repr(p))


@scenario
def deprecated_names(torch: Any, tell: Story) -> None:
    tell(repr(torch.nn.Container(a=torch.nn.ReLU())), repr(torch.nn.NLLLoss2d(reduction="sum")))
    for arguments in ({"reduce": False}, {"size_average": False}, {"size_average": True, "reduce": True}):
        tell(torch.nn.MSELoss(**arguments).reduction, torch.nn.NLLLoss(**arguments).reduction)
    tell(repr(torch.nn.Hardtanh(min_value=-2, max_value=3)))


@scenario
def parameters(torch: Any, tell: Story) -> None:
    nn, x = torch.nn, torch.ones(2)
    p = nn.Parameter(x)
    tell(repr(p), repr(nn.Parameter(x, requires_grad=False)), repr(nn.Parameter()), p.is_leaf, p.requires_grad)
    x.add_(1)
    tell(p, p._version, p.data_ptr() == x.data_ptr(), isinstance(p, torch.Tensor), isinstance(x, nn.Parameter))
    tell(type(p * 1) is torch.Tensor, type(p.data) is torch.Tensor, type(p.detach()) is torch.Tensor)
    with torch.no_grad():
        tell(nn.Parameter(x).requires_grad, nn.Parameter(p).is_leaf)
    tell.attempt(nn.Parameter, torch.ones(2, dtype=torch.int64))
    tell.attempt(nn.Parameter, 3)
    tell.attempt(nn.Parameter, [1.0])
    tell(nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False), nn.Parameter(p * 2).grad_fn is None)
    twin = copy.deepcopy(p)
    tell(type(twin) is nn.Parameter, twin.data_ptr() == p.data_ptr(), repr(twin), twin.requires_grad)
    b = nn.Buffer(x, persistent=False)
    tell(repr(b), type(b) is torch.Tensor, b.persistent, isinstance(b, nn.Buffer), b.data_ptr() == x.data_ptr())
    tell(repr(nn.Buffer()), nn.Buffer(p).requires_grad)
    tell({p: 1}[p], p in {p}, p == p)


@scenario
def uninitialized(torch: Any, tell: Story) -> None:
    nn = torch.nn
    u = nn.UninitializedParameter(dtype=torch.float64)
    tell(repr(u), nn.parameter.is_lazy(u), nn.parameter.is_lazy(nn.Parameter()), isinstance(u, nn.Parameter))
    tell.attempt(lambda: u.shape)
    tell.attempt(u.share_memory_)
    twin = copy.deepcopy(u)
    u.materialize((2, 3))
    tell(type(u) is nn.Parameter, tuple(u.shape), str(u.dtype), u.requires_grad, repr(twin))
    b = nn.UninitializedBuffer()
    tell(repr(b), b.persistent, isinstance(b, nn.Buffer))
    b.materialize((1,), dtype=torch.float64)
    tell(type(b) is torch.Tensor, str(b.dtype), tuple(b.shape))


@scenario
def lazy_modules(torch: Any, tell: Story) -> None:
    nn = torch.nn
    layer = nn.LazyLinear(2)
    tell(repr(layer), layer.has_uninitialized_params(), repr(layer.state_dict()["weight"]), type(layer).__name__)
    other = nn.LazyLinear(2)
    tell(repr(other.load_state_dict(layer.state_dict())), other.has_uninitialized_params())
    tell(
        repr(nn.LazyBatchNorm1d().double().running_mean), nn.LazyBatchNorm1d().double()(torch.ones(2, 1).double()).shape
    )
    layer.load_state_dict(nn.Linear(3, 2).state_dict())
    tell(layer.has_uninitialized_params(), tuple(layer.weight.shape), type(layer).__name__)
    layer(torch.ones(3))
    tell(type(layer).__name__, repr(layer), repr(layer.state_dict().keys()), len(layer._forward_pre_hooks))
    tell.attempt(layer, torch.ones(4))
    other.double()
    copy.deepcopy(other)(torch.ones(5, dtype=torch.float64))
    tell(repr(other), str(other.weight.dtype))
    tell.attempt(nn.LazyConv1d(2, 3, groups=2), torch.ones(3, 5))
    tell.attempt(nn.LazyConv2d(2, 3), torch.ones(3, 5))

    class Unwritten(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    tell.attempt(Unwritten(), torch.ones(1))
    tell.attempt(nn.Linear(3, 2).load_state_dict, nn.LazyLinear(2).state_dict())
