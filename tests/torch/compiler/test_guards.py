"""What a compiled function depends on beside the values that it reads.

A scenario runs compiled and uncompiled, and has to give the same both times.
"""

import array
import contextvars
import copy
import ctypes
import dataclasses
import functools
import gc
import operator
import queue
import subprocess
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest

import fgrad.torch as torch

nn = torch.nn
SCENARIOS = []


def scenario(function):
    SCENARIOS.append(pytest.param(function, id=function.__name__))
    return function


def ones(size=2, **kinds):
    return torch.ones(size, **kinds)


def thrice(f, *args):
    for _ in range(3):
        f(*args)


# -- which tensor is which -------------------------------------------------------------------------------------------


@scenario
def arguments_that_were_one(compile):
    f = compile(lambda a, b: ((a - b) ** 2).sum())
    x = ones(3)
    thrice(f, x, x)
    return f(x, x + 1)


@scenario
def arguments_that_were_one_in_two_places(compile):
    f = compile(lambda q, k, v: (q @ k.t()) @ v)
    x = torch.eye(2)
    thrice(f, x, x, x)
    return f(x, 2 * x, 3 * x)


@scenario
def an_argument_that_the_function_holds(compile):
    w, z = torch.zeros(2), ones()
    f = compile(lambda x: (w.add_(1), x * 2)[1])
    thrice(f, w)
    return f(z), z, w


@scenario
def an_argument_that_is_in_a_tuple_that_the_function_holds(compile):
    held, z = (torch.zeros(2),), ones()
    f = compile(lambda x: (held[0].add_(1), x * 2)[1])
    thrice(f, held[0])
    return f(z), z, held[0]


@scenario
def an_argument_that_is_a_default(compile):
    w, z = torch.zeros(2), ones()

    def add(x, w=w):
        w.add_(1)
        return x * 2

    f = compile(add)
    thrice(f, w)
    return f(z), z, w


@scenario
def an_argument_that_is_a_gradient(compile):
    p = ones(requires_grad=True)
    p.grad = ones()
    f = compile(lambda x: (p.grad * 10 + x).detach())
    thrice(f, p.grad)
    return f(5 * ones())


@scenario
def a_gradient_that_the_function_holds(compile):
    p, w = ones(requires_grad=True), torch.zeros(2)
    p.grad = w

    def step(x):
        with torch.no_grad():
            p.grad.add_(1)
            w.add_(10)
        return x * 1

    f = compile(step)
    thrice(f, ones())
    p.grad = torch.zeros(2)
    return f(ones()), f(ones()), w, p.grad


@scenario
def a_gradient_of_an_argument(compile):
    f = compile(lambda p: (p * p).sum().backward())
    for _ in range(3):
        f(ones(requires_grad=True))
    q = ones(requires_grad=True)
    q.grad = ones()
    f(q)
    return q.grad


# -- what only metadata is read of -----------------------------------------------------------------------------------


@scenario
def a_shape(compile):
    f = compile(lambda x, n: x.sum() / n.shape[0])
    thrice(f, ones(), ones(3))
    return f(ones(), ones(6))


@scenario
def a_shape_of_a_tensor_that_the_function_holds(compile):
    w = ones(3)
    f = compile(lambda x: x * w.shape[0])
    thrice(f, ones())
    w.data = ones(5)
    return f(ones())


@scenario
def a_type(compile):
    m = nn.Linear(2, 2)
    f = compile(lambda x: x.to(next(m.parameters()).dtype))
    thrice(f, ones())
    m.double()
    return f(ones()), str(f(ones()).dtype)


@scenario
def whether_an_argument_requires_grad(compile):
    f = compile(lambda x, y: x * 2 if y.requires_grad else x * 3)
    thrice(f, ones(), ones())
    return f(ones(), ones(requires_grad=True))


@scenario
def whether_a_gradient_requires_grad(compile):
    p = ones(requires_grad=True)
    p.grad = ones()
    f = compile(lambda x: x * (2 if p.grad.requires_grad else 3))
    thrice(f, ones())
    p.grad = ones(requires_grad=True)
    return f(ones())


# -- views and shared memory -----------------------------------------------------------------------------------------


@scenario
def weights_that_are_no_longer_tied(compile):
    a, b = ones(), torch.zeros(2)
    b.data = a.data
    f = compile(lambda x: a * x + 10 * b * x)
    thrice(f, ones())
    b.data = torch.zeros(2)
    return f(ones())


@scenario
def a_view_that_moves(compile):
    b = torch.arange(4.0)
    v = b[:2]
    f = compile(lambda x: b.sum() * v + x)
    thrice(f, ones())
    v.data = b[2:]
    return f(ones())


@scenario
def a_view_whose_base_moves(compile):
    b = torch.zeros(4)
    v = b[:2]
    f = compile(lambda x: (v.add_(1), b * x)[1].clone())
    thrice(f, ones(4))
    b.data = ones(4)
    return f(ones(4)), f(ones(4)), v, b


@scenario
def a_base_that_gets_a_history(compile):
    b, w = torch.zeros(4), torch.full((4,), 3.0, requires_grad=True)
    v = b[:2]
    f = compile(lambda x: (v * x).sum())
    thrice(f, ones())
    b.add_(w)
    f(ones()).backward()
    return w.grad


@scenario
def a_base_that_requires_grad(compile):
    b = ones(4)
    v = b[:2]
    f = compile(lambda x: (v * x).sum())
    thrice(f, ones())
    b.requires_grad_()
    return f(ones()).requires_grad


@scenario
def an_argument_that_is_no_view(compile):
    f = compile(lambda v: v * (1 if v._base is None else 2))
    for _ in range(3):
        f(ones(4)[:2])
    return f(ones(4)[:2].detach())


@scenario
def a_base_that_is_resized_twice(compile):
    b = torch.arange(6.0)
    v = b[:2]
    f = compile(lambda x: v * x)
    found = []
    for size in (6, 8, 20, 4):
        b.resize_(size)
        found += [f(ones()) for _ in range(3)]
    return found


