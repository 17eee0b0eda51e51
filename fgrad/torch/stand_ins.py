"""PyTorch names that libraries import, mostly for branches that they never take.

Most are refused when they are called (``refused.py``).  What a few lines can do is implemented here.  Modules that hold
nothing else have no files.
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from datetime import timedelta
from enum import Enum
from functools import wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlparse

from fgrad.deferred import deferred
from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.devices import device
from fgrad.mutable.values.batched import Batched
from fgrad.torch.methods.to_arguments import to_arguments
from fgrad.torch.ops.dispatcher import FUNCTIONAL
from fgrad.torch.refused import HERE, REFUSED, refusal, refused


def _same(value: Any) -> Any:
    return value


def _is_batched(x: Any) -> bool:
    """Whether a value is a tensor of single examples inside ``vmap``."""
    return isinstance(x, Tensor) and x._value().__class__ is Batched


def _never(*args: Any, **kwargs: Any) -> bool:
    return False


def _none(*args: Any, **kwargs: Any) -> None:
    """Nothing is done, or there is nothing."""


def _number(value: int) -> Callable[..., int]:
    return lambda *args, **kwargs: value


class OutOfMemoryError(RuntimeError):
    """PyTorch's error when an accelerator's memory is exhausted; programs catch it."""


class _Nothing(ContextDecorator):
    """A context in which nothing happens."""

    def __init__(self, *args: Any, **kwargs: Any): ...

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *exception: object) -> None: ...


class _DecoratorContextManager:
    """A context manager that also decorates functions; each call enters a fresh one."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():  # type: ignore[attr-defined]
                return function(*args, **kwargs)

        return wrapped

    def clone(self) -> Any:
        return type(self)()


@contextmanager
def _profiled_range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range of NVIDIA's profiler: libraries decorate functions with it as they are imported."""
    raise refusal("torch.cuda.nvtx.range")
    yield


class _Group:
    """The group of all processes; there is none."""

    WORLD = None
    NON_GROUP_MEMBER = -100


class ReduceOp(Enum):
    """Reductions over processes."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class ProfilerActivity(Enum):
    """Activities of PyTorch's profiler."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class DispatchKey(Enum):
    """Keys of PyTorch's dispatcher."""

    CPU, CUDA, XPU, Meta, AutogradCPU, AutogradCUDA, AutocastCPU, AutocastCUDA, AutocastXPU = range(9)
    Autograd, CompositeImplicitAutograd, CompositeExplicitAutograd, ADInplaceOrView, BackendSelect, Python = range(
        9, 15
    )


class ProfilerState(Enum):
    """States of PyTorch's profiler."""

    Disabled, CPU, CUDA, NVTX, ITT, PRIVATEUSE1, KINETO = range(7)


class NameOnly:
    """A PyTorch constant that is only compared and printed, such as a quantized dtype."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refusal(repr(self))


class qscheme(NameOnly):
    """A way to quantize."""


def _hub_folder() -> str:
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "torch"
    return str(Path(home) / "hub")


def _functorch(name: str) -> Any:
    """What ``torch.func`` has, or had as ``functorch``."""
    functions, modules = [importlib.import_module(HERE + path) for path in ("func", "func.functional_modules")]
    return getattr(functions if hasattr(functions, name) else modules, name)


def _map_step(name: str) -> Any:
    """The steps of ``vmap`` that PyTorch has in its machine code."""
    if name not in ("_add_batch_dim", "_remove_batch_dim"):
        raise AttributeError(f"module 'torch._C._functorch' has no attribute {name!r}")
    return getattr(importlib.import_module(HERE + "func.maps"), name)


#: names of ``torch._dynamo``, and the modules that have them
_COMPILER = {
    "OptimizedModule": "compiler.module",
    **dict.fromkeys(("allow_in_graph", "assume_constant_result", "disable", "is_compiling", "reset"), "compiler"),
}


def _compiler(name: str) -> Any:
    """What ``torch.compiler`` has, the class of compiled modules, and its module."""
    if _is_module(f"_dynamo.{name}"):
        return importlib.import_module(f"{HERE}_dynamo.{name}")
    if name not in _COMPILER:
        raise AttributeError(f"module 'torch._dynamo' has no attribute {name!r}")
    return getattr(importlib.import_module(HERE + _COMPILER[name]), name)


def _settings(**values: Any) -> dict[str, Any]:
    """A module of settings: programs set them, and nothing here reads them."""
    return {**values, "patch": _Nothing}


def _control_flow(name: str) -> Any:
    """Branches and loops, of which PyTorch has each in a module of its own besides."""
    if name not in ("associative_scan", "cond", "while_loop"):
        raise AttributeError(f"module 'torch._higher_order_ops' has no attribute {name!r}")
    return getattr(importlib.import_module(HERE + "control_flow"), name)


def _map(name: str) -> Any:
    """``vmap`` from before it was public, when its third argument was another."""
    if name not in ("_vmap", "vmap"):
        raise AttributeError(f"module 'torch._vmap_internals' has no attribute {name!r}")
    vmap = importlib.import_module(HERE + "func.maps").vmap
    return lambda func, in_dims=0, out_dims=0, allow_none_pass_through=False: vmap(func, in_dims, out_dims)


def _functional(name: str) -> Any:
    """The operators of which ``torch.nn.functional`` has a function with the same arguments."""
    if name not in FUNCTIONAL:
        raise AttributeError(f"module 'torch._C._nn' has no attribute {name!r}")
    return getattr(importlib.import_module(HERE + "nn.functional"), name)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, ``non_blocking`` and memory format that arguments of ``to`` give."""
    to, dtype, non_blocking, _, memory_format = to_arguments(args, kwargs)
    return None if to is None else device(to), dtype, non_blocking, memory_format


