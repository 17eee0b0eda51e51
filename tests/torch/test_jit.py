"""``torch.jit`` is what it is in PyTorch with ``PYTORCH_JIT=0``: everything stays Python."""

import typing

import pytest

import fgrad.torch as torch
from fgrad.torch import jit


@pytest.mark.parametrize("make", [jit.script, jit.script_method, jit.interface, jit.trace, jit.trace_module])
def test_what_is_given_comes_back(make):
    net = torch.nn.Linear(2, 1)
    name = "trace_method" if make is jit.trace_module else make.__name__  # it is PyTorch's text
    with pytest.warns(DeprecationWarning, match=f"`torch.jit.{name}` is deprecated"):
        assert make(net) is net


def test_attributes_and_modules():
    assert jit.Attribute(3, int) == 3
    assert issubclass(jit.ScriptModule, torch.nn.Module) and list(jit.ScriptModule().parameters()) == []
    assert not isinstance(torch.nn.Linear(1, 1), jit.ScriptModule)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_calls_of_fork_are_done_at_once():
    future = jit.fork(lambda a, b: a - b, 3, b=1)
    assert isinstance(future, torch.Future) and future.done() and jit.wait(future) == 2
    with pytest.raises(ZeroDivisionError):
        jit.fork(lambda: 1 / 0)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_what_needs_torchscript_refuses(tmp_path):
    net = torch.nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input"):
        jit.freeze(net)
    with pytest.raises(RuntimeError, match="implemented for modules in eval mode"):
        jit.freeze(jit.ScriptModule())
    with pytest.raises(RuntimeError, match="optimize_for_inference expects a ScriptModule"):
        jit.optimize_for_inference(net)
    for refused in (
        lambda: jit.freeze(jit.ScriptModule().eval()),
        lambda: jit.save(net, tmp_path / "net.pt"),
        lambda: jit.load(__file__),
        lambda: jit.CompilationUnit("def f(x): return x"),
    ):
        with pytest.raises(NotImplementedError, match="there is no TorchScript"):
            refused()
    with pytest.raises(ValueError, match="does not exist"):
        jit.load(tmp_path / "none.pt")


@pytest.mark.parametrize(
    ("value", "type", "holds"),
    [
        ([1], list[int], True),
        ([1.0], list[int], False),
        ({"a": 1}, typing.Dict[str, int], True),  # noqa: UP006
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        (None, int | None, True),
        ("a", int | None, False),
        ([[1]], (list[list[str]], list[list[int]]), True),
    ],
)
def test_types_of_elements(value, type, holds):
    assert jit.isinstance(value, type) == holds


def test_types_of_no_elements():
    with pytest.warns(UserWarning, match="The inner type of a container is lost"):
        assert jit.isinstance([], list[int])
    with pytest.raises(RuntimeError, match="Attempted to use List without a contained type"):
        jit.isinstance([1], typing.List)  # noqa: UP006