# -- containers and objects ------------------------------------------------------------------------------------------


@scenario
def keys_of_a_dict(compile):
    d = {"a": 1.0, "b": 2}
    f = compile(lambda x: x * (2 if "a" in d else 3))
    thrice(f, ones())
    a, b = d.pop("a"), d.pop("b")
    d.update(c=a, b=b)
    return f(ones())


@scenario
def a_dict_with_values_of_its_own(compile):
    class Sorted(dict):
        def values(self):
            return [self[k] for k in sorted(self)]

    d = Sorted(a=2.0, b=3)
    f = compile(lambda x: x * d["b"])
    thrice(f, ones())
    d["b"] = 10
    return f(ones())


@scenario
def the_order_of_an_ordered_dict(compile):
    d = OrderedDict(a=1.0, b=2.0)
    f = compile(lambda x: x * next(iter(d.values())))
    thrice(f, ones())
    d.move_to_end("a")
    return f(ones())


@scenario
def the_order_of_a_dict_whose_numbers_are_inputs(compile):
    d = {"a": 1.0, "b": 2.0}
    f = compile(lambda x: functools.reduce(lambda sum, value: 2 * sum + value, d.values(), x))
    for k in range(4):
        d["a"] = float(k)
        f(ones())
    d["a"] = d.pop("a")
    return f(ones())


@scenario
def the_order_of_attributes(compile):
    class Settings:
        pass

    d = Settings()
    d.a, d.b = 1.0, 2.0
    f = compile(lambda x: functools.reduce(lambda sum, value: 2 * sum + value, vars(d).values(), x))
    thrice(f, ones())
    d.__dict__["a"] = d.__dict__.pop("a")
    return f(ones())


@scenario
def the_factory_of_a_default_dict(compile):
    rate = [2.0]
    d = defaultdict(lambda: rate[0])
    f = compile(lambda x: x * d.default_factory())
    thrice(f, ones())
    rate[0] = 3.0
    one = f(ones())
    d.default_factory = lambda: 5.0
    return one, f(ones())


@scenario
def equal_elements_of_a_set(compile):
    d = {1}
    f = compile(lambda x: (x, [*d]))
    thrice(f, ones())
    d.clear()
    d.add(True)
    return [type(n).__name__ for n in f(ones())[1]]


@scenario
def a_list_that_is_never_true(compile):
    class Never(list):
        def __bool__(self):
            return False

    d = Never()
    f = compile(lambda x: x * (1 + len(d)))
    thrice(f, ones())
    d.append(1)
    return f(ones())


@scenario
def a_set(compile):
    d = {1, 2}
    f = compile(lambda x: x * (1 + len(d)))
    thrice(f, ones())
    d.add(3)
    return f(ones())


@scenario
def an_empty_set(compile):
    d = set()
    f = compile(lambda x: x * (1 + len(d)))
    thrice(f, ones())
    d.add(3)
    return f(ones())


@scenario
def a_deque(compile):
    d = deque([1, 2], maxlen=3)
    f = compile(lambda x: x * sum(d))
    thrice(f, ones())
    d.append(5)
    return f(ones())


@scenario
def slots(compile):
    class Settings:
        __slots__ = ("n",)

    d = Settings()
    d.n = 2
    f = compile(lambda x: x * (1 + d.n))
    thrice(f, ones())
    d.n = 5
    return f(ones())


@scenario
def an_attribute_of_a_module_of_python(compile):
    settings = types.ModuleType("settings_of_a_user")
    settings.k, settings.w = 2, ones()
    names = {"settings": settings, "__name__": "program_of_a_user"}
    exec("def scaled(x): return x * settings.k * settings.w", names)
    f = compile(names["scaled"])
    thrice(f, ones())
    settings.k = 5
    found = f(ones())
    settings.w = torch.zeros(2)
    return found, f(ones())


# -- classes, functions and tensors with attributes ------------------------------------------------------------------


@scenario
def an_attribute_of_a_class(compile):
    class Net(nn.Module):
        scale = 2

        def forward(self, x):
            return x * self.scale

    f = compile(Net())
    thrice(f, ones())
    Net.scale = 5
    return f(ones())


@scenario
def an_attribute_of_a_class_that_is_a_tensor(compile):
    class Base(nn.Module):
        table = ones()

    class Net(Base):
        def forward(self, x):
            return x * self.table

    f = compile(Net())
    thrice(f, ones())
    Base.table = torch.zeros(2)
    return f(ones())


@scenario
def an_attribute_of_a_class_that_is_never_made(compile):
    class Settings:
        scale, others = 2, [3]

    f = compile(lambda x: x * Settings.scale * Settings.others[0])
    thrice(f, ones())
    Settings.scale = 5
    found = f(ones())
    Settings.others[0] = 7
    return found, f(ones())


@scenario
def a_method_that_is_replaced(compile):
    class Net(nn.Module):
        def scaled(self, x):
            return x * 2

        def forward(self, x):
            return self.scaled(x)

    f = compile(Net())
    thrice(f, ones())
    Net.scaled = lambda self, x: x * 5
    found = f(ones())
    Net.forward = lambda self, x: x * 7
    return found, f(ones())


@pytest.mark.parametrize("kind", ["method", "property", "staticmethod", "classmethod", "operator"])
def test_a_variable_that_a_method_names_is_seen(kind):
    bodies = {
        "method": "def scaled(self, x): return x * k\n  def forward(self, x): return self.scaled(x)",
        "property": "@property\n  def scale(self): return k\n  def forward(self, x): return x * self.scale",
        "staticmethod": "@staticmethod\n  def scaled(x): return x * k\n  def forward(self, x): return self.scaled(x)",
        "classmethod": "@classmethod\n  def scaled(cls, x): return x * k\n  def forward(self, x): return Net.scaled(x)",
        "operator": "def __matmul__(self, x): return x * k\n  def forward(self, x): return self @ x",
    }
    names = {"Module": nn.Module, "k": 2, "__name__": "program_of_a_user"}
    exec(f"class Net(Module):\n  {bodies[kind]}", names)
    f = torch.compile(names["Net"]())
    thrice(f, ones())
    names["k"] = 5
    assert f(ones()).tolist() == [5.0, 5.0]


