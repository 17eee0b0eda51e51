"""``torch.compiler.disable``: Python executes the function at each call of a compiled one."""

import pytest

import fgrad.torch as torch
from fgrad.errors import CaptureError
from tests.torch.compiler.test_compile import programs


@pytest.mark.parametrize("options", [{}, {"recursive": False}, {"reason": "it prints"}])
def test_a_disabled_function_runs_at_each_call(options, capsys):
    @torch.compiler.disable(**options)
    def note(x):
        print("called")
        return x * 2 if torch.compiler.is_compiling() else x * 3

    def of(x, k=1):
        return note(x + k) + 1

    compiled = torch.compile(of)
    assert [compiled(torch.ones(1), k).item() for k in (1, 1, 1, 2, 3, 4)] == [7, 7, 7, 10, 13, 16]
    assert capsys.readouterr().out.count("called") == 6
    found = torch.compiler.explain(of)(torch.ones(1))
    assert found.graph_break_count == 1 and options.get("reason", "note is called") in str(found)


def test_it_has_a_gradient():
    note = torch.compiler.disable(lambda x: x * 3)
    x = torch.ones(2, requires_grad=True)
    compiled = torch.compile(lambda x: note(x * 2).sum())
    for _ in range(4):
        x.grad = None
        compiled(x).backward()
        assert x.grad.tolist() == [6, 6]


def test_one_graph_cannot_have_it():
    note = torch.compiler.disable(lambda x: x, reason="it prints")
    with pytest.raises(CaptureError, match=r"disable\(\)d function .* is called \(it prints\)"):
        torch.compile(lambda x: note(x), fullgraph=True)(torch.ones(1))
    assert torch.capture(lambda x: note(x) * 2)(torch.ones(1)).names == ("args[0]",)  # a capture has no other calls


def test_what_can_be_disabled():
    theirs = pytest.importorskip("torch")
    for library in (torch, theirs):
        disable, module = library.compiler.disable, library.nn.Linear(1, 1)

        class Called:
            def __call__(self, x):
                return x

        found = disable(module)
        assert type(found).__name__ == "OptimizedModule" and next(iter(found.state_dict())) == "_orig_mod.weight"
        assert found(library.ones(1)).item() == module(library.ones(1)).item()
        assert disable(Called) is Called and isinstance(disable(Called)(), Called) and Called()(2) == 2
        assert disable(recursive=False)(len)([1]) == 1
        with pytest.raises(AssertionError, match="fn must be callable"):
            disable(3)


def test_a_compiled_function_is_disabled_as_the_one_behind_it():
    compiled = torch.compile(lambda x: x * 2)
    assert torch.compiler.disable(compiled)(torch.ones(1)).item() == 2 and not programs(compiled)


def test_a_function_that_sets_the_stance_sets_it_at_each_call():
    def of(x):
        torch.compiler.set_stance("force_eager")
        return x * 2

    compiled = torch.compile(of)
    for _ in range(3):
        torch.compiler.set_stance("default")
        assert compiled(torch.ones(1)).item() == 2
        assert torch.compiler.stance.stance.name == "force_eager"
    torch.compiler.set_stance("default")


def test_a_substitute_calls_the_original_as_in_pytorch():
    theirs = pytest.importorskip("torch")

    def original(a):
        return a

    for library in (torch, theirs):
        substitute = library.compiler.substitute_in_graph(original, skip_signature_check=True)(lambda a: a + 1)
        assert substitute(1) == 1
        with pytest.raises(TypeError, match="substitute_in_graph expects a function but got <class 'int'>"):
            library.compiler.substitute_in_graph(3)
        assert library.compiler.allow_in_graph([len, abs]) == [len, abs]
        with pytest.raises(AssertionError, match="allow_in_graph expects a callable"):
            library.compiler.allow_in_graph(3)
