"""Functions of ``torch`` that call the method of the same name."""

from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.dispatch import CLOSED
from fgrad.torch.ops.table.outputs import NOT_TAKEN
from fgrad.torch.ops.table.table import Array, composite
from fgrad.torch.storage import TypedStorage, UntypedStorage


@composite(method=False, out=NOT_TAKEN)
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
    """Write values at indices."""
    return input.index_put_(indices, values, accumulate)


@composite(method=False, dispatch=CLOSED)
def is_storage(obj: Any, /) -> bool:
    """Whether an object is the storage of a tensor."""
    return isinstance(obj, TypedStorage | UntypedStorage)


@composite(method=False, dispatch=CLOSED)
def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Set anomaly mode for this thread; see ``torch.autograd.set_detect_anomaly``."""
    modes.anomaly, modes.check_nan = mode, check_nan
