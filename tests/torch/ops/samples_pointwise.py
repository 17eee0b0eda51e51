"""Samples of the elementwise functions: arithmetic, powers, elementary and special functions, rounding, selection."""

from typing import Any

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal, positive

INF, NAN = np.inf, np.nan
#: kinks and poles of the functions, and what lies beyond the numbers
SPECIAL = np.array([-INF, -3.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 3.0, INF, NAN])
COMPLEX = normal(2, 3, dtype="complex128")


def _unary(
    name: str,
    ordinary: Any = normal,
    *params: Any,
    special: int | None = 2,
    complex: bool = False,
    integer: bool = True,
    **named: Any,
) -> list[Sample]:
    """Samples of a function of each element; ``special`` is the highest derivative compared at special values."""
    made = [
        Sample(name, (ordinary(3, 4), *params), named, "ordinary"),
        Sample(name, (ordinary(seed=1), *params), named, "0-d"),
        Sample(name, (ordinary(0, 3), *params), named, "empty", order=0),
        Sample(name, (ordinary(2, 3, dtype="float32"), *params), named, "single", order=1),
        Sample(name, (ordinary(4, dtype="float16"), *params), named, "half", order=1, tolerance=4e-3),
    ]
    if special is not None:
        made.append(Sample(name, (SPECIAL, *params), named, "special", order=special))
    if integer:
        made.append(Sample(name, (np.array([1, 2, -3]), *params), named, "integer"))
        made.append(Sample(name, (np.array([True, False]), *params), named, "bool"))
    if complex:
        made.append(Sample(name, (COMPLEX, *params), named, "complex"))
    return made


def _wide(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x[:, None])


def _binary(
    name: str,
    ordinary: Any = normal,
    *params: Any,
    special: int | None = 2,
    complex: bool = False,
    integer: bool = True,
    number: Any = None,
    zero: bool = True,
    frozen: tuple[int, ...] = (),
    label: str = "",
    **named: Any,
) -> list[Sample]:
    """Samples of a function of two elements."""
    pairs = [
        ("ordinary", ordinary(3, 4), ordinary(3, 4, seed=1)),
        ("broadcast", ordinary(2, 1, 3), ordinary(4, 1, seed=1)),
        ("0-d", ordinary(), ordinary(3, seed=1)),
        ("empty", ordinary(0, 3), ordinary(1, 3)),
        ("mixed", ordinary(2, 3, dtype="float32"), ordinary(3, seed=2)),
        ("misfit", ordinary(2, 3), ordinary(2)),
    ]
    made = [
        Sample(name, (x, y, *params), named, each + label, frozen=frozen, order=2 if x.size else 0)
        for each, x, y in pairs
    ]
    made.append(
        Sample(
            name, (ordinary(4, dtype="float16"), ordinary(4, seed=3, dtype="float16"), *params), named,
            "half" + label, order=1, tolerance=4e-3, frozen=frozen,
        )
    )  # fmt: skip
    if special is not None:
        y = SPECIAL if zero else SPECIAL[SPECIAL != 0]
        made.append(Sample(name, (_wide(SPECIAL), y, *params), named, "special" + label, order=special, frozen=frozen))
    if integer:
        made.append(Sample(name, (np.array([7, -7, 3]), np.array([2, 3, -2]), *params), named, "integer" + label))
        made.append(
            Sample(name, (np.array([3, -7], "int16"), np.array([2, 5], "uint8"), *params), named, "small" + label)
        )
        made.append(
            Sample(name, (ordinary(3), np.array([1, 2, 3]), *params), named, "real-integer" + label, frozen=frozen)
        )
        made.append(Sample(name, (np.array([True, False]), np.array([True, True]), *params), named, "bool" + label))
    if number is not None:
        made.append(Sample(name, (ordinary(2, 3), number, *params), named, "number" + label, frozen=frozen))
        made.append(
            Sample(
                name,
                (ordinary(2, dtype="float16"), number, *params),
                named,
                "half-number" + label,
                order=1,
                tolerance=4e-3,
            )
        )
        if not named:
            made.append(Sample(name, (ordinary(2), "two", *params), named, "text" + label))
        if special is not None:
            made.append(Sample(name, (SPECIAL, number, *params), named, "special-number" + label, order=special))
        if integer:
            made.append(Sample(name, (np.array([7, -7]), 2, *params), named, "integer-number" + label))
            made.append(Sample(name, (np.array([7, -7]), 2.5, *params), named, "integer-real" + label))
            made.append(Sample(name, (np.array([True, False]), 3, *params), named, "bool-number" + label))
    if complex:
        made.append(
            Sample(name, (COMPLEX, normal(2, 3, seed=5, dtype="complex128"), *params), named, "complex" + label)
        )
        made.append(Sample(name, (COMPLEX, normal(3, seed=5), *params), named, "complex-real" + label))
    return made


