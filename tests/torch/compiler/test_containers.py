"""Containers among the arguments and in the result of a compiled call are what they are uncompiled."""

import gc
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple

import jax
import jax.numpy as jnp
import pytest

import fgrad.torch as torch

Pair = namedtuple("Pair", "a b")

RESULTS = {
    "dict": lambda x: {"b": x * 2, "a": x, 1: [x, (x + 1,)]},
    "ordered": lambda x: OrderedDict(z=x * 2, a=x),
    "default": lambda x: defaultdict(list, z=[x * 2], a=[x]),
    "deque": lambda x: deque([x * 2], maxlen=2),
    "namedtuple": lambda x: Pair(x * 2, "b"),
    "return type": lambda x: torch.max(x, 0),
    "return types": lambda x: [x.sort(), torch.topk(x, 2)],
    "nothing": lambda x: [{}, (), None],
}


def shown(x):
    if isinstance(x, torch.Tensor):
        return x.tolist()
    if isinstance(x, dict):
        return type(x).__name__, [(key, shown(value)) for key, value in x.items()]
    if isinstance(x, list | tuple | deque):
        return type(x).__name__, [shown(value) for value in x]
    return x


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_has_the_containers_that_it_has_uncompiled(name):
    compiled = torch.compile(RESULTS[name], fullgraph=True)
    for k in range(3):
        x = torch.arange(3.0) + k
        assert shown(compiled(x)) == shown(RESULTS[name](x))
    assert compiled._compiled.recorded == 1


def test_keys_of_a_result_are_numbers_of_python():
    compiled = torch.compile(lambda x, n: {n: x, (n, 2): x * 2, n + 10: x})
    for n in (0, 1, 2, 3):
        found = compiled(torch.ones(1), n)
        assert list(found) == [n, (n, 2), n + 10]
        assert all(type(x) is int for key in found for x in (key if type(key) is tuple else [key]))


def test_a_tensor_that_is_a_key_and_a_default_of_a_dict_are_of_the_call():
    key, default = torch.compile(lambda x: {(1, x + 1): x}), torch.compile(lambda x: defaultdict(lambda: x * 2, a=x))
    for k in range(4):
        x = torch.full((1,), float(k))
        ((_, found),) = key(x)
        assert found.item() == k + 1 and default(x)["new"].item() == 2 * k


def test_a_container_from_outside_is_returned_itself():
    kept = {"w": torch.zeros(2)}

    def f(x, own):
        kept["w"].add_(x)
        return kept, own

    compiled = torch.compile(f)
    for _ in range(3):
        own = [torch.ones(1)]
        first, second = compiled(torch.ones(2), own)
        assert first is kept and second is own
    shared = torch.compile(lambda x: [[x * 2]] * 2)(torch.ones(1))
    assert shared[0] is shared[1] and kept["w"].tolist() == [3, 3]


def changes(f, make):
    compiled, seen = torch.compile(f), []
    for run in (f, compiled, compiled, compiled):
        given = make()
        result = run(given)
        seen.append((shown(result), shown(given)))
    assert seen == [seen[0]] * 4


def test_a_container_among_the_arguments_is_changed():
    def popped(d):
        d["z"] = d.pop("x") * 2
        return d["z"]

    def appended(x):
        x.append(x[0] * 2)
        x[0] = x[0] + 1

    changes(popped, lambda: {"x": torch.ones(2), "y": torch.ones(1)})
    changes(lambda d: d["inner"].update(y=d["inner"]["x"] * 2), lambda: {"inner": {"x": torch.ones(2)}})
    changes(appended, lambda: [torch.ones(2)])


def test_the_order_of_a_dict_is_seen():
    first = torch.compile(lambda d: next(iter(d.values())) * 2)
    x, y = torch.ones(1), torch.zeros(1)
    for _ in range(2):
        assert first({"a": x, "b": y}).item() == 2 and first({"b": y, "a": x}).item() == 0
    assert torch.compile(lambda d: d[1] + d["a"])({1: x, "a": x}).item() == 2


