"""The parameters of every primitive that a file can hold: each is known, and nothing else gets past loading."""

import io
import json

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import primitives

import fgrad
from fgrad.errors import GraphFileError
from fgrad.graph.check import Misfit
from fgrad.graph.parameters import check_parameters, schema
from fgrad.graph.regions import REGIONS, custom_vmap, scan
from fgrad.graph.saving import dump, encoded, load
from fgrad.jaxcore import Primitive
from tests.graph.changes import document_of, with_text
from tests.graph.corpus import MORE, corpus, graphs
from tests.graph.mutations import campaign
from tests.graph.programs import PROGRAMS, graph_of


def written(function, *args):
    file = io.BytesIO()
    dump(graph_of(function, *args), file)
    return file.getvalue()


def refused(data, name, change, *parts):
    """That a file is refused once the operation of this name is changed."""
    document = document_of(data)
    (op, *_) = [op for op in document["ops"] if op["name"] == name]
    change(op)
    with pytest.raises(GraphFileError) as caught:
        load(io.BytesIO(with_text(data, json.dumps(document))))
    for part in parts:
        assert part in str(caught.value)


DOT = written(lambda x: jnp.dot(x, x))


def test_a_precision_that_is_a_number():
    def change(op):
        op["params"]["precision"] = 1

    refused(DOT, "dot_general", change, "parameter 'precision' of dot_general is 1 and must be a precision")


def test_what_is_filled_with_is_a_number():
    data = written(lambda x: x.at[jnp.array([7])].get(mode="fill", fill_value=0.0), jnp.ones(3))
    refused(data, "gather", lambda op: op["params"].update(fill_value=None), "'fill_value' of gather is None")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda op: op["params"].pop("precision"), "the parameter 'precision' is missing"),
        (lambda op: op["params"].update(exact=None), "there is no parameter 'exact'"),
        (lambda op: op.update(effects=True), "other effects"),
        (lambda op: op.update(more=1), "an unknown 'more'"),
        (lambda op: op["params"].update(preferred_element_type={"dtype": "float0"}), "None or a dtype"),
        (lambda op: op["params"].update(dimension_numbers=[[[False], [0]], [[], []]]), "pairs of axes"),
        (lambda op: op["params"].update(dimension_numbers=[[[-1], [0]], [[], []]]), "pairs of axes"),
        (lambda op: op["params"].update(out_sharding=0), "must be None"),
    ],
)
def test_what_a_product_may_not_be(change, part):
    refused(DOT, "dot_general", change, part)


def test_a_parameter_that_is_none_may_be_left_out(tmp_path):
    graph = fgrad.make_graph(lambda x: primitives.mul_p.bind(x, x))(2.0)
    graph.save(tmp_path / "graph")
    assert fgrad.load(tmp_path / "graph")(3.0) == 9.0