def _device_module(where: Any = None) -> Any:
    """The module of a kind of device, such as ``torch.cpu``; that of the GPUs, if there are any, by default."""
    cuda, utils = [importlib.import_module(HERE + path) for path in ("cuda", "_utils")]
    kind = ("cuda" if cuda.is_available() else "cpu") if where is None else device(where).type
    return utils._get_device_module(kind)


def _by_device_and_type(lists: Any, with_indices: bool = False) -> dict[Any, Any]:
    """Lists of tensors, grouped by device and dtype of the first list's."""
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(lists[0]):
        groups.setdefault((x.device, x.dtype), []).append(i)
    return {
        key: ([[each[i] for i in where] if each else [] for each in lists], where if with_indices else [])
        for key, where in groups.items()
    }


@contextmanager
def _on_device(device: Any) -> Iterator[None]:
    with device:
        yield


class _WeakIdKeys(dict[Any, Any]):
    """A dictionary keyed by the identity of objects, which it keeps alive."""


#: settings of TorchScript; each returns what it was
_JIT_SETTINGS = (
    "set_profiling_executor set_profiling_mode set_texpr_fuser_enabled override_can_fuse_on_cpu "
    "override_can_fuse_on_gpu can_fuse_on_cpu can_fuse_on_gpu set_nvfuser_enabled set_nvfuser_guard_mode "
    "set_autocast_mode"
)

