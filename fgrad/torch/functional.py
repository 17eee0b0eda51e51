"""``torch.functional``: the functions of ``torch`` that PyTorch implements in Python."""

from typing import TYPE_CHECKING, Any

from fgrad.torch import ops as _ops  # noqa: F401  (fills the table)
from fgrad.torch.ops.table.table import TABLE

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors"),
    *(
        "cartesian_prod",
        "block_diag",
        "cdist",
        "chain_matmul",
        "einsum",
        "istft",
        "lu",
        "norm",
        "meshgrid",
        "pca_lowrank",
    ),
    *("split", "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index"),
]

globals().update({name: TABLE[name].call for name in __all__})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