OTHERS = {
    "sort": ("sort", "dimension", -1),
    "reduce": ("reduce_max", "axes", [False]),
    "gather": ("gather", "mode", 1),
    "scatter": ("scatter-add", "unique_indices", 0),
    "fft": ("fft", "fft_lengths", [-3]),
    "scan": ("scan", "unroll", 0),
    "switch": ("cond", "branches", []),
    "remat": ("remat", "policy", "dots"),
    "print": ("debug_print", "fmt", "{0.__class__} {}"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_others_may_not_be(name):
    primitive, parameter, value = OTHERS[name]
    data = written({**PROGRAMS, **MORE, "reduce": jnp.max}[name])
    refused(data, primitive, lambda op: op["params"].update({parameter: value}), f"parameter '{parameter}'")


OPERANDS = {
    "ormqr": (
        lambda a, taus: jax.lax.linalg.ormqr(a, taus, a, left=True, transpose=False),
        lambda types: [types[0], types[1].update(shape=(4,)), types[2]],
        "no more reflections than rows",
    ),
    "reduce_window_min": (
        lambda a, taus: jax.lax.reduce_window(a, jnp.inf, jax.lax.min, (1, 2), (1, 1), "VALID"),
        lambda types: [types[0].update(dtype=jax.dtypes.float0)],
        "windows of numbers",
    ),
    "sort": (
        lambda a, taus: jax.lax.sort([a, a], num_keys=1),
        lambda types: [types[0], types[1].update(shape=(2, 3))],
        "do not fit each other",
    ),
    "gather": (
        lambda a, taus: a[jnp.array([0, 2])],
        lambda types: [types[0], types[1].update(dtype=jnp.int4)],
        "do not fit each other",
    ),
    "mul": (
        lambda a, taus: a * a,
        lambda types: [t.update(dtype=jax.dtypes.float0) for t in types],
        "mul does not take float0",
    ),
    "erfc": (
        lambda a, taus: jax.lax.erfc(a),
        lambda types: [types[0].update(dtype=jnp.float8_e5m2)],
        "do not fit each other",
    ),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_jax_itself_does_not_look_at(name):
    function, change, part = OPERANDS[name]
    (op,) = [node.op for node in graph_of(function, jnp.ones((3, 2)), jnp.ones(2)) if node.op.name == name]
    check_parameters(op.primitive, op.params, op.in_types)
    with pytest.raises(Misfit, match=part):
        check_parameters(op.primitive, op.params, change(op.in_types))


def test_an_adding_scatter_adds():
    data = written(PROGRAMS["scatter"])
    document = document_of(data)
    (reducer,) = [op for op in document["ops"] if op["name"] == "add" and op["inputs"] == ["float32[]", "float32[]"]]
    reducer["name"] = "max"
    with pytest.raises(GraphFileError, match="the jaxpr that puts an update in its place"):
        load(io.BytesIO(with_text(data, json.dumps(document))))


def test_random_keys_are_no_numbers():
    data = written(jnp.max)
    text = json.dumps(document_of(data)).replace('"float32[', '"key<fry>[')
    with pytest.raises(GraphFileError, match="does not take random keys"):
        load(io.BytesIO(with_text(data, text)))


def test_a_constant_in_a_body_is_of_its_type():
    data = written(PROGRAMS["scan"])
    document = document_of(data)
    (const,) = [c for graph in document["graphs"] for c in graph["consts"] if "dtype" in c][:1]
    const["dtype"] = "int32"
    with pytest.raises(GraphFileError, match="constant"):
        load(io.BytesIO(with_text(data, json.dumps(document))))


def test_everything_that_can_be_written_has_a_schema(x64):
    """What can be encoded with the table left aside: each primitive of it must stand in the table."""
    names, unknown = set(), set()
    for _, graph in graphs():
        for node in graph:
            region = node.op.name in REGIONS
            (unknown if schema(node.op.name, region) is None else names).add(node.op.name)
    # a batching rule is a Python function, and these hold meshes of devices
    assert unknown <= {"custom_vmap", "reshard", "sharding_constraint", "shard_map", "empty", "empty2"}
    assert {"dot_general", "scan", "debug_print", "schur", "scatter-sub"} <= names
    assert schema("custom_vmap", True) is None and custom_vmap.name in REGIONS


def test_a_primitive_of_ones_own_is_judged_by_its_type_rule():
    own = Primitive("own")
    check_parameters(own, {"anything": 1}, [])
    assert schema("scan", True) and schema("scan", False) is None and scan.name in REGIONS


@pytest.mark.parametrize("text", ["NaN", "1e999", "9" * 5000])
def test_numbers_that_json_does_not_have(text):
    broken = json.dumps(document_of(DOT)).replace('"version": 1', f'"version": 1, "extra2": {text}')
    with pytest.raises(GraphFileError):
        load(io.BytesIO(with_text(DOT, broken)))


def test_a_key_that_stands_twice():
    broken = json.dumps(document_of(DOT)).replace('"version": 1', '"version": 2, "version": 1')
    with pytest.raises(GraphFileError, match="a key stands twice"):
        load(io.BytesIO(with_text(DOT, broken)))


def test_graphs_that_call_each_other_twice_are_no_parameter():
    data = written(lambda x: x.at[0].apply(lambda y: jax.nn.relu(y)))
    document = document_of(data)
    (outer,) = [op["params"]["update_jaxpr"]["jaxpr"] for op in document["ops"] if op["name"] == "scatter"]
    ((relu, _, _),) = document["graphs"][outer]["nodes"]
    call = document["ops"][relu]
    for _ in range(30):  # each level calls the one before twice
        document["graphs"].append(
            {"inputs": call["inputs"], "consts": [], "nodes": [[relu, [0], None], [relu, [1], None]], "outputs": [2]}
        )
        document["ops"].append({**call, "params": {**call["params"], "call": {"graph": len(document["graphs"]) - 1}}})
        relu = len(document["ops"]) - 1
    for node in document["graphs"][outer]["nodes"]:
        node[0] = relu
    with pytest.raises(GraphFileError, match="more than 4096 operations"):
        load(io.BytesIO(with_text(data, json.dumps(document))))


def test_mutations():
    """Some of the files of ``python -m tests.graph.mutations``."""
    counts, failures = campaign(range(200), every=8, processes=1)
    assert not failures
    assert sum(counts.values()) == 200
    assert counts["ran"] > 5


def test_the_corpus_is_read_back(x64):
    for name, data in corpus(8):
        document = document_of(data)
        assert len(encoded(load(io.BytesIO(data)))[0]["ops"]) == len(document["ops"]), name
