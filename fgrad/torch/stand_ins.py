"""PyTorch names that libraries import, mostly for branches that they never take.

This package emulates autograd.  It has no program tracing (``fx``), no other processes (``distributed``), none of
PyTorch's compilers, and no sparse or nested tensors.  What libraries import from there is in one table: the classes can
be imported, subclassed and used in ``isinstance``; constructing one, or calling one of the functions, raises an error
that says so.  What a few lines can do is implemented.
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
from types import MappingProxyType, ModuleType
from typing import Any
from urllib.parse import urlparse

from fgrad.deferred import deferred
from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.devices import device
from fgrad.torch.methods.to_arguments import to_arguments
from fgrad.torch.trees import flatten, unflatten

_HERE = "fgrad.torch."

#: by module, below ``torch``, the names that are refused: classes begin with a capital letter
REFUSED = {
    "": "DeviceObjType Event PyTorchFileReader ScriptModule Stream SymBool SymFloat SymInt TensorType empty_quantized "
    "fake_quantize_per_channel_affine fake_quantize_per_tensor_affine from_file hsmm lobpcg quantize_per_channel "
    "quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_max_pool1d quantized_max_pool2d "
    "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor "
    "sparse_csr_tensor sspaddmm",
    "_C": "Graph Value _ExcludeDispatchKeyGuard",
    "_C._functorch": "CInterpreter TransformType get_unwrapped _add_batch_dim _remove_batch_dim _unwrap_batched "
    "_vmap_decrement_nesting _vmap_increment_nesting current_level maybe_current_level _wrap_for_grad _unwrap_for_grad "
    "_grad_increment_nesting _grad_decrement_nesting peek_interpreter_stack",
    "_C._autograd": "ProfilerEvent _ProfilerResult _enable_profiler _disable_profiler",
    "_C._distributed_c10d": "ProcessGroup Store",
    "_custom_ops": "custom_op impl impl_abstract",
    "_dynamo": "OptimizedModule explain export",
    "_dynamo.exc": "TensorifyScalarRestartAnalysis Unsupported",
    "_functorch": "",
    "_functorch.deprecated": "FunctionalModule FunctionalModuleWithBuffers combine_state_for_ensemble make_functional "
    "make_functional_with_buffers",
    "_functorch.make_functional": "FunctionalModule FunctionalModuleWithBuffers",
    "_functorch.python_key": "make_fx",
    "_functorch.vmap": "_maybe_remove_batch_dim _add_batch_dim _broadcast_to_and_flatten _create_batched_inputs "
    "_get_name _process_batched_inputs _unwrap_batched _validate_outputs _chunked_vmap _flat_vmap",
    "_guards": "TracingContext detect_fake_mode",
    "_higher_order_ops": "cond scan while_loop",
    "_higher_order_ops.associative_scan": "associative_scan",
    "_higher_order_ops.cond": "cond",
    "_inductor": "",
    "_ops": "HigherOrderOperator OpOverload OpOverloadPacket",
    "_prims_common": "",
    "_subclasses": "FakeTensor FakeTensorMode CrossRefFakeMode",
    "_subclasses.fake_tensor": "FakeTensor FakeTensorMode",
    "_subclasses.functional_tensor": "FunctionalTensor FunctionalTensorMode mb_unwrap_functional_tensor "
    "disable_functional_mode",
    "_subclasses.meta_utils": "MetaConverter",
    "_tensor_str": "PRINT_OPTS _str _tensor_str",
    "accelerator": "current_device_index current_stream empty_cache get_memory_info max_memory_allocated "
    "max_memory_reserved memory_allocated memory_reserved memory_stats reset_peak_memory_stats set_device_index "
    "set_stream",
    "ao": "",
    "autograd.profiler": "EventList profile emit_nvtx emit_itt EnforceUnique KinetoStepTracker",
    "autograd.profiler_util": "EventList FunctionEvent FunctionEventAvg Interval Kernel MemRecordsAcc _format_time",
    "backends.quantized": "",
    "cpu": "Event Stream current_stream",
    "cuda": "BFloat16Tensor BoolTensor ByteTensor CUDAGraph CUDAPluggableAllocator CharTensor DoubleTensor Event "
    "ExternalStream FloatTensor HalfTensor IntTensor LongTensor MemPool ShortTensor Stream StreamContext "
    "caching_allocator_alloc "
    "caching_allocator_delete can_device_access_peer current_blas_handle current_stream default_stream "
    "get_device_properties get_rng_state get_sync_debug_mode graph graph_pool_handle initial_seed ipc_collect "
    "is_current_stream_capturing make_graphed_callables mem_get_info memory_snapshot memory_summary "
    "set_per_process_memory_fraction set_rng_state set_sync_debug_mode use_mem_pool utilization",
    "cuda.comm": "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
    "cuda.graphs": "CUDAGraph graph make_graphed_callables",
    "cuda.nccl": "all_gather all_reduce broadcast reduce reduce_scatter",
    "cuda.nvtx": "mark range range_end range_pop range_push range_start",
    "cuda.profiler": "profile start stop",
    "cuda.streams": "Event ExternalStream Stream",
    "distributed": "ProcessGroup Store TCPStore FileStore HashStore P2POp Work DeviceMesh init_process_group new_group "
    "all_reduce all_gather all_gather_into_tensor all_gather_object all_to_all all_to_all_single broadcast "
    "broadcast_object_list gather gather_object reduce reduce_scatter reduce_scatter_tensor scatter send recv isend "
    "irecv batch_isend_irecv monitored_barrier scatter_object_list",
    "distributed._composable": "",
    "distributed._composable.fsdp": "FSDPModule MixedPrecisionPolicy fully_shard",
    "distributed._tensor": "DTensor Replicate Shard distribute_tensor",
    "distributed._tensor.experimental": "implicit_replication",
    "distributed.algorithms": "",
    "distributed.algorithms._checkpoint": "",
    "distributed.algorithms._checkpoint.checkpoint_wrapper": "CheckpointImpl CheckpointWrapper checkpoint_wrapper "
    "apply_activation_checkpointing",
    "distributed.algorithms.ddp_comm_hooks": "default_hooks post_localSGD_hook powerSGD_hook",
    "distributed.algorithms.join": "Join Joinable JoinHook",
    "distributed.autograd": "DistAutogradContext context get_gradients backward",
    "distributed.checkpoint": "FileSystemReader FileSystemWriter load load_state_dict save save_state_dict",
    "distributed.checkpoint.default_planner": "DefaultLoadPlanner DefaultSavePlanner",
    "distributed.checkpoint.format_utils": "dcp_to_torch_save",
    "distributed.checkpoint.state_dict": "StateDictOptions get_model_state_dict get_optimizer_state_dict "
    "set_model_state_dict set_optimizer_state_dict",
    "distributed.constants": "",
    "distributed.device_mesh": "DeviceMesh init_device_mesh",
    "distributed.elastic": "",
    "distributed.elastic.multiprocessing": "",
    "distributed.elastic.multiprocessing.errors": "ChildFailedError record",
    "distributed.fsdp": "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullStateDictConfig "
    "FullyShardedDataParallel MixedPrecision MixedPrecisionPolicy OffloadPolicy ShardingStrategy StateDictType "
    "OptimStateKeyType fully_shard",
    "distributed.fsdp.api": "FullOptimStateDictConfig FullStateDictConfig ShardedOptimStateDictConfig "
    "ShardedStateDictConfig StateDictType",
    "distributed.fsdp.fully_sharded_data_parallel": "FullyShardedDataParallel StateDictType ShardingStrategy "
    "FullOptimStateDictConfig FullStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig",
    "distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "distributed.fsdp.wrap": "ModuleWrapPolicy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy "
    "transformer_auto_wrap_policy",
    "distributed.launch": "main",
    "distributed.nn": "RemoteModule",
    "distributed.nn.functional": "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce "
    "reduce_scatter scatter",
    "distributed.pipelining": "ScheduleGPipe SplitPoint pipeline",
    "distributed.rpc": "RRef WorkerInfo init_rpc remote rpc_async rpc_sync shutdown get_worker_info",
    "distributed.run": "main",
    "distributed.tensor": "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor",
    "distributed.tensor.experimental": "context_parallel",
    "distributed.tensor.experimental._attention": "set_rotate_method",
    "distributed.tensor.parallel": "ColwiseParallel RowwiseParallel parallelize_module",
    "classes": "",
    "export": "Dim ExportedProgram export load save",
    "fx": "Graph GraphModule Interpreter Node Proxy Tracer Transformer replace_pattern symbolic_trace",
    "fx.experimental": "",
    "fx.experimental.proxy_tensor": "make_fx",
    "fx.graph_module": "GraphModule",
    "fx.node": "Node",
    "fx.proxy": "Proxy",
    "hub": "download_url_to_file help list load load_state_dict_from_url tqdm",
    "library": "Library define fallthrough_kernel get_ctx impl opcheck register_torch_dispatch triton_op wrap_triton",
    "monitor": "Aggregation Event Stat TensorboardEventHandler log_event register_event_handler",
    "mps": "Event compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state "
    "recommended_max_memory set_per_process_memory_fraction set_rng_state synchronize",
    "nested": "as_nested_tensor nested_tensor nested_tensor_from_jagged to_padded_tensor",
    "nested._internal": "",
    "nested._internal.nested_tensor": "NestedTensor ViewNestedFromBuffer _tensor_symint_registry buffer_from_jagged",
    "nested._internal.ops": "extract_kwargs",
    "nn.quantized": "BatchNorm2d Conv2d FloatFunctional Linear QFunctional",
    "nn.attention.flex_attention": "AuxRequest BlockMask create_block_mask create_mask flex_attention",
    "onnx": "ExportOptions export",
    "onnx.symbolic_opset11": "",
    "package": "PackageExporter PackageImporter",
    "profiler": "ProfilerAction profile schedule tensorboard_trace_handler ExecutionTraceObserver",
    "quantization.observer": "HistogramObserver MinMaxObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver",
    "quantization.qconfig": "QConfig",
    "quantization": "DeQuantStub FakeQuantize MinMaxObserver QConfig QuantStub convert default_qconfig fuse_modules "
    "get_default_qat_qconfig get_default_qconfig prepare prepare_qat quantize_dynamic",
    "sparse": "addmm log_softmax mm sampled_addmm softmax spdiags sum SparseSemiStructuredTensor",
    "utils._device": "",
    "nn.utils._named_member_accessor": "NamedMemberAccessor swap_tensor",
    "utils._mode_utils": "no_dispatch",
    "utils._python_dispatch": "TorchDispatchMode",
    "utils.bundled_inputs": "augment_model_with_bundled_inputs",
    "utils.benchmark": "Compare Measurement Timer",
    "utils.collect_env": "get_env_info get_pretty_env_info main",
    "utils.cpp_extension": "BuildExtension CppExtension CUDAExtension load load_inline",
    "utils.flop_counter": "FlopCounterMode register_flop_formula",
    "utils.model_zoo": "load_url tqdm",
    "utils.mobile_optimizer": "optimize_for_mobile",
    "utils.module_tracker": "ModuleTracker",
    "utils.tensorboard": "SummaryWriter",
    "utils.weak": "",
    "xpu": "Event Stream current_device current_stream device get_device_capability get_device_name "
    "get_device_properties get_rng_state max_memory_allocated mem_get_info memory_allocated memory_reserved "
    "reset_peak_memory_stats set_device set_rng_state stream synchronize",
}  # fmt: skip

#: classes that are modules
_MODULES = frozenset(("CheckpointWrapper", "FullyShardedDataParallel", "GraphModule", "OptimizedModule"))


class _Kind(type):
    """The metaclass of refused classes; their attributes are refused, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _function(f"{cls.__module__}.{cls.__qualname__}", name)


