"""The parameters of each primitive that a file can hold: one table, read when a graph is saved and when it is loaded.

A type rule works out shapes and dtypes and believes the rest: a precision of 1 or an axis that is a bool passes it and
ends the process in the compiler.  So every parameter is looked at here first, by its class and range.  The table is
closed: a parameter that it does not name is refused, and so is one that is missing.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fgrad.graph.check import Misfit
from fgrad.graph.encoding import is_policy
from fgrad.graph.graph import Graph
from fgrad.graph.importing import from_jaxpr
from fgrad.graph.kinds import (
    ACCURACY,
    AXES,
    AXIS,
    COMPARISON,
    CONTRACTION,
    CONV_PADDING,
    CONV_STEPS,
    COUNT,
    DTYPE,
    EMPTY,
    FLAG,
    GRAPH,
    INDEX_DTYPE,
    KEY,
    NOTHING,
    ORDER,
    PRECISION,
    REAL,
    REDUCER,
    RULE,
    SHAPE,
    TEXT,
    Call,
    Kind,
    each,
    integer,
    integers,
    is_axes,
    is_call_tree,
    is_computation,
    is_convolution,
    is_formatted,
    is_group,
    is_indexing,
    is_int,
    is_ints,
    is_named_axes,
    is_number,
    is_padding,
    is_print_options,
    is_ragged,
    is_size_override,
    is_source_of_windows,
    is_transformed,
    member,
    one_of,
    optional,
    per_axis,
    scatter,
    window,
)
from fgrad.graph.regions import REGIONS
from fgrad.jaxcore import ShapedArray, exported_primitives

#: the dtypes in which XLA draws random numbers; others crash the process
DRAWN = (*map(np.dtype, ("float16", "float32", "float64", "int32", "int64", "uint32", "uint64")), jnp.bfloat16)
#: the primitives that take random keys and float0; other type rules accept these, and the compiler then fails
_MOVING = {
    "broadcast_in_dim", "concatenate", "cond", "copy", "copy_p", "custom_jvp", "custom_linear_solve", "custom_vjp",
    "device_put", "dynamic_slice", "dynamic_update_slice", "eq", "gather", "linear_call", "name", "ne", "opaque",
    "optimization_barrier", "pad", "random_bits", "random_fold_in", "random_gamma", "random_split", "random_unwrap",
    "remat", "reshape", "rev", "scan", "scatter", "select_n", "slice", "split", "squeeze", "stack", "stop_gradient",
    "tile", "transpose", "unstack", "while",
}  # fmt: skip
#: the most that a scan may be unrolled
UNROLLED = 1 << 16


@functools.cache
def _given_by(probe: Callable[[], Any]) -> frozenset[str]:
    """The parameters that this version of JAX gives the one primitive of a call."""
    (node,) = from_jaxpr(jax.make_jaxpr(probe)())
    return frozenset(node.params)


def _erfc() -> Any:
    return lax.erfc(np.float32(0))


def _reduce_max() -> Any:
    return lax.reduce_max(np.zeros(1, np.float32), (0,))


def _top_k() -> Any:
    return lax.top_k(np.zeros(1, np.float32), 1)


#: parameters that only newer versions of JAX have, with a call that shows whether this one does
RECENT: dict[tuple[str, str], Callable[[], Any]] = {
    ("erfc", "accuracy"): _erfc,
    ("reduce_max", "out_sharding"): _reduce_max,
    ("reduce_min", "out_sharding"): _reduce_max,
    ("top_k", "is_stable"): _top_k,
}

#: a parameter that JAX does not ask for: who binds such a primitive by hand may leave it out
_DEFAULTED = {
    "mul": "out_dtype",
    "svd": "algorithm",
    **dict.fromkeys(("reduce_max", "reduce_min", "reduce_sum"), "out_sharding"),
    **dict.fromkeys(["cbrt", "exp", "expm1", "log", "log1p", "rsqrt", "sqrt", "tan", "tanh"], "accuracy"),
}


# --------------------------------------------------------------------------------------------------------------------
# the table

_PLAIN = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e ceil cholesky cholesky_update
    clamp clz complex copy copy_p cosh digamma div dynamic_update_slice eq eq_to erf erf_inv floor ge geqrf gt
    hessenberg householder_product igamma igamma_grad_a igammac imag is_finite le le_to lgamma lt lt_to lu max min mulhi
    ne neg nextafter not one_minus_square optimization_barrier or polygamma polynomial population_count pow
    random_fold_in random_unwrap real regularized_incomplete_beta rem select_n shift_left shift_right_arithmetic
    shift_right_logical sign sinh square stop_gradient sub threefry2x32 xor zeta
"""
_ACCURATE = "cbrt cos erfc exp exp2 expm1 log log1p log2 logistic rsqrt sin sqrt tan tanh"
_CUMULATIVE = "cumlogsumexp cummax cummin cumprod cumsum"
_REDUCTIONS = "reduce_and reduce_or reduce_prod reduce_xor"

