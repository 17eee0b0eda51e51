"""The operations: a file for each family, every one entered in the table, and all names of the table in one place."""

from typing import TYPE_CHECKING, Any

from fgrad.torch.ops.creation import (
    combinations as combinations,
    copying as copying,
    creation as creation,
    data as data,
    interchange as interchange,
    ranges as ranges,
    signal_windows as signal_windows,
)
from fgrad.torch.ops.elementwise import (
    arithmetic as arithmetic,
    bessel as bessel,
    bitwise as bitwise,
    comparison as comparison,
    complex_numbers as complex_numbers,
    elementary as elementary,
    polynomials as polynomials,
    powers as powers,
    rounding as rounding,
    signs as signs,
    special as special,
    trigonometric as trigonometric,
)
from fgrad.torch.ops.indexing import (
    gathering as gathering,
    indexing as indexing,
    scatter_reductions as scatter_reductions,
    scattering as scattering,
    searching as searching,
    segments as segments,
    selection as selection,
    subscripts as subscripts,
    triangles as triangles,
    unraveling as unraveling,
)
from fgrad.torch.ops.linalg import (
    cholesky as cholesky,
    contractions as contractions,
    decompositions as decompositions,
    determinants as determinants,
    inverses as inverses,
    low_rank as low_rank,
    lu_factors as lu_factors,
    matrix_functions as matrix_functions,
    products as products,
    solving as solving,
    symmetric_factors as symmetric_factors,
)
from fgrad.torch.ops.random import random as random, sampling as sampling
from fgrad.torch.ops.reductions import (
    cumulative as cumulative,
    extrema as extrema,
    former_norms as former_norms,
    histograms as histograms,
    norms as norms,
    ordering as ordering,
    reductions as reductions,
    softmax as softmax,
    statistics as statistics,
    weight_norms as weight_norms,
)
from fgrad.torch.ops.signal import central_differences as central_differences, fourier as fourier
from fgrad.torch.ops.table import (
    inspection as inspection,
    operators as operators,
    removed as removed,
    symbolic_numbers as symbolic_numbers,
)
from fgrad.torch.ops.table.table import TABLE
from fgrad.torch.ops.views import (
    axes as axes,
    complex_views as complex_views,
    inplace_views as inplace_views,
    joining as joining,
    rearranging as rearranging,
    reshaping as reshaping,
    splitting as splitting,
    unsafe as unsafe,
    view_copies as view_copies,
    view_scatters as view_scatters,
    views as views,
)

globals().update({name: entry.call for name, entry in TABLE.items() if entry.function})


def load_library(path: str) -> None:
    """Refuse a library of operations in machine code.

    Raises:
      OSError: always; who loads one without need goes on without it.
    """
    raise OSError(f"torch.ops.load_library: {path} is machine code for PyTorch, which cannot run here.")


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
