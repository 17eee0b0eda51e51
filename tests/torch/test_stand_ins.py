"""Names that libraries import and seldom use: they import, serve in ``isinstance``, and refuse when used."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fgrad.torch as torch
from fgrad.torch.refused import REFUSED
from fgrad.torch.stand_ins import ALIASES, WORKING

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("place", sorted({*REFUSED, *WORKING, *ALIASES} - {""}))
def test_modules_of_the_table(place):
    module = importlib.import_module(f"fgrad.torch.{place}")
    for name in REFUSED.get(place, "").split():
        found = getattr(module, name)
        if place not in WORKING or name not in WORKING[place]:
            assert name in repr(found)
            if isinstance(found, type):
                assert not isinstance(torch.ones(1), found)
            with pytest.raises(NotImplementedError, match="fgrad.torch has PyTorch's autograd, and not this"):
                found()


def test_classes_can_be_subclassed():
    class Mine(torch.fx.Tracer):
        pass

    with pytest.raises(NotImplementedError, match="the name is here to be imported"):
        Mine()
    assert issubclass(torch.fx.GraphModule, torch.nn.Module)
    assert callable(torch.distributed.ProcessGroup.size) and not hasattr(torch.distributed.ProcessGroup, "__wrapped__")


def test_what_a_few_lines_can_do():
    assert torch.fx.wrap(len) is len and torch.torch is torch
    assert (torch.distributed.get_rank(), torch.distributed.get_world_size()) == (0, 1)
    assert torch.distributed.ReduceOp.SUM and torch.profiler.ProfilerActivity.CPU
    assert isinstance(torch.ones(1), torch.Tensor) and isinstance(torch.Tensor, torch._C._TensorMeta)
    assert not torch._C._functorch.is_batchedtensor(torch.ones(1)) and not torch.mps.is_available()
    pair = importlib.import_module("fgrad.torch.nn.modules.utils")
    assert pair._pair(3) == (3, 3) and pair._triple([1, 2, 3]) == (1, 2, 3)
    assert pair._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert pair._list_with_default([None, 7], [4, 5, 6]) == [5, 7]
    assert importlib.import_module("fgrad.torch.nn.modules.flatten").Flatten is torch.nn.Flatten
    assert (
        importlib.import_module("fgrad.torch.nn.modules.activation").MultiheadAttention is torch.nn.MultiheadAttention
    )
    clip = importlib.import_module("fgrad.torch.nn.utils.clip_grad")
    assert clip.clip_grad_norm_ is torch.nn.utils.clip_grad_norm_
    assert torch.functional.einsum is torch.einsum
    assert torch.OutOfMemoryError is torch.cuda.OutOfMemoryError and issubclass(torch.OutOfMemoryError, RuntimeError)
    parse = importlib.import_module("fgrad.torch._C._nn")._parse_to
    assert parse(torch.float64, non_blocking=True) == (None, torch.float64, True, None)
    assert parse("cpu") == (torch.device("cpu"), None, False, None)
    assert torch.func.vmap(lambda x: x + torch._C._are_functorch_transforms_active())(torch.zeros(1)).item() == 1
    assert not torch._C._are_functorch_transforms_active()
    functorch = importlib.import_module("fgrad.torch._functorch.deprecated")
    assert functorch.vmap is torch.func.vmap and functorch.grad is torch.func.grad
    other = importlib.import_module("fgrad.torch._functorch.make_functional")
    assert functorch.make_functional is other.make_functional
    assert isinstance(torch.__config__.show(), str) and isinstance(torch.__config__.parallel_info(), str)
    with pytest.raises(OSError, match="machine code for PyTorch"):
        torch.ops.load_library("x.so")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = torch.nothing


def test_settings_of_compilers_can_be_set():
    torch._dynamo.config.suppress_errors = True
    torch._inductor.config.triton.unique_kernel_names = True
    torch._inductor.config.coordinate_descent_tuning = torch._functorch.config.donated_buffer = False
    assert torch._dynamo.config.suppress_errors and torch._dynamo.config.cache_size_limit == 8
    with torch._dynamo.config.patch(verbose=True):
        assert torch._dynamo.config.verbose is False


def test_errors_of_the_table_can_be_caught():
    errors = importlib.import_module("fgrad.torch._dynamo.exc")
    with pytest.raises(KeyError):
        try:
            raise KeyError
        except (errors.TorchDynamoException, errors.Unsupported, torch.fx.proxy.TraceError):
            pass


def test_packages_of_the_table_import_their_modules_when_asked():
    code = "import fgrad.torch as torch; print(torch.distributed.algorithms.ddp_comm_hooks.default_hooks.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.stdout == "fgrad.torch.distributed.algorithms.ddp_comm_hooks.default_hooks\n", found.stderr


def test_modules_of_devices():
    theirs = pytest.importorskip("torch")
    for where in ("cpu", "cuda:0", torch.device("cpu")):
        name = theirs.get_device_module(str(where)).__name__
        assert torch.get_device_module(where).__name__ == f"fgrad.{name}"
    assert torch.get_device_module() in (torch.cpu, torch.cuda)
    with pytest.raises(RuntimeError, match="Device 'meta' does not have a corresponding module"):
        torch.get_device_module("meta")


def test_vmap_of_former_times():
    former = importlib.import_module("fgrad.torch._vmap_internals")
    assert former._vmap(torch.sum, 1, 0, True)(torch.ones(2, 3)).tolist() == [2.0, 2.0, 2.0]


def test_dynamos_names_are_the_compilers():
    compiled = torch.compile(torch.nn.Linear(1, 1))
    assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert not isinstance(torch.nn.Linear(1, 1), torch._dynamo.OptimizedModule)
    assert torch._dynamo.disable is torch.compiler.disable and not torch._dynamo.is_compiling()
    with pytest.raises(AttributeError, match="'torch._dynamo' has no attribute 'nothing'"):
        _ = torch._dynamo.nothing


def test_profiled_ranges_are_refused_when_they_are_entered():
    nvtx = importlib.import_module("fgrad.torch.cuda.nvtx")

    @nvtx.range("step")
    def step():
        """Never run."""

    with pytest.raises(NotImplementedError, match=r"nvtx\.range: fgrad.torch has PyTorch's autograd"):
        step()


def test_tensors_as_one_flat_tensor():
    utils = importlib.import_module("fgrad.torch._utils")
    tensors = [torch.ones(2, 3), torch.zeros(4), torch.ones((), dtype=torch.int64), torch.full((1,), 2.0)]
    groups = [[tuple(x.shape) for x in group] for group in utils._take_tensors(tensors, 24)]
    assert groups == [[(2, 3)], [(4,), (1,)], [()]]
    flat = utils._flatten_dense_tensors([tensors[0], tensors[1], tensors[3]])
    first, second, third = utils._unflatten_dense_tensors(flat, [tensors[0], tensors[1], tensors[3]])
    assert first.shape == (2, 3) and second._base is not None and third.item() == 2.0


def test_tensors_in_groups_by_type():
    utils = importlib.import_module("fgrad.torch.utils._foreach_utils")
    single, double, other = torch.ones(1), torch.ones(2).double(), torch.zeros(3)
    groups = utils._group_tensors_by_device_and_dtype([[single, double, other], [None, 1, 2], []], with_indices=True)
    assert {dtype: where for (_, dtype), (_, where) in groups.items()} == {torch.float32: [0, 2], torch.float64: [1]}
    (tensors, others, nothing), _ = groups[torch.device("cpu"), torch.float32]
    assert tensors[0] is single and tensors[1] is other and others == [None, 2] and nothing == []


def test_what_is_imported_when_it_is_asked_for():
    code = """
import sys, fgrad.torch as torch
before = len([name for name in sys.modules if name.startswith("fgrad.")])
print(before, any(name.startswith(("fgrad.torch.distributions", "fgrad.torch.optim")) for name in sys.modules))
assert "optim" in dir(torch) and torch.optim.SGD and torch.distributions.Normal and torch.utils.data.DataLoader
"""
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    count, early = found.stdout.split()
    assert int(count) < 385 and early == "False"