@scenario
def a_class_that_counts(compile):
    class Net(nn.Module):
        calls = 0

        def forward(self, x):
            Net.calls += 1
            return x * Net.calls

    f = compile(Net())
    return [f(ones()) for _ in range(4)], Net.calls


@scenario
def a_class_that_loses_an_attribute(compile):
    class Base:
        def scaled(self, x):
            return x * 2

    class Derived(Base):
        def scaled(self, x):
            return x * 3

    d = Derived()

    def step(x):
        y = d.scaled(x)
        if "scaled" in Derived.__dict__:
            del Derived.scaled
        return y

    f = compile(step)
    return [f(ones()) for _ in range(4)], "scaled" in vars(Derived)


class Scaling:
    scale = 2

    def scaled(self, x):
        return x * self.scale


@scenario
def a_class_that_overrides_an_attribute_later(compile):
    class Derived(Scaling):
        pass

    d = Derived()
    f = compile(lambda x: d.scaled(x))
    thrice(f, ones())
    Derived.scale = 3
    one = f(ones())
    Derived.scaled = lambda self, x: x - self.scale
    return one, f(ones())


@scenario
def a_class_that_has_an_attribute_later(compile):
    class Plain:
        pass

    d = Plain()
    f = compile(lambda x: x * (2 if hasattr(d, "flag") else 3))
    thrice(f, ones())
    Plain.flag = True
    return f(ones())


@scenario
def a_class_that_gets_other_bases(compile):
    class Other:
        def scaled(self, x):
            return x * 7

    class Derived(Scaling):
        pass

    d = Derived()
    f = compile(lambda x: d.scaled(x))
    thrice(f, ones())
    Derived.__bases__ = (Other,)
    return f(ones())


@scenario
def an_object_that_gets_another_dict_of_attributes(compile):
    d = Scaling()
    f = compile(lambda x: d.scaled(x))
    thrice(f, ones())
    d.__dict__ = {"scale": 3}
    return f(ones())


@scenario
def a_module_of_a_library_that_gets_another_class(compile):
    class Doubled(torch.nn.Linear):
        def forward(self, input):
            return super().forward(input) * 2

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    f = compile(lambda x: module(x).detach())
    thrice(f, ones())
    module[0].__class__ = Doubled
    return f(ones())


@scenario
def an_object_with_slots_that_gets_another_dict_of_attributes(compile):
    class Slotted(Scaling):
        __slots__ = ("slot",)

        def count(self, x):
            self.n += 1
            return x * self.n

    d = Slotted()
    d.n = 0
    f = compile(d.count)
    thrice(f, ones())
    d.__dict__ = dict(d.__dict__)
    f(ones())
    return f(ones()), d.n


@scenario
def a_method_that_is_called_by_its_name(compile):
    class Derived(Scaling):
        pass

    d, call, factor = Derived(), operator.methodcaller("scaled", ones()), operator.itemgetter(0)
    f = compile(lambda x: x * call(d) * factor([2.0]))
    thrice(f, ones())
    Scaling.scaled, scaled = (lambda self, x: x * 9), Scaling.scaled
    try:
        return f(ones())
    finally:
        Scaling.scaled = scaled


@scenario
def a_variable_that_is_deleted(compile):
    names = {"scale": 3, "__name__": "program_of_a_user"}
    exec(
        """
def scaled(x):
    global scale
    if "scale" in globals():
        del scale
        return x * 3
    return x * 2
""",
        names,
    )
    f = compile(names["scaled"])
    return [f(ones()) for _ in range(4)], "scale" in names


@scenario
def the_code_of_a_function(compile):
    def scaled(x):
        return x * 2

    def other(x):
        return x * 5

    f = compile(lambda x: scaled(x))
    thrice(f, ones())
    scaled.__code__ = other.__code__
    return f(ones())


@scenario
def the_defaults_of_a_function(compile):
    def scaled(x, k=2, *, n=3):
        return x * k * n

    f = compile(lambda x: scaled(x))
    thrice(f, ones())
    scaled.__defaults__ = (5,)
    found = f(ones())
    scaled.__kwdefaults__ = {"n": 7}
    return found, f(ones())


@scenario
def an_attribute_of_a_tensor(compile):
    w = ones()
    w.scale = 2
    f = compile(lambda x: x * w * w.scale)
    thrice(f, ones())
    w.scale = 5
    found = f(ones())
    del w.scale
    w.scale = 7
    return found, f(ones())


@scenario
def a_version_as_a_number(compile):
    w = torch.zeros(2)
    f = compile(lambda x: (w.add_(1), x * w._version)[1])
    return [f(ones()) for _ in range(4)]


@scenario
def an_attribute_of_an_argument(compile):
    f = compile(lambda x: x * x.scale)
    x = ones()
    x.scale = 2
    thrice(f, x)
    x.scale = 5
    return f(x)


@scenario
def a_container_in_an_attribute_of_a_tensor(compile):
    w = ones()
    w.scales = {"x": 2}
    f = compile(lambda x: x * w * w.scales["x"])
    thrice(f, ones())
    w.scales["x"] = 5
    return f(ones())


@scenario
def an_attribute_of_a_class_of_tensors(compile):
    class Scaled(torch.Tensor):
        scale = 2

        def scaled(self, x):
            return x * self.scale

    w = ones().as_subclass(Scaled)
    f = compile(lambda x: w.scaled(x))
    thrice(f, ones())
    Scaled.scale = 5
    return f(ones())


@scenario
def attributes_of_a_dict_and_a_list(compile):
    class Settings(dict):
        pass

    class Scales(list):
        pass

    settings, scales = Settings(), Scales([1])
    settings.scale = scales.scale = 2
    f = compile(lambda x: x * settings.scale * scales.scale)
    thrice(f, ones())
    settings.scale = 3
    found = f(ones())
    scales.scale = 5
    return found, f(ones())