class StandIn(metaclass=_Kind):
    """A stand-in for one of PyTorch's classes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise _refusal(f"{cls.__module__}.{cls.__qualname__}")


def _refusal(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name.removeprefix('fgrad.')}: fgrad.torch has PyTorch's autograd, and not this; the name is here to be "
        "imported."
    )


def _function(module: str, name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise _refusal(f"{module}.{name}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    return refuse


def _class(module: str, name: str) -> type:
    base = (importlib.import_module(_HERE + "nn").Module,) if name in _MODULES else ()
    return _Kind(name, (StandIn, *base), {"__module__": module})


# ----------------------------------------------------------------------------------------------------------------------
# what a few lines can implement


def _same(value: Any) -> Any:
    return value


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
        raise _refusal(repr(self))


def _hub_folder() -> str:
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "torch"
    return str(Path(home) / "hub")


def _transform(name: str) -> Any:
    """What ``torch.func`` has."""
    return getattr(importlib.import_module(_HERE + "func"), name)


def _functional(name: str) -> Any:
    """What ``torch.nn.functional`` has."""
    return getattr(importlib.import_module(_HERE + "nn.functional"), name)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, ``non_blocking`` and memory format that arguments of ``to`` give."""
    to, dtype, non_blocking, _, memory_format = to_arguments(args, kwargs)
    return None if to is None else device(to), dtype, non_blocking, memory_format


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


