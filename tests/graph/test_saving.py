"""Graphs in files: what goes in comes out, and nothing else gets in."""

import ast
import io
import json
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import fgrad
from fgrad.errors import GraphFileError, UndefinedDerivativeError
from fgrad.graph import encoding, reading, saving, writing
from fgrad.graph.graph import Builder, Const, Graph, evaluate
from fgrad.graph.importing import from_jaxpr
from fgrad.graph.op import intern
from fgrad.graph.saving import dump, load, read
from fgrad.graph.text import render
from fgrad.jaxcore import all_primitives, primitive
from fgrad.passes.vjp import transpose
from tests.graph.programs import PROGRAMS, graph_of, itself, random_graphs
from tests.graph.test_text import chain
from tests.rules import samples_arithmetic, samples_convolution, samples_indexing, samples_products, samples_windows

TABLES = (samples_arithmetic, samples_convolution, samples_indexing, samples_products, samples_windows)
SAMPLES = {f"{s.primitive} {s.label}": s for table in TABLES for s in table.SAMPLES[::4]}


def saved(graph, extra=None):
    file = io.BytesIO()
    dump(graph, file, extra)
    return file.getvalue()


def loaded(data):
    return load(io.BytesIO(data))


def round_trip(graph):
    data = saved(graph)
    found = loaded(data)
    assert found == graph
    assert hash(found) == hash(graph)
    assert [n.op.out_types for n in found] == [n.op.out_types for n in graph]
    assert saved(found) == data
    assert render(found) == render(graph)
    return found


# --------------------------------------------------------------------------------------------------------------------
# what goes in comes out


@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trip_and_the_same_numbers(name):
    graph = graph_of(PROGRAMS[name])
    x = jnp.array([0.3, -1.2, 0.7])
    for a, b in zip(evaluate(round_trip(graph), [x]), evaluate(graph, [x]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "while"])
def test_gradients_make_the_round_trip(name):
    round_trip(graph_of(fgrad.grad(lambda x: sum(jnp.sum(y) for y in jax.tree.leaves(PROGRAMS[name](x))))))


@pytest.mark.parametrize("name", SAMPLES)
def test_operations_make_the_round_trip(name, x64):
    sample = SAMPLES[name]
    round_trip(from_jaxpr(jax.make_jaxpr(sample.fun)(*sample.args)))


@settings(max_examples=30, deadline=None)
@given(random_graphs())
def test_random_graphs_make_the_round_trip(graph):
    round_trip(graph)


DTYPES = [d for d in encoding.DTYPES.values() if d.itemsize < 8 or d.name == "complex64"]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.name not in ("int1", "uint1", "float4_e2m1fn")], ids=str)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_constants_of_every_dtype(dtype, shape):
    values = (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(dtype)
    try:
        const = Const.of(jnp.asarray(values))
    except Exception:
        pytest.skip("JAX makes no array of this dtype")
    found = round_trip(of_constant(const)).consts[0]
    assert found.type == const.type
    assert jax.typeof(found.value) == const.type


def of_constant(const):
    builder = Builder()
    return builder.finish([builder.const(const)])


ODD_NUMBERS = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.1, 1 + 2j, complex(np.nan, -0.0), True, 7]


@pytest.mark.parametrize("value", ODD_NUMBERS)
def test_python_numbers_and_scalars_keep_their_bits(value):
    round_trip(of_constant(Const.of(value)))
    round_trip(of_constant(Const.of(jnp.asarray(value))))
    array = np.asarray(value).astype(jnp.asarray(value).dtype)
    round_trip(of_constant(Const.of(array)))
    (found,) = round_trip(of_constant(Const.of(jnp.full((2,), value)))).consts
    assert np.asarray(found.value).tobytes() == np.asarray(jnp.full((2,), value)).tobytes()


def test_a_nan_keeps_its_payload():
    array = np.array(0x7FC01234, np.uint32).view(np.float32)
    assert np.asarray(round_trip(of_constant(Const.of(array))).consts[0].value).view(np.uint32) == 0x7FC01234


def test_weak_arrays_stay_weak():
    const = Const.of(jnp.asarray(2.0) * jnp.ones((), jnp.float32))
    weak = Const.of(jax.lax.broadcast(2.0, (3,)))
    assert weak.type.weak_type
    for each in (const, weak):
        assert jax.typeof(round_trip(of_constant(each)).consts[0].value) == each.type


