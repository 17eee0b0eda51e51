"""The casts of ``torch.autocast``: which function runs in which type, and the settings of each thread.

NOTE [Autocasting]
A call of a public function, method or operator goes through its entrance (see NOTE [Overriding]), which looks at one
flag.  Where a thread autocasts, the function is looked up here by the name that PyTorch's dispatcher knows it by, and
floating-point arguments other than float64 are cast first.  Inside of it nothing is cast.  A function that is not
listed runs as it is; functions that it is made of are cast on their own.  ``out=`` and in-place calls are never cast.

The cast of a parameter is kept until the outermost context ends, so that a parameter used twice is cast once.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import watch
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch.methods.conversion import to
from fgrad.torch.ops.table.answers import names

#: functions computed in the lower precision
LOWER = names(
    "_addmm_activation addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d "
    "conv_transpose3d linalg_vecdot linear matmul mm prelu scaled_dot_product_attention __matmul__ "
    "__rmatmul__"
)

#: functions computed in float32
FLOAT = names(
    "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits cdist "
    "cholesky cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy ctc_loss fft_fft fft_fft2 fft_fftn "
    "fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn "
    "fractional_max_pool2d fractional_max_pool3d geqrf grid_sample hinge_embedding_loss huber_loss inverse kl_div "
    "l1_loss linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh "
    "linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve "
    "linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu lu_solve margin_ranking_loss max_unpool1d "
    "max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss nanquantile nll_loss orgqr ormqr "
    "pinverse poisson_nll_loss polar prod qr quantile smooth_l1_loss soft_margin_loss stft svd trace "
    "triangular_solve triplet_margin_loss view_as_complex"
)

#: functions computed in the widest type of their arguments
WIDEST = frozenset(("cat", "stack", "index_copy"))

#: functions that are computed in float32 only with some arguments
_IN_FLOAT_IF: dict[str, Callable[[Sequence[Any], dict[str, Any]], bool]] = {
    "pad": lambda args, kwargs: _pads_in_float(*args, **kwargs),
    "max_pool3d": lambda args, kwargs: not (len(args) > 6 and args[6]) and not kwargs.get("return_indices"),
}

#: the types of devices that have casts, and the type they have at first
DEVICES = {
    **dict.fromkeys(("cpu", "maia", "xla", "hpu"), dtypes.bfloat16),
    **dict.fromkeys(("cuda", "mtia", "xpu", "ipu", "privateuseone", "mps"), dtypes.float16),
}


class Settings(threading.local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.dtypes: dict[str, dtypes.dtype] = dict(DEVICES)
        #: the devices whose tensors are cast, and to what
        self.targets: dict[str, Dtype] = {}
        self.cache_enabled = True
        self.nesting = 0
        #: by the identity of a parameter: the parameter and its cast
        self.cache: dict[int, tuple[Tensor, Tensor]] = {}

    def set(self, device: str, enabled: bool, dtype: Dtype) -> None:
        """Set whether tensors of a device are cast, and to what."""
        if enabled:
            watch.enter()
        # another dict, for the one that is being used is put back after a call
        targets = {key: value for key, value in self.targets.items() if key != device}
        if enabled:
            targets[device] = dtype
        self.dtypes[device] = dtype
        self.targets, modes.casting = targets, targets != {}


settings: Settings = Settings()


def run(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function with its arguments cast as its name has it."""
    targets = settings.targets
    if not targets or kwargs.get("out") is not None:
        return function(*args, **kwargs)
    name = name.rpartition(".")[2]
    if name in LOWER:
        cast = _lower
    elif name in FLOAT or (name in _IN_FLOAT_IF and _IN_FLOAT_IF[name](args, kwargs)):
        cast = _to_float
    elif name in WIDEST:
        cast = _to_float if _widest((*args, *kwargs.values()), targets) is dtypes.float32 else _lower
    else:
        return function(*args, **kwargs)
    args = [_each(cast, x) for x in args]
    kwargs = {key: _each(cast, x) for key, x in kwargs.items()}
    try:
        settings.targets = {}
        return function(*args, **kwargs)
    finally:
        settings.targets = targets


watch.cast = run


def _each(cast: Callable[[Tensor, Dtype], Tensor], x: Any) -> Any:
    """An argument with the tensors in it cast."""
    if isinstance(x, Tensor):
        own = x._type.dtype
        if not own.is_floating_point or own is dtypes.float64:
            return x
        target = settings.targets.get(x.device.type)
        return x if target is None else cast(x, target)
    if isinstance(x, list | tuple) and any(isinstance(each, Tensor) for each in x):
        return [_each(cast, each) for each in x]
    return x


def _to_float(x: Tensor, target: Dtype) -> Tensor:
    return _lower(x, dtypes.float32) if target is dtypes.float32 else _converted(x, dtypes.float32)


def _converted(x: Tensor, dtype: Dtype) -> Tensor:
    return to(x, dtype)


def _lower(x: Tensor, target: Dtype) -> Tensor:
    """A tensor in the type of the context; the cast of a parameter is made once."""
    keep = (
        x._type.dtype is dtypes.float32
        and x._requires_grad
        and x._grad_fn is None
        and settings.cache_enabled
        and modes.grad
        and is_tracked(x)
        and not x._is_view()
        and target is not dtypes.float32
    )
    if not keep:
        return _converted(x, target)
    kept = settings.cache.get(id(x))
    if kept is None:
        kept = settings.cache[id(x)] = x, _converted(x, target)
    return kept[1]


def _widest(values: Sequence[Any], targets: dict[str, Dtype]) -> Dtype | None:
    """The widest of the types of tensors and the type of the context; None for the latter."""
    found: Dtype | None = None
    for x in values:
        for each in x if isinstance(x, list | tuple) else (x,):
            if not isinstance(each, Tensor) or each.device.type not in targets:
                continue
            own = each._type.dtype
            if not own.is_floating_point or own is dtypes.float64:
                continue
            if own is dtypes.float32:
                found = own
            elif found is None and own is not targets[each.device.type]:
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return found


def _pads_in_float(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> bool:
    return mode == "replicate" or (mode == "reflect" and len(pad) < 6)
