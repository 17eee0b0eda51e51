"""The document of a graph: JSON tables, and arrays beside them; see NOTE [The file format] in ``saving.py``."""

import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from fgrad import errors
from fgrad.graph.check import WITH_RULES, Misfit, check_rule
from fgrad.graph.encoding import NoCode, encode, encode_dtype, encode_type, key_dtypes
from fgrad.graph.graph import Const, Graph, Node
from fgrad.graph.names import stored_names
from fgrad.graph.op import Op, Region
from fgrad.graph.parameters import check_parameters
from fgrad.graph.regions import Absent, Deferred, VjpRule
from fgrad.graph.source import Source
from fgrad.graph.text import render, subgraphs
from fgrad.jaxcore import ShapedArray, Tracer, primitive, typeof

#: how often a rule must stand inside itself before its further levels are taken to be the same
LEVELS = 3
#: how many rules may stand inside each other in a file: derivatives up to this order
ORDERS = 8
#: operations that call outside code by a name or address in their parameters, or wait for a device
FORBIDDEN = frozenset(
    {"ffi_call", "infeed", "outfeed", "xla_call", "custom_partitioning", "tpu_custom_call", "mosaic_gpu"}
    | {"debug_callback", "io_callback", "pure_callback"}
)


def storage(dtype: Any) -> np.dtype:
    """The dtype in which arrays of ``dtype`` are kept: one that every NumPy knows (bits for ``bfloat16``)."""
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")


def fingerprint(bits: np.ndarray) -> str:
    return hashlib.sha256(repr((bits.dtype.str, bits.shape)).encode() + bits.tobytes()).hexdigest()


class NotHeld(NoCode):
    """A rule that a file leaves out: NOTE [Rules in files]."""


def traced_constant(kind: ShapedArray) -> str:
    return (
        f"it closes over a traced value of type {kind.str_short()}; pass it as an argument, or make the graph outside "
        "jit, vmap and grad"
    )


def constants(graph: Graph) -> Iterator[Const]:
    """The constants of a graph and of the graphs inside of it."""
    yield from graph.consts
    for node in graph:
        for _, inner in subgraphs(node):
            yield from constants(inner)