@pytest.mark.parametrize("implementation", encoding.KEY_IMPLEMENTATIONS)
def test_random_keys(implementation):
    keys = jax.random.split(jax.random.key(5, impl=implementation), 3)
    found = loaded(saved(of_constant(Const.of(keys)))).consts[0].value
    assert found.dtype == keys.dtype
    np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(keys))


def test_sources_stay_but_do_not_count():
    graph = graph_of(lambda x: fgrad.grad(lambda y: jnp.sum(jnp.sinh(jnp.cos(y))))(x))
    found = loaded(saved(graph))
    assert [str(n.source) for n in found] == [str(n.source) for n in graph]
    files = {file for file, *_ in saving.encoded(graph)[0]["sources"]}
    assert files == {"test_saving.py"}


def test_equal_graphs_give_equal_files():
    assert saved(graph_of(PROGRAMS["scan"])) == saved(graph_of(PROGRAMS["scan"]))


def test_paths_and_extra(tmp_path):
    graph = graph_of(PROGRAMS["scan"])
    dump(graph, tmp_path / "g.fgrad", {"note": [1, None]})
    assert read(tmp_path / "g.fgrad") == (graph, {"note": [1, None]})
    assert [p.name for p in tmp_path.iterdir()] == ["g.fgrad"]
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


@pytest.mark.slow
def test_a_hundred_thousand_nodes():
    round_trip(chain(100_000))


def test_saving_and_loading_while_something_is_traced():
    keys = of_constant(Const.of(jax.random.key(5)))

    def function(x):
        assert loaded(saved(keys)).in_types == ()
        assert loaded(saved(graph_of(PROGRAMS["constant"]))) == graph_of(PROGRAMS["constant"])
        return x * 2.0

    assert jax.jit(function)(1.0) == 2.0


def test_registered_functions(monkeypatch):
    monkeypatch.setattr(encoding, "_named", {})
    policy = jax.checkpoint_policies.dots_saveable
    graph = graph_of(jax.checkpoint(lambda x: jnp.sin(jnp.dot(x, x)), policy=policy))
    with pytest.raises(GraphFileError, match=r"remat.*parameter 'policy'.*register"):
        saved(graph)
    encoding.register("dots", policy)
    round_trip(graph)
    data = saved(graph)
    encoding._named.clear()
    with pytest.raises(GraphFileError, match="no registered value is called 'dots'"):
        loaded(data)


# --------------------------------------------------------------------------------------------------------------------
# rules of custom calls


@pytest.mark.parametrize("wrapped", [False, True], ids=["recorded", "inside a scan"])
def test_a_rule_that_calls_its_own_function(wrapped):
    def looped(x):
        return jax.lax.scan(lambda c, t: (itself(c * t), t), x[0], x)[0]

    function = looped if wrapped else itself
    found = loaded(saved(graph_of(lambda x: jnp.sum(function(x)))))

    def run(x):
        return evaluate(found, [x])[0]

    x = jnp.array([0.3, 0.5, 0.9])
    np.testing.assert_allclose(fgrad.grad(run)(x), jax.grad(lambda x: jnp.sum(function(x)))(x), rtol=1e-5)
    f, g = run, function
    for _ in range(3):
        f, g = fgrad.grad(lambda x, f=f: jnp.sum(f(x))), jax.grad(lambda x, g=g: jnp.sum(g(x)))
    np.testing.assert_allclose(f(x), g(x), rtol=1e-4)


def test_rules_that_never_end(monkeypatch):
    monkeypatch.setattr(writing, "ORDERS", 2)
    data = saved(graph_of(jnp.sinc, jnp.float32(0.4)))
    monkeypatch.setattr(reading, "_rules_by_digest", OrderedDict())  # as in another process
    found = loaded(data)
    f, g = lambda x: evaluate(found, [x])[0], jnp.sinc
    for _ in range(writing.ORDERS):
        f, g = fgrad.grad(f), jax.grad(g)
    x = jnp.float32(0.4)
    np.testing.assert_allclose(f(x), g(x), rtol=1e-4)
    with pytest.raises(UndefinedDerivativeError, match=r"higher order than 2 alone"):
        fgrad.grad(f)(x)


