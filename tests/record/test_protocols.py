"""NumPy on traced values: it is differentiated, or refused by name; no derivative gets lost without a word."""

import array
import copy
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import fgrad
from fgrad import errors
from fgrad.record.protocols import function_twin, ufunc_twin
from tests.oracle import compiled

X = jnp.array([0.3, 0.6, 0.2])
M = jnp.array([[2.0, 0.5], [0.3, 1.5]])
A = np.array([1.0, 2.0, 3.0], np.float32)
NAMESPACES = [(np, jnp), (np.linalg, jnp.linalg), (np.fft, jnp.fft)]


def scalar(result):
    """The sum of all numbers that carry a derivative in what a function returned, oscillating so that none cancel."""
    total = 0.0
    for leaf in jax.tree.leaves(result):
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.inexact):
            total = total + jnp.sum(jnp.real(leaf) * jnp.cos(jnp.arange(leaf.size).reshape(leaf.shape)))
            total = total + jnp.sum(jnp.imag(leaf) * 0.7)
    return total


def assert_same(ours, theirs, x):
    try:
        expected = compiled(jax.value_and_grad(lambda x: scalar(theirs(x)) + 0 * jnp.sum(x)))(x)
    except NotImplementedError:  # there is a value, and no derivative in JAX
        assert np.allclose(scalar(fgrad.jit(ours)(x)), scalar(theirs(x)), rtol=1e-4)
        return
    value, slope = fgrad.value_and_grad(lambda x: scalar(ours(x)) + 0 * jnp.sum(x))(x)
    assert np.allclose(value, expected[0], rtol=1e-4, atol=1e-5, equal_nan=True)
    assert np.allclose(slope, expected[1], rtol=1e-4, atol=1e-5, equal_nan=True)


# --------------------------------------------------------------------------------------------------------------------
# all ufuncs

UFUNCS = sorted({f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc)}.items())
#: ufuncs that are not recorded, and why
REFUSED_UFUNCS = {"isnat": "jax.numpy has no dates"}
INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_count", "invert", "left_shift", "right_shift", "gcd",
            "lcm"}  # fmt: skip
MATRICES = {"matmul": (M, M), "matvec": (M, M[0]), "vecmat": (M[0], M), "vecdot": (M, M)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name, _ in UFUNCS])
def test_every_ufunc(name):
    ufunc = getattr(np, name)
    twin = getattr(jnp, name, None)
    assert (twin is None) == (name in REFUSED_UFUNCS)
    assert ufunc_twin(ufunc) is twin
    if twin is None:
        with pytest.raises(errors.NumPyFunctionError, match=f"numpy.{name}"):
            fgrad.grad(lambda x: ufunc(x) * x)(1.0)
        return
    if name in MATRICES:
        x, other = MATRICES[name]
    else:
        x, other = (X + 1 if name == "arccosh" else X), jnp.array([0.5, 0.1, 0.7])
    if name in INTEGERS:
        change = lambda v: (10 * v).astype(int)  # noqa: E731
    elif name == "ldexp":
        assert_same(lambda x: ufunc(x, np.array([1, 2, 3])), lambda x: twin(x, np.array([1, 2, 3])), x)
        return
    else:
        change = lambda v: v  # noqa: E731
    if ufunc.nin == 1:
        assert_same(lambda x: ufunc(change(x)), lambda x: twin(change(x)), x)
        return
    constant = np.asarray(change(other))
    assert_same(lambda x: ufunc(change(x), constant), lambda x: twin(change(x), constant), x)
    if name in ("matvec", "vecmat"):
        constant = np.asarray(x)
        assert_same(lambda x: ufunc(constant, x), lambda x: twin(constant, x), other)
        return
    assert_same(lambda x: ufunc(constant, change(x)), lambda x: twin(constant, change(x)), x)
    assert_same(lambda x: ufunc(change(x), change(x * x)), lambda x: twin(change(x), change(x * x)), x)


# --------------------------------------------------------------------------------------------------------------------
# all functions

