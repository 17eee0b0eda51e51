"""PyTorch names that are refused: they can be imported, subclassed and used in ``isinstance``, but not called.

This package emulates autograd.  It has no program tracing (``fx``), no other processes (``distributed``), none of
PyTorch's compilers, and no sparse or nested tensors.  What libraries import from there is in one table.
"""

import importlib
from collections.abc import Callable
from typing import Any

HERE = "fgrad.torch."

#: by module, below ``torch``, the names that are refused: classes begin with a capital letter
REFUSED = {
    "": "DeviceObjType Event PyTorchFileReader ScriptModule Stream SymBool SymFloat SymInt TensorType dsmm "
    "empty_quantized fake_quantize_per_channel_affine fake_quantize_per_tensor_affine from_file hsmm lobpcg "
    "quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_max_pool1d "
    "quantized_max_pool2d sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
    "sparse_csc_tensor sparse_csr_tensor sspaddmm",
    "_C": "Graph Value _ExcludeDispatchKeyGuard",
    "_C._functorch": "CInterpreter TransformType get_unwrapped _unwrap_batched "
    "_vmap_decrement_nesting _vmap_increment_nesting current_level maybe_current_level _wrap_for_grad _unwrap_for_grad "
    "_grad_increment_nesting _grad_decrement_nesting peek_interpreter_stack",
    "_C._autograd": "ProfilerEvent _ProfilerResult _enable_profiler _disable_profiler",
    "_C._distributed_c10d": "ProcessGroup Store",
    "_C._profiler": "_ExperimentalConfig",
    "_custom_ops": "custom_op impl impl_abstract",
    "_dynamo": "explain export",
    "_dynamo.exc": "TensorifyScalarRestartAnalysis Unsupported TorchDynamoException TorchRuntimeError",
    "_functorch": "",
    "_functorch.pyfunctorch": "FuncTorchInterpreter GradInterpreter JvpInterpreter VmapInterpreter "
    "FunctionalizeInterpreter coerce_cinterpreter retrieve_all_functorch_interpreters "
    "retrieve_current_functorch_interpreter temporarily_clear_interpreter_stack temporarily_pop_interpreter_stack "
    "temporarily_restore_interpreter_stack",
    "_functorch.python_key": "make_fx",
    "_guards": "TracingContext detect_fake_mode",
    "_higher_order_ops": "scan",
    "_inductor": "",
    "_prims_common": "",
    "_subclasses": "FakeTensor FakeTensorMode CrossRefFakeMode",
    "_subclasses.fake_tensor": "FakeTensor FakeTensorMode FakeTensorConverter _is_tensor_constructor",
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
    "caching_allocator_alloc caching_allocator_delete can_device_access_peer current_blas_handle current_stream "
    "default_stream get_device_properties get_rng_state get_sync_debug_mode graph graph_pool_handle initial_seed "
    "ipc_collect is_current_stream_capturing make_graphed_callables mem_get_info memory_snapshot memory_summary "
    "set_per_process_memory_fraction set_rng_state set_sync_debug_mode use_mem_pool utilization cudart _lazy_call",
    "cuda.comm": "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
    "cuda.graphs": "CUDAGraph graph make_graphed_callables",
    "cuda.nccl": "all_gather all_reduce broadcast reduce reduce_scatter",
    "cuda.nvtx": "mark range_end range_pop range_push range_start",
    "cuda.profiler": "profile start stop",
    "cuda.streams": "Event ExternalStream Stream",
    "distributed": "ProcessGroup Store TCPStore FileStore HashStore P2POp Work DeviceMesh init_process_group "
    "new_group all_reduce all_gather all_gather_into_tensor all_gather_object all_to_all all_to_all_single broadcast "
    "broadcast_object_list gather gather_object reduce reduce_scatter reduce_scatter_tensor scatter send recv isend "
    "irecv batch_isend_irecv monitored_barrier scatter_object_list Backend init_device_mesh get_global_rank "
    "get_process_group_ranks",
    "distributed._composable": "",
    "distributed._composable.fsdp": "FSDPModule MixedPrecisionPolicy fully_shard CPUOffloadPolicy OffloadPolicy",
    "distributed._composable.fsdp.fully_shard": "fully_shard",
    "distributed._functional_collectives": "AsyncCollectiveTensor all_gather_tensor all_reduce all_to_all_single "
    "reduce_scatter_tensor",
    "distributed._tensor": "DTensor Replicate Shard distribute_tensor",
    "distributed._tensor.experimental": "implicit_replication",
    "distributed._tensor.placement_types": "DTensorSpec Partial Placement Replicate Shard TensorMeta",
    "distributed.algorithms": "",
    "distributed.algorithms._checkpoint": "",
    "distributed.algorithms._checkpoint.checkpoint_wrapper": "CheckpointImpl CheckpointWrapper checkpoint_wrapper "
    "apply_activation_checkpointing",
    "distributed.algorithms.ddp_comm_hooks": "",
    "distributed.algorithms.ddp_comm_hooks.default_hooks": "allreduce_hook bf16_compress_hook bf16_compress_wrapper "
    "fp16_compress_hook fp16_compress_wrapper",
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": "PostLocalSGDState post_localSGD_hook",
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": "PowerSGDState batched_powerSGD_hook powerSGD_hook",
    "distributed.algorithms.join": "Join Joinable JoinHook",
    "distributed.algorithms.model_averaging": "",
    "distributed.algorithms.model_averaging.averagers": "ModelAverager PeriodicModelAverager",
    "distributed.autograd": "DistAutogradContext context get_gradients backward",
    "distributed.checkpoint": "FileSystemReader FileSystemWriter load load_state_dict save save_state_dict "
    "DefaultLoadPlanner DefaultSavePlanner async_save",
    "distributed.checkpoint.default_planner": "DefaultLoadPlanner DefaultSavePlanner",
    "distributed.checkpoint.format_utils": "dcp_to_torch_save _EmptyStateDictLoadPlanner _load_state_dict",
    "distributed.checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "distributed.checkpoint.optimizer": "load_sharded_optimizer_state_dict",
    "distributed.checkpoint.staging": "AsyncStager BlockingAsyncStager",
    "distributed.checkpoint.state_dict": "StateDictOptions get_model_state_dict get_optimizer_state_dict "
    "set_model_state_dict set_optimizer_state_dict _init_optim_state get_state_dict set_state_dict",
    "distributed.checkpoint.state_dict_loader": "load load_state_dict",
    "distributed.checkpoint.state_dict_saver": "async_save save save_state_dict",
    "distributed.constants": "",
    "distributed.device_mesh": "DeviceMesh init_device_mesh",
    "distributed.distributed_c10d": "Backend ProcessGroup Store ReduceOp _get_default_group _get_global_rank "
    "_pickler _unpickler",
    "distributed.elastic": "",
    "distributed.elastic.multiprocessing": "",
    "distributed.elastic.multiprocessing.errors": "ChildFailedError record",
    "distributed.fsdp": "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullStateDictConfig "
    "FullyShardedDataParallel MixedPrecision MixedPrecisionPolicy OffloadPolicy ShardingStrategy StateDictType "
    "OptimStateKeyType fully_shard LocalOptimStateDictConfig LocalStateDictConfig OptimStateDictConfig "
    "StateDictConfig StateDictSettings FullOptimStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig "
    "register_fsdp_forward_method",
    "distributed.fsdp.api": "FullOptimStateDictConfig FullStateDictConfig ShardedOptimStateDictConfig "
    "ShardedStateDictConfig StateDictType BackwardPrefetch CPUOffload LocalOptimStateDictConfig LocalStateDictConfig "
    "MixedPrecision OptimStateDictConfig ShardingStrategy StateDictConfig StateDictSettings",
    "distributed.fsdp.fully_sharded_data_parallel": "FullyShardedDataParallel StateDictType ShardingStrategy "
    "FullOptimStateDictConfig FullStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig "
    "BackwardPrefetch CPUOffload LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision OptimStateDictConfig "
    "StateDictConfig",
    "distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "distributed.fsdp.wrap": "ModuleWrapPolicy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy "
    "transformer_auto_wrap_policy",
    "distributed.launch": "main",
    "distributed.nn": "RemoteModule all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce "
    "reduce_scatter scatter",
    "distributed.nn.functional": "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce "
    "reduce_scatter scatter",
    "distributed.pipelining": "ScheduleGPipe SplitPoint pipeline",
    "distributed.rpc": "RRef WorkerInfo init_rpc remote rpc_async rpc_sync shutdown get_worker_info BackendType "
    "TensorPipeRpcBackendOptions",
    "distributed.run": "main get_args_parser run",
    "distributed.tensor": "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor",
    "distributed.tensor.experimental": "context_parallel",
    "distributed.tensor.experimental._attention": "set_rotate_method",
    "distributed.tensor.parallel": "ColwiseParallel RowwiseParallel parallelize_module ParallelStyle "
    "PrepareModuleInput PrepareModuleOutput SequenceParallel",
    "distributed.tensor.parallel.style": "ColwiseParallel ParallelStyle RowwiseParallel",
    "distributed.tensor.placement_types": "Partial Placement Replicate Shard",
    "distributed.utils": "",
    "classes": "",
    "export": "Dim ExportedProgram export load save",
    "fx": "Graph GraphModule Interpreter Node Proxy Tracer Transformer replace_pattern symbolic_trace",
    "fx.experimental": "",
    "fx.experimental.proxy_tensor": "make_fx",
    "fx.graph_module": "GraphModule _CodeOnlyModule _copy_attr",
    "fx.node": "Node map_arg",
    "fx.passes": "",
    "fx.passes.shape_prop": "ShapeProp TensorMetadata",
    "fx.proxy": "Proxy GraphAppendingTracer TraceError",
    "hub": "download_url_to_file help list load load_state_dict_from_url tqdm set_dir",
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
    "onnx": "ExportOptions export ONNXProgram",
    "onnx.symbolic_opset11": "",
    "package": "PackageExporter PackageImporter sys_importer",
    "profiler": "ProfilerAction profile schedule tensorboard_trace_handler ExecutionTraceObserver",
    "quantization.observer": "HistogramObserver MinMaxObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver",
    "quantization.qconfig": "QConfig",
    "quantization": "DeQuantStub FakeQuantize MinMaxObserver QConfig QuantStub convert default_qconfig fuse_modules "
    "get_default_qat_qconfig get_default_qconfig prepare prepare_qat quantize_dynamic FakeQuantizeBase ObserverBase",
    "sparse": "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
    "ShortTensor SparseSemiStructuredTensor addmm log_softmax mm sampled_addmm softmax spdiags sum "
    "check_sparse_tensor_invariants",
    "testing._internal": "",
    "testing._internal.common_utils": "TestCase make_tensor run_tests",
    "utils._device": "",
    "nn.utils._named_member_accessor": "NamedMemberAccessor swap_tensor",
    "utils._mode_utils": "no_dispatch",
    "utils._python_dispatch": "TorchDispatchMode",
    "utils.bundled_inputs": "augment_model_with_bundled_inputs",
    "utils.benchmark": "Compare",
    "utils.collect_env": "get_env_info get_pretty_env_info main",
    "utils.cpp_extension": "BuildExtension CppExtension CUDAExtension load load_inline include_paths library_paths",
    "utils.data._utils.pin_memory": "pin_memory",
    "utils.flop_counter": "FlopCounterMode register_flop_formula",
    "utils.model_zoo": "load_url tqdm",
    "utils.mobile_optimizer": "optimize_for_mobile",
    "utils.module_tracker": "ModuleTracker",
    "utils.weak": "",
    "xpu": "Event Stream current_device current_stream device get_device_capability get_device_name "
    "get_device_properties get_rng_state max_memory_allocated mem_get_info memory_allocated memory_reserved "
    "reset_peak_memory_stats set_device set_rng_state stream synchronize get_rng_state_all is_bf16_supported "
    "is_current_stream_capturing memory_stats set_rng_state_all",
}  # fmt: skip

