"""The back ends of ``torch.compile``."""

import inspect

import pytest

import fgrad.torch as torch


def test_an_unknown_back_end_is_refused_where_it_is_named():
    message = "Invalid backend: 'nonsense'"
    with pytest.raises(RuntimeError, match=message):
        torch.compile(len, backend="nonsense")
    with pytest.raises(RuntimeError, match=message):
        torch.compile(backend="nonsense")
    with pytest.raises(RuntimeError, match=message):
        torch.nn.Linear(1, 1).compile(backend="nonsense")
    with pytest.raises(RuntimeError, match=message):
        torch.compiler.set_default_backend("nonsense")


def test_the_names_are_those_of_pytorch():
    theirs = pytest.importorskip("torch")
    assert torch.compiler.list_backends() == theirs.compiler.list_backends()
    for_its_own_tests = {name for name in theirs.compiler.list_backends(()) if name.endswith("TESTING_ONLY")}
    assert set(torch.compiler.list_backends(())) == {*theirs.compiler.list_backends(())} - for_its_own_tests


@pytest.mark.parametrize("backend", [*torch.compiler.list_backends(()), lambda graph, inputs: graph])
def test_what_pytorch_accepts_compiles(backend):
    x = torch.ones(2)
    assert torch.compile(lambda x: x * 2, backend=backend)(x).tolist() == [2, 2]


def test_the_default_back_end_can_be_set():
    assert torch.compiler.get_default_backend() == "inductor"
    torch.compiler.set_default_backend("eager")
    assert torch.compiler.get_default_backend() == "eager"
    torch.compiler.set_default_backend("inductor")


def test_every_name_of_pytorch_is_there():
    theirs = pytest.importorskip("torch")
    assert [name for name in theirs.compiler.__all__ if not hasattr(torch.compiler, name)] == []
    ours, wanted = (inspect.signature(library.compile).parameters for library in (torch, theirs))
    assert list(ours) == list(wanted)


def test_guards_are_never_left_out():
    for name in ("keep_tensor_guards_unsafe", "skip_all_guards_unsafe", "skip_guard_on_globals_unsafe"):
        keep = getattr(torch.compiler, name)
        assert keep([1, 2]) == [True, True]
        assert torch.compile(lambda x: x * 2, options={"guard_filter_fn": keep})(torch.ones(1)).item() == 2
    assert torch.compiler.set_enable_guard_collectives(True) is False
    with pytest.raises(NotImplementedError, match="compiled functions cannot be saved"):
        torch.compiler.load_compiled_function(None)


def test_numpy_functions_are_refused():
    with pytest.raises(NotImplementedError, match="NumPy's functions are not captured"):
        torch.compiler.wrap_numpy(len)
    torch.compiler.load_cache_artifacts(b"")
    assert torch.compiler.save_cache_artifacts() is None