_SCHEMAS: dict[str, dict[str, Kind]] = {
    **{name: {} for name in _PLAIN.split()},
    **{name: {"accuracy": ACCURACY} for name in _ACCURATE.split()},
    **{name: {"axis": AXIS, "reverse": FLAG} for name in _CUMULATIVE.split()},
    **{name: {"axes": AXES} for name in _REDUCTIONS.split()},
    **{name: {"axes": AXES, "out_sharding": NOTHING} for name in ("reduce_max", "reduce_min", "reduce_sum")},
    **{name: {"axes": Kind("a tuple of one axis", lambda value, call: is_axes(value, call.rank) and len(value) == 1),
              "index_dtype": INDEX_DTYPE} for name in ("argmax", "argmin")},
    **{name: {"axes": Kind("a tuple of axes or their names", is_named_axes),
              "axis_index_groups": optional(Kind("tuples of integers", lambda value, call: is_group(value)))}
       for name in ("pmax", "pmin", "psum")},
    **{name: window() for name in ("reduce_window_max", "reduce_window_min", "reduce_window_sum")},
    "approx_top_k": {
        "aggregate_to_topk": FLAG, "is_max_k": FLAG, "k": integer(0),
        "recall_target": Kind("a float over 0 and up to 1", lambda value, call: (
            type(value) is float and 0 < value <= 1
        )),
        "reduction_dimension": Kind("an axis", lambda value, call: is_int(value, -call.rank, call.rank - 1)),
        "reduction_input_size_override": Kind("-1, or a size no smaller than the operand's", is_size_override),
    },
    "bitcast_convert_type": {"new_dtype": DTYPE},
    "broadcast_in_dim": {"broadcast_dimensions": integers(0), "shape": SHAPE, "sharding": NOTHING},
    "concatenate": {"dimension": AXIS},
    "conj": {"input_dtype": DTYPE},
    "conv_general_dilated": {
        "batch_group_count": integer(1), "feature_group_count": integer(1),
        "dimension_numbers": Kind("ConvDimensionNumbers of the operands' axes", is_convolution),
        "lhs_dilation": CONV_STEPS, "rhs_dilation": CONV_STEPS, "window_strides": CONV_STEPS, "padding": CONV_PADDING,
        "out_sharding": NOTHING, "precision": PRECISION, "preferred_element_type": optional(DTYPE),
    },
    "convert_element_type": {"new_dtype": DTYPE, "sharding": NOTHING, "weak_type": FLAG},
    "debug_print": {
        "fmt": Kind("a format that names its arguments {}", is_formatted), "has_placeholders": FLAG,
        "in_tree": Kind("a tree of the operands", is_call_tree), "logging_record": NOTHING,
        "np_printoptions": Kind("NumPy's print options", lambda value, call: is_print_options(value)),
        "ordered": FLAG, "partitioned": FLAG, "static_args": EMPTY,
    },
    "device_put": {
        "copy_semantics": each(member("ArrayCopySemantics")), "devices": each(NOTHING), "srcs": each(NOTHING),
    },
    "dot_general": {
        "dimension_numbers": CONTRACTION, "out_sharding": NOTHING, "precision": PRECISION,
        "preferred_element_type": optional(DTYPE),
    },
    "dynamic_slice": {"slice_sizes": SHAPE},
    "eig": {"compute_left_eigenvectors": FLAG, "compute_right_eigenvectors": FLAG, "enable_eigvec_derivs": FLAG,
            "implementation": NOTHING},
    "eigh": {"algorithm": NOTHING, "lower": FLAG, "sort_eigenvalues": FLAG, "subset_by_index": optional(integers(0))},
    "fft": {"fft_lengths": SHAPE, "fft_type": member("FftType")},
    "gather": {
        "dimension_numbers": Kind("GatherDimensionNumbers", lambda value, call: (
            is_indexing(lax.GatherDimensionNumbers, value)
        )),
        "fill_value": Kind("a number of the operand's dtype (None unless it is filled with)", lambda value, call: (
            call.params.get("mode") is not lax.GatherScatterMode.FILL_OR_DROP
            if value is None
            else is_number(value, call.types[0].dtype)
        )),
        "indices_are_sorted": FLAG, "unique_indices": FLAG, "mode": member("GatherScatterMode"), "slice_sizes": SHAPE,
    },
    "integer_pow": {"y": integer(-(1 << 31), 1 << 31)},
    "iota": {
        "dimension": Kind("an axis of the result", lambda value, call: (
            is_ints(call.params["shape"], 0) and is_int(value, 0, len(call.params["shape"]) - 1)
        )),
        "dtype": DTYPE, "shape": SHAPE, "sharding": NOTHING,
    },
    "mul": {"out_dtype": optional(DTYPE)},
    "name": {"name": TEXT},
    # LAPACK's own check ends in a failed allocation
    "ormqr": {
        "transpose": FLAG,
        "left": Kind("a bool, of no more reflections than rows and columns", lambda value, call: (
            type(value) is bool and call.types[1].shape[-1] <= min(call.types[0].shape[-2:])
        )),
    },
    "pad": {"padding_config": Kind("a tuple with three integers for each axis, the last not negative",
                                   lambda value, call: is_padding(value, call.rank, 3))},
    "qr": {"full_matrices": FLAG, "pivoting": FLAG, "use_magma": optional(FLAG)},
    "ragged_dot_general": {
        "group_offset": NOTHING, "out_sharding": NOTHING, "precision": PRECISION,
        "preferred_element_type": optional(DTYPE),
        "ragged_dot_dimension_numbers": Kind("RaggedDotDimensionNumbers of the operands' axes", is_ragged),
    },
    "random_bits": {"bit_width": one_of(8, 16, 32, 64), "shape": SHAPE},
    "random_gamma": {"log_space": FLAG},
    "random_seed": {"impl": KEY},
    "random_split": {"shape": SHAPE},
    "random_wrap": {"impl": KEY},
    "reduce": {
        "computation": Kind("None or the function of jax.lax that the jaxpr is made from", is_computation),
        "dimensions": AXES, "jaxpr": REDUCER,
    },
    "reduce_precision": {"exponent_bits": integer(1, 64), "mantissa_bits": integer(0, 64)},
    "reduce_window": {"consts": EMPTY, "jaxpr": REDUCER, **window()},
    "reshape": {"dimensions": optional(ORDER), "new_sizes": SHAPE, "sharding": NOTHING},
    "rev": {"dimensions": AXES},
    "rng_bit_generator": {
        "algorithm": member("RandomAlgorithm"), "out_sharding": NOTHING, "shape": SHAPE,
        "dtype": Kind("uint8, uint16, uint32 or uint64", lambda value, call: (
            isinstance(value, np.dtype) and value.name in ("uint8", "uint16", "uint32", "uint64")
        )),
    },
    "rng_uniform": {"shape": SHAPE},
    "round": {"rounding_method": member("RoundingMethod")},
    "scaled_dot": {"dimension_numbers": CONTRACTION, "preferred_element_type": optional(DTYPE)},
    "schur": {"compute_schur_vectors": FLAG, "select_callable": NOTHING, "sort_eig_vals": one_of(False)},
    "scatter": scatter(""),
    **{f"scatter-{name}": scatter(name) for name in ("add", "max", "min", "mul", "sub")},
    "select_and_gather_add": {"select_prim": COMPARISON, **window()},
    "select_and_scatter_add": {"select_prim": COMPARISON, **window("window_dimensions window_strides")},
    "slice": {"limit_indices": per_axis(0), "start_indices": per_axis(0), "strides": optional(per_axis(1))},
    "sort": {"dimension": AXIS, "is_stable": FLAG, "num_keys": COUNT},
    "split": {"axis": AXIS, "sizes": SHAPE},
    "squeeze": {"dimensions": AXES},
    "stack": {"axis": Kind("an axis of the result", lambda value, call: is_int(value, 0, call.rank))},
    "svd": {"algorithm": NOTHING, "compute_uv": FLAG, "full_matrices": FLAG, "subset_by_index": optional(integers(0))},
    "symmetric_product": {"alpha": REAL, "beta": REAL},
    "tile": {"reps": SHAPE},
    "top_k": {"axis": AXIS, "is_stable": FLAG, "k": integer(0)},
    "transpose": {"permutation": ORDER},
    "triangular_solve": dict.fromkeys(("conjugate_a", "left_side", "lower", "transpose_a", "unit_diagonal"), FLAG),
    "tridiagonal": {"lower": FLAG},
    "tridiagonal_solve": {"perturb_singular": FLAG},
    "unstack": {"axis": AXIS},
}  # fmt: skip

