"""PyTorch's tensors and autograd on fgrad's immutable graph: ``import fgrad.torch as torch``.

>>> import fgrad.torch as torch
>>> x = torch.tensor([1., 2.], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

import sys
from typing import TYPE_CHECKING, Any

from fgrad.mutable.backward import replay as _replay  # noqa: F401  (fills its port)
from fgrad.mutable.context.emulation import compat as compat, inplace as inplace
from fgrad.mutable.context.modes import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from fgrad.mutable.explain import (  # noqa: F401  (they fill their ports)
    backward_errors as _backward_errors,
    calls as _calls,
    explain as _explain,
)
from fgrad.mutable.explain.audit import audit as audit
from fgrad.mutable.explain.draw import draw as draw
from fgrad.mutable.explain.graph_of import graph_of as graph_of
from fgrad.mutable.explain.hook_schedule import hook_schedule as hook_schedule
from fgrad.mutable.explain.nonfinite import nonfinite as nonfinite
from fgrad.mutable.explain.residuals import residuals as residuals
from fgrad.mutable.explain.views import views as views
from fgrad.mutable.explain.watch import watch as watch
from fgrad.mutable.explain.why_no_grad import why_no_grad as why_no_grad
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
from fgrad.torch import (
    _C as _C,
    accelerator as accelerator,
    amp as amp,
    autograd as autograd,
    backends as backends,
    cpu as cpu,
    cuda as cuda,
    fft as fft,
    foreach as _foreach,
    func as func,
    functional as functional,
    futures as futures,
    legacy,
    linalg as linalg,
    nn as nn,
    ops as ops,
    overrides as overrides,
    profiler as profiler,
    random as random,
    return_types as return_types,
    special as special,
    spectrograms as _spectrograms,  # noqa: F401  (functions and methods)
    types as types,
    utils as utils,
    version as version,
)
from fgrad.torch.amp import GradScaler as GradScaler, autocast as autocast, settings as _autocasting
from fgrad.torch.autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
)
from fgrad.torch.constants import e as e, inf as inf, nan as nan, newaxis as newaxis, pi as pi
from fgrad.torch.control_flow import cond as cond, while_loop as while_loop
from fgrad.torch.cpu import amp as _cpu_amp  # noqa: F401  (an attribute of ``torch.cpu``)
from fgrad.torch.cuda import amp as _cuda_amp  # noqa: F401
from fgrad.torch.func import (
    comparison as _comparison,  # noqa: F401  (enters the layer)
    vmap as vmap,
)
from fgrad.torch.func.functionalization import functionalize as functionalize
from fgrad.torch.futures import Future as Future
from fgrad.torch.installation import install as install, uninstall as uninstall
from fgrad.torch.legacy import set_default_tensor_type as set_default_tensor_type
from fgrad.torch.methods import (
    autograd as _a,  # noqa: F401  (methods of tensors)
    conversion as _c,  # noqa: F401
    functions as _f,  # noqa: F401
    layouts as _l,  # noqa: F401
    memory as _m,  # noqa: F401
)
from fgrad.torch.methods.entrances import enter_methods
from fgrad.torch.ops.table.table import TABLE
from fgrad.torch.printing import set_printoptions as set_printoptions
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
from fgrad.torch.serialization.names import enter_names
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

for _class in (Tensor, Size, dtype, device, finfo, iinfo, Generator):
    # so are they printed, and looked up by pickle
    _class.__module__ = __name__

globals().update(dtypes.NAMES)
globals().update(FORMER)
globals().update(legacy.NAMES)
globals().update(names(""))
globals().update(_foreach.NAMES)
globals().update(_autocasting.NAMES)
globals().update({each.name: each for each in (*formats.memory_format, *formats.layout)})
globals().update({name: entry.call for name, entry in TABLE.items() if entry.function})
enter_methods()
enter_names()
#: what no other module needs is imported when it is first asked for
_WHEN_ASKED_FOR = frozenset(
    (
        "compiler",
        "distributed",
        "distributions",
        "jit",
        "library",
        "masked",
        "multiprocessing",
        "optim",
        "quasirandom",
        "signal",
    )
    + ("testing",)
)
#: and these functions with the compiler, which knows the optimisers
_OF_THE_COMPILER = frozenset(("capture", "compile", "pure"))
#: PyTorch, too, has itself as an attribute
torch = sys.modules[__name__]

if TYPE_CHECKING:
    from fgrad.torch.compiler.compilation import compile as compile
    from fgrad.torch.compiler.graphs import capture as capture
    from fgrad.torch.compiler.pure import pure as pure

    def __getattr__(name: str) -> Any: ...

else:
    _submodule = submodules(__name__, _WHEN_ASKED_FOR)

    def __getattr__(name: str) -> Any:
        return getattr(_submodule("compiler"), name) if name in _OF_THE_COMPILER else _submodule(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHEN_ASKED_FOR, *_OF_THE_COMPILER})