FUNCTIONS = sorted(
    {
        (f.__module__, f.__name__)
        for module, _ in NAMESPACES
        for f in vars(module).values()
        if hasattr(f, "_implementation") and f.__module__ in ("numpy", "numpy.linalg", "numpy.fft")
    }
)
MODULES = {"numpy": (np, jnp), "numpy.linalg": (np.linalg, jnp.linalg), "numpy.fft": (np.fft, jnp.fft)}
NOT_NUMBERS = "jax.numpy has nothing like it: it is of dates, files, text or memory"
WRITES = "it writes into a NumPy array"
#: functions that are not recorded, and why
REFUSED = {
    **dict.fromkeys(
        [
            "array2string",
            "busday_count",
            "busday_offset",
            "datetime_as_string",
            "is_busday",
            "may_share_memory",
            "shares_memory",
            "savetxt",
            "savez_compressed",
            "array_repr",
            "array_str",
            "save",
            "savez",
        ],
        NOT_NUMBERS,
    ),
    **dict.fromkeys(["copyto", "putmask"], WRITES),
    **dict.fromkeys(["common_type", "min_scalar_type", "can_cast"], "it asks for NumPy's own types"),
    **dict.fromkeys(["fix", "real_if_close"], "jax.numpy has no such function"),
}
#: functions of other arguments than one array of numbers
ARGUMENTS = {
    **{name: lambda x: (x, np.ones(3, np.float32)) for name in (
        [
            "array_equal", "array_equiv", "allclose", "isclose", "convolve", "correlate", "dot", "inner", "outer",
            "vdot", "kron", "cross", "union1d", "setdiff1d", "setxor1d", "intersect1d", "append", "polyadd",
            "polysub", "polymul", "polydiv", "full_like", "interp", "isin"
        ])},
    **{name: lambda x: ([x, np.ones(3, np.float32)],) for name in (
        ["concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "block"])},
    **{name: lambda x: (x[:, None] * x,) for name in (
        [
            "matrix_rank", "trace", "matrix_transpose", "matrix_norm", "diagonal", "tril", "triu", "fliplr", "flipud",
            "rot90", "fft2", "ifft2", "rfft2", "irfft2"
        ])},
    # neither singular nor with equal eigenvalues, where derivatives are noise
    **{name: lambda x: (np.diag(np.arange(1, 4, dtype=np.float32)) + x[:, None] * x,) for name in (
        ["det", "slogdet", "eigh", "eigvalsh", "svd", "svdvals", "cond", "eig", "eigvals"])},
    **{name: lambda x: (x, 1) for name in [
        "roll", "partition", "argpartition", "repeat", "delete", "tile", "expand_dims"
    ]},
    **{name: lambda x: (x, 3) for name in ("split", "hsplit")},
    "array_split": lambda x: (x, 2), "vsplit": lambda x: (x[:, None], 3),
    "dsplit": lambda x: (x[None, None], 3), "matrix_power": lambda x: (x[:, None] * x, 2),
    "tensordot": lambda x: (x[:, None] * x, np.eye(3, dtype=np.float32)), "matmul": lambda x: (x[:, None] * x, A),
    "astype": lambda x: (x, np.float16),
    "einsum": lambda x: ("i,i->", x, x), "einsum_path": None,
    "multi_dot": lambda x: ([x[:, None] * x, np.eye(3, dtype=np.float32), x],),
    "solve": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x, np.ones(3, np.float32)),
    "lstsq": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x, np.ones(3, np.float32)),
    "tensorsolve": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x, np.ones(3, np.float32)),
    "tensorinv": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x, 1),
    "inv": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x,),
    "cholesky": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x,),
    "qr": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x,),
    "pinv": lambda x: (np.eye(3, dtype=np.float32) + x[:, None] * x,),
    "where": lambda x: (np.array([True, False, True]), x, 2.0), "select": lambda x: ([x > 0.5], [x], 0.0),
    "choose": lambda x: (np.array([0, 1, 0]), [x, x * x]), "clip": lambda x: (x, 0.25, 0.5),
    "compress": lambda x: (np.array([True, False, True]), x), "extract": lambda x: (np.array([True, False, True]), x),
    "take": lambda x: (x, np.array([0, 2])), "take_along_axis": lambda x: (x, np.array([0, 2]), 0),
    "searchsorted": lambda x: (np.array([0.1, 0.5]), x), "digitize": lambda x: (x, np.array([0.1, 0.5])),
    "insert": lambda x: (x, 1, 2.0), "pad": lambda x: (x, 1), "resize": lambda x: (x, (2, 2)),
    "reshape": lambda x: (x, (3, 1)), "broadcast_to": lambda x: (x, (2, 3)), "moveaxis": lambda x: (x[None], 0, 1),
    "swapaxes": lambda x: (x[None], 0, 1), "rollaxis": lambda x: (x[None], 1), "flip": lambda x: (x,),
    "interp": lambda x: (x, np.array([0.0, 1.0]), np.array([1.0, 3.0])), "linspace": lambda x: (x, 2.0, 4),
    "logspace": lambda x: (x, 2.0, 4), "geomspace": lambda x: (x, 2.0, 4), "quantile": lambda x: (x, 0.3),
    "nanquantile": lambda x: (x, 0.3), "percentile": lambda x: (x, 30.0), "nanpercentile": lambda x: (x, 30.0),
    "apply_along_axis": lambda x: (lambda row: row.sum(), 0, x), "apply_over_axes": lambda x: (jnp.sum, x, [0]),
    "piecewise": lambda x: (x, [x > 0.5], [lambda v: v * v, lambda v: -v]), "vander": lambda x: (x,),
    "histogram2d": lambda x: (x, x), "histogramdd": lambda x: (x[:, None],), "lexsort": lambda x: ((x, x),),
    "polyfit": lambda x: (np.arange(3.0), x, 1), "polyval": lambda x: (x, 2.0), "poly": lambda x: (x,),
    "ravel_multi_index": None, "unravel_index": None, "bincount": None, "packbits": None, "unpackbits": None,
    "ix_": None,
    "tri": None, "mask_indices": None, "histogram_bin_edges": lambda x: (x,), "permute_dims": lambda x: (x,),
    "diag_indices_from": lambda x: (x[:, None] * x,), "tril_indices_from": lambda x: (x[:, None] * x,),
    "triu_indices_from": lambda x: (x[:, None] * x,), "put": None, "place": None, "put_along_axis": None,
    "fill_diagonal": None, "vecdot": lambda x: (x, x), "cross": lambda x: (x, np.ones(3, np.float32)),
    "unstack": lambda x: (x,), "roots": lambda x: (x,), "full_like": lambda x: (x, 2.0),
}  # fmt: skip
ARGUMENTS.update(dict.fromkeys(("result_type", "trim_zeros"), lambda x: (x,)))
#: functions whose results are as many as there are different numbers
SETS = {
    "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "union1d", "intersect1d", "setdiff1d", "setxor1d",
}  # fmt: skip
#: functions that write into their first argument
WRITERS = {
    "put": lambda x, out: np.put(out, 0, x[0]),
    "place": lambda x, out: np.place(out, out == 0, x),
    "put_along_axis": lambda x, out: np.put_along_axis(out, np.array([0]), x[:1], 0),
    "fill_diagonal": lambda x, out: np.fill_diagonal(out, x),
    "copyto": lambda x, out: np.copyto(out, x),
    "putmask": lambda x, out: np.putmask(out, out == 0, x),
}


