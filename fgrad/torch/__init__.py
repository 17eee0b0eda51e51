"""PyTorch's tensors and autograd on fgrad's immutable graph: ``import fgrad.torch as torch``.

>>> import fgrad.torch as torch
>>> x = torch.tensor([1., 2.], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

import sys
from math import e as e, inf as inf, nan as nan, pi as pi
from typing import TYPE_CHECKING, Any

from fgrad.deferred import import_at_first_use
from fgrad.graph.port import Port as _Port
from fgrad.mutable.context.emulation import compat as compat, inplace as inplace
from fgrad.mutable.context.modes import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from fgrad.mutable.tensor.tensor import Tensor as Tensor
from fgrad.mutable.types import dtypes, formats
from fgrad.mutable.types.devices import (
    device as device,
    get_default_device as get_default_device,
    set_default_device as set_default_device,
)
from fgrad.mutable.types.dtypes import (
    dtype as dtype,
    get_default_dtype as get_default_dtype,
    set_default_dtype as set_default_dtype,
)
from fgrad.mutable.types.formats import layout as layout, memory_format as memory_format
from fgrad.mutable.types.limits import finfo as finfo, iinfo as iinfo
from fgrad.mutable.types.promotion import can_cast as can_cast, promote_types as promote_types
from fgrad.mutable.types.size import Size as Size
from fgrad.questions.layers import LAYERS
from fgrad.torch import (
    autograd as autograd,
    legacy,
    ops as ops,
    return_types as return_types,
    types as types,
    version as version,
)
from fgrad.torch.autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
)
from fgrad.torch.legacy import set_default_tensor_type as set_default_tensor_type
from fgrad.torch.methods import (
    autograd as _a,  # noqa: F401  (methods of tensors)
    conversion as _c,  # noqa: F401
    functions as _f,  # noqa: F401
    layouts as _l,  # noqa: F401
    memory as _m,  # noqa: F401
)
from fgrad.torch.methods.overridable import enter_methods
from fgrad.torch.ops.table.table import TABLE
from fgrad.torch.printing import set_printoptions as set_printoptions
from fgrad.torch.settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode as get_deterministic_debug_mode,
    get_float32_matmul_precision as get_float32_matmul_precision,
    get_num_interop_threads as get_num_interop_threads,
    get_num_threads as get_num_threads,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled as is_warn_always_enabled,
    set_deterministic_debug_mode as set_deterministic_debug_mode,
    set_float32_matmul_precision as set_float32_matmul_precision,
    set_flush_denormal as set_flush_denormal,
    set_num_interop_threads as set_num_interop_threads,
    set_num_threads as set_num_threads,
    set_warn_always as set_warn_always,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from fgrad.torch.stand_ins import names, submodules
from fgrad.torch.storage import FORMER, TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
from fgrad.torch.version import __version__ as __version__

for _class in (Tensor, Size, dtype, device, finfo, iinfo):
    # for printing and pickling
    _class.__module__ = __name__

globals().update(dtypes.NAMES)
globals().update(FORMER)
globals().update(legacy.NAMES)
globals().update(names(""))
globals().update({each.name: each for each in (*formats.memory_format, *formats.layout)})
globals().update({name: entry.call for name, entry in TABLE.rows.items() if entry.function})
enter_methods()
LAYERS.append(_Port("fgrad.torch.func.comparison", "TensorPrograms", asked_by=["fgrad.questions.layers"]))
#: as in PyTorch
torch = sys.modules[__name__]
#: inserts an axis in an index
newaxis = None

#: what a first program does not need is imported at first use
_LATE = {
    # the functions of ``fgrad.mutable.explain`` have the names of their modules
    **{
        f"fgrad.mutable.explain.{name}": name
        for name in "audit draw graph_of hook_schedule nonfinite residuals views watch why_no_grad".split()  # noqa: SIM905
    },
    "fgrad.torch": "_C __future__ _utils accelerator amp backends compiler cpu cuda distributed distributions fft func "
    "functional futures jit library linalg masked multiprocessing nn optim overrides profiler quasirandom random "
    "serialization signal special testing utils",
    "fgrad.torch.amp": "GradScaler autocast",
    "fgrad.torch.amp.settings": "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache "
    "get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled "
    "is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled set_autocast_cpu_dtype "
    "set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype",
    "fgrad.torch.checks": "_assert _assert_async _check _check_index _check_is_size _check_not_implemented "
    "_check_tensor_all _check_tensor_all_with _check_type _check_value _check_with",
    "fgrad.torch.compiler": "capture compile pure",
    "fgrad.torch.control_flow": "cond while_loop",
    "fgrad.torch.func": "vmap",
    "fgrad.torch.func.functionalization": "functionalize",
    "fgrad.torch.futures": "Future",
    "fgrad.torch.installation": "install uninstall",
    "fgrad.torch.random": "default_generator get_rng_state initial_seed manual_seed seed set_rng_state",
    "fgrad.torch.random.public": "Generator",
    "fgrad.torch.serialization": "load save",
}


def _all_functions() -> None:
    """Import all functions of ``torch``, and those that optimisers use (``_foreach_add``)."""
    for name, function in import_at_first_use(f"{__name__}.foreach").NAMES.items():
        globals().setdefault(name, function)
    for name, entry in TABLE.items():
        if entry.function:
            globals().setdefault(name, entry.call)


if TYPE_CHECKING:
    from fgrad.mutable.explain.audit import audit as audit
    from fgrad.mutable.explain.draw import draw as draw
    from fgrad.mutable.explain.graph_of import graph_of as graph_of
    from fgrad.mutable.explain.hook_schedule import hook_schedule as hook_schedule
    from fgrad.mutable.explain.nonfinite import nonfinite as nonfinite
    from fgrad.mutable.explain.residuals import residuals as residuals
    from fgrad.mutable.explain.views import views as views
    from fgrad.mutable.explain.watch import watch as watch
    from fgrad.mutable.explain.why_no_grad import why_no_grad as why_no_grad
    from fgrad.torch import (
        _C as _C,
        __future__ as __future__,
        _utils as _utils,
        accelerator as accelerator,
        amp as amp,
        backends as backends,
        compiler as compiler,
        cpu as cpu,
        cuda as cuda,
        distributed as distributed,
        distributions as distributions,
        fft as fft,
        func as func,
        functional as functional,
        futures as futures,
        jit as jit,
        library as library,
        linalg as linalg,
        masked as masked,
        multiprocessing as multiprocessing,
        nn as nn,
        optim as optim,
        overrides as overrides,
        profiler as profiler,
        quasirandom as quasirandom,
        random as random,
        serialization as serialization,
        signal as signal,
        special as special,
        testing as testing,
        utils as utils,
    )
    from fgrad.torch.amp import GradScaler as GradScaler, autocast as autocast
    from fgrad.torch.amp.settings import (
        autocast_decrement_nesting as autocast_decrement_nesting,
        autocast_increment_nesting as autocast_increment_nesting,
        clear_autocast_cache as clear_autocast_cache,
        get_autocast_cpu_dtype as get_autocast_cpu_dtype,
        get_autocast_dtype as get_autocast_dtype,
        get_autocast_gpu_dtype as get_autocast_gpu_dtype,
        is_autocast_cache_enabled as is_autocast_cache_enabled,
        is_autocast_cpu_enabled as is_autocast_cpu_enabled,
        is_autocast_enabled as is_autocast_enabled,
        set_autocast_cache_enabled as set_autocast_cache_enabled,
        set_autocast_cpu_dtype as set_autocast_cpu_dtype,
        set_autocast_cpu_enabled as set_autocast_cpu_enabled,
        set_autocast_dtype as set_autocast_dtype,
        set_autocast_enabled as set_autocast_enabled,
        set_autocast_gpu_dtype as set_autocast_gpu_dtype,
    )
    from fgrad.torch.checks import (
        _assert as _assert,
        _assert_async as _assert_async,
        _check as _check,
        _check_index as _check_index,
        _check_is_size as _check_is_size,
        _check_not_implemented as _check_not_implemented,
        _check_tensor_all as _check_tensor_all,
        _check_tensor_all_with as _check_tensor_all_with,
        _check_type as _check_type,
        _check_value as _check_value,
        _check_with as _check_with,
    )
    from fgrad.torch.compiler.compilation import compile as compile
    from fgrad.torch.compiler.graphs import capture as capture
    from fgrad.torch.compiler.pure import pure as pure
    from fgrad.torch.control_flow import cond as cond, while_loop as while_loop
    from fgrad.torch.func import vmap as vmap
    from fgrad.torch.func.functionalization import functionalize as functionalize
    from fgrad.torch.futures import Future as Future
    from fgrad.torch.installation import install as install, uninstall as uninstall
    from fgrad.torch.random import (
        default_generator as default_generator,
        get_rng_state as get_rng_state,
        initial_seed as initial_seed,
        manual_seed as manual_seed,
        seed as seed,
        set_rng_state as set_rng_state,
    )
    from fgrad.torch.random.public import Generator as Generator
    from fgrad.torch.serialization import load as load, save as save

    def __getattr__(name: str) -> Any: ...
    def _listed() -> list[str]: ...

else:
    _deferred, _listed = submodules(__name__, _LATE)

    def __getattr__(name: str) -> Any:
        try:
            return _deferred(name)
        except AttributeError:
            if name.startswith("__"):
                raise
        entry = TABLE.get(name)
        if entry is not None and entry.function:
            globals()[name] = entry.call
        else:
            _all_functions()
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]


#: this file's private imports, and modules that PyTorch does not have
_INTERNAL = {
    *("Any", "FORMER", "LAYERS", "TABLE", "TYPE_CHECKING", "control_flow", "dtypes", "enter_methods"),
    *(
        "checks",
        "foreach",
        "formats",
        "import_at_first_use",
        "installation",
        "layers",
        "legacy",
        "methods",
        "names",
        "pickle_memory",
    ),
    *(
        "pickle_names",
        "printing",
        "refused",
        "settings",
        "shared_memory",
        "sharing",
        "stand_ins",
        "submodules",
        "sys",
        "trees",
    ),
}


def __dir__() -> list[str]:
    _all_functions()
    return sorted({*_listed()} - _INTERNAL)