def test_rules_that_close_over_a_tracer(monkeypatch):
    # the rule of the derivative of exp1 closes over an integer that jit traces: JAX has no second derivative of it
    graph = graph_of(fgrad.grad(jax.scipy.special.exp1), jnp.float32(1.5))
    data = saved(graph)
    monkeypatch.setattr(reading, "_rules_by_digest", OrderedDict())  # as in another process
    found = loaded(data)
    np.testing.assert_allclose(evaluate(found, [1.5]), evaluate(graph, [1.5]), rtol=1e-6)
    assert saved(found) == data
    with pytest.raises(UndefinedDerivativeError, match=r"closes over a traced value of type int32"):
        fgrad.grad(lambda x: evaluate(found, [x])[0])(jnp.float32(1.5))


@pytest.mark.parametrize("policies", [jax.checkpoint_policies, fgrad.checkpoint_policies], ids=["jax", "fgrad"])
def test_policies_of_names(policies):
    def body(x):
        return jnp.sum(jnp.sin(fgrad.checkpoint_name(jnp.sin(x), "h")))

    made = [policies.save_only_these_names("h", "g"), policies.save_any_names_but_these("g")]
    made.append(policies.save_anything_except_these_names("h"))
    made.append(policies.save_from_both_policies(policies.dots_saveable, made[0]))
    made.append(policies.offload_dot_with_no_batch_dims("device", "pinned_host"))
    made.append(
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["h"],
            names_which_can_be_offloaded=["g"],
            offload_src="device",
            offload_dst="pinned_host",
        )
    )
    for policy in made:
        round_trip(graph_of(fgrad.checkpoint(body, policy=policy)))
        round_trip(graph_of(fgrad.grad(fgrad.checkpoint(body, policy=policy))))
        round_trip(graph_of(jax.checkpoint(body, policy=policy)))


def test_policies_of_a_file_are_checked():
    policies = fgrad.checkpoint_policies
    policy = policies.save_from_both_policies(policies.save_only_these_names("h"), policies.dots_saveable)
    data = saved(graph_of(fgrad.checkpoint(jnp.sin, policy=policy)))
    for change in (lambda fields: fields.update(second="h"), lambda fields: fields.pop("first")):

        def broken(document, change=change):
            for op in document["ops"]:
                if op["name"] == "remat":
                    change(op["params"]["policy"]["fields"])

        with pytest.raises(GraphFileError, match=r"policy"):
            loaded(altered(data, broken))


def test_custom_rules_in_another_process(tmp_path):
    dump(graph_of(lambda x: jnp.sum(PROGRAMS["custom_vjp"](x) + itself(x))), tmp_path / "g")
    code = (
        "import sys, fgrad, jax.numpy as jnp\n"
        "from fgrad.graph.saving import load\n"
        "from fgrad.graph.graph import evaluate\n"
        "g = load(sys.argv[1]); assert load(sys.argv[1]) == g\n"
        "print(fgrad.grad(lambda x: evaluate(g, [x])[0])(jnp.zeros(3)))"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "g")]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() == "[2. 2. 2.]"


# --------------------------------------------------------------------------------------------------------------------
# what has no place in a file


def refused(graph, *parts):
    with pytest.raises(GraphFileError) as caught:
        saved(graph)
    for part in ("cannot be written", *parts):
        assert part in str(caught.value)


def test_a_callback_is_refused_with_the_users_line():
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    refused(graph_of(lambda x: jax.pure_callback(np.sin, shape, x)), "pure_callback at test_saving.py:")


def test_a_traced_constant_is_refused():
    def function(x):
        refused(graph_of(lambda y: y * x), "closes over a traced value of type float32[]")
        return x

    jax.jit(function)(jnp.float32(1.0))


def test_a_sharding_is_refused():
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    refused(graph_of(lambda x: jax.lax.with_sharding_constraint(x, sharding)), "sharding")


# --------------------------------------------------------------------------------------------------------------------
# what else may be in a file