@scenario
def an_object_that_changes_its_class(compile):
    class Double:
        def scaled(self, x):
            return x * 2

    class Triple:
        def scaled(self, x):
            return x * 3

    scale = Double()
    f = compile(lambda x: scale.scaled(x))
    thrice(f, ones())
    scale.__class__ = Triple
    return f(ones())


@scenario
def an_attribute_of_a_function(compile):
    def scaled(x):
        return x * scaled.scale

    scaled.scale = 2
    f = compile(lambda x: scaled(x))
    thrice(f, ones())
    scaled.scale = 5
    return f(ones())


@scenario
def a_constant_name_of_an_attribute(compile):
    class Settings:
        scale = 2

    settings = Settings()
    f = compile(lambda x: x * getattr(settings, "scale"))  # noqa: B009
    thrice(f, ones())
    Settings.scale = 5
    return f(ones())


@scenario
def a_property_of_a_metaclass(compile):
    class Meta(type):
        scale = 2

        @property
        def doubled(cls):
            return 2 * cls.scale

    class Settings(metaclass=Meta):
        pass

    f = compile(lambda x: x * Settings.doubled)
    thrice(f, ones())
    Meta.scale = 5
    return f(ones())


@scenario
def an_object_that_is_made_inside(compile):
    scale = 2

    class Base:
        def __init__(self):
            self.scale = scale

    class Derived(Base):
        def __init__(self):
            super().__init__()

    f = compile(lambda x: x * Derived().scale)
    thrice(f, ones())
    scale = 5
    found = f(ones())

    def init(self):
        self.scale = 7

    Base.__init__ = init
    return found, f(ones())


@scenario
def the_fields_of_a_data_class_that_is_made_inside(compile):
    scale = 2

    @dataclasses.dataclass
    class Settings:
        scale: float = dataclasses.field(default_factory=lambda: scale)

    f = compile(lambda x: x * Settings().scale)
    thrice(f, ones())
    scale = 5
    return f(ones())


@scenario
def an_object_that_is_made_once(compile):
    class Single:
        made = None

        def __new__(cls):
            if cls.made is None:
                cls.made = object.__new__(cls)
                cls.made.total = torch.zeros(2)
            return cls.made

        def add(self, x):
            self.total = self.total + x
            return self.total * 1

    f = compile(lambda x: Single().add(x))
    return [f(ones()) for _ in range(4)], Single.made.total


@scenario
def the_backward_of_a_custom_function(compile):
    scale = 2

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * scale

    f = compile(lambda x: Scaled.apply(x))

    def gradient():
        x = ones(requires_grad=True)
        f(x).sum().backward()
        return x.grad

    thrice(gradient)
    scale = 5
    found = gradient()
    Scaled.backward = staticmethod(lambda ctx, g: g * 7)
    return found, gradient()


@scenario
def a_method_that_only_the_library_calls(compile):
    scale = 2

    class Scaled(torch.distributions.Transform):
        bijective = True

        def _call(self, x):
            return x * scale

    class Dispatched:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return args[1] * scale

    transform, dispatched = Scaled(), Dispatched()
    f, g = compile(lambda x: transform(x)), compile(lambda x: torch.mul(dispatched, x))
    thrice(f, ones())
    thrice(g, ones())
    scale = 5
    return f(ones()), g(ones())


@pytest.mark.parametrize("name", ["jax_models", "numpy_models", "fgrad_models", "package.models"])
def test_a_module_of_the_user_may_be_named_like_a_library(name):
    module = types.ModuleType(name)
    exec("k = 2\ndef scaled(x): return x * k", vars(module))
    scaled = module.scaled
    f = torch.compile(lambda x: scaled(x))
    thrice(f, ones())
    module.k = 5
    assert f(ones()).tolist() == [5.0, 5.0]


@pytest.mark.parametrize("statement", ["import settings_inside as s", "from settings_inside import k", "s = package.s"])
def test_a_module_that_is_imported_or_found_inside_is_seen(monkeypatch, statement):
    settings, package = types.ModuleType("settings_inside"), types.ModuleType("package_inside")
    settings.k, package.s = 2, settings
    monkeypatch.setitem(sys.modules, "settings_inside", settings)
    names = {"__name__": "program_of_a_user", "package": package}
    value = "k" if statement.endswith("k") else "s.k"
    exec(f"def scaled(x):\n  {statement}\n  return x * {value}", names)
    f = torch.compile(names["scaled"])
    thrice(f, ones())
    settings.k = 5
    assert f(ones()).tolist() == [5.0, 5.0]


def test_slots_that_a_property_hides_are_restored():
    class Number:
        __slots__ = ("n", "unbound")

    class Constant(Number):
        n = property(lambda self: (object(),))  # another tuple each time, as of mpmath's pi

    d = Constant()
    Number.n.__set__(d, 2)

    def step(x):
        Number.n.__set__(d, 5)
        return x * len(d.n) + torch.ones(7)

    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        torch.compile(step)(ones())
    assert Number.n.__get__(d) == 5


# -- numbers, defaults and caches ------------------------------------------------------------------------------------


@scenario
def the_sign_of_a_zero_in_an_attribute_of_a_tensor(compile):
    x = ones()
    f = compile(lambda x: torch.copysign(x, torch.tensor(x.zero)))
    x.zero = 0.0
    thrice(f, x)
    x.zero = -0.0
    return f(x)


@scenario
def the_sign_of_a_zero_that_a_call_sets(compile):
    kept, signs = {"zero": 0.0}, []

    def function(x):
        kept["zero"] = -0.0
        return x

    f = compile(function)
    for _ in range(3):
        kept["zero"] = 0.0
        f(ones())
        signs.append(str(kept["zero"]))
    return signs


