"""How each function of the table is entered for ``__torch_function__``: see NOTE [Overriding].

PyTorch hands over the calls of functions written in C++ and in Python in different ways, and tells handlers so.
"""

from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.context.torch_function.wrap import overridable

FUNCTIONAL = "nn.functional."


def names(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


#: functions that never ask: no argument is a tensor, or they ask what something is
CLOSED = names(
    "are_deterministic_algorithms_enabled broadcast_shapes compile cond from_dlpack from_jax from_numpy "
    "get_default_device get_default_dtype get_deterministic_debug_mode get_device_module get_float32_matmul_precision "
    "get_num_interop_threads get_num_threads get_rng_state initial_seed is_anomaly_check_nan_enabled "
    "is_anomaly_enabled is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_storage is_tensor "
    "is_warn_always_enabled load manual_seed save seed set_anomaly_enabled set_default_device set_default_tensor_type "
    "set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads "
    "set_num_threads set_printoptions set_rng_state set_warn_always to_dlpack to_jax typename "
    "use_deterministic_algorithms vmap"
)

#: functions that make tensors out of anything: a tensor of a class is an element like others
FACTORIES = frozenset(("tensor", "as_tensor", "asarray", "frombuffer"))

#: functions of ``torch`` that PyTorch has written in Python, by its files
IN_PYTHON = {
    name: module
    for module, names in {
        "torch.functional": "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist "
        "chain_matmul einsum lu meshgrid norm split stft tensordot unique unique_consecutive unravel_index",
        "torch._lowrank": "pca_lowrank svd_lowrank",
        "torch": "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
    }.items()
    for name in names.split()
}

#: functions of ``torch.nn.functional`` that call others and do not ask themselves
_FUNCTIONAL_CLOSED = names("sigmoid tanh hardsigmoid hardswish upsample upsample_bilinear upsample_nearest")
#: those written in C++ which are functions of ``torch`` too, and those which are not
_FUNCTIONAL_OF_TORCH = names(
    "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d "
    "conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist "
    "pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_"
)
_FUNCTIONAL_PARSED = names(
    "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear logsigmoid one_hot scaled_dot_product_attention "
    "softplus softshrink"
)
_OTHER_NAMES = {"logsigmoid": "log_sigmoid", "threshold": "_threshold", "sym_sqrt": "_sym_sqrt"}

#: functions whose parameters are not quite PyTorch's
_LIKE: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d", "chain_matmul"), lambda *tensors: None),
    "lu": lambda A, pivot=True, get_infos=False, out=None: None,
    "norm": lambda input, p="fro", dim=None, keepdim=False, out=None, dtype=None: None,
    "split": lambda tensor, split_size_or_sections, dim=0: None,
    "tensordot": lambda a, b, dims=2, out=None: None,
    "unravel_index": lambda indices, shape=None: None,
}


def entered(called: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A public function of the table as users call it; ``called`` is its name there."""
    if called.startswith(FUNCTIONAL):
        return _functional(called.removeprefix(FUNCTIONAL), function)
    if called in CLOSED:
        return function
    if called in IN_PYTHON:
        name = f"{IN_PYTHON[called]}.{_OTHER_NAMES.get(called, called)}"
        return overridable(function, name, Rule.WRITTEN, like=_LIKE.get(called))
    namespace, _, own = called.rpartition(".")
    name = f"torch.{namespace}.{namespace}_{own}" if namespace else f"torch.{called}"
    return overridable(function, name, Rule.FACTORY if called in FACTORIES else Rule.PARSED)


def _functional(called: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if called in _FUNCTIONAL_CLOSED:
        return function
    if called in _FUNCTIONAL_OF_TORCH:
        return overridable(function, f"torch.{called}")
    if called in _FUNCTIONAL_PARSED:
        return overridable(function, f"torch.nn.{_OTHER_NAMES.get(called, called)}")
    return overridable(function, f"torch.nn.functional.{_OTHER_NAMES.get(called, called)}", Rule.WRITTEN)