def altered(data, change):
    """The file with its document changed by a function."""
    found = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(found, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == reading.MEMBER:
                document = json.loads(content)
                document = change(document) or document
                content = json.dumps(document).encode()
            new.writestr(info.filename, content)
    return found.getvalue()


def bad(data, *parts):
    with pytest.raises(GraphFileError) as caught:
        loaded(data)
    for part in parts:
        assert part in str(caught.value)


SCAN = saved(graph_of(PROGRAMS["scan"]))
SINE = saved(graph_of(jnp.sin))


def setting(value, *path):
    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (setting("pickle", "format"), "its format is 'pickle'"),
        (setting(2, "version"), "it is of version 2; this version of fgrad reads version 1"),
        (setting("exec", "ops", 0, "name"), "no primitive is called 'exec'"),
        (setting("ffi_call", "ops", 0, "name"), "calls code outside JAX"),
        (setting([7], "graphs", 0, "nodes", 0, 1), "reads a value that does not exist yet: [7]"),
        (setting([-1], "graphs", 0, "nodes", 0, 1), "there is no values[-1]"),
        (setting([True], "graphs", 0, "nodes", 0, 1), "True where a int is expected"),
        (setting(5, "graphs", 0, "nodes", 0, 0), "there is no ops[5]"),
        (setting([9], "graphs", 0, "outputs"), "there is no value for the outputs [9]"),
        (setting(["float32[4]"], "ops", 0, "outputs"), "is said to give ['float32[4]'] and gives ['float32[3]']"),
        (setting(["float32[4]"], "graphs", 0, "inputs"), "its operation takes f32[3]"),
        (setting(["float32[-4]"], "graphs", 0, "inputs"), "'float32[-4]' is no type"),
        (setting(["float33[4]"], "graphs", 0, "inputs"), "no dtype is called 'float33'"),
        (setting([f"float32[{10**18},{10**18}]"], "graphs", 0, "inputs"), "too large"),
        (setting("reduce_sum", "ops", 0, "name"), "the parameter 'axes' is missing"),
        (setting({"accuracy": {"eval": "1"}}, "ops", 0, "params"), "stands for no value"),
        (setting({"accuracy": {"enum": "os.system"}}, "ops", 0, "params"), "no enumeration is called 'os'"),
        (setting({"accuracy": {"record": "Graph", "fields": {}}}, "ops", 0, "params"), "no record is called 'Graph'"),
        (setting({"accuracy": {"function": "jit"}}, "ops", 0, "params"), "no function is called 'jit'"),
        (setting({"body": {"graph": 0}}, "ops", 0, "params"), "contains itself"),
        (setting({"body": {"rule": 0}}, "ops", 0, "params"), "there is no rules[0]"),
        (setting(None, "ops"), "ops is None where a list is expected"),
        (setting(4, "root"), "there is no root[4]"),
        (setting(["a", 1, 2, 3], "sources", 0), "is no position in a source file"),
        (lambda document: [1], "the document is [1] where a dict is expected"),
    ],
)
def test_a_document_that_lies(change, part):
    bad(altered(SINE, change), part)


def test_bodies_must_fit():
    def change(document):
        (op,) = [op for op in document["ops"] if op["name"] == "scan"]
        op["params"]["num_carry"] = 0

    bad(altered(SCAN, change))


def test_tangents_that_are_only_transposed():
    f = fgrad.custom_vjp(jnp.sin)
    # not linear in the cotangent, so that forward mode cannot be had from it
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (jnp.sin(ct) * x,))
    point = jnp.array([0.5, 1.0, 2.0])
    graph = graph_of(lambda x, t: fgrad.jvp(f, (x,), (t,))[1], point, point)
    back, _ = transpose(round_trip(graph), [1], [0])
    (got,) = evaluate(back, [point, point])
    np.testing.assert_allclose(got, np.sin(point) * point, rtol=1e-6)

    def change(document):
        (op,) = [op for op in document["ops"] if op["name"] == "only_transposed"]
        op["params"]["num_consts"] -= 1

    bad(altered(saved(graph), change), "only_transposed")


def test_a_rule_must_fit_its_call():
    def change(document):
        for rule in document["rules"]:
            rule["wrt"] = [5]

    bad(altered(saved(graph_of(PROGRAMS["custom_vjp"])), change), "rule")
    assert loaded(saved(graph_of(PROGRAMS["custom_vjp"]))) == graph_of(PROGRAMS["custom_vjp"])


def test_64_bit_types_are_read_without_the_setting():
    with jax.enable_x64(True):
        graph = graph_of(lambda x: jnp.sin(x) * np.arange(3), jnp.zeros(3))
    read = loaded(saved(graph))
    assert read == graph and read.wide
    np.testing.assert_array_equal(evaluate(read, [np.ones(3)])[0], np.sin(np.ones(3)) * np.arange(3))


def test_deep_nesting_is_refused():
    deep = "[" * 100_000
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(reading.MEMBER, deep)
    bad(file.getvalue())


