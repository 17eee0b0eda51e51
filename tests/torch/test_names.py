"""Names that programs use besides tensors and autograd: constants, settings, questions about machine and build."""

import copy
import importlib
import importlib.util
import inspect
import math
import pickle
from enum import Enum

import pytest

import fgrad.torch as torch
from fgrad.mutable.context.torch_function.wrap import BuiltIn
from fgrad.torch.ops.table.table import TABLE

theirs = importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def test_constants():
    assert (torch.pi, torch.e, torch.inf, torch.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(torch.nan)


def test_versions_compare_part_by_part():
    version = torch.__version__
    assert version == "2.13.0" and version >= "2.9" and version >= (2, 13) and not version < (2, 13, 0)
    assert version > "2.2.1+cpu" and version < "3" and version <= (2, 13) and version != "2.1"
    assert version.split(".")[0] == "2" and {version: 1}["2.13.0"] == 1
    assert torch.version.cuda is None and torch.version.__version__ is version


def test_settings_are_kept():
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 3
    with pytest.raises(RuntimeError, match="set_num_threads expects a positive integer"):
        torch.set_num_threads(0)
    with pytest.raises(RuntimeError, match="set_num_threads expects an int, but got str"):
        torch.set_num_threads("a")
    torch.set_deterministic_debug_mode("warn")
    assert torch.is_deterministic_algorithms_warn_only_enabled() and torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    assert torch.get_deterministic_debug_mode() == 0
    with pytest.raises(TypeError, match="argument 'mode' \\(position 1\\) must be bool, not int"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`, but got bad"):
        torch.set_deterministic_debug_mode("bad")
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    with pytest.warns(UserWarning, match="x is not one of 'highest', 'high', or 'medium'"):
        torch.set_float32_matmul_precision("x")
    torch.set_float32_matmul_precision("highest")


def test_what_programs_ask_of_the_machine():
    assert torch.cuda.is_available() or torch.cuda.memory_allocated() == 0
    assert not torch.backends.mps.is_available() and not torch.backends.cudnn.is_available()
    assert not torch.distributed.is_available() and not torch.distributed.is_initialized()
    assert not torch.jit.is_scripting() and not torch.compiler.is_compiling()
    assert torch.accelerator.is_available() == torch.cuda.is_available()
    assert torch.cpu.is_available() and not torch.xpu.is_available() and not torch.mps.is_available()
    if not torch.cuda.is_available():
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            torch.cuda.current_device()
        assert torch.accelerator.current_accelerator() is None


def test_backends_hold_what_is_set():
    cudnn = importlib.import_module("fgrad.torch.backends.cudnn")
    assert cudnn is torch.backends.cudnn
    with cudnn.flags(benchmark=True, enabled=False):
        assert cudnn.benchmark and not cudnn.enabled
    assert cudnn.enabled and not cudnn.benchmark
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False


def test_compile_leaves_functions_and_modules_as_they_are():
    net = torch.nn.Linear(2, 1)
    assert torch.compile(net)._orig_mod is net and net.compile() is None

    @torch.compile(fullgraph=True)
    def double(x):
        return 2 * x

    assert double(torch.ones(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        torch.compile(net, mode="default", options={})


def test_branches_and_loops():
    x = torch.ones(2, requires_grad=True)
    y = torch.cond(x.sum() > 1, lambda x: 3 * x, lambda x: x, (x,))
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        torch.cond(x, torch.sin, torch.cos, (x,))
    count, total = torch.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + i), (torch.tensor(0), torch.tensor(0)))
    assert (count.item(), total.item()) == (3, 3)


def test_layouts():
    x = torch.ones(2, 3)
    assert x.layout is torch.strided and not x.is_sparse and not x.is_quantized and not x.is_pinned()
    assert x.get_device() == torch.get_device(x) == -1 or torch.cuda.is_available()
    assert x.to_dense() is x and x.to_dense(torch.float64).dtype is torch.float64
    assert (x.dense_dim(), x.sparse_dim()) == (2, 0)
    assert x.t().dim_order() == (1, 0) and x.is_set_to(x.view(2, 3)) and not x.is_set_to(x[:1])
    for name, text in {
        "coalesce": "coalesce expected sparse coordinate tensor layout but got Strided",
        "values": "values expected sparse tensor layout but got Strided",
        "crow_indices": "crow_indices expected sparse row compressed tensor layout but got Strided",
    }.items():
        with pytest.raises(RuntimeError, match=text):
            getattr(x, name)()
    with pytest.raises(NotImplementedError, match="no sparse tensors"):
        x.to_sparse()
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        assert x.resize(3, 2).shape == (3, 2)


def test_removed_functions_say_what_to_use():
    x = torch.eye(2)
    for name in ("solve", "lstsq", "symeig", "eig", "matrix_rank"):
        for function in (getattr(torch, name), getattr(torch.Tensor, name)):
            with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed") as raised:
                function(x, x)
            assert f"torch.linalg.{'eigvalsh' if name == 'symeig' else name}" in str(raised.value)


def test_functions_of_methods():
    x = torch.ones(3, requires_grad=True)
    assert not torch.detach(x).requires_grad and not torch.detach_(x * 2).requires_grad
    assert torch.index_put_(torch.zeros(3), (torch.tensor([1]),), torch.tensor(1.0)).tolist() == [0.0, 1.0, 0.0]
    assert torch.is_storage(x.untyped_storage()) and not torch.is_storage(x)
    assert torch.typename(x) == "torch.FloatTensor" and torch.typename(torch.nn.Linear(1, 1)).endswith("linear.Linear")
    with pytest.warns(UserWarning, match="torch.lu is deprecated"):
        factors, pivots = torch.lu(torch.eye(2))
    assert factors.tolist() == [[1.0, 0.0], [0.0, 1.0]] and pivots.tolist() == [1, 2]
    assert torch.vmap(torch.sin)(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_anomaly_mode():
    torch.set_anomaly_enabled(True, check_nan=False)
    assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
    assert not torch.is_distributed(torch.ones(1))


def test_numbers():
    assert torch.sym_float(2) == 2.0
    assert (torch.sym_max(1, 2.0), torch.sym_min(True, 2), torch.sym_int(-2.7)) == (2.0, True, -2)
    assert (torch.sym_sum([1, 2]), torch.sym_ite(False, 1, 2), torch.sym_not(True), torch.sym_sqrt(4)) == (
        3,
        2,
        False,
        2,
    )


def test_names_in_traces():
    @torch.profiler.record_function("work")
    def work(x):
        return x + 1

    assert work(torch.ones(1)).item() == 2.0


def test_names_that_libraries_import():
    utils = importlib.import_module("fgrad.torch.distributions.utils")
    normal = importlib.import_module("fgrad.torch.distributions.multivariate_normal")
    module = importlib.import_module("fgrad.torch.nn.modules.module")
    assert utils._sum_rightmost(torch.ones(2, 3), 1).tolist() == [3.0, 3.0]
    assert utils._standard_normal((2,), dtype=torch.float64, device=torch.device("cpu")).dtype is torch.float64
    assert normal._precision_to_scale_tril(4 * torch.eye(1)).item() == 0.5
    assert normal._batch_mahalanobis(torch.eye(2), torch.ones(2)).item() == 2.0
    transforms = torch.distributions.transforms
    assert isinstance(transforms.ExpTransform().inv, transforms._InverseTransform)
    assert module._IncompatibleKeys([], []).missing_keys == []
    assert issubclass(torch.optim.lr_scheduler._LRScheduler, torch.optim.lr_scheduler.LRScheduler)
    assert torch.serialization.MAP_LOCATION and torch.serialization.FILE_LIKE
    x = torch.ones(1)
    assert x._cdata == x._cdata != x.detach()._cdata
    assert torch._C._get_tracing_state() is None and torch._C._is_tracing() is False
    assert torch._C._log_api_usage_once("a library's name") is None


def test_checks_that_raise():
    torch._check(True)
    for check, error in (
        (torch._check, RuntimeError),
        (torch._check_index, IndexError),
        (torch._check_type, TypeError),
        (torch._check_value, ValueError),
        (torch._check_not_implemented, NotImplementedError),
    ):
        with pytest.raises(error, match="said"):
            check(False, lambda: "said")
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        torch._check_is_size(-1)
    with pytest.raises(TypeError, match=r"use torch._check_tensor_all\(\)"):
        torch._check(torch.tensor(True))
    with pytest.raises(TypeError, match="cond must be a bool"):
        torch._check(1)
    with pytest.raises(RuntimeError, match="said"):
        torch._check_tensor_all(torch.tensor([True, False]), lambda: "said")
    with pytest.raises(AssertionError, match="said"):
        torch._assert(torch.tensor(False), "said")
    with pytest.raises(RuntimeError, match="single nonzero value"):
        torch._assert_async(torch.tensor(0))


def test_operators_by_namespace():
    with pytest.raises(AttributeError, match="'_OpNamespace' 'a_library' object has no attribute 'nms'"):
        _ = torch.ops.a_library.nms
    aten = torch.ops.aten
    assert {aten.clone.default: 1}[aten.clone.default] == 1
    assert aten.mm(torch.eye(2), torch.ones(2, 2)).tolist() == torch.ones(2, 2).tolist()
    assert aten.add_.Tensor(torch.ones(1), torch.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="torch.ops.aten._upsample_bilinear2d_aa.default"):
        aten._upsample_bilinear2d_aa.default(torch.ones(1))


def test_names_of_operators():
    def run(torch):
        packet = torch.ops.aten.add
        overload = packet.Tensor
        return [str(packet), str(overload), repr(overload), overload.name(), torch.ops.aten.mm.default.name()] + [
            overload.__name__, overload.namespace, overload.overloadpacket is packet, overload is packet.Tensor,
            overload == packet.Scalar, isinstance(overload, torch._ops.OpOverload),
        ]  # fmt: skip

    assert run(torch) == run(pytest.importorskip("torch"))


def named(namespace, path):
    for name in path.split("."):
        namespace = getattr(namespace, name, None)
    return namespace


#: they raise, and tell what is used in their place
REMOVED = ("eig", "lstsq", "matrix_rank", "solve", "symeig")


@pytest.mark.skipif(theirs is None, reason="real torch is the oracle")
def test_functions_in_cpp_are_built_in():
    names = [name for name, row in TABLE.items() if row.function or "." in name]
    pairs = [(name, named(torch, name), named(theirs, name)) for name in names if name not in REMOVED]
    functions = [pair for pair in pairs if hasattr(pair[1], "override") and pair[2] is not None]
    assert len(functions) > 500
    unlike = [name for name, ours, other in functions if isinstance(ours, BuiltIn) != inspect.isbuiltin(other)]
    assert not unlike
    assert not [name for name, value in vars(torch.Tensor).items() if isinstance(value, BuiltIn)]


def test_built_in_functions_are_found_by_pickle():
    for function in (named(torch, name) for name in TABLE):
        assert not isinstance(function, BuiltIn) or pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(pickle.dumps(torch.special.erf)) is torch.special.erf
    assert copy.deepcopy(torch.relu) is torch.relu


def test_functions_as_attributes_and_members():
    class Layer:
        activation, product, gelu = torch.relu, torch.mul, torch.nn.functional.gelu
        relu = torch.nn.functional.relu

    class Activation(Enum):
        relu = torch.relu
        norm = torch.norm

    x = torch.tensor([-1.0, 2.0])
    assert Layer().activation(x).tolist() == [0.0, 2.0] and Layer().product(x, other=x).tolist() == [1.0, 4.0]
    assert Layer().gelu is torch.nn.functional.gelu
    with pytest.raises(RuntimeError, match="Boolean value"):
        Layer().relu(x)  # a function in Python is a method
    assert [*Activation] == [Activation.relu] and Activation(torch.relu).value(x).tolist() == [0.0, 2.0]
    assert inspect.isbuiltin(torch.relu) and inspect.isroutine(torch.relu) and repr(torch.relu).startswith("<built-in")
    assert (torch.special.erf.__name__, torch.relu.__name__) == (
        "special_erf",
        "relu",
    ) and "ReLU" not in torch.relu.__doc__


def test_casts_and_shapes_as_functions():
    x = torch.tensor([[1.5, -2.5]], requires_grad=True)
    assert torch._cast_Long(x).tolist() == [[1, -2]] and torch._cast_Float(x) is x
    assert torch._cast_Double(x).grad_fn.name() == "ToCopyBackward0"
    assert torch._shape_as_tensor(x).tolist() == [1, 2]