def assert_refused_where_shapes_depend_on_numbers(theirs, make):
    """``jax.numpy`` computes such results from the numbers alone, and their derivative would be zero."""
    _, results = fgrad.grad(lambda x: (x.sum(), theirs(*make(fgrad.stop_gradient(x)))), has_aux=True)(X)
    expected = jax.tree.leaves(theirs(*make(np.asarray(X))))
    assert all(map(np.array_equal, jax.tree.leaves(results), expected))
    if any(x.dtype == np.float32 for x in expected):
        with pytest.raises(errors.NumPyFunctionError, match="size="):
            fgrad.grad(lambda x: scalar(theirs(*make(x))))(X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("module", "name"), FUNCTIONS, ids=lambda part: part.rpartition(".")[-1])
def test_every_function(module, name):
    theirs, jaxs = (getattr(space, name, None) for space in MODULES[module])
    refused = jaxs is None or jaxs is theirs
    assert refused == (name in REFUSED)
    if refused:
        assert function_twin(theirs) is None
        return
    assert function_twin(theirs) is jaxs
    make = ARGUMENTS.get(name, lambda x: (x,))
    if name in SETS:
        assert_refused_where_shapes_depend_on_numbers(theirs, make)
    elif make is not None:
        assert_same(lambda x: theirs(*make(x)), lambda x: jaxs(*make(x)), X)


