"""Fourth floor: the derivative rules, a file for each family of primitives; they are written nowhere else.

What nearly every program needs is imported at once, the other families when one of their rules is first asked for.

It uses ``graph``.
"""

from fgrad.rules import (  # noqa: F401  (they enter their rules)
    arithmetic as _arithmetic,
    conversion as _conversion,
    products as _products,
    reduction as _reduction,
    shapes as _shapes,
    trigonometric as _trigonometric,
)
from fgrad.rules.kinds import RULES

_LATE = {
    "collectives": "psum pmax pmin psum_invariant pvary all_gather reduce_scatter all_gather_invariant all_to_all "
    "ragged_all_to_all ppermute pbroadcast pbroadcast_dynamic axis_index unreduced_psum unreduced_pmax unreduced_pmin "
    "preduced vary_unreduced_cast vary_unreduced_cast_p reduced_vary_cast reduced_vary_cast_p all_gather_reduced "
    "unreduced_reduce_scatter psum_invariant_start psum_start psum_done all_gather_start all_gather_reduced_start "
    "all_gather_done all_to_all_start all_to_all_done ppermute_start ppermute_done reduce_scatter_start "
    "reduce_scatter_done unreduced_psum_start unreduced_reduce_scatter_start pbroadcast_start pbroadcast_done psend "
    "precv",
    "complex": "real imag complex conj abs sign",
    "convolution": "conv_general_dilated",
    "decompositions": "cholesky cholesky_update symmetric_product lu lu_pivots_to_permutation qr eigh eig svd schur "
    "hessenberg tridiagonal",
    "effects": "debug_callback debug_print create_token after_all pure_callback io_callback buffer_callback ffi_call",
    "fourier": "fft",
    "householder": "householder_product ormqr geqrf",
    "indexing": "dynamic_slice dynamic_update_slice gather scatter-add scatter-sub scatter scatter-mul scatter-min "
    "scatter-max get swap addupdate new_ref empty_ref freeze free_ref accum_grad_in_ref run_state pin unpin "
    "create_linear",
    "random": "random_seed random_split random_fold_in random_bits random_wrap random_unwrap random_clone threefry2x32 "
    "threefry4x32 philox2x32 philox4x32 iota_2x32_shape rng_bit_generator rng_uniform random_gamma",
    "solves": "triangular_solve tridiagonal_solve",
    "sorting": "sort top_k approx_top_k",
    "special": "lgamma digamma polygamma zeta igamma igammac igamma_grad_a regularized_incomplete_beta erf erfc "
    "erf_inv bessel_i0e bessel_i1e",
    "windows": "reduce_window_sum reduce_window_max reduce_window_min select_and_scatter_add select_and_gather_add "
    "select_and_scatter reduce_window",
}

RULES.defer(__name__, {module: names.split() for module, names in _LATE.items()})