@jax.tree_util.register_pytree_node_class
class Batch:
    def __init__(self, x):
        self.x = x

    def tree_flatten(self):
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_an_object_that_is_registered_with_jax_is_a_container():
    compiled = torch.compile(lambda batch: Batch(batch.x * 2), fullgraph=True)
    for k in range(3):
        assert compiled(Batch(torch.full((1,), float(k)))).x.item() == 2 * k
    assert compiled._compiled.recorded == 1


def test_return_types_are_trees_of_jax():
    found = jax.jit(lambda x: jax.tree.map(lambda y: y * 2, x))(torch.return_types.max([jnp.ones(2), jnp.zeros(2)]))
    assert type(found) is torch.return_types.max and found.values.tolist() == [2, 2]
    function, state = torch.pure(lambda x: {"m": torch.max(x, 0), 1: x})(torch.ones(2))
    _, result = function(state, jnp.array([1.0, 3.0]))
    assert float(result["m"].values) == 3 and list(result) == ["m", 1]


class Sample:
    scale = 1.0

    def __init__(self, x, name="a"):
        self.x, self.name = x, name

    def scaled(self):
        return self.x * self.scale


def test_an_object_that_is_new_at_each_call_is_matched_by_its_attributes(monkeypatch):
    def f(sample):
        return (sample.scaled() if sample.name == "a" else -sample.x).sum()

    compiled = torch.compile(f, fullgraph=True)
    for k in range(12):
        sample = Sample(torch.arange(3.0) + k, "ab"[k % 2])
        assert compiled(sample).item() == f(sample).item()
    assert compiled._compiled.recorded == 3 and not compiled._compiled.given_up
    monkeypatch.setattr(Sample, "scale", 2.0)
    assert compiled(Sample(torch.ones(3))).item() == 6
    assert compiled(Sample(torch.ones(3), 3)).item() == -3


def test_its_class_is_not_kept_alive():
    class Batch:
        def __init__(self, x):
            self.x = x

    compiled = torch.compile(lambda batch: batch.x * 2)
    for _ in range(3):
        compiled(Batch(torch.ones(2)))
    alive = weakref.ref(Batch)
    del compiled, Batch
    gc.collect()
    assert alive() is None


def test_such_an_object_is_changed_and_returned():
    class Owner:
        def __init__(self, x):
            self.x = x

    def f(owner):
        owner.x = owner.x * 2
        return owner

    compiled = torch.compile(f)
    for k in range(4):
        owner = Owner(torch.ones(2) * k)
        assert compiled(owner) is owner and owner.x.tolist() == [2 * k, 2 * k]


class Answering:
    """An object that has every attribute it is asked for."""

    def __init__(self, scale):
        self.scale = scale

    def __getattr__(self, name):
        return 3


def test_an_argument_may_have_every_attribute():
    compiled = torch.compile(lambda x, settings: x * settings.scale * settings.missing)
    for scale in (1, 1, 2, 2):
        assert compiled(torch.ones(2), Answering(scale)).tolist() == [3 * scale] * 2


def by_text(base):
    """A class of dicts that spells its keys as text, and refuses most of a dict's methods."""

    class ByText(base):
        def __setitem__(self, key, value):
            super().__setitem__(str(key), value)

        def get(self, key):
            return self[str(key)]

        def update(self, *args):
            raise NotImplementedError

        items = update

    return ByText


@pytest.mark.parametrize("base", [dict, OrderedDict])
def test_a_dict_whose_class_overrides_a_dicts_methods_is_a_dict(base):
    kept = by_text(base)()
    kept["sum"], kept["calls"], kept[1] = torch.zeros(2), 0, 1.0

    def f(x):
        kept["sum"] = kept["sum"] + x
        kept["calls"] = kept["calls"] + 1
        return x * kept.get(1)

    compiled = torch.compile(f)
    results = [compiled(torch.ones(2)).tolist() for _ in range(5)]
    kept[1] = 2.0
    assert [*results, compiled(torch.ones(2)).tolist()] == [[1, 1]] * 5 + [[2, 2]]
    assert [*base.items(kept)][1:] == [("calls", 6), ("1", 2.0)] and kept["sum"].tolist() == [6, 6]
    torch.capture(f)(torch.ones(2))
    assert [*base.keys(kept)] == ["sum", "calls", "1"] and kept["calls"] == 6
