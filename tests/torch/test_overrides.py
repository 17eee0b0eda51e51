"""``__torch_function__``: every public function, method and attribute asks for it, in PyTorch's order and manner.

What handlers are given call by call stands in ``programs/extending.py`` and ``programs/subclasses.py``, with what
PyTorch prints of them.
"""

import contextlib
import copy
import importlib
import importlib.util
import inspect
import io
import pickle
import threading
import warnings
from types import FunctionType

import pytest

import fgrad.torch as torch
from fgrad.mutable.context.torch_function.protocol import Rule, watch
from fgrad.mutable.context.torch_function.wrap import Attribute, BuiltIn
from fgrad.torch.methods import overridable
from fgrad.torch.ops.table.dispatch import FUNCTIONAL
from fgrad.torch.ops.table.table import TABLE
from fgrad.torch.refused import REFUSED

theirs = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
needs_torch = pytest.mark.skipif(theirs is None, reason="real torch is the oracle")

asked = []


class Duck:
    """No tensor, but answers calls."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        asked.append((func, types, args, kwargs))
        return -1


class Answers(torch.Tensor):
    """A class of tensors that answers everything itself."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        asked.append((func, types, args, kwargs))
        return -1


class Mine(torch.Tensor):
    """A class of tensors with the handler that all have."""