@pytest.mark.parametrize("name", WRITERS)
def test_what_writes_into_an_array_is_refused(name):
    out = np.zeros(3 if name != "fill_diagonal" else (3, 3), np.float32)
    # NumPy does not ask the values that fill_diagonal writes
    kind, message = (errors.CopiedOutError, "copy") if name == "fill_diagonal" else (errors.NumPyFunctionError, name)
    with pytest.raises(kind, match=message):
        fgrad.grad(lambda x: WRITERS[name](x, out) or jnp.sum(x))(X)
    assert not out.any()


# --------------------------------------------------------------------------------------------------------------------
# in other ways

METHODS = {
    "reduce": (np.add.reduce, jnp.sum),
    "reduce over an axis": (lambda x: np.add.reduce(x[:, None] * A, axis=1), lambda x: jnp.sum(x[:, None] * A, 1)),
    "reduce, with arguments": (
        lambda x: np.maximum.reduce(x, keepdims=True, initial=0.1, where=A > 1),
        lambda x: jnp.max(x, keepdims=True, initial=0.1, where=A > 1),
    ),
    "product": (np.multiply.reduce, jnp.prod),
    "of no ufunc of JAX": (np.hypot.reduce, lambda x: jnp.sqrt(jnp.sum(x**2))),
    "accumulate": (np.add.accumulate, jnp.cumsum),
    "outer": (lambda x: np.multiply.outer(x, A), lambda x: x[:, None] * A),
    "outer of no ufunc of JAX": (lambda x: np.power.outer(x, A), lambda x: x[:, None] ** A),
    "reduceat": (lambda x: np.add.reduceat(x, np.array([0, 2])), lambda x: jnp.stack([x[0] + x[1], x[2]])),
    "of a list": (lambda x: np.multiply([1.0, 2.0, 3.0], x), lambda x: A * x),
    "named arguments": (lambda x: np.clip(x, a_min=0.25, a_max=None), lambda x: jnp.clip(x, 0.25)),
    "defaults": (lambda x: np.sum(x, None, None, None, np._NoValue), jnp.sum),
    "norm": (lambda x: np.linalg.norm(x, 3), lambda x: jnp.linalg.norm(x, 3)),
    "weights": (lambda x: np.histogram(x, 3, (0, 1), False, x)[0], lambda x: jnp.histogram(x, 3, (0, 1), x)[0]),
    "mean over an axis": (lambda x: np.mean(x[:, None] * A, axis=0), lambda x: jnp.mean(x[:, None] * A, 0)),
    "method of ndarray": (lambda x: np.add(x, x).mean() * A, lambda x: (2 * x).mean() * A),
    "copies": (lambda x: copy.deepcopy(x) * copy.copy(x), lambda x: x * x),
}


@pytest.mark.parametrize("name", METHODS)
def test_calls_of_other_kinds(name):
    assert_same(*METHODS[name], X)


OPERATORS = {
    "+": lambda a, x: a + x, "-": lambda a, x: a - x, "*": lambda a, x: a * x, "/": lambda a, x: a / x,
    "//": lambda a, x: a // x, "%": lambda a, x: a % x, "**": lambda a, x: a**x, "@": lambda a, x: a @ x,
    "divmod": lambda a, x: divmod(a, x), "<": lambda a, x: jnp.where(a < x, x, 2 * x),
    "==": lambda a, x: jnp.where(a == x, x, 2 * x), ">=": lambda a, x: jnp.where(a >= x, x, 2 * x),
}  # fmt: skip