_REGION_SCHEMAS: dict[str, dict[str, Kind]] = {
    "cond": {"branches": Kind("a tuple of graphs", lambda value, call: (
        type(value) is tuple and len(value) > 0 and all(isinstance(x, Graph) for x in value)
    ))},
    "custom_jvp": {"call": GRAPH, "label": TEXT, "num_consts": COUNT, "rule": RULE},
    "custom_linear_solve": {
        "lengths": Kind("a tuple of four numbers of operands", lambda value, call: is_ints(value, 0, 4)),
        "matvec": GRAPH, "solve": GRAPH, "transpose_solve": optional(GRAPH), "vecmat": optional(GRAPH),
    },
    "custom_vjp": {"call": GRAPH, "label": TEXT, "num_consts": COUNT, "rule": RULE},
    "linear_call": {"call": GRAPH, "num_consts": COUNT, "rule": RULE},
    "only_transposed": {"backward": GRAPH, "label": TEXT, "num_consts": COUNT},
    "opaque": {"count": COUNT, "of": TEXT},
    "remat": {
        "barrier": optional(FLAG), "body": GRAPH,
        "policy": optional(Kind("one of checkpoint_policies", lambda value, call: is_policy(value))),
    },
    "scan": {
        "body": GRAPH, "length": integer(0), "num_carry": COUNT, "num_consts": COUNT, "reverse": FLAG,
        "unroll": integer(1, UNROLLED),
    },
    "while": {"body": GRAPH, "body_consts": COUNT, "cond": GRAPH, "cond_consts": COUNT},
}  # fmt: skip