class Log(torch.overrides.TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(torch.overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def forgotten():
    asked.clear()


def required(function, value):
    """Arguments for the parameters of a function that have no default."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    override = getattr(function, "override", None)
    signature = (override and override.signature) or inspect.signature(function)
    parameters = signature.parameters.values()
    return [value for p in parameters if p.default is p.empty and p.kind in kinds]


# -- nothing is forgotten --------------------------------------------------------------------------------------------

#: functions of the table that never ask, as in PyTorch
FUNCTIONS_CLOSED = {
    name for name, row in TABLE.items() if row.dispatch is not None and row.dispatch.rule in (None, Rule.FACTORY)
}
PUBLIC = [name for name, entry in TABLE.items() if (entry.function or "." in name) and name not in FUNCTIONS_CLOSED]


def member(name):
    """A function of the table as users reach it."""
    found = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_every_function_of_the_table_asks(name):
    function = member(name)
    duck = Duck()
    assert function(*(required(function, duck) or [duck])) == -1
    assert asked[0][0] is function
    assert asked[0][1] == (Duck,)


DO_NOT_ASK = [
    *("is_tensor", "from_numpy", "from_dlpack", "to_dlpack", "tensor", "as_tensor", "asarray", "frombuffer"),
    *(name for name in FUNCTIONS_CLOSED if name.startswith(FUNCTIONAL)),
]


@pytest.mark.parametrize("name", sorted(DO_NOT_ASK))
def test_what_does_not_ask(name):
    """Functions that make tensors of anything, or call others that ask."""
    duck = Duck()
    with contextlib.suppress(Exception):
        member(name)(*(required(member(name), duck) or [duck]))
    assert all(func is not member(name) for func, *_ in asked)


@pytest.mark.parametrize("namespace", ["linalg", "fft", "special", "nn.functional"])
def test_every_function_of_a_namespace_is_of_the_table(namespace):
    module = member(namespace)
    for name in dir(module):
        value = getattr(module, name)
        ours = (
            isinstance(value, FunctionType | BuiltIn) and value.__module__.startswith("fgrad.torch") and name[0] != "_"
        )
        if ours and f"{namespace}.{name}" not in FUNCTIONS_CLOSED and name not in ("overridable", "raw"):
            assert hasattr(value, "override"), name


METHODS = [
    name
    for name, value in vars(torch.Tensor).items()
    if isinstance(value, FunctionType)
    and name not in overridable.CLOSED
    and (name.startswith("__") or not name.startswith("_") or name in ("_is_view", "_conj", "_neg_view"))
]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_asks(name):
    method = getattr(torch.Tensor, name)
    tensor = torch.ones(2, 2).as_subclass(Answers)
    assert method(tensor, *required(method, 0)[1:]) == -1
    func, types, args, _ = asked[0]
    assert types == (Answers,)
    assert args[0] is tensor
    assert getattr(torch.Tensor, name if func is method else func.__name__) is func


ATTRIBUTES = [n for n, v in vars(torch.Tensor).items() if isinstance(v, property) and n not in overridable.CLOSED]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_attribute_asks(name):
    attribute = getattr(torch.Tensor, name)
    assert isinstance(attribute, Attribute)
    tensor = torch.ones(2, 2).as_subclass(Answers)
    assert getattr(tensor, name) == -1
    assert asked.pop()[:3] == (attribute.__get__, (Answers,), (tensor,))
    if attribute.fset is not None:
        setattr(tensor, name, 1)
        assert asked.pop()[:3] == (attribute.__set__, (Answers,), (tensor, 1))
    if attribute.fdel is not None:
        delattr(tensor, name) if name != "data" else None
        assert not asked or asked.pop()[0] == attribute.__delete__


@needs_torch
def test_handlers_are_given_what_pytorch_gives_them():
    """Each function that PyTorch lists as overridable and that is here is called with arguments that answer."""
    given = []

    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            given.append((func, types, args, kwargs))
            return -1

    other = Other()

    def class_of(package):
        return type("Answer", (package.Tensor,), {"__torch_function__": Other.__torch_function__})

    classes = {package: class_of(package) for package in (theirs, torch)}

    def call(package, function, args, method):
        given.clear()
        first = [package.ones(2, 2).as_subclass(classes[package])] if method else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function(*first, *args[len(first) :])
            except Exception as error:
                assert package is theirs or not given, error
        if not given:
            return None
        func, types, args, kwargs = given[0]
        simple = kwargs and {k: v if isinstance(v, int | float | str | None) else ... for k, v in kwargs.items()}
        return package.overrides.resolve_name(func), func.__name__, [t.__name__ for t in types], len(args), simple

    refused = set(REFUSED[""].split())
    differ, count = set(), 0
    for function, dummy in theirs.overrides.get_testing_overrides().items():
        name = theirs.overrides.resolve_name(function)
        path = [part for part in (name or "").split(".")[1:] if part != "functional" or ".nn." in (name or "")]
        mine = torch
        for part in path:
            mine = getattr(mine, part, None)
        if not path or mine is None or name.removeprefix("torch.") in refused:
            continue
        args = [[other, other] if p.name == "tensors" else other for p in _without_default(dummy)] or [other]
        wanted = call(theirs, function, args, "Tensor." in name)
        if wanted is not None:
            count += 1
            if call(torch, mine, args, "Tensor." in name) != wanted:
                differ.add(name.removeprefix("torch."))
    assert count > 1150
    assert differ == DIFFER


def _without_default(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind in kinds]


#: PyTorch's parser tries sizes as a tuple before it looks at the tensor, which changes the order of types; ``apply_``
#: and ``==`` look at the tensor alone; ``l1_loss`` forgets its ``weight``; NumPy 2 gives ``__array_wrap__`` more
#: than the array; reading ``_grad_fn`` asks under the name of ``grad_fn``
DIFFER = {
    *(f"Tensor.{name}" for name in ("broadcast_to", "expand", "flip", "permute", "reshape", "resize_", "sum_to_size")),
    *("Tensor.apply_", "Tensor.__array_wrap__", "Tensor.__eq__", "Tensor._grad_fn.__get__"),
    "nn.functional.l1_loss",
}


# -- classes of tensors ----------------------------------------------------------------------------------------------


def test_results_are_of_the_class_and_keep_their_history():
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    x = leaf.as_subclass(Mine)
    y = x * 2 + torch.ones(2)
    assert repr(y) == "Mine([3., 5.], grad_fn=<AliasBackward0>)"
    y.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 2.0]
    assert type(leaf.grad) is torch.Tensor


def test_a_gradient_is_the_tensor_that_was_set():
    x = Mine([1.0]).requires_grad_()
    x.grad = Mine([1.0])
    assert x.grad is x.grad
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_copies_keep_the_class_and_attributes():
    x = Mine([1.0, 2.0])
    x._tag = [1]
    assert type(copy.copy(x)) is Mine
    assert copy.copy(x)._tag is x._tag
    with pytest.raises(RuntimeError, match="The default implementation of __deepcopy__"):
        copy.deepcopy(x)  # as in PyTorch: new_empty gives a plain tensor while the default handler runs


class Kept(torch.Tensor):
    def new_empty(self, *args, **kwargs):
        return super().new_empty(*args, **kwargs).as_subclass(type(self))


def test_deepcopy_and_pickle_of_a_class_that_makes_its_own():
    x = Kept([1.0, 2.0])
    x.tag = [1]
    for found in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(found) is Kept
        assert found.tolist() == [1.0, 2.0]
        assert found.tag == [1]
        assert found.tag is not x.tag


def test_a_parameter_keeps_the_class_through_training_and_state_dict():
    layer = torch.nn.Linear(2, 1, bias=False)
    layer.weight = torch.nn.Parameter(torch.ones(1, 2).as_subclass(Mine))
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    assert repr(layer.weight) == "Parameter(Mine([[0.5000, 0.5000]], requires_grad=True))"
    assert type(layer.state_dict()["weight"]) is Mine
    layer.load_state_dict({"weight": torch.zeros(1, 2)})
    assert layer.weight.tolist() == [[0.0, 0.0]]


class Slotted(Kept):
    __slots__ = ("extra", "empty")


class Stated(Kept):
    def __getstate__(self):
        return {"units": self.units.upper()}

    def __setstate__(self, state):
        self.units = state["units"]


def _saved(x):
    stream = io.BytesIO()
    torch.save(x, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=False)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _saved, lambda x: pickle.loads(pickle.dumps(x))])
def test_what_slots_hold_is_copied(copied):
    x = Slotted([1.0])
    x.extra, x.tag = [1], "tag"
    found = copied(x)
    assert type(found) is Slotted and found.extra == [1] and found.tag == "tag" and not hasattr(found, "empty")
    assert (found.extra is x.extra) is (copied is copy.copy)


@pytest.mark.parametrize("copied", [copy.copy, _saved, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_class_that_says_its_state_is_asked_for_it(copied):
    x = Stated([1.0])
    x.units = "m"
    assert copied(x).units == "M"


def test_a_mixed_class_and_a_class_with_slots():
    class Mixin:
        def doubled(self):
            return self * 2

    class Mixed(Mixin, torch.Tensor):
        __slots__ = ("extra",)

    x = Mixed([1.0])
    x.extra = 1
    assert repr(x.doubled()) == "Mixed([2.])"


def test_a_class_with_torch_dispatch_is_refused_when_it_is_used():
    class Dispatched(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    for make in (
        lambda: Dispatched([1.0]),
        lambda: torch.ones(1).as_subclass(Dispatched),
        lambda: torch.Tensor._make_subclass(Dispatched, torch.ones(1)),
        lambda: torch.Tensor._make_wrapper_subclass(Dispatched, (1,)),
    ):
        with pytest.raises(NotImplementedError, match="Dispatched has a __torch_dispatch__"):
            make()

    class Undispatched(torch.Tensor):
        __torch_dispatch__ = torch._C._disabled_torch_dispatch_impl

    assert repr(Undispatched([1.0])) == "Undispatched([1.])"


# -- modes -----------------------------------------------------------------------------------------------------------


def test_a_mode_sees_calls_without_tensors_and_of_attributes():
    with Log() as log:
        x = torch.zeros(2) + torch.tensor([1.0, 2.0])
        assert x.shape == (2,)
        torch.nn.functional.relu(x)
        torch.linalg.norm(x)
    assert log.names == [
        *("torch.zeros", "torch.tensor", "torch.Tensor.add", "torch.Tensor.shape.__get__"),
        *("torch.nn.functional.relu", "torch.linalg.norm"),
    ]
    torch.ones(1)
    assert len(log.names) == 6


def test_backward_is_one_call_of_a_mode():
    x = torch.ones(2, requires_grad=True)
    loss = (x * x).sum()
    with Log() as log:
        loss.backward()
        torch.autograd.backward([x.sum()])
    assert log.names == ["torch.Tensor.backward", "torch.Tensor.sum", None]


def test_a_mode_is_of_its_thread_and_ends_with_an_error():
    seen = []
    with pytest.raises(ValueError, match="end"), Log() as log:
        other = threading.Thread(target=lambda: seen.append(torch.ones(1) + 1))
        other.start()
        other.join()
        raise ValueError("end")
    assert log.names == []
    assert len(seen) == 1
    assert torch._C._len_torch_function_stack() == 0
    assert not watch.within()


def test_a_mode_that_enters_itself_again_ends():
    class Again(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.add:
                with self:
                    return torch.sub(args[0], -args[1])
            return func(*args, **(kwargs or {}))

    with Again():
        torch.add(torch.ones(1), torch.ones(1))
    assert torch._C._len_torch_function_stack() == 0
    assert not watch.within()


def test_what_is_disabled():
    x = Mine([1.0])
    with Log() as log:
        with torch._C.DisableTorchFunctionSubclass():
            assert type(x * 2) is torch.Tensor
            assert not torch._C._is_torch_function_enabled()
        with torch._C.DisableTorchFunction():
            assert type(x * 2) is torch.Tensor
            assert torch._C._is_torch_function_all_disabled()
        assert type(x * 2) is Mine
    # the default handler runs the function again, which the mode around sees as a call inside of its own
    assert log.names == ["torch.Tensor.mul", "torch.Tensor.mul"]


# -- torch.overrides -------------------------------------------------------------------------------------------------


def test_lists_of_functions():
    listed = torch.overrides.get_overridable_functions()
    assert torch.add in listed[torch]
    assert torch.Tensor.add in listed[torch.Tensor]
    assert torch.nn.functional.relu in listed[torch.nn.functional]
    assert torch.linalg.inv in listed[torch.linalg]
    assert listed[torch.Tensor.shape] == [torch.Tensor.shape.__get__]
    ignored = torch.overrides.get_ignored_functions()
    assert {torch.tensor, torch.is_tensor, torch.Tensor.as_subclass, torch.zeros} <= ignored
    assert not ignored & set(torch.overrides.get_testing_overrides())


@needs_torch
def test_what_is_listed_is_what_pytorch_lists():
    def listed(package):
        found = {package.overrides.resolve_name(f) for f in package.overrides.get_testing_overrides()}
        return {name for name in found if name and not name.startswith("torch.nn.init")}

    def ignored(package):
        return {package.overrides.resolve_name(f) for f in package.overrides.get_ignored_functions() if callable(f)}

    assert not listed(theirs) & ignored(torch)
    assert not listed(torch) & ignored(theirs)


def test_a_function_of_ones_own_can_be_overridden():
    @torch.overrides.wrap_torch_function(lambda a, b=None: (a, b))
    def own(a, b=None):
        return a

    assert own(1) == 1
    assert own(Duck(), b=2) == -1
    assert asked[0][0] is own
    assert asked[0][3] == {"b": 2}


def test_redispatch_runs_the_function_itself():
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return torch.overrides.redispatch_function(func, types, args, kwargs)

    assert type(torch.add(Logged([1.0]), 1)) is torch.Tensor
    assert asked[0] is torch.add


def test_has_torch_function_leaves_out_plain_tensors_and_parameters():
    has = torch.overrides.has_torch_function
    assert not has((torch.ones(1), torch.nn.Parameter(torch.ones(1)), 1, None, [Duck()]))
    assert has([1, Duck()])
    with Log():
        assert has([1])
        assert not has([])


def test_parameters_of_a_distribution_may_be_of_any_class_that_answers():
    assert torch.distributions.utils.broadcast_all(Duck(), 1.0) == -1


@pytest.mark.parametrize("library", [torch, pytest.param(theirs, marks=needs_torch)])
def test_has_torch_function_takes_a_sequence(library):
    with pytest.raises(TypeError, match="^expected a sequence$"):
        library.overrides.has_torch_function(object())
