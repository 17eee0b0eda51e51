"""The operations: a file for each family, every one entered in the table, and all names of the table in one place."""

from typing import TYPE_CHECKING, Any

from fgrad.torch.ops import (
    arithmetic as arithmetic,
    bitwise as bitwise,
    comparison as comparison,
    complex_numbers as complex_numbers,
    complex_views as complex_views,
    contractions as contractions,
    copying as copying,
    creation as creation,
    cumulative as cumulative,
    data as data,
    decompositions as decompositions,
    elementary as elementary,
    extrema as extrema,
    fourier as fourier,
    gathering as gathering,
    indexing as indexing,
    inplace_views as inplace_views,
    inspection as inspection,
    interchange as interchange,
    joining as joining,
    matrix_functions as matrix_functions,
    norms as norms,
    operators as operators,
    ordering as ordering,
    pieces as pieces,
    polynomials as polynomials,
    powers as powers,
    products as products,
    random as random,
    ranges as ranges,
    rearranging as rearranging,
    reductions as reductions,
    reshaping as reshaping,
    rounding as rounding,
    sampling as sampling,
    scatter_reductions as scatter_reductions,
    scattering as scattering,
    searching as searching,
    selection as selection,
    signs as signs,
    softmax as softmax,
    solving as solving,
    special as special,
    statistics as statistics,
    triangles as triangles,
    trigonometric as trigonometric,
    unsafe as unsafe,
    view_scatters as view_scatters,
    views as views,
)
from fgrad.torch.ops.table import TABLE

globals().update({name: entry.call for name, entry in TABLE.items() if entry.function})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