#: classes that are modules, and those that are caught
_MODULES = frozenset(("CheckpointWrapper", "FullyShardedDataParallel", "GraphModule", "_CodeOnlyModule"))
_ERRORS = frozenset(
    ("ChildFailedError", "TorchDynamoException", "TorchRuntimeError", "TraceError", "Unsupported")
)  # fmt: skip


class _Kind(type):
    """The metaclass of refused classes; their attributes are refused, too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _function(f"{cls.__module__}.{cls.__qualname__}", name)


class StandIn(metaclass=_Kind):
    """A stand-in for one of PyTorch's classes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise refusal(f"{cls.__module__}.{cls.__qualname__}")


def refusal(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name.removeprefix('fgrad.')}: fgrad.torch has PyTorch's autograd, and not this; the name is here to be "
        "imported."
    )


def _function(module: str, name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise refusal(f"{module}.{name}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    return refuse


def _class(module: str, name: str) -> type:
    base: tuple[type, ...] = (Exception,) if name in _ERRORS else ()
    if name in _MODULES:
        base = (importlib.import_module(HERE + "nn").Module,)
    return _Kind(name, (StandIn, *base), {"__module__": module})


def refused(module: str) -> dict[str, Any]:
    """The refused names of a module."""
    return {
        name: (_class if name[0].isupper() else _function)((HERE + module).rstrip("."), name)
        for name in REFUSED.get(module, "").split()
    }