#: by module, what works
WORKING: dict[str, dict[str, Any]] = {
    "": {
        name: NameOnly(name)
        for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4", "per_tensor_affine", "per_tensor_symmetric")
        + ("per_channel_affine", "per_channel_symmetric")
    }
    | {"OutOfMemoryError": OutOfMemoryError},
    "_C": {"DispatchKey": DispatchKey, "DispatchKeySet": lambda key: frozenset((key,))},
    "_C._functorch": {
        "is_batchedtensor": _never,
        "is_gradtrackingtensor": _never,
        "is_functorch_wrapped_tensor": _never,
        "is_functionaltensor": _never,
        "is_legacy_batchedtensor": _never,
        "get_interpreter_stack": _none,
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
    "_dynamo": {"disable": lambda fn=None, *args, **named: _same if fn is None else fn, "is_compiling": _never,
                "assume_constant_result": _same, "mark_static_address": _none, "reset": _none, "allow_in_graph": _same,
                "graph_break": _none, "mark_dynamic": _none},
    "_dynamo._trace_wrapped_higher_order_op": {"TransformGetItemToIndex": _Nothing},
    "_dynamo.utils": {"is_compile_supported": _never},
    "_jit_internal": {"_copy_to_script_wrapper": _same, "is_scripting": _never},
    "jit.annotations": {"BroadcastingList1": list, "BroadcastingList2": list, "BroadcastingList3": list, "List": list},
    "_subclasses.fake_tensor": {"is_fake": _never, "unset_fake_temporarily": _Nothing},
    "autograd.profiler": {"record_function": _Nothing, "_is_profiler_enabled": False},
    "_functorch.deprecated": {"__getattr__": _transform},
    "_functorch.vmap": {"Tensor": Tensor, "tree_flatten": flatten, "tree_unflatten": unflatten},
    "_guards": {"active_fake_mode": _none},
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
    "fx.experimental.proxy_tensor": {"get_proxy_mode": _none},
    "hub": {"HASH_REGEX": re.compile(r"-([a-f0-9]*)\."), "get_dir": _hub_folder, "urlparse": urlparse,
            "_get_torch_home": lambda: str(Path(_hub_folder()).parent)},
    "mps": {"is_available": _never, "device_count": _number(0), "manual_seed": _none, "seed": _none},
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
            "manual_seed": _none, "manual_seed_all": _none},
}  # fmt: skip