@pytest.mark.parametrize("left", [A, np.float32(2), np.float64(2), np.int64(2)], ids=["array", "f4", "f8", "i8"])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_number_of_numpy_on_the_left(name, left):
    if name == "@" and left is not A:
        return
    f = OPERATORS[name]
    assert_same(lambda x: f(left, x), lambda x: f(left, x), X)
    mine, jaxs = fgrad.make_graph(lambda x: f(left, x))(X).out_types, jax.eval_shape(lambda x: f(left, x), X)
    assert [(t.shape, t.dtype) for t in mine] == [(t.shape, t.dtype) for t in jax.tree.leaves(jaxs)]


def test_an_array_is_added_to_in_place():
    def f(x):
        total = np.zeros(3, np.float32)
        total += x
        total *= x
        return jnp.sum(total)

    assert np.allclose(fgrad.grad(f)(X), jax.grad(f)(X))


BUFFER = np.zeros(3, np.float32)
LACKING = {
    "out": (lambda x: np.sin(x, out=BUFFER), "numpy.sin .* out="),
    "out, by position": (lambda x: np.sin(x, BUFFER), "numpy.sin .* out="),
    "out, the first operand": (lambda x: np.add(BUFFER, x, out=BUFFER), "numpy.add .* out="),
    "out of a function": (lambda x: np.cumsum(x, out=BUFFER), "numpy.cumsum .* out="),
    "out of a function, by position": (lambda x: np.cumsum(x, 0, None, BUFFER), "numpy.cumsum .* out="),
    "where": (lambda x: np.sin(x, where=BUFFER == 0), "numpy.sin .* where="),
    "dtype": (lambda x: np.add(x, x, dtype=np.float64), "numpy.add .* dtype="),
    "casting": (lambda x: np.add(x, x, casting="no"), "numpy.add .* casting="),
    "casting of a function": (lambda x: np.concatenate([x, x], casting="no"), "numpy.concatenate .* casting="),
    "order": (lambda x: np.zeros_like(x, order="F"), "numpy.zeros_like .* order="),
    "at": (lambda x: np.add.at(BUFFER, [0], x[0]), "numpy.add.at .* writes"),
    "no twin": (lambda x: np.real_if_close(x), "numpy.real_if_close .* no function of that name"),
    "scipy": (lambda x: scipy.special.gamma(x), "scipy.special.gamma .*\n.*\n.*use jax.scipy.special.gamma"),
    "scipy, another name": (lambda x: scipy.special.psi(x), "use jax.scipy.special.digamma"),
    "scipy, no twin": (lambda x: scipy.special.j0(x), "scipy.special.j0 .*\n.*\n.*fgrad.custom_vjp"),
}


@pytest.mark.parametrize("name", LACKING)
@pytest.mark.parametrize("lane", ["grad", "jit", "jax.jit"])
def test_what_jax_lacks_is_refused_by_name(name, lane):
    def f(x):
        call(x * 2.0)
        return jnp.sum(x)

    call, message = LACKING[name]
    run = {"grad": fgrad.grad(f), "jit": fgrad.jit(f), "jax.jit": jax.jit(fgrad.grad(f))}[lane]
    with pytest.raises(errors.NumPyFunctionError, match=message) as info:
        run(X)
    assert isinstance(info.value, jax.errors.TracerArrayConversionError)
    assert "test_protocols.py" in str(info.value)
    assert "stop_gradient" in str(info.value)
    assert not BUFFER.any()


# --------------------------------------------------------------------------------------------------------------------
# numbers that are copied out


def write(x):
    out = np.zeros(3)
    out[0] = x
    return out[0]


def write_slice(x):
    out = np.zeros(3)
    out[:2] = x
    return out


def add_to_element(x):
    out = np.zeros(3)
    out[0] += x
    return out


