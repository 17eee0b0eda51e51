"""Every rule against JAX and against finite differences, at every sample of the table, in one compiled program each."""

import functools
import importlib
import pkgutil
import zlib
from collections import Counter

import jax
import jax.extend.core.primitives
import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import tests.rules as here
from fgrad.graph.importing import IMPORTERS
from fgrad.graph.regions import REGIONS
from fgrad.jaxcore import all_primitives
from fgrad.rules.kinds import RULES, Undefined, Zero
from tests.rules.samples import Sample
from tests.rules.samples_collectives import NOT_RUN

SAMPLES: list[Sample] = [
    sample
    for module in pkgutil.iter_modules(here.__path__)
    if module.name.startswith("samples_")
    for sample in importlib.import_module(f"tests.rules.{module.name}").SAMPLES
]


def _ids() -> list[str]:
    seen: dict[str, int] = {}
    names = []
    for s in SAMPLES:
        name = f"{s.primitive}-{s.label}" if s.label else s.primitive
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names


def _inexact(x) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def _random_like(rng, tree):
    def one(x):
        if not _inexact(x):
            return np.zeros(jnp.shape(x), jax.dtypes.float0)
        v = rng.standard_normal(jnp.shape(x))
        if jnp.issubdtype(jnp.result_type(x), jnp.complexfloating):
            v = v + 1j * rng.standard_normal(jnp.shape(x))
        return v.astype(jnp.result_type(x))

    return jax.tree.map(one, tree)


def _flat(fun, args):
    """``fun`` as a function of its inexact arguments that returns the list of its inexact results."""
    where = [i for i, x in enumerate(args) if _inexact(x)]

    def flat(*xs):
        full = list(args)
        for i, x in zip(where, xs, strict=True):
            full[i] = x
        return [y for y in jax.tree.leaves(fun(*full)) if _inexact(y)]

    return flat, [args[i] for i in where]


def _contract(ys, cts):
    """A real scalar from outputs and weights, so that second derivatives can be compared."""
    return sum((jnp.sum((y * ct).real + (y * ct).imag) for y, ct in zip(ys, cts, strict=True)), jnp.zeros(()))


def _results(lib, flat, xs, cts, ts, second):
    ys, pull = lib.vjp(flat, *xs)
    found = {"value": ys, "vjp": pull(cts), "jvp": lib.jvp(flat, tuple(xs), tuple(ts))[1]}

    def first(*zs):
        _, back = lib.vjp(flat, *zs)
        return list(back(cts))

    if xs and "rev-rev" in second:
        found["rev-rev"] = lib.vjp(first, *xs)[1](list(ts))
    if xs and "fwd-rev" in second:
        found["fwd-rev"] = lib.jvp(first, tuple(xs), tuple(ts))[1]
    return found


def _second_orders():
    """The second derivatives that are taken of each sample: where a primitive has many, they take turns."""
    many, met = Counter(s.primitive for s in SAMPLES), Counter()
    for s in SAMPLES:
        both = ("rev-rev", "fwd-rev") if s.order >= 2 else ()
        yield both if many[s.primitive] < 4 else both[met[s.primitive] % 2 :][:1]
        met[s.primitive] += 1


def _earlier():
    """How many samples of its primitive each sample follows."""
    met = Counter()
    for s in SAMPLES:
        yield met[s.primitive]
        met[s.primitive] += 1


def _marks(i, sample, earlier):
    """Of each primitive two samples always run, and a third of the others."""
    share = zlib.crc32(f"{sample.primitive} {sample.label}".encode()) % 3
    return [*[pytest.mark.slow] * (i % 4 > 0), *[pytest.mark.thorough] * (earlier > 1 and share > 0)]


