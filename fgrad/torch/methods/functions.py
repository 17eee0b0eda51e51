"""Functions of ``torch`` that call the method of the same name."""

from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
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


@composite(method=False)
def _shape_as_tensor(input: Array) -> Tensor:
    """The sizes as a tensor of integers."""
    return input.new_tensor(tuple(input.shape), dtype=dtypes.int64, device="cpu")


def _enter_cast(name: str, dtype: dtypes.dtype) -> None:
    """Enter a function that converts to a type: ``torch._cast_Long``."""

    def cast(input: Array, non_blocking: bool = False) -> Tensor:
        return input.to(dtype, non_blocking)

    cast.__doc__ = f"The elements converted to {dtype}."
    composite(method=False, name=f"_cast_{name}")(cast)


for _dtype in ("uint8", "int8", "float64", "float32", "float16", "int32", "int64", "int16"):
    _enter_cast(dtypes.NAMES[_dtype].scalar_name, dtypes.NAMES[_dtype])


@composite(method=False, dispatch=CLOSED)
def is_storage(obj: Any, /) -> bool:
    """Whether an object is the storage of a tensor."""
    return isinstance(obj, TypedStorage | UntypedStorage)


@composite(method=False, dispatch=CLOSED)
def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Set anomaly mode for this thread; see ``torch.autograd.set_detect_anomaly``."""
    modes.anomaly, modes.check_nan = mode, check_nan