#: by module, what works
WORKING: dict[str, dict[str, Any]] = {
    "": {
        name: NameOnly(name)
        for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4", *[f"uint{bits}" for bits in range(1, 8)])
    }
    | {
        name: qscheme(name)
        for name in ("per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric")
    }
    | {"OutOfMemoryError": OutOfMemoryError, "get_device_module": _device_module, "qscheme": qscheme},
    "_C": {"DispatchKey": DispatchKey, "DispatchKeySet": lambda key: frozenset((key,))}
    | dict.fromkeys([f"_jit_{name}" for name in _JIT_SETTINGS.split()], _never)
    | {"_get_privateuse1_backend_name": lambda: "privateuseone", "_get_default_device": lambda: "cpu"},
    "_C._functorch": {
        "__getattr__": _map_step,
        "is_batchedtensor": _is_batched,
        "is_gradtrackingtensor": _never,
        "is_functorch_wrapped_tensor": _never,
        "is_functionaltensor": _never,
        "is_legacy_batchedtensor": _never,
        "get_interpreter_stack": _none,
        "_is_vmap_fallback_enabled": _never,
        "_set_vmap_fallback_enabled": _none,
    },
    "_C._autograd": {
        "ProfilerActivity": ProfilerActivity,
        "ProfilerState": ProfilerState,
        "SavedTensor": SavedTensor,
        "_saved_tensors_hooks_is_enabled": lambda: modes.saved_hooks_disabled is None,
        "_saved_tensors_hooks_get_disabled_error_message": lambda: modes.saved_hooks_disabled,
    },
    "_C._nn": {"__getattr__": _functional, "_parse_to": _parse_to},
    "__config__": {"show": lambda: "PyTorch's autograd on JAX", "parallel_info": str},
    "_dynamo": {"__getattr__": _compiler, "mark_static_address": _none, "graph_break": _none, "mark_dynamic": _none},
    "_dynamo.config": _settings(
        accumulated_cache_size_limit=256, assume_static_by_default=True, automatic_dynamic_shapes=True,
        cache_size_limit=8, capture_dynamic_output_shape_ops=False, capture_scalar_outputs=False,
        compiled_autograd=False, optimize_ddp=True, recompile_limit=8, specialize_int=False, suppress_errors=False,
        verbose=False,
    ),
    "_dynamo._trace_wrapped_higher_order_op": {"TransformGetItemToIndex": _Nothing},
    "_dynamo.utils": {"is_compile_supported": _never, "disable_cache_limit": _Nothing},
    "_higher_order_ops": {"__getattr__": _control_flow},
    "_higher_order_ops.associative_scan": {"__getattr__": _control_flow},
    "_higher_order_ops.cond": {"__getattr__": _control_flow},
    "_higher_order_ops.while_loop": {"__getattr__": _control_flow},
    "_jit_internal": {"_copy_to_script_wrapper": _same, "is_scripting": _never},
    "jit.annotations": {"BroadcastingList1": list, "BroadcastingList2": list, "BroadcastingList3": list, "List": list},
    "_subclasses.fake_tensor": {"is_fake": _never, "unset_fake_temporarily": _Nothing},
    "autograd.profiler": {"record_function": _Nothing, "_is_profiler_enabled": False},
    "_functorch.deprecated": {"__getattr__": _functorch},
    "_functorch.config": _settings(activation_memory_budget=1.0, donated_buffer=False),
    "_inductor": {"list_mode_options": lambda mode=None, dynamic=None: {}, "cudagraph_mark_step_begin": _none},
    "_inductor.config": _settings(
        conv_1x1_as_mm=False, coordinate_descent_tuning=False, cpp_wrapper=False, debug=False, epilogue_fusion=True,
        force_fuse_int_mm_with_mul=False, freezing=False, fx_graph_cache=True, max_autotune=False,
        triton=SimpleNamespace(cudagraphs=False, unique_kernel_names=True),
    ),
    "_vmap_internals": {"__getattr__": _map},
    "_guards": {"active_fake_mode": _none},
    "backends.nnpack": {"is_available": _never},
    "backends.xnnpack": {"enabled": False},
    "backends.cpu": {"get_cpu_capability": lambda: "DEFAULT"},
    "cpu": {"is_initialized": lambda: True, "set_device": _none, "stream": _Nothing},
    "cuda": {
        "OutOfMemoryError": OutOfMemoryError,
        "_initialized": False,
        "default_generators": (),
        "device": _Nothing,
        "device_of": _Nothing,
        "get_arch_list": list,
        "get_rng_state_all": list,
        "has_half": True,
        "has_magma": False,
        "is_tf32_supported": _never,
        "max_memory_cached": _number(0),
        "max_memory_reserved": _number(0),
        "memory_cached": _number(0),
        "memory_stats": lambda device=None: {},
        "reset_max_memory_allocated": _none,
        "reset_peak_memory_stats": _none,
        "seed": _none,
        "set_rng_state_all": _none,
        "set_stream": _none,
        "stream": _Nothing,
    },
    "cuda.amp.common": {"amp_definitely_not_available": lambda: True},
    "cuda.nvtx": {"range": _profiled_range},
    "distributed": {
        "ReduceOp": ReduceOp,
        "GroupMember": _Group,
        "group": _Group,
        "is_available": _never,
        "is_initialized": _never,
        "is_torchelastic_launched": _never,
        "is_mpi_available": _never,
        "is_nccl_available": _never,
        "is_gloo_available": _never,
        "get_rank": _number(0),
        "get_world_size": _number(1),
        "get_backend": _none,
        "barrier": _none,
        "destroy_process_group": _none,
    },
    "distributed.constants": {"default_pg_timeout": timedelta(minutes=30)},
    "distributed.autograd": {"is_available": _never},
    "distributed.rpc": {"is_available": _never},
    "fx": {"wrap": _same},
    "fx.graph_module": {"_USER_PRESERVED_ATTRIBUTES_KEY": "_user_preserved_attributes"},
    "fx.node": {"Target": Callable[..., Any] | str},
    "fx.experimental.proxy_tensor": {"get_proxy_mode": _none},
    "hub": {"HASH_REGEX": re.compile(r"-([a-f0-9]*)\."), "get_dir": _hub_folder, "urlparse": urlparse,
            "_get_torch_home": lambda: str(Path(_hub_folder()).parent)},
    "mps": {"is_available": _never, "device_count": _number(0), "manual_seed": _none, "seed": _none},
    "utils.cpp_extension": {"CUDA_HOME": None, "ROCM_HOME": None},
    "nn.attention.flex_attention": {"_DEFAULT_SPARSE_BLOCK_SIZE": 128},
    "mtia": {"is_available": _never, "device_count": _number(0)},
    "onnx": {"is_in_onnx_export": _never, "register_custom_op_symbolic": _none},
    "onnx.symbolic_helper": {"parse_args": lambda *kinds: _same},
    "profiler": {"ProfilerActivity": ProfilerActivity, "kineto_available": _never},
    "utils._contextlib": {"_DecoratorContextManager": _DecoratorContextManager},
    "utils._device": {"DeviceContext": _on_device},
    "utils._foreach_utils": {
        "Indices": list[int],
        "TensorListList": list[list[Any]],
        "_device_has_foreach_support": lambda device: True,
        "_get_foreach_kernels_supported_devices": list,
        "_get_fused_kernels_supported_devices": lambda: ["cpu"],
        "_group_tensors_by_device_and_dtype": _by_device_and_type,
        "_has_foreach_support": lambda tensors, device: True,
    },
    "utils.deterministic": {"fill_uninitialized_memory": True},
    "utils._python_dispatch": {"is_traceable_wrapper_subclass": _never},
    "utils.weak": {"WeakIdKeyDictionary": _WeakIdKeys, "WeakTensorKeyDictionary": _WeakIdKeys},
    "xpu": {"is_available": _never, "device_count": _number(0), "empty_cache": _none, "is_initialized": _never,
            "is_bf16_supported": _never, "manual_seed": _none, "manual_seed_all": _none},
}  # fmt: skip