@scenario
def keyword_defaults(compile):
    def scaled(x, *, scale=1.0):
        return x * scale

    f = compile(lambda x: scaled(x))
    thrice(f, ones())
    scaled.__kwdefaults__["scale"] = 3.0
    one = f(ones())
    scaled.__kwdefaults__ = {"scale": 4.0}
    return one, f(ones())


@scenario
def keyword_defaults_that_a_call_sets(compile):
    def scaled(x, *, scale=1.0):
        return x * scale

    def function(x):
        scaled.__kwdefaults__["scale"] += 1
        return scaled(x)

    f, found = compile(function), []
    for _ in range(4):
        found += [f(ones()), scaled.__kwdefaults__["scale"]]
    return found


def cached(name, cache):
    """A scenario: what a function has kept is used, cleared, and made again of another number."""

    def run(compile):
        state = {"scale": 1}

        @cache
        def scales(i):
            return ones() * state["scale"] * i

        f, found = compile(lambda x, i: x * scales(i)), []
        for scale in (1, 2, 3):
            state["scale"] = scale
            found += [f(ones(), i) for i in (1, 1, 1, 2, 1)]
            scales(1).add_(1)
            found += [f(ones(), 1), scales(1), scales.cache_info().currsize]
            scales.cache_clear()
        return found

    SCENARIOS.append(pytest.param(run, id=name))


for _name, _cache in (("a cache", functools.cache), ("a cache of limited size", functools.lru_cache(8))):
    cached(_name, _cache)


@scenario
def a_cache_that_an_error_leaves(compile):
    @functools.cache
    def scale(i):
        return ones() * i

    @compile
    def f(x):
        y = x * scale(2)
        raise ValueError(y.shape)

    with pytest.raises(ValueError):
        f(ones())
    return scale(2), scale.cache_info().currsize


@scenario
def a_context_variable(compile):
    variable, kept = contextvars.ContextVar("scale"), []
    variable.set(2.0)

    def function(x):
        y = x * variable.get()
        variable.set(y.sum().item())
        return y

    f = compile(lambda x: x * variable.get())
    thrice(f, ones())
    variable.set(5.0)
    kept.append(f(ones()))
    variable.set(ones() * 3)
    kept.append(f(ones()))
    variable.set(0.25)
    f = compile(function)
    for _ in range(4):
        kept += [f(ones()), variable.get(), type(variable.get())]
    return kept


@scenario
def a_module_in_an_attribute(compile):
    settings, kept = types.ModuleType("settings"), []
    settings.scale, settings.count, settings.held = 2.0, 0, types.SimpleNamespace(module=settings)

    def function(x):
        settings.held.module.count += 1
        return x * settings.held.module.scale

    holder = types.SimpleNamespace(module=settings)
    f, g = compile(lambda x: x * holder.module.scale), compile(function)
    for scale in (2.0, 5.0, ones()):
        settings.scale = scale
        for each in (f, g):
            thrice(each, ones())
            kept += [each(ones()), settings.count]
    return kept


@scenario
def an_object_of_ctypes(compile):
    scale, scales, kept = ctypes.c_float(2.0), (ctypes.c_float * 2)(1.0, 2.0), []

    def function(x):
        scale.value += 1
        return x * scale.value

    f = compile(lambda x: x * scale.value * scales[0])
    thrice(f, ones())
    scale.value = 3.0
    kept.append(f(ones()))
    scales[0] = 4.0
    kept.append(f(ones()))
    f = compile(function)
    for _ in range(4):
        kept += [f(ones()), scale.value]
    return kept


@scenario
def a_cell(compile):
    cell, kept = types.CellType(2.0), []

    def function(x):
        y = x * cell.cell_contents
        cell.cell_contents = y.sum()
        return y

    f = compile(lambda x: x * cell.cell_contents)
    thrice(f, ones())
    cell.cell_contents = 5.0
    kept.append(f(ones()))
    cell.cell_contents = ones() * 3
    kept.append(f(ones()))
    f = compile(function)
    for _ in range(4):
        kept += [f(ones()), cell.cell_contents, type(cell.cell_contents)]
    return kept


@scenario
def attributes_of_a_thread(compile):
    local = threading.local()
    local.scale, local.calls = 2.0, 0

    def function(x):
        local.calls += 1
        return x * local.scale

    f = compile(function)
    thrice(f, ones())
    local.scale = 3.0
    return f(ones()), local.calls


@scenario
def a_queue(compile):
    source = queue.SimpleQueue()

    def function(x):
        y = x * source.get()
        source.put(float(len(x)))
        return y

    f, found = compile(function), []
    for i in range(4):
        source.put(i)
        found.append(f(ones()))
    return found, source.qsize()


@scenario
def the_default_device(compile):
    f = compile(lambda x: torch.zeros(2).device.type)
    found = [f(ones()) for _ in range(3)]
    with torch.device("meta"):
        found.append(f(ones(device="cpu")))
    torch.set_default_device("meta")
    found.append(f(ones(device="cpu")))
    torch.set_default_device(None)
    return found, f(ones())