def _fills_bytes(type: ShapedArray) -> bool:
    """Whether a number has at least eight bits."""
    dtype = type.dtype
    if jax.dtypes.issubdtype(dtype, np.integer):
        return jnp.iinfo(dtype).bits >= 8
    return not jax.dtypes.issubdtype(dtype, np.floating) or jnp.finfo(dtype).bits >= 8


#: what holds for parameters together, beyond what each may be and what the type rule says
_TOGETHER: dict[str, Callable[[Call], bool]] = {
    "select_and_scatter_add": is_source_of_windows,
    "fft": is_transformed,
    "cumlogsumexp": lambda call: jax.dtypes.issubdtype(call.types[0].dtype, np.inexact),
    "reshape": lambda call: math.prod(call.types[0].shape) == math.prod(call.params["new_sizes"]),
    "rng_uniform": lambda call: call.types[0].dtype in DRAWN,
    "random_gamma": lambda call: jax.dtypes.issubdtype(call.types[1].dtype, np.floating),
    # XLA has these for no floats of fewer bits
    **dict.fromkeys(("bessel_i1e", "erfc"), lambda call: call.types[0].dtype.itemsize > 1),
    "sort": lambda call: (
        len({t.shape for t in call.types}) == 1 and (len(call.types) == 1 or all(map(_fills_bytes, call.types)))
    ),
    **dict.fromkeys(
        ("gather", "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub"),
        lambda call: _fills_bytes(call.types[1]),  # the indices
    ),
    "device_put": lambda call: {len(x) for x in call.params.values()} == {len(call.types)},
}


@functools.cache
def schema(name: str, region: bool) -> dict[str, Kind] | None:
    """The parameters of a primitive (or of one of our regions), or None where the table has none for it."""
    if region:
        return _REGION_SCHEMAS.get(name)
    kinds = _SCHEMAS.get(name)
    if kinds is None:
        return None
    absent = {k for (of, k), probe in RECENT.items() if of == name and k not in _given_by(probe)}
    return {k: kind for k, kind in kinds.items() if k not in absent}


def check_parameters(primitive: Any, params: dict[str, Any], types: Sequence[ShapedArray]) -> None:
    """Whether the parameters of an operation are those of its primitive, each of its kind.

    A primitive that is not JAX's own has no schema; its own type rule judges it.

    Raises:
      Misfit: they are not; the message names the first that is wrong and says what it may be.
    """
    name = primitive.name
    kinds = schema(name, REGIONS.get(name) is primitive)
    if kinds is None:
        if exported_primitives().get(name) is not primitive and name not in REGIONS:
            return
        raise Misfit(f"{name} has no place in a file: what its parameters may be is not known")
    if params.keys() != kinds.keys():
        missing = sorted(kinds.keys() - params.keys() - {_DEFAULTED.get(name)})
        unknown = sorted(params.keys() - kinds.keys())
        if missing or unknown:
            what = f"the parameter {missing[0]!r} is missing" if missing else f"there is no parameter {unknown[0]!r}"
            raise Misfit(f"{what} ({name} has {sorted(kinds)})")
    call = Call(types, params)
    for key, value in params.items():
        kind = kinds[key]
        if not kind.accepts(value, call):
            raise Misfit(f"parameter {key!r} of {name} is {value!r:.80} and must be {kind.what}")
    if name not in _MOVING:
        if any(jax.dtypes.issubdtype(t.dtype, jax.dtypes.extended) for t in types):
            raise Misfit(f"{name} does not take random keys")
        if any(t.dtype == jax.dtypes.float0 for t in types):
            raise Misfit(f"{name} does not take float0")
    if name in _TOGETHER and not _TOGETHER[name](call):
        raise Misfit(f"the parameters of {name} do not fit each other and the operands")