#: modules with another name here
ALIASES = {
    "_dynamo.eval_frame": "compiler.module",
    "_functorch.make_functional": "func.functional_modules",
    "_functorch.predispatch": "func.maps",
    "_functorch.vmap": "func.maps",
    "_ops": "ops.dispatcher",
    "_tensor": "_utils",
    "ao.quantization": "quantization",
    "cuda.amp.autocast_mode": "cuda.amp",
    "cuda.amp.grad_scaler": "cuda.amp",
    "cuda.memory": "cuda",
    "cuda.random": "cuda",
    "nn._reduction": "nn.reduction",
    "nn.modules.channelshuffle": "nn.modules.reshaping",
    "nn.modules.flatten": "nn.modules.reshaping",
    "nn.modules.fold": "nn.modules.reshaping",
    "nn.modules.pixelshuffle": "nn.modules.reshaping",
    "nn.utils.clip_grad": "nn.utils",
    "nn.utils.convert_parameters": "nn.utils",
    "torch_version": "version",
    "utils.data._utils": "utils.data",
    "utils.data._utils.collate": "utils.data.collate",
    "utils.data._utils.fetch": "utils.data.dataloader",
    "utils.data._utils.worker": "utils.data.workers",
}


def _is_module(path: str) -> bool:
    return path in ALIASES or path in REFUSED or path in WORKING


def names(module: str) -> dict[str, Any]:
    """The names that the table gives a module."""
    return refused(module) | WORKING.get(module, {})


class _Loader:
    """Creates a module of the table."""

    def __repr__(self) -> str:
        return __name__

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        alias = ALIASES.get(spec.name.removeprefix(HERE))
        return None if alias is None else importlib.import_module(HERE + alias)

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__.removeprefix(HERE)
        vars(module).update(names(path))
        if "__getattr__" not in vars(module) and any(each.startswith(f"{path}.") for each in (*REFUSED, *WORKING)):
            vars(module)["__getattr__"], vars(module)["__dir__"] = submodules(module.__name__)
        module.__doc__ = module.__doc__ or f"``torch.{path}``: names to be imported; see ``stand_ins``."


class _Finder:
    """Finds the modules of the table, which have no files."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        inner = name.removeprefix(HERE)
        if inner == name or not _is_module(inner):
            return None
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


def submodules(package: str, names: Mapping[str, str] = MappingProxyType({})) -> Any:
    """``__getattr__`` and ``__dir__`` of a package: its modules in the table, and other names, are imported late.

    Arguments:
      names: as ``fgrad.deferred.deferred`` takes them; these are listed, those of the table are not.

    >>> import fgrad.torch as torch
    >>> torch.fx
    <module 'fgrad.torch.fx' (fgrad.torch.stand_ins)>
    """
    inner = package.removeprefix(HERE.rstrip(".")).lstrip(".")
    start = f"{inner}." if inner else ""
    inner_paths = {path.removeprefix(start) for path in (*REFUSED, *WORKING, *ALIASES) if path.startswith(start)}
    modules = [path for path in inner_paths if path and "." not in path]
    return deferred(package, names, modules)


if not any(isinstance(each, _Finder) for each in sys.meta_path):
    sys.meta_path.append(_Finder())  # type: ignore[arg-type]