@scenario
def numbers_of_an_optimiser_that_the_function_reads(compile):
    w = ones(requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.5)

    def function(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        group = optimizer.param_groups[0]
        return x * group["lr"], x * group["betas"][0]

    f, found = compile(function), []
    for i in range(6):
        optimizer.param_groups[0]["lr"] = 0.5**i
        optimizer.param_groups[0]["betas"] = (0.5 if i > 3 else 0.25, 0.875)
        found += f(ones())
    return found


@scenario
def tuples_that_a_call_sets(compile):
    kept = {"shape": None, "pair": (0, "a"), "place": (0, 0), "steps": 0}

    def function(x):
        kept["steps"] += 1
        kept["shape"], kept["pair"] = x.shape, (kept["steps"] * 2, "b")
        kept["place"] = kept["place"][0] + 1, 0
        return x * kept["place"][0]

    f, found = compile(function), []
    for i in range(6):
        found += [f(ones(2 + i % 2)), {**kept}, [type(x) for x in (kept["shape"], *kept["pair"], *kept["place"])]]
    return found


@scenario
def a_dict_whose_order_a_call_changes(compile):
    kept = OrderedDict(a=1.0, b=2.0)

    def function(x):
        kept.move_to_end("a")
        return x * next(iter(kept.values()))

    f = compile(function)
    found = [(f(ones()), [*kept]) for _ in range(3)]
    kept.move_to_end("b")
    return found, f(ones()), [*kept]


class Options(dict):
    """A dict whose entries are attributes; it raises ``KeyError`` for others."""

    __slots__ = ()
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@scenario
def a_dict_whose_attributes_are_its_entries(compile):
    options = Options(rate=1.0, steps=0)

    def function(x):
        options.steps += 1
        return x * options.rate + options.steps

    f = compile(function)
    found = [f(ones()) for _ in range(4)]
    options.rate = 3.0
    return found, f(ones()), options.steps


@scenario
def elements_of_an_array_of_numpy(compile):
    scales, counts = np.ones(2, np.float32), np.zeros(2)

    def function(x, extra):
        counts[0] += 1
        return x * torch.from_numpy(scales * extra)

    f, extra = compile(function), np.ones(2, np.float32)
    thrice(f, ones(), extra)
    scales[0] = 3
    one = f(ones(), extra)
    extra[1] = 5
    return one, f(ones(), extra), f(ones(), np.zeros(2, np.float32)), counts.tolist()


@scenario
def arrays_of_python_and_the_dict_behind_a_proxy(compile):
    scales, letters, settings = array.array("d", [1.0]), bytearray(b"a"), {"shift": 1.0}
    shown = types.MappingProxyType(settings)
    f = compile(lambda x: x * scales[0] + letters[0] + shown["shift"])
    thrice(f, ones())
    scales[0] = 3.0
    one = f(ones())
    letters[0] = 1
    two = f(ones())
    settings["shift"] = 5.0
    return one, two, f(ones())


@scenario
def an_array_of_numpy_in_the_memory_of_a_tensor(compile):
    w = ones()
    shown, found = w.numpy(), []

    def function(x):
        w.add_(x)
        shown[0] += 1
        return float(shown.sum()), w * 1

    f = compile(function)
    for _ in range(3):
        found += [f(ones()), shown.tolist()]
    return found


# -- modules note what is written to them ----------------------------------------------------------------------------


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.register_buffer("shift", torch.zeros(2))
        self.inner = nn.Identity()

    def forward(self, x):
        return self.inner(x) * self.scale + self.shift


def of_a_module(change):
    """A scenario: a module, compiled, to which something is done after some calls."""

    def run(compile):
        module = Scaled()
        f = compile(lambda x: module(x))
        thrice(f, ones())
        change(module)
        found = f(ones())
        thrice(f, ones())
        return found, f(ones())

    SCENARIOS.append(pytest.param(run, id=change.__name__))
    return run


@of_a_module
def an_attribute_in_the_dict_of_a_module(module):
    module.__dict__["scale"] = 5.0


@of_a_module
def an_attribute_by_vars_of_a_module(module):
    vars(module).update(scale=5.0)


@of_a_module
def another_dict_of_a_module(module):
    module.__dict__ = {**module.__dict__, "scale": 5.0}
    module.scale = 3.0


@of_a_module
def an_attribute_that_a_module_loses(module):
    Scaled.scale = 7.0
    del module.scale


@of_a_module
def an_entry_of_a_table_of_a_module(module):
    module._buffers["shift"] = ones()


@of_a_module
def another_table_of_a_module(module):
    module._buffers = {"shift": ones()}
    module._buffers["shift"] = 2 * ones()


@of_a_module
def a_child_in_the_table_of_a_module(module):
    module._modules.update(inner=nn.Tanh())


@of_a_module
def a_hook_in_the_table_of_a_module(module):
    module._forward_hooks[0] = lambda module, args, out: out * 2


@of_a_module
def a_module_that_is_loaded(module):
    module.__setstate__({**module.__dict__, "scale": 5.0})


@scenario
def the_dict_of_a_module_that_was_kept(compile):
    module = Scaled()
    held = vars(module)
    f = compile(lambda x: module(x))
    thrice(f, ones())
    held["scale"] = 5.0
    return f(ones())


@scenario
def the_dict_of_a_module_that_was_asked_for_between_calls(compile):
    module = Scaled()
    f = compile(lambda x: module(x))
    thrice(f, ones())
    held = vars(module)
    first = f(ones())
    held["scale"] = 5.0
    return first, f(ones())


@scenario
def the_table_of_a_module_that_was_kept(compile):
    module = Scaled()
    held = module._parameters
    module.weight = nn.Parameter(ones())
    f = compile(lambda x: module(x) * module.weight)
    thrice(f, ones())
    held["weight"] = nn.Parameter(2 * ones())
    return f(ones())


@scenario
def parameters_that_are_swapped_and_moved(compile):
    module = Scaled()
    module.weight = nn.Parameter(ones())
    f = compile(lambda x: module(x) * module.weight)
    thrice(f, ones())
    swapped = torch.func.functional_call(module, {"shift": 2 * ones()}, ones())
    module.register_parameter("weight", nn.Parameter(2 * ones()))
    first = f(ones())
    module.double()
    return swapped, first, f(ones().double())


@scenario
def a_module_that_sets_its_attributes_itself(compile):
    class Own(Scaled):
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

    module = Scaled()
    module.__class__ = Own
    f = compile(lambda x: module(x))
    thrice(f, ones())
    module.scale = 5.0
    return f(ones())


@scenario
def a_copy_of_a_module(compile):
    module = copy.deepcopy(Scaled())
    f = compile(lambda x: module(x))
    thrice(f, ones())
    module._buffers["shift"] = ones()
    return f(ones())


class Kept(dict):
    """A dict whose base's methods are called."""


def scenario_of_a_held_dict(name, make):
    def a_change_of_a_held_dict(compile):
        kept = Kept(scale=2)
        f = compile(make(kept))
        thrice(f, ones())
        kept["scale"] = 3
        return f(ones())

    SCENARIOS.append(pytest.param(a_change_of_a_held_dict, id=f"a_dict_behind_{name}"))


scenario_of_a_held_dict("a_method", lambda kept: (lambda get: lambda x: x * get("scale"))(kept.get))
scenario_of_a_held_dict("an_operator", lambda kept: (lambda get: lambda x: x * get("scale"))(kept.__getitem__))
scenario_of_a_held_dict("a_view", lambda kept: (lambda values: lambda x: x * sum(values))(kept.values()))
scenario_of_a_held_dict("a_super", lambda kept: (lambda base: lambda x: x * base.get("scale"))(super(Kept, kept)))


@scenario
def bytes_behind_a_view(compile):
    kept = bytearray([2])
    view = memoryview(kept)
    f = compile(lambda x: x * view[0])
    thrice(f, ones())
    kept[0] = 3
    return f(ones())


def shown(found):
    if isinstance(found, list | tuple):
        return [shown(x) for x in found]
    return (found.tolist(), found.requires_grad) if isinstance(found, torch.Tensor) else found


@pytest.mark.parametrize("function", SCENARIOS)
def test_a_change_is_seen(function):
    assert shown(function(torch.compile)) == shown(function(lambda f: f))


class Trainer:
    rate = 0.5

    def __init__(self):
        self.count, self.losses, self.weight, self.extra = 0, [], ones(2, requires_grad=True), ones()

    def scale(self):
        return self.factor if hasattr(self, "factor") else self.rate

    def step(self, x):
        return (self.weight * x).sum() * self.rate

    def named(self, x):
        return x * getattr(self, "ex" + "tra")

    def indirect(self, x):
        return x * self.scale()


@scenario
def an_attribute_that_shadows_that_of_the_class(compile):
    trainer = Trainer()
    f = compile(trainer.step)
    thrice(f, ones())
    trainer.rate = 3.0
    return f(ones())


@scenario
def an_attribute_whose_name_is_put_together(compile):
    trainer = Trainer()
    f = compile(trainer.named)
    thrice(f, ones())
    trainer.extra = ones() * 5
    return f(ones())


@scenario
def an_attribute_that_a_called_method_looks_for(compile):
    trainer = Trainer()
    f = compile(trainer.indirect)
    thrice(f, ones())
    trainer.factor = 4.0
    return f(ones())


@scenario
def an_attribute_that_a_pattern_names(compile):
    def f(trainer, x):
        match trainer:
            case Trainer(count=0):
                return x
            case _:
                return x * 2

    trainer = Trainer()
    f = compile(lambda x, f=f: f(trainer, x))
    thrice(f, ones())
    trainer.count = 1
    return f(ones())


@scenario
def an_attribute_that_a_getter_of_attributes_reads(compile):
    trainer, extra = Trainer(), operator.attrgetter("extra")
    f = compile(lambda x: x * extra(trainer))
    thrice(f, ones())
    trainer.extra = ones() * 5
    return f(ones())


# -- what is no change -----------------------------------------------------------------------------------------------


def recorded(f):
    return f._compiled.recorded


def test_new_views_and_new_gradients_need_no_other_program():
    f = torch.compile(lambda v: (v * 2).sum())
    g = torch.compile(lambda p: (p * p.grad).sum().detach())
    for i in range(5):
        assert f(torch.full((4,), float(i))[:2]).item() == 4 * i
        p = ones(requires_grad=True)
        p.grad = torch.full((2,), float(i))
        assert g(p).item() == 2 * i
    assert recorded(f) == recorded(g) == 1


def test_the_version_of_what_was_made_inside_is_the_same_at_each_call():
    f = torch.compile(lambda x: x * (x * 2).add_(1)._version)
    for _ in range(3):
        assert f(ones()).tolist() == [1.0, 1.0]
    assert [each.refused for each in f._compiled.programs[next(iter(f._compiled.programs))]] == [None]


def test_an_attribute_of_a_class_that_nobody_mentions_needs_no_other_program():
    class Net(nn.Module):
        author = "one"

        def __repr__(self):
            return self.author

        def forward(self, x):
            return x * 2

    net = Net()
    f = torch.compile(lambda x: net(x))
    thrice(f, ones())
    Net.author = "another"
    thrice(f, ones())
    assert recorded(f) == 1


@pytest.mark.parametrize("what", ["a number", "a list", "a list of tensors", "a tensor", "an object"])
def test_what_a_trainer_keeps_besides_needs_no_other_program(what):
    trainer = Trainer()

    def change(loss):
        match what:
            case "a number":
                trainer.count += 1
            case "a list":
                trainer.losses.append(loss.item())
            case "a list of tensors":
                trainer.losses.append(loss)
            case "a tensor":
                trainer.extra = loss
            case "an object":
                trainer.losses = Trainer()

    f = torch.compile(trainer.step)
    change(f(ones()))
    change(f(ones()))
    before = recorded(f)
    for _ in range(10):
        change(f(ones()))
    assert recorded(f) == before


def test_an_attribute_of_a_class_is_no_method_that_is_called():
    class Meter:
        step = 0

    class Net(nn.Linear):
        meter = Meter()

        def forward(self, x):
            return super().forward(x) if self.meter else x

    net = Net(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def train(optimizer, x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    f = torch.compile(train)
    thrice(f, optimizer, ones())
    before = recorded(f)
    for _ in range(3):
        Meter.step += 1
        f(optimizer, ones())
    assert recorded(f) == before


def test_a_class_is_forgotten_with_its_program():
    def run():
        class Plain:
            def scaled(self, x):
                return x * 2

        plain = Plain()
        f = torch.compile(lambda x: plain.scaled(x))
        thrice(f, ones())
        return weakref.ref(Plain)

    gone = run()
    gc.collect()
    assert gone() is None


def test_a_class_need_not_have_a_hash():
    class Meta(type):
        def __eq__(cls, other):
            return cls is other

    class Settings(metaclass=Meta):
        scale = 2

    settings = Settings()
    f = torch.compile(lambda x: x * Settings.scale * settings.scale)
    thrice(f, ones())
    Settings.scale = 3
    assert f(ones()).tolist() == [9.0, 9.0]


def test_a_state_that_is_passed_and_kept_needs_no_other_program():
    class State:
        pass

    state = State()
    state.h = torch.zeros(2)

    def advance(x, h):
        state.h = h + x
        return state.h

    f = torch.compile(advance)
    h = state.h
    for _ in range(5):
        h = f(ones(), h)
    assert h.tolist() == [5.0, 5.0] and recorded(f) == 1
    assert f(ones(), torch.zeros(2)).tolist() == [1.0, 1.0]


def test_what_a_call_sets_where_there_was_no_tensor_is_guarded():
    class State:
        scale, seen = None, False

    def training():
        state = State()
        state.scale, state.seen = None, False

        def step(x):
            if state.scale is None:
                state.scale = torch.full((1,), 4.0)
            factor = 3 if state.seen else 1
            state.seen = True
            return x * state.scale * factor

        return state, step

    (state, step), (other, uncompiled) = training(), training()
    compiled = torch.compile(step)
    for _ in range(4):
        assert compiled(torch.ones(1)).item() == uncompiled(torch.ones(1)).item()
        state.scale.add_(1)
        other.scale.add_(1)
    assert recorded(compiled) == 2


def test_numbers_that_change_at_each_call_give_no_warning():
    w = torch.ones(2)
    scale = 1.0

    def f(x, n, rate):
        return x * w * n + scale * rate

    compiled, bound = torch.compile(f), torch.compile(lambda x: x * scale)
    for k in range(1, 12):
        assert compiled(torch.ones(2), k, 1 / k).tolist() == f(torch.ones(2), k, 1 / k).tolist()
        assert compiled(torch.ones(2), 1, torch.float32.itemsize / 4).tolist() == [1 + scale] * 2
        scale = k / 4
        assert bound(torch.ones(2)).tolist() == [scale] * 2


def test_hooks_and_counters_give_no_warning():
    class Log:
        steps = 0

    log, model = Log(), nn.Linear(2, 1)
    model.register_forward_hook(lambda *_: fired.append(log.steps))
    fired = []

    def step(x):
        log.steps += 1
        return model(x)

    compiled = torch.compile(step)
    for _ in range(12):
        compiled(ones())
    assert fired == [*range(1, 13)]


def test_a_scale_that_a_scaler_changes_outside_needs_no_other_program():
    w = ones(requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    backward = torch.compile(lambda x: scaler.scale((w * x).sum()).backward())
    for _ in range(6):
        optimizer.zero_grad()
        backward(ones())
        scaler.step(optimizer)
        scaler.update()
    assert w.tolist() == pytest.approx([0.4, 0.4]) and scaler.get_scale() == 32 and recorded(backward) == 2


@pytest.mark.parametrize("steps", [2, 4])
def test_devices_are_guarded(steps):
    model = torch.nn.Linear(2, 1)
    compiled = torch.compile(lambda x: model(x).detach())
    for _ in range(steps):
        compiled(torch.ones(1, 2))
    elsewhere = torch.ones(1, 2, device="meta")
    for function in (compiled, model):
        with pytest.raises(RuntimeError, match="is not on the expected device"):
            function(elsewhere)
    model.to("meta")
    assert compiled(elsewhere).device.type == "meta"


# -- code that is executed in a namespace without a name --------------------------------------------------------------

EXECUTED = """
scale = 2.0

class Holder:
    power = 1

holder = Holder()

def built():
    shift = 1.0

    def function(x):
        return (x * scale + shift) ** holder.power

    def change(kind):
        global scale
        nonlocal shift
        if kind == "global":
            scale = 3.0
        elif kind == "attribute":
            holder.power = 2
        else:
            shift = 2.0

    return function, change
"""


@pytest.mark.parametrize("kind", ["global", "attribute", "variable"])
def test_code_without_a_module_is_guarded(kind):
    namespace = {"torch": torch}
    exec(EXECUTED, namespace)
    function, change = namespace["built"]()
    compiled = torch.compile(function)
    for _ in range(2):
        for _ in range(3):
            assert compiled(torch.tensor(2.0)) == function(torch.tensor(2.0))
        change(kind)


#: the first calls of functions, in a process of its own, since each learns the classes of its arguments
FIRST_CALLS = """
import fgrad.torch as torch
from fgrad.torch import acos
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.functional import linear

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.activation, self.others = F.celu, [F.layer_norm, F.cosine_similarity]
    def forward(self, x):
        x = self.activation(linear(x, acos(x)))
        return self.others[1](self.others[0](x, (3,)), x, dim=0)

network = Network()
compiled = torch.compile(lambda x: network(x))
compiled(torch.rand(3, 3))
programs = [p for each in compiled._compiled.programs.values() for p in each]
print([p.refused for p in programs])
"""


def test_a_function_of_this_layer_that_the_user_holds_is_no_state():
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True)
    assert done.stdout == "[None]\n", done.stderr


BLOCKS = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no_grad": torch.no_grad,
    "set_grad_enabled": lambda: torch.autograd.grad_mode.set_grad_enabled(True),
    "saved_tensors_hooks": lambda: torch.autograd.graph.save_on_cpu(),
    "inference_mode": lambda: torch.inference_mode(False),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_modes_that_is_entered_again_is_no_state(name):
    block, w = BLOCKS[name](), torch.ones(2, 2, requires_grad=True)

    def function(x):
        with block:
            return x @ w

    call, x = torch.compile(function), torch.full((2, 2), 0.1)
    for _ in range(3):
        assert call(x).tolist() == function(x).tolist()
    (program,) = [p for each in call._compiled.programs.values() for p in each]
    assert program.refused is None