class Writer:
    """Fills the tables of a document."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.graphs: list[Any] = []
        self.ops: list[Any] = []
        self.rules: list[Any] = []
        self.sources: list[Any] = []
        self.originals: list[Deferred] = []
        self._graph_of: dict[Graph, int] = {}
        self._op_of: dict[tuple[Any, ...], int] = {}
        self._rule_of: dict[Deferred, int] = {}
        self._source_of: dict[Any, int] = {}
        #: what each rule looks like, and which are being written at present, outermost first
        self._listings: list[Any] = []
        self._open: list[int] = []

    def array(self, array: np.ndarray) -> str:
        bits = np.ascontiguousarray(array).reshape(array.shape).view(storage(array.dtype))
        name = fingerprint(bits)
        self.arrays[name] = bits
        return name

    def graph(self, graph: Graph) -> int:
        index = self._graph_of.get(graph)
        if index is None:
            consts = [self.const(c) for c in graph.consts]
            nodes = [[self.op(node), list(node.inputs), self.source(node.source)] for node in graph.nodes]
            self.graphs.append(
                {
                    "inputs": list(map(encode_type, graph.in_types)),
                    "consts": consts,
                    "nodes": nodes,
                    "outputs": list(graph.outputs),
                }
            )
            index = self._graph_of[graph] = len(self.graphs) - 1
        return index

    def const(self, const: Const) -> dict[str, Any]:
        value, kind = const.value, const.type
        if isinstance(value, Tracer):
            raise NoCode(traced_constant(kind))
        data: dict[str, Any] = {"type": encode_type(kind)}
        plain = _python_number(value)
        if plain is not None and typeof(plain) == kind:
            return {**data, "python": encode(plain, self)}
        if kind.dtype == jax.dtypes.float0:
            return data
        if kind.dtype.name in key_dtypes():
            return {**data, "array": self.array(np.asarray(jax.random.key_data(value)))}
        if isinstance(value, jax.Array) and not value.is_fully_addressable:
            raise NoCode("a constant lies on several hosts")
        # a Python number's type depends on JAX's 64-bit flag, which may have been off where it was traced
        number = isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)
        array = np.asarray(value, kind.dtype if number else None)
        data["dtype"] = encode_dtype(array.dtype)
        if kind.weak_type:  # the value may be an array of NumPy's, which is not
            data["weak"] = True
        if array.ndim == 0:
            plain = array.item() if array.dtype.kind in "biufc" else float(array)
            exact = np.asarray(plain).astype(array.dtype).tobytes() == array.tobytes()
            return {**data, "value": encode(plain, self)} if exact else {**data, "bytes": array.tobytes().hex()}
        return {**data, "array": self.array(array)}

    def op(self, node: Node) -> int:
        op = node.op
        index = self._op_of.get(op.key)
        if index is None:
            try:
                data = self._op(op)
            except (NoCode, Misfit) as error:
                where = f"{op.name}{f' at {node.source}' if node.source else ''}"
                raise errors.unsaveable(where, str(error)) from error
            self.ops.append(data)
            index = self._op_of[op.key] = len(self.ops) - 1
        return index

    def _op(self, op: Op) -> dict[str, Any]:
        if op.name in FORBIDDEN:
            raise NoCode("it calls code outside JAX by name, which a file must not do")
        if not isinstance(op.primitive, Region) and primitive(op.primitive.name) is not op.primitive:
            raise NoCode("another primitive has the same name")
        params = {}
        for name, value in sorted(op.params.items()):
            try:
                params[name] = {"rule": self.rule(value, op)} if isinstance(value, Deferred) else encode(value, self)
            except NoCode as error:
                raise NoCode(f"parameter {name!r}: {error}") from error
        check_parameters(op.primitive, op.params, op.in_types)
        data: dict[str, Any] = {"name": op.name, "params": params}
        data["inputs"], data["outputs"] = list(map(encode_type, op.in_types)), list(map(encode_type, op.out_types))
        return {**data, "effects": True} if op.effects else data

    def rule(self, deferred: Deferred, op: Op | None = None) -> int:
        index = self._rule_of.get(deferred)
        if index is not None:
            return index
        if op is None:
            raise NoCode("a rule stands outside a custom call")
        if op.name not in WITH_RULES:
            raise NoCode("its rule is a Python function, which a file does not hold")
        try:
            rule, graphs = self._recorded(deferred)
        except NotHeld as absent:
            return self._absent(deferred, str(absent))
        except NoCode:
            if any(jax.numpy.issubdtype(x.dtype, np.inexact) for x in op.out_types):
                raise
            return self._absent(deferred, "its results have no derivative")  # a rule for floats may not take theirs
        check_rule(op, rule)
        listing = [op.name, op.params["num_consts"], *(render(g, source=False) for g in (op.params["call"], *graphs))]
        alike = [i for i in self._open if self._listings[i] == listing]
        if len(alike) >= LEVELS:
            return alike[0]
        index = self._rule_of[deferred] = len(self.rules)
        self.originals.append(deferred)
        self._listings.append(listing)
        self.rules.append(None)
        self._open.append(index)
        numbers = [self.graph(g) for g in graphs]
        self._open.pop()
        self.rules[index] = {"graphs": numbers, **({"wrt": list(rule.wrt)} if isinstance(rule, VjpRule) else {})}
        return index

    def _recorded(self, deferred: Deferred) -> tuple[Any, tuple[Graph, ...]]:
        """The rule and its graphs."""
        if isinstance(deferred, Absent):
            raise NotHeld(deferred.reason)
        if len(self._open) >= ORDERS:
            raise NotHeld(f"it is needed for derivatives of higher order than {ORDERS} alone")
        try:
            rule = deferred()
        except Exception as error:  # of the user's rule, or of one that must know which arguments are differentiated
            kind = NotHeld if isinstance(error, jax.errors.UnexpectedTracerError) else NoCode
            raise kind(f"its rule cannot be recorded ({str(error).partition(chr(10))[0]})") from error
        graphs = (rule.forward, rule.backward) if isinstance(rule, VjpRule) else (rule,)
        for const in itertools.chain(*map(constants, graphs)):
            if isinstance(const.value, Tracer):
                raise NotHeld(traced_constant(const.type))
        return rule, graphs

    def _absent(self, deferred: Deferred, reason: str) -> int:
        index = self._rule_of[deferred] = len(self.rules)
        self.originals.append(deferred)
        self._listings.append(None)
        self.rules.append({"absent": reason})
        return index

    def source(self, source: Source | None) -> int | None:
        if source is None:
            return None
        key = (source.code, source.offset, source.of, source.names, source.module)
        index = self._source_of.get(key)
        if index is None:
            # the file's own name without its folders, which say nothing on another machine
            where = (os.path.basename(source.file), source.line, source.function, source.offset)
            data = (*where, source.of, source.module, stored_names(source))
            index = self._source_of.get(data)
            if index is None:
                self.sources.append([*data[:-1], list(data[-1])])
                index = self._source_of[data] = len(self.sources) - 1
            self._source_of[key] = index
        return index


def _python_number(value: Any) -> Any:
    """A Python number as such (JAX's literals are of subclasses), None for other values."""
    kinds: tuple[Any, ...] = (bool, int, float, complex)
    for kind in kinds:
        if isinstance(value, kind) and not isinstance(value, np.generic):
            return kind(value)
    return None


def digest(document: dict[str, Any], rule: int) -> str:
    """A fingerprint of a rule and all that it refers to, whatever their numbers in the tables."""
    numbers: dict[tuple[str, int], int] = {}
    order: list[tuple[str, int]] = []

    def number(table: str, i: int) -> int:
        if (table, i) not in numbers:
            numbers[table, i] = len(order)
            order.append((table, i))
        return numbers[table, i]

    def local(data: Any) -> Any:
        if isinstance(data, list):
            return [local(x) for x in data]
        if not isinstance(data, dict):
            return data
        tables = {"graph": "graphs", "jaxpr": "graphs", "rule": "rules"}
        return {k: number(tables[k], v) if k in tables else local(v) for k, v in data.items()}

    number("rules", rule)
    text = hashlib.sha256()
    for table, i in order:  # grows as it is walked
        data = dict(document[table][i])
        if table == "graphs":
            data["nodes"] = [[number("ops", op), inputs] for op, inputs, _ in data["nodes"]]
        elif table == "rules":
            data["graphs"] = [number("graphs", g) for g in data.get("graphs", ())]
        else:
            data["params"] = {k: local(v) for k, v in data["params"].items()}
        text.update(json.dumps(data, sort_keys=True).encode())
    return text.hexdigest()