def test_a_zip_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(reading, "JSON_BYTES", 1000)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(reading.MEMBER), " " * 10_000_000, zipfile.ZIP_DEFLATED)
    bad(file.getvalue(), "would unfold to 10,000,000 bytes")


def with_array(content, compression=zipfile.ZIP_STORED):
    """A file whose one array has this content."""
    data, found = saved(graph_of(PROGRAMS["constant"])), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(found, "w") as new:
        for info in old.infolist():
            if info.filename == reading.MEMBER:
                new.writestr(info.filename, old.read(info))
            else:
                new.writestr(zipfile.ZipInfo(info.filename), content(old.read(info)), compression)
    return found.getvalue()


def npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def test_arrays_that_are_not_what_they_should_be():
    loaded(with_array(lambda content: content))
    bad(with_array(lambda content: content, zipfile.ZIP_DEFLATED), "is compressed")
    bad(with_array(lambda content: npy(np.array([print, 1]), allow_pickle=True)), "holds object[2]")
    bad(with_array(lambda content: npy(np.zeros((2, 4), np.float32))), "[2, 4] where float32[2, 3] is expected")
    bad(with_array(lambda content: npy(np.zeros((2, 3), np.float32))), "does not hold what its name says")
    bad(with_array(lambda content: content[:-4]), "another length")
    bad(with_array(lambda content: b"not an array"), "magic")
    bad(with_array(lambda content: content.replace(b"(2, 3)", b"(2**9999999, 3)")))


DATA = [saved(graph_of(PROGRAMS[name])) for name in ("scan", "constant", "custom_vjp", "scatter")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(DATA), st.data())
def test_changed_bytes_give_the_error_or_the_graph(data, choice):
    kind = choice.draw(st.sampled_from(["flip", "cut", "insert"]))
    at = choice.draw(st.integers(0, len(data) - 1))
    if kind == "flip":
        changed = data[:at] + bytes([data[at] ^ choice.draw(st.integers(1, 255))]) + data[at + 1 :]
    elif kind == "cut":
        changed = data[:at]
    else:
        changed = data[:at] + choice.draw(st.binary(min_size=1, max_size=5)) + data[at:]
    try:
        found = loaded(changed)
    except GraphFileError:
        return
    assert found == loaded(data)


ATOMS = st.none() | st.booleans() | st.integers(-3, 10) | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.sampled_from(["float32[3]", "sin", "scan", "cond", {"graph": 0}, {"rule": 0}, {"jaxpr": 0, "closed": True}])
TAGS = st.sampled_from(["graph", "list", "dict", "float"])
VALUES = st.recursive(
    ATOMS | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TAGS, inner),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(DATA), st.data())
def test_changed_documents_give_the_error_or_a_sound_graph(data, choice):
    def change(document):
        spot = document
        while True:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            key = choice.draw(st.sampled_from(keys))
            if not isinstance(spot[key], dict | list) or not spot[key] or choice.draw(st.integers(0, 4)) == 0:
                spot[key] = choice.draw(VALUES)
                return
            spot = spot[key]

    try:
        found = loaded(altered(data, change))
    except GraphFileError:
        return
    assert isinstance(found, Graph)
    assert loaded(saved(found)) == found


def test_nothing_in_the_code_could_execute_a_file():
    for module in (encoding, reading, saving, writing):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.Name):
                assert node.id not in ("eval", "exec", "compile", "__import__", "pickle"), module.__name__
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not {"pickle", "marshal", "importlib", "shelve"} & {a.name for a in node.names}


def test_a_name_taken_by_another_primitive():
    other = type(primitive("sin"))("sin")
    other.def_abstract_eval(lambda x: x)
    op = intern(other, {}, [jax.typeof(jnp.zeros(3))])
    assert all_primitives()["sin"] is not other
    builder = Builder(op.in_types)
    refused(builder.finish([builder.emit(op, (0,))]), "another primitive has the same name")


def test_a_weak_constant_whose_value_is_not_weak():
    """A Python number's type depends on JAX's 64-bit flag: what was traced without it is kept with it."""
    jaxpr = jax.make_jaxpr(lambda: jax.lax.add(2, 3))()
    with jax.enable_x64(True):
        graph = from_jaxpr(jaxpr)
        stream = io.BytesIO()
        dump(graph, stream)
        again = load(io.BytesIO(stream.getvalue()))
    assert [const.type for const in again.consts] == [const.type for const in graph.consts]