def _unit(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Numbers between 0.05 and 0.95."""
    return np.asarray(np.random.default_rng([seed, *shape]).random(shape) * 0.9 + 0.05, dtype)


def _above_one(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    return np.asarray(_unit(*shape, seed=seed) + 1, dtype)


_PLACED = normal(4, 3).T  # not row-major

ARITHMETIC = [
    *_binary("add", complex=True, number=2),
    *_binary("add", complex=True, number=2, alpha=3, label="-alpha"),
    Sample("add", (integers(3), integers(3), ), {"alpha": 1.5}, "real alpha"),
    Sample("add", (2, normal(3)), {}, "number first"),
    Sample("add", (_PLACED, _PLACED), {}, "transposed"),
    *_binary("sub", complex=True, number=2),
    *_binary("sub", complex=True, number=0.5, alpha=3, label="-alpha"),
    *_binary("subtract", number=2),
    *_binary("rsub", complex=True, number=2),
    *_binary("rsub", number=0.5, alpha=3, label="-alpha"),
    *_binary("mul", complex=True, number=2),
    *_binary("multiply", number=0.3),
    *_binary("div", complex=True, number=2, special=1),
    *_binary("div", number=2, rounding_mode="floor", label="-floor", special=1, zero=False, frozen=(1,)),
    *_binary("div", number=2, rounding_mode="trunc", label="-trunc", special=1, frozen=(1,)),
    Sample("div", (normal(3), normal(3)), {"rounding_mode": "up"}, "unknown mode"),
    Sample("div", (integers(3), 0), {"rounding_mode": "floor"}, "by zero"),
    *_binary("divide", number=3),
    *_binary("true_divide", number=3),
    *[
        Sample(s.name, s.args, s.kwargs, s.label, order=0, names=False)
        for s in _binary("floor_divide", number=2)
    ],
    *_binary("remainder", number=2, special=1),
    Sample("remainder", (2, np.array([3.0, -3.0])), {}, "number first", frozen=(0,)),
    Sample("remainder", (integers(3), 0), {}, "by zero"),
    *_binary("fmod", number=2, special=1),
    *_unary("neg", complex=True),
    *_unary("negative"),
    *_unary("positive", complex=True),
    Sample("addcmul", (normal(2, 3), normal(3, seed=1), normal(2, 1, seed=2)), {"value": 0.5}),
    Sample("addcmul", (normal(3), normal(3, seed=1), normal(3, seed=2)), {}),
    Sample("addcmul", (integers(3), integers(3), integers(3)), {"value": 2}, "integer"),
    Sample("addcmul", (COMPLEX, COMPLEX + 1, normal(3)), {}, "complex"),
    Sample("addcdiv", (normal(2, 3), normal(3, seed=1), positive(2, 1, seed=2)), {"value": 0.5}),
    Sample("addcdiv", (normal(3), normal(3, seed=1), positive(3, seed=2)), {}),
    Sample("addcdiv", (integers(3), integers(3), integers(3)), {}, "integer"),
    Sample("lerp", (normal(2, 3), normal(3, seed=1), 0.3)),
    Sample("lerp", (normal(2, 3), normal(3, seed=1), 0.8)),
    Sample("lerp", (normal(2, 3), normal(3, seed=1), normal(2, 1, seed=2))),
    Sample("lerp", (normal(3), normal(3, seed=1, dtype="float32"), 0.5), {}, "types"),
    Sample("lerp", (integers(3), integers(3), 0.5), {}, "integer"),
    Sample("lerp", (integers(3), integers(3), np.array(0.5, "float32")), {}, "integers and a number's tensor"),
    Sample("lerp", (normal(3, dtype="float32"), normal(3, dtype="float32"), np.array(0.5)), {}, "a number's tensor"),
    Sample("lerp", (normal(3, dtype="float32"), normal(3, dtype="float32"), normal(3)), {}, "weights of other type"),
    Sample(
        "lerp", (normal(3, dtype="float16"), normal(3, seed=1, dtype="float16"), 0.3), {}, "half", order=1,
        tolerance=4e-3,
    ),
]  # fmt: skip

POWERS = [
    *_binary("pow", positive, complex=False, number=2, special=1),
    *[Sample("pow", (positive(2, 3), p), {}, f"{p}") for p in (0, 0.0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 2.5, -3)],
    *[Sample("pow", (SPECIAL, p), {}, f"special{p}") for p in (0, 1, 2, 3, 4, -1, 0.5)],
    Sample("pow", (SPECIAL, 2.5), {}, "special2.5", order=1),
    *[Sample("pow", (integers(4), p), {}, f"integer{p}") for p in (0, 1, 2, 3, -1, 0.5, True)],
    *[
        Sample("pow", (p, np.array([0.0, 1.0, 2.0, -1.0])), {}, f"base{p}", order=1 if not p else 2)
        for p in (0, 1, 2, 2.5)
    ],
    Sample("pow", (2, np.array([1, 2, -3])), {}, "integer base"),
    Sample("pow", (np.array([0.0, 0.0, 2.0]), np.array([0.0, 1.0, 3.0])), {}, "zero", order=1),
    Sample("pow", (COMPLEX, 2), {}, "complex square"),
    Sample("pow", (COMPLEX, 1.5), {}, "complex number"),
    Sample("pow", (COMPLEX, COMPLEX), {}, "complex"),
    Sample("pow", (np.array([True]), np.array([True])), {}, "booleans"),
    Sample("pow", (2, 3), {}, "numbers"),
    *_binary("float_power", positive, number=2),
    Sample("float_power", (2, normal(3)), {}, "number first"),
    *_unary("square", complex=True),
    *_unary("sqrt", positive, special=1, complex=True),
    *_unary("rsqrt", positive, special=1, complex=True),
    *_unary("reciprocal", special=1, complex=True),
    *_binary("hypot", special=1),
    *_binary("ldexp", special=None),
    *_unary("frexp", integer=True),
    *_binary("logaddexp", special=1),
    *_binary("logaddexp2", special=1),
    *_binary("xlogy", positive, number=2, special=1),
    Sample("xlogy", (2, positive(3)), {}, "number first"),
    Sample("xlogy", (2, 3), {}, "numbers"),
]

ELEMENTARY = [
    *_unary("exp", complex=True),
    *_unary("exp2", complex=True),
    *_unary("expm1", complex=True),
    *_unary("log", positive, special=1, complex=True),
    *_unary("log2", positive, special=1, complex=True),
    *_unary("log10", positive, special=1, complex=True),
    *_unary("log1p", positive, special=1, complex=True),
    *_unary("sin", complex=True),
    *_unary("cos", complex=True),
    *_unary("tan", complex=True),
    *_unary("sinh", complex=True),
    *_unary("cosh", complex=True),
    *_unary("tanh", complex=True, special=1),
    *[
        s
        for name in ("asin", "arcsin", "acos", "arccos", "atanh", "arctanh")
        for s in _unary(name, _unit, special=1, complex=True)
    ],
    *[s for name in ("atan", "arctan", "asinh", "arcsinh") for s in _unary(name, special=1, complex=True)],
    *[s for name in ("acosh", "arccosh") for s in _unary(name, _above_one, special=1, complex=True)],
    *_binary("atan2", special=1),
    Sample("atan2", (np.array([0.0, -0.0, 0.0, 1e-200]), np.array([0.0, 0.0, -0.0, 0.0])), {}, "origin", order=1),
    *_binary("arctan2", special=None),
    *_unary("sinc", special=1),
    *_unary("deg2rad"),
    *_unary("rad2deg"),
    *_unary("sigmoid", complex=True),
    *_unary("special.expit"),
    *_unary("logit", _unit, special=1),
    *_unary("logit", _unit, 0.2),
]  # fmt: skip

SIGNS = [
    *_unary("abs", complex=True),
    *_unary("absolute", complex=True),
    *_unary("sign"),
    *_unary("sgn", complex=True, special=1),
    *_unary("signbit"),
    *_binary("copysign", number=-2, special=1),
    *[Sample(s.name, s.args, s.kwargs, s.label, order=0) for s in _binary("heaviside", special=None)],
    Sample("heaviside", (SPECIAL, np.array(0.5)), {}, "special", order=0),
    *_binary("nextafter", integer=False, special=1),
    *[s for name in ("floor", "ceil", "trunc", "fix", "round", "frac") for s in _unary(name)],
    *_unary("round", decimals=2),
    *_unary("round", decimals=-1),
    *_unary("round", decimals=0),
]

COMPARISON = [
    *[
        s
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal")
        for s in _binary(name, number=0.5, complex=True)
    ],
    *[
        s
        for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal")
        for s in _unary(name, complex=True)
    ],
    Sample("equal", (normal(3), normal(3))),
    Sample("equal", (normal(3), normal(2))),
    Sample("equal", (normal(0), normal(0))),
    Sample("equal", (np.array([1, 2]), np.array([1.0, 2.0])), {}, "types"),
    Sample("equal", (normal(3), 3), {}, "number"),
    Sample("isclose", (SPECIAL, SPECIAL + 1e-9)),
    Sample("isclose", (SPECIAL, SPECIAL), {"equal_nan": True}),
    Sample("isclose", (normal(3), normal(3) * 1.01), {"rtol": 0.1, "atol": 0.0}),
    Sample("isclose", (np.array([1, 2]), np.array([1, 3])), {"atol": 1.0}, "integer"),
    Sample("isclose", (normal(3), normal(3)), {"rtol": -1.0}, "negative"),
    Sample("isclose", (normal(3), normal(3, dtype="float32")), {}, "types"),
    Sample("allclose", (normal(3), normal(3) + 1e-12)),
    Sample("allclose", (normal(3), normal(3) + 1)),
    Sample("is_nonzero", (np.array(2.0),)),
    Sample("is_nonzero", (np.array([0]),)),
    Sample("is_nonzero", (normal(2),), {}, "several"),
    *[s for name in ("logical_and", "logical_or", "logical_xor") for s in _binary(name, complex=True)],
    *_unary("logical_not", complex=True),
    *_unary("bitwise_not"),
    *[
        s
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
        for s in [
            Sample(name, (integers(2, 3), integers(3, seed=1))),
            Sample(name, (np.array([5, -5, 1], "int32"), np.array([1, 40, -1], "int32")), {}, "beyond"),
            Sample(name, (np.array([5, 250, 1], "uint8"), 3), {}, "number"),
            Sample(name, (5, np.array([1, 2])), {}, "number first"),
            Sample(name, (np.array([True, False]), np.array([True, True])), {}, "bool"),
            Sample(name, (normal(2), normal(2)), {}, "real"),
            Sample(name, (integers(2), "a"), {}, "text"),
        ]
    ],
    *[
        s
        for name in ("gcd", "lcm")
        for s in [
            Sample(name, (np.array([4, -6, 0, 7]), np.array([6, 4, 0, 0]))),
            Sample(name, (np.array([[4], [9]], "int32"), np.array([6, 12], "int32")), {}, "broadcast"),
            Sample(name, (normal(2), normal(2)), {}, "real"),
        ]
    ],
]  # fmt: skip

_MASK = np.array([[True, False, True], [False, False, True]])

SELECTION = [
    Sample("where", (_MASK, normal(2, 3), normal(2, 3, seed=1))),
    Sample("where", (_MASK, normal(3), normal(2, 1, seed=1)), {}, "broadcast"),
    Sample("where", (_MASK, normal(2, 3), 0.0), {}, "number"),
    Sample("where", (_MASK, 1.5, normal(2, 3)), {}, "number first"),
    Sample("where", (_MASK, 1, 2), {}, "numbers"),
    Sample("where", (_MASK, 1.0, 2), {}, "two numbers"),
    Sample("where", (_MASK, normal(2, 3, dtype="float32"), normal(2, 3)), {}, "types"),
    Sample("where", (np.array(True), normal(3), normal(3, seed=1)), {}, "0-d"),
    Sample("where", (normal(3), normal(3), 2), {}, "no condition"),
    Sample("where", (_MASK, normal(2), normal(2, seed=1)), {}, "misfit"),
    Sample("where", (_MASK,), {}, "indices"),
    Sample("Tensor.where", (normal(2, 3), _MASK, 0.0)),
    *[
        s
        for name in ("clamp", "clip")
        for s in [
            *_unary(name, normal, -0.5, 0.5),
            Sample(name, (SPECIAL,), {"min": 0.5}),
            Sample(name, (SPECIAL,), {"max": 0.5}),
            Sample(name, (SPECIAL, 1, 0), {}, "crossed"),
            Sample(name, (SPECIAL, NAN, 1.0), {}, "nan"),
            Sample(name, (np.array([1, 5]), 0.5, 2.5), {}, "integer-real"),
            Sample(name, (normal(2, 3), normal(3, seed=1), normal(2, 1, seed=2)), {}, "tensors"),
            Sample(name, (SPECIAL, SPECIAL, SPECIAL + 0), {}, "ties"),
            Sample(name, (normal(2, 3),), {"min": normal(3, seed=1)}, "least"),
            Sample(name, (normal(2, 3),), {"max": normal(3, seed=1)}, "most"),
            Sample(name, (normal(2, 3),), {}, "neither"),
            Sample(name, (normal(2, 3), "a"), {}, "text"),
        ]
    ],
    *_binary("clamp_min", number=0.5),
    *_binary("clamp_max", number=0.5),
    *_unary("relu"),
    *_unary("threshold", normal, 0.5, 2.0),
    *[s for name in ("maximum", "minimum", "fmax", "fmin") for s in _binary(name, complex=False)],
    Sample("maximum", (COMPLEX, COMPLEX), {}, "complex"),
    Sample("fmax", (COMPLEX, COMPLEX), {}, "complex"),
    *_unary("nan_to_num"),
    Sample("nan_to_num", (COMPLEX,), {}, "complex", frozen=(0,)),
    *_unary("nan_to_num", normal, 1.0, 2.0, 3.0),
    Sample("nan_to_num", (SPECIAL.astype("float32"),), {}, "largest", order=1),
]

COMPLEX_NUMBERS = [
    Sample("complex", (normal(2, 3), normal(3, seed=1))),
    Sample("complex", (normal(2, dtype="float32"), normal(2, seed=1, dtype="float32")), {}, "single", order=1),
    Sample("complex", (integers(3), integers(3)), {}, "integer"),
    Sample("complex", (normal(3), normal(3, dtype="float32")), {}, "types"),
    Sample("polar", (positive(2, 3), normal(3, seed=1))),
    Sample("polar", (np.array([0.0, 1.0]), np.array([1.0, 0.0])), {}, "zero"),
    *_unary("angle", complex=True),
    Sample("angle", (np.array([0j, 1 + 0j, -1 + 0j]),), {}, "axis", order=1),
    *_unary("conj_physical", complex=True),
    *_unary("resolve_conj", complex=True, special=None),
    *_unary("resolve_neg", complex=True, special=None),
]

GAMMA = np.array([-2.5, -0.3, 0.0, 1e-3, 0.5, 1.0, 2.0, 7.5, 40.0])

SPECIAL_FUNCTIONS = [
    *[s for name in ("erf", "erfc") for s in _unary(name)],
    *_unary("erfinv", _unit, special=1),
    *_unary("lgamma", positive, special=0),
    *_unary("digamma", positive, special=0),
    Sample("lgamma", (GAMMA,), {}, "range", order=1),
    Sample("digamma", (GAMMA,), {}, "range", order=1),
    *[Sample("polygamma", (n, positive(2, 3)), {}, f"{n}") for n in (0, 1, 2, 3)],
    Sample("polygamma", (1, GAMMA), {}, "range", order=0),
    Sample("polygamma", (2, np.array([-1.5, -8.3, -12.2, 0.3])), {}, "below zero"),
    Sample("polygamma", (3, np.array([-2.0, 0.0, -0.5])), {}, "poles", order=0),
    Sample("polygamma", (-1, positive(3)), {}, "negative"),
    Sample("polygamma", (2, np.array([1, 2])), {}, "integer"),
    Sample("Tensor.polygamma", (positive(3), 1)),
    *[Sample("mvlgamma", (positive(2, 3) + 2, p), {}, f"{p}") for p in (1, 2, 3)],
    Sample("special.multigammaln", (positive(2, 3) + 2, 2)),
    *[s for name in ("igamma", "igammac") for s in _binary(name, positive, special=None, frozen=(0,), integer=False)],
    Sample("igamma", (integers(3), integers(3)), {}, "integer"),
    Sample("special.gammainc", (positive(3), positive(3, seed=1)), frozen=(0,)),
    Sample("special.gammaincc", (positive(3), positive(3, seed=1)), frozen=(0,)),
    Sample("special.zeta", (positive(3) + 1.5, positive(3, seed=1)), frozen=(0,)),
    Sample("special.zeta", (2, positive(3, seed=1)), {}, "number first"),
    Sample("special.zeta", (positive(3) + 1.5, 2), {}, "number", order=0),
    Sample("special.zeta", (2, 2), {}, "numbers"),
    Sample("special.zeta", (np.array([2.0, 4.0, 3.0]), np.array([-8.3, -0.5, 2.0])), {}, "below zero", (0,)),
    Sample("special.zeta", (np.array([2.5, 2.0, 1.0, 0.5]), np.array([-8.3, -2.0, 2.0, 2.0])), {}, "poles", order=0),
    Sample("special.zeta", (1.5, np.array([-3.0, -0.0, -np.inf, -0.5])), {}, "poles of all orders", order=0),
    Sample("special.zeta", (np.inf, np.array([-2.5, 0.25, 1.0, 2.0])), {}, "infinite order", order=0),
    Sample("special.zeta", (np.array([np.nan, 0.5, 1.0, 2.0]), np.array([-2.0, -2.0, -2.0, -2.0])), {}, "pole", (0,)),
    Sample("polygamma", (1, np.array([np.inf, 2.0])), {}, "infinity", order=0),
    Sample("polygamma", (2, np.array([-np.inf, 2.0])), {}, "minus infinity", order=0),
    *_binary("special.xlog1py", positive, number=2, special=1),
    Sample("special.xlog1py", (2, positive(3)), {}, "number first"),
    *_unary("i0"),
    *_unary("special.i0e", special=1),
    # PyTorch has no derivative of these in half precision
    *[s for name in ("special.i1", "special.i1e") for s in _unary(name, special=1) if s.label != "half"],
    *_unary("special.entr", positive, special=1),
    *_unary("special.ndtr"),
    *_unary("special.ndtri", _unit, special=1),
    *_unary("special.log_ndtr", special=1),
    *_unary("special.erfcx", special=1),
    *_unary("special.psi", positive, special=None),
    *_unary("special.gammaln", positive, special=None),
]  # fmt: skip

_DEGREES = np.array([0, 1, 2, 3, 7])

POLYNOMIALS = [
    *[
        s
        for name in (
            *[f"{shifted}chebyshev_polynomial_{kind}" for kind in "tuvw" for shifted in ("", "shifted_")],
            *["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"],
        )
        for s in [
            Sample(f"special.{name}", (np.array([[-0.9], [0.3], [1.0], [1.5]]), _DEGREES), order=0),
            Sample(f"special.{name}", (normal(3, dtype="float32"), 3), {}, "number", order=0),
            Sample(f"special.{name}", (normal(0, 3), np.array(2)), {}, "empty", order=0),
        ]
    ],
]

INSPECTION = [
    Sample("is_inference", (normal(2, 3),)),
    Sample("is_same_size", (normal(2, 3), normal(2, 3))),
    Sample("is_same_size", (normal(2, 3), normal(3))),
    Sample("numel", (normal(2, 3),)),
    Sample("numel", (3,), {}, "number"),
    *[
        Sample(name, (x,), {}, str(x.dtype))
        for name in ("is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg")
        for x in (normal(2), integers(2), COMPLEX)
    ],
    Sample("result_type", (integers(2), 1.5), results=str),
    Sample("result_type", (1, normal(2, dtype="float32")), results=str),
    Sample("result_type", (np.array(1.5), integers(2)), results=str),
    Sample("result_type", (1, 2.0), results=str),
]  # fmt: skip

SAMPLES = [
    *ARITHMETIC,
    *POWERS,
    *ELEMENTARY,
    *SIGNS,
    *COMPARISON,
    *SELECTION,
    *COMPLEX_NUMBERS,
    *SPECIAL_FUNCTIONS,
    *POLYNOMIALS,
    *INSPECTION,
]