COPIES = {
    "asarray": np.asarray, "array": np.array, "of two": lambda x: np.array([x, x]), "float64": np.float64,
    "full": lambda x: np.full(3, x), "float": float, "complex": complex, "tolist": lambda x: x.tolist(),
    "tobytes": lambda x: x.tobytes(), "math": math.sin, "floor": math.floor, "fsum": lambda x: math.fsum([x]),
    "element": write, "slice": write_slice, "+= of an element": add_to_element, "fill": lambda x: np.zeros(3).fill(x),
    "array.array": lambda x: array.array("f", [x]), "pickle": pickle.dumps,
    "dlpack": np.from_dlpack, "memoryview": memoryview, "frombuffer": np.frombuffer,
    "random": lambda x: np.random.default_rng(0).normal(x), "vectorize": lambda x: np.vectorize(lambda v: v)(x),
    "method of ndarray": lambda x: np.ones(()).dot(x), "sum of a list": lambda x: np.sum([x, x]),
    "flat": lambda x: np.zeros(3).flat.__setitem__(0, x), "arange": lambda x: np.arange(0.0, x, 0.5),
    "compiled": lambda x: scipy.special.logsumexp([x, x]), "__array__": lambda x: x.__array__(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("inside", [lambda x: x, jnp.sin], ids=["argument", "computed"])
def test_no_number_is_copied_out(name, inside):
    seen = []

    def f(x):
        seen.append(COPIES[name](inside(x)))
        return x

    for library in (jax, fgrad):
        with pytest.raises((TypeError, ValueError)):
            library.grad(f)(1.5)
        with pytest.raises((TypeError, ValueError)):
            library.grad(library.grad(f))(1.5)
        with pytest.raises((TypeError, ValueError)):
            library.jvp(f, (1.5,), (1.0,))
    assert not seen


def test_the_error_says_where_and_what_to_do():
    with pytest.raises(errors.CopiedOutError) as info:
        fgrad.grad(lambda x: np.asarray(jnp.sin(x)).sum())(1.0)
    assert isinstance(info.value, jax.errors.TracerArrayConversionError)
    assert isinstance(info.value, jax.errors.ConcretizationTypeError)
    for part in ("test_protocols.py:", "jax.numpy", "stop_gradient", "item()"):
        assert part in str(info.value)
    with pytest.raises(ValueError) as info:  # NumPy's own, as with JAX
        fgrad.grad(write)(1.0)
    assert isinstance(info.value.__cause__, errors.CopiedOutError)


#: values through which no derivative passes
FREE = {
    "stop_gradient": lambda x: jax.lax.stop_gradient(x),
    "computed": lambda x: jnp.sum(jax.lax.stop_gradient(x * x) * 2 + 1),
    "argmax": lambda x: jnp.argmax(jnp.stack([x, 2 * x])),
    "comparison": lambda x: x > 0,
    "floor": lambda x: jnp.floor(x) * 2,
    "through integers": lambda x: x.astype(int).astype(float),
    "where": lambda x: jnp.where(x > 0, 1.0, 2.0),
    "loop": lambda x: jax.lax.scan(lambda c, _: (c + 1, c), jax.lax.stop_gradient(x), None, length=3)[0],
    "one result of a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, c: (c[0] * 2, c[1] + 1), (x, 0.0))[1],
    "branch": lambda x: jax.lax.cond(x > 0, lambda y: jnp.round(y), lambda y: 1.0, x),
}


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("times", [1, 2])
def test_numbers_without_a_derivative_are_free(name, times):
    def f(x):
        free = FREE[name](x)
        number = np.asarray(free).item() + float(free) + np.full(2, free)[1] + np.add(free, 1, dtype=np.float64)
        np.zeros(2)[0] = free
        return x * x * x * number

    ours, theirs = f, f
    for _ in range(times):
        ours, theirs = fgrad.grad(ours), jax.grad(theirs)
    if name == "loop":  # JAX keeps a zero here
        with jax.disable_jit():
            assert np.allclose(ours(1.5), theirs(1.5))
    assert np.allclose(ours(1.5), theirs(1.5))


def test_an_outer_derivative_is_not_lost_either():
    def outer(x):
        return fgrad.grad(lambda y: np.asarray(x * 2.0) * y)(1.0)

    with pytest.raises(errors.CopiedOutError):
        fgrad.grad(outer)(2.0)
    with pytest.raises(TypeError):
        jax.grad(outer)(2.0)

    def stopped(x):
        return fgrad.grad(lambda y: np.asarray(fgrad.stop_gradient(y) * x) * y)(1.0)

    with pytest.raises(errors.CopiedOutError):
        fgrad.grad(stopped)(2.0)
    assert fgrad.grad(lambda x: fgrad.grad(lambda y: y * np.asarray(fgrad.stop_gradient(x)))(x) * x)(3.0) == 3.0


@pytest.mark.parametrize("library", [jax, fgrad])
def test_a_custom_rule_may_use_numpy_once(library):
    """The rule takes the place of the derivative; a second derivative would pass through it."""

    @library.custom_vjp
    def gamma(x):
        return jnp.asarray(scipy.special.gamma(np.asarray(x)))

    gamma.defvjp(
        lambda x: (gamma(x), np.asarray(x)),
        lambda x, ct: (jnp.asarray(np.asarray(ct) * scipy.special.gamma(x) * scipy.special.psi(x)),),
    )
    assert np.allclose(library.grad(lambda x: gamma(x) * x)(2.5), 2.5 * 1.3293404 * 0.7031566 + 1.3293404)
    with pytest.raises(jax.errors.TracerArrayConversionError):
        library.grad(library.grad(gamma))(2.5)


def test_a_rematerialised_block_is_no_way_out():
    with pytest.raises(jax.errors.TracerArrayConversionError):
        fgrad.grad(fgrad.checkpoint(lambda x: x * np.asarray(x)))(2.0)


# --------------------------------------------------------------------------------------------------------------------
# every lane


def program(x):
    return np.sum(np.sin(x) * A + np.float64(2) * x) * np.linalg.norm(np.concatenate([x, A]))


def program_of_jax(x):
    return jnp.sum(jnp.sin(x) * A + 2 * x) * jnp.linalg.norm(jnp.concatenate([x, A]))


LANES = {
    "grad": lambda lib, f: lib.grad(f)(X),
    "value_and_grad": lambda lib, f: lib.value_and_grad(f)(X),
    "jvp": lambda lib, f: lib.jvp(f, (X,), (X + 1,)),
    "vjp": lambda lib, f: lib.vjp(f, X)[1](jnp.float32(2)),
    "linearize": lambda lib, f: lib.linearize(f, X)[1](X + 1),
    "jit": lambda lib, f: lib.jit(lib.grad(f))(X),
    "jax.jit": lambda lib, f: jax.jit(lib.grad(f))(X),
    "vmap": lambda lib, f: jax.vmap(lib.grad(f))(jnp.stack([X, 2 * X])),
    "hessian": lambda lib, f: lib.hessian(f)(X),
    "jacfwd of grad": lambda lib, f: lib.jacfwd(lib.grad(f))(X),
    "scan": lambda lib, f: jax.lax.scan(lambda c, _: (c + 0.01 * lib.grad(f)(c), None), X, None, length=3)[0],
    "checkpoint": lambda lib, f: lib.grad(lib.checkpoint(f))(X),
}


@pytest.mark.parametrize("lane", LANES)
def test_every_lane(lane):
    ours, theirs = LANES[lane](fgrad, program), LANES[lane](jax, program_of_jax)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_graph_of_numpy_functions():
    graph = fgrad.make_graph(program)(X)
    assert np.allclose(graph(X), program(np.asarray(X)), rtol=1e-5)


@pytest.mark.parametrize(
    "inner", [lambda x: jax.vmap(np.sin)(x), lambda x: jax.lax.map(np.sin, x)], ids=["vmap", "map"]
)
def test_what_jax_traces_itself_is_loud(inner):
    """The bodies of vmap and of loops see JAX's own tracers, which NumPy cannot work on."""
    with pytest.raises(jax.errors.TracerArrayConversionError):
        fgrad.grad(lambda x: jnp.sum(inner(x)))(X)


def test_other_libraries_are_asked():
    class Other:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return "other"

        def __array_function__(self, function, types, args, kwargs):
            return "other"

    seen = []
    fgrad.grad(lambda x: seen.extend([np.add(x, Other()), np.concatenate([x, Other()])]) or jnp.sum(x))(X)
    assert seen == ["other", "other"]


def test_libraries_that_read_the_module_of_a_class_take_a_tracer_for_an_array_of_jax():
    seen = []
    fgrad.grad(lambda x: seen.append(type(x)) or x)(1.0)
    assert seen[0].__module__.partition(".")[0] == "jax"