@pytest.mark.parametrize(
    ("sample", "second"),
    [
        pytest.param(s, second, marks=_marks(i, s, earlier))
        for i, (s, second, earlier) in enumerate(zip(SAMPLES, _second_orders(), _earlier(), strict=True))
    ],
    ids=_ids(),
)
@pytest.mark.usefixtures("checked_passes")
def test_rule(sample, second, x64):
    rng = np.random.default_rng(zlib.crc32(sample.primitive.encode()))
    args = jax.tree.map(jnp.asarray, sample.args)
    flat, xs = _flat(sample.fun, args)
    mapped = functools.partial(jax.vmap, axis_name=sample.axis) if sample.axis else lambda f: f
    ys = jax.eval_shape(mapped(flat), *xs)
    cts, ts = _random_like(rng, ys), _random_like(rng, xs)

    eps = 1e-6 if sample.smooth and xs else 0.0

    def everything(xs, cts, ts, libraries):
        """What each library finds, and the values a little ahead and behind: one program, compiled once."""
        found = {lib.__name__: mapped(lambda *a: _results(lib, flat, *a, second))(xs, cts, ts) for lib in libraries}
        steps = [[x + (h * t).astype(x.dtype) for x, t in zip(xs, ts, strict=True)] for h in (eps, -eps) if eps]
        return found, [mapped(flat)(*moved) for moved in steps]

    run = jax.jit(everything, static_argnums=3)
    try:
        found, moved = run(xs, cts, ts, (fgrad, jax) if sample.in_jax else (fgrad,))
    except (NotImplementedError, TypeError, ValueError):
        # this version of JAX cannot; finite differences must be there to judge
        assert sample.smooth
        found, moved = run(xs, cts, ts, (fgrad,))
    ours, theirs = found["fgrad"], found.get("jax", {})
    scale = max(sample.tolerance, 1e-6)
    # a conversion to a narrow type rounds the two pairings differently
    agree = max([scale, *(8 * float(jnp.finfo(y.dtype).eps) for y in ours["value"])])
    forward, backward = _pair(cts, ours["jvp"]), _pair(ours["vjp"], ts)
    np.testing.assert_allclose(forward, backward, rtol=agree, atol=agree * max(1.0, abs(forward)), err_msg="both modes")
    for name, expected in theirs.items():
        for a, b in zip(jax.tree.leaves(ours[name]), jax.tree.leaves(expected), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape, name
            np.testing.assert_allclose(a, b, rtol=scale, atol=scale * max(1.0, _size(b)), err_msg=f"{name} against JAX")
    if moved:
        ahead, behind = moved
        for a, p, m in zip(ours["jvp"], ahead, behind, strict=True):
            numerical = (np.asarray(p) - np.asarray(m)) / (2 * eps)
            np.testing.assert_allclose(
                a,
                numerical,
                rtol=1e-4,
                atol=1e-4 * max(1.0, _size(numerical)),
                err_msg="jvp against finite differences",
            )


def _pair(cts, ts):
    """The real pairing of cotangents and tangents (no conjugate: JAX's convention)."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(cts, ts, strict=True) if a.dtype != jax.dtypes.float0]
    total = sum(float(np.sum((a * b).real)) for a, b in pairs)
    return total if np.isfinite(total) else 0.0


def _size(x) -> float:
    x = np.abs(np.asarray(x))
    x = x[np.isfinite(x)]
    return float(x.max()) if x.size else 0.0


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(
    "dtype",
    [
        jnp.bfloat16,
        pytest.param(jnp.float16, marks=pytest.mark.thorough),
        pytest.param(jnp.float32, marks=pytest.mark.thorough),
    ],
)
def test_low_precision_types_are_kept(dtype, part, x64):
    """Cotangents and tangents have the dtype of their primal, whatever the precision."""
    wrong = []
    for sample, name in zip(SAMPLES[part::4], _ids()[part::4], strict=True):
        args = [x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x for x in map(np.asarray, sample.args)]
        if sample.axis:
            continue
        flat, xs = _flat(sample.fun, args)
        try:
            shapes = jax.eval_shape(flat, *xs)
        except (NotImplementedError, TypeError, ValueError):
            continue  # the primitive itself does not take this dtype
        cts = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), shapes)
        grads = jax.eval_shape(lambda xs, cts, flat=flat: fgrad.vjp(flat, *xs)[1](cts), xs, cts)
        for x, g in zip(xs, grads, strict=True):
            if g.dtype != jnp.result_type(x) or g.shape != jnp.shape(x):
                wrong.append((name, str(jnp.result_type(x)), str(g.dtype)))
    assert not wrong


#: primitives that need no rule of their own, with the reason
NOT_DIFFERENTIATED = {
    "custom_lin": "arises only inside JAX's own linearisation",
    "empty2": "arises only inside JAX's own loops",
    "eval_jaxpr": "arises only inside JAX's own lowering",
}


def test_every_primitive_is_covered():
    """Each primitive that JAX exports has a rule, is a region, is inlined, or is listed above with a reason."""
    exported = {
        value.name
        for module in (jax.lax, jax.extend.core.primitives)
        for value in vars(module).values()
        if isinstance(value, jax.extend.core.Primitive)
    }
    missing = exported - {*RULES, *REGIONS, *IMPORTERS, *NOT_DIFFERENTIATED}
    assert not missing


def test_every_rule_has_a_sample():
    """A differentiable rule of a primitive that this JAX exports is tested by at least one sample."""
    sampled = {sample.primitive for sample in SAMPLES}
    missing = [
        name
        for name, rule in RULES.items()
        if isinstance(name, str)
        and name in all_primitives()
        and not isinstance(rule, Zero | Undefined)
        and name not in REGIONS
        and name not in sampled
        and name not in NOT_RUN
        and name != "stage"  # handled by the recorder's stage_value
    ]
    assert not missing


@pytest.mark.parametrize("sample", SAMPLES, ids=_ids())
def test_sample_reaches_its_primitive(sample, x64):
    """A sample stages at least one equation of the primitive it claims to test."""
    names = set()
    members = [x[0] for x in sample.args] if sample.axis else sample.args
    axes = [(sample.axis, len(sample.args[0]))] if sample.axis else []
    stack = [jax.make_jaxpr(sample.fun, axis_env=axes)(*members)]
    while stack:
        jaxpr = stack.pop()
        for eqn in jaxpr.eqns:
            names.add(eqn.primitive.name)
            stack += [v for v in eqn.params.values() if hasattr(v, "eqns")]
            stack += [w for v in eqn.params.values() if isinstance(v, tuple | list) for w in v if hasattr(w, "eqns")]
    assert sample.primitive in names
