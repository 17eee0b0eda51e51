"""What ``torch.compiler`` has beside ``compile``: stances, and functions that are accepted."""

import pytest

import fgrad.torch as torch


def test_a_stance_says_what_compiled_functions_do():
    f = torch.compile(lambda x: x * 2 if torch.compiler.is_compiling() else x)
    with torch.compiler.set_stance("force_eager"):
        assert f(torch.ones(1)).item() == 1
    with torch.compiler.set_stance("eager_on_recompile"):
        assert f(torch.ones(1)).item() == 1
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        f(torch.ones(1))
    assert f(torch.ones(1)).item() == 2 and f._compiled.recorded == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        assert f(torch.ones(1)).item() == 2

    @torch.compiler.set_stance("force_eager")
    def eager(x):
        return f(x)

    assert eager(torch.ones(1)).item() == 1 and f(torch.ones(1)).item() == 2
    torch.compiler.set_stance("force_eager")
    assert f(torch.ones(1)).item() == 1
    torch.compiler.set_stance("default")
    assert f(torch.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="stance"):
        torch.compiler.set_stance("loud")
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        torch.compiler.set_stance("force_eager", force_backend="eager")


def test_the_names_of_pytorch_are_there():
    torch.compiler.cudagraph_mark_step_begin()
    assert "inductor" in torch.compiler.list_backends()
    assert torch.compiler.nested_compile_region(len) is len and torch.compiler.nested_compile_region()(len) is len
    with pytest.raises(RuntimeError, match="Unrecognized mode=loud, should be one of: default, lite"):
        torch.compile(len, mode="loud")