#: modules with another name here
ALIASES = {
    "_tensor": "_utils",
    "ao.quantization": "quantization",
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
    "utils.data._utils.worker": "utils.data.workers",
}


def names(module: str) -> dict[str, Any]:
    """The names that the table gives a module."""
    refused = {
        name: (_class if name[0].isupper() else _function)((_HERE + module).rstrip("."), name)
        for name in REFUSED.get(module, "").split()
    }
    return refused | WORKING.get(module, {})


class _Loader:
    """Creates a module of the table."""

    def __repr__(self) -> str:
        return __name__

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        alias = ALIASES.get(spec.name.removeprefix(_HERE))
        return None if alias is None else importlib.import_module(_HERE + alias)

    def exec_module(self, module: ModuleType) -> None:
        path = module.__name__.removeprefix(_HERE)
        vars(module).update(names(path))
        module.__doc__ = module.__doc__ or f"``torch.{path}``: names to be imported; see ``stand_ins``."


class _Finder:
    """Finds the modules of the table, which have no files."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        inner = name.removeprefix(_HERE)
        if inner == name or not (inner in ALIASES or inner in REFUSED or inner in WORKING):
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
    inner = package.removeprefix(_HERE.rstrip(".")).lstrip(".")
    start = f"{inner}." if inner else ""
    inner_paths = {path.removeprefix(start) for path in (*REFUSED, *WORKING, *ALIASES) if path.startswith(start)}
    modules = [path for path in inner_paths if path and "." not in path]
    return deferred(package, names, modules)


if not any(isinstance(each, _Finder) for each in sys.meta_path):
    sys.meta_path.append(_Finder())  # type: ignore[arg-type]
