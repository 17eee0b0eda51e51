"""The table of NumPy kernels: how each primitive is computed, and how closely that agrees with the compiled program.

The most common kernels are imported at once, the others when one of their rows is first used.
"""

from fgrad.run.kernels import elementwise as _elementwise, movement as _movement, reduction as _reduction  # noqa: F401
from fgrad.run.kernels.kernel import TABLE

TABLE.defer(
    __name__,
    {
        "bits": (
            *("le_to", "lt_to", "population_count", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
        ),
        "convolution": ("conv_general_dilated",),
        "decompositions": (
            *("cholesky", "eigh", "geqrf", "householder_product", "lu", "lu_pivots_to_permutation", "qr", "svd"),
            "triangular_solve",
        ),
        "fourier": ("fft",),
        "products": ("dot_general",),
        "windows": (
            *("reduce_window", "reduce_window_max", "reduce_window_min", "reduce_window_sum", "select_and_scatter_add"),
        ),
    },
)
