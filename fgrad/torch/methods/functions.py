"""Functions of ``torch`` that do what the method of the same name does."""

from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.table import Array, composite
from fgrad.torch.storage import TypedStorage, UntypedStorage

_LU = (
    "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a "
    "future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
    "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
    "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
    "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
)


@composite(method=False)
def detach(input: Array) -> Tensor:
    """The same elements without history.

    Source: `torch.Tensor.detach <https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.detach.html>`_.
    """
    return input.detach()


@composite(method=False)
def detach_(input: Array) -> Tensor:
    """Take a tensor out of the graph."""
    return input.detach_()


@composite(method=False)
def index_put_(input: Array, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write values at places."""
    return input.index_put_(indices, values, accumulate)


@composite(method=False, name="lu")
def lu_function(A: Array, pivot: bool = True, get_infos: bool = False) -> Any:
    """The LU factors in one matrix, and the pivots; deprecated in PyTorch.

    Source: `torch.lu <https://docs.pytorch.org/docs/2.13/generated/torch.lu.html>`_.
    """
    warn(_LU)
    return A.lu(pivot, get_infos)


@composite(method=False)
def is_storage(obj: Any, /) -> bool:
    """Whether an object is the storage of a tensor."""
    return isinstance(obj, TypedStorage | UntypedStorage)


@composite(method=False)
def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Set anomaly mode for this thread; see ``torch.autograd.set_detect_anomaly``."""
    modes.anomaly, modes.check_nan = mode, check_nan
