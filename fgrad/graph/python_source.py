"""A graph as Python source that runs, uses the user's names, and records to the same graph again.

NOTE [Forms that are checked]
An operation can be written in many ways, and the primitive behind a ``jnp`` call depends on types and on JAX's version.
So a form is only a guess: it is recorded with the operation's types, and accepted if the result is the same operation
on the same operands.  If none is, the primitive itself is bound with its parameters, by the name under which JAX
exports it.  A region becomes nested functions and a call of ``jax.lax``; if that has other operands or another order of
them, the primitive is bound to the jaxprs of these functions.  What cannot be written at all (a callback) goes to the
table of constants.  So does a call with a custom rule, which is identified by its function; without a table, the
function and its rule are written out.  That computes and differentiates the same, but is another function.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from fgrad.graph.graph import Graph, Node, applied
from fgrad.graph.importing import from_jaxpr
from fgrad.graph.likeness import operations_alike
from fgrad.graph.names import value_names
from fgrad.graph.op import Op, Region
from fgrad.graph.python_forms import forms
from fgrad.graph.python_values import (
    Constants,
    const_expression,
    expression,
    identifier,
    primitive_expression,
    type_expression,
)
from fgrad.jaxcore import ShapedArray, eval_context, is_closed_jaxpr, is_open_jaxpr, jax_primitives, with_x64
from fgrad.jaxtypes import is_inexact

INDENT = "    "
COMMENT_COLUMN = 64
HEADER = ("import jax", "import jax.numpy as jnp", "import numpy as np", "from jax import lax")
PRIMITIVES = "from jax.extend.core import primitives"
_RESERVED = ("jax", "jnp", "np", "lax", "primitives", "constants")

#: from a graph to a function of flat values, for the table of constants
ToCallable = Callable[[Graph], Callable[..., Sequence[Any]]]
#: records a function of values of some types
Record = Callable[[Callable[..., Sequence[Any]], Sequence[ShapedArray]], Graph]


class Writer:
    """Writes graphs as functions."""

    def __init__(self, constants: Constants, to_callable: ToCallable, record: Record):
        self.constants = constants
        self.to_callable = to_callable
        self.record = record
        self.used_names: set[str] = set(_RESERVED)
        self.namespace: dict[str, Any] = {
            "jax": jax, "jnp": jax.numpy, "np": np, "lax": lax, "primitives": jax_primitives(),
            "constants": constants.table,
        }  # fmt: skip
        #: the index of the form accepted for an operation and its literal operands
        self.accepted: dict[Any, int] = {}
        #: the lines of functions with rules, which precede the program, and their names
        self.preamble: list[str] = []
        self.functions_with_rules: dict[Any, str] = {}
        #: the names in the preamble, which stay in use even if the form that needed them is rejected
        self.preamble_names: set[str] = set()

    def name(self, wanted: str) -> str:
        """A new identifier based on a name."""
        base = candidate = identifier(wanted)
        count = 1
        while candidate in self.used_names:
            count += 1
            candidate = f"{base}_{count}"
        self.used_names.add(candidate)
        return candidate

    # -- graphs ------------------------------------------------------------------------------------------------------

    def body(self, graph: Graph, inputs: Sequence[str]) -> tuple[list[str], list[str]]:
        """The statements of a graph whose inputs have these names, and the expressions of its outputs."""
        texts = [*inputs, *[const_expression(const, self.constants) for const in graph.consts]]
        first_value = len(texts)
        wanted = value_names(graph)
        lines: list[str] = []
        for node in graph.nodes:
            number = len(texts)
            outs = [self.name(wanted[number + k]) for k in range(len(node.op.out_types))]
            args = [texts[i] for i in node.inputs]
            literal = [first_value > i >= len(inputs) for i in node.inputs]
            lines += _commented(self.statement(node.op, args, literal, outs), node)
            texts += outs
        return lines, [texts[i] for i in graph.outputs]

    def function(self, graph: Graph, name: str) -> tuple[list[str], str]:
        """A nested function of a graph's inputs; its lines and its name."""
        name = self.name(name)
        inputs = [self.name(f"x{k}") for k in range(len(graph.in_types))]
        lines, outs = self.body(graph, inputs)
        return [f"def {name}({', '.join(inputs)}):", *_indented([*lines, f"return {_many(outs)}"])], name

    # -- operations --------------------------------------------------------------------------------------------------

    def statement(self, op: Op, args: Sequence[str], literal: Sequence[bool], outs: Sequence[str]) -> list[str]:
        """The statements of an operation, which store its results in ``outs``."""
        pattern = tuple([arg if known else args.index(arg) for arg, known in zip(args, literal, strict=True)])
        start = self.accepted.get((op, pattern), 0)
        for k, lines in enumerate(self._forms(op, args, outs)):
            if k < start:
                continue
            if (op, pattern) in self.accepted or self._records_to(op, args, literal, outs, lines):
                self.accepted[op, pattern] = k
                return lines
        return self._opaque_call(op, args, outs)

    def _forms(self, op: Op, args: Sequence[str], outs: Sequence[str]) -> Iterator[list[str]]:
        many = isinstance(op.primitive, Region) or op.primitive.multiple_results
        target = f"{_targets(outs) if many else outs[0]} = " if outs else ""
        for text in forms(op, args):
            one = many and len(outs) == 1 and not text.startswith("[")
            yield [f"{outs[0]} = {text}" if one else f"{target}{text}"]
        if isinstance(op.primitive, Region):
            for form in _REGIONS.get(op.name, ()):
                used_names = set(self.used_names)
                yield form(self, op, args, target)
                self.used_names = used_names | self.preamble_names
            return
        lines: list[str] = []
        params = "".join([f", {k}={self._parameter(k, v, lines)}" for k, v in op.params.items()])
        call = f"{primitive_expression(op.primitive, self.constants)}.bind({', '.join(args)}{params})"
        yield [*lines, f"{target}{call.replace('bind(, ', 'bind(')}"]

    def _parameter(self, name: str, value: Any, lines: list[str]) -> str:
        if is_open_jaxpr(value) or is_closed_jaxpr(value):
            return self.jaxpr(from_jaxpr(value), name, lines) + ("" if is_closed_jaxpr(value) else ".jaxpr")
        return expression(value, self.constants, name)

    def jaxpr(self, graph: Graph, name: str, lines: list[str]) -> str:
        """The expression of a graph's closed jaxpr; its function is added to ``lines``."""
        more, function = self.function(graph, name)
        lines += more
        return f"jax.make_jaxpr({function})({', '.join(map(type_expression, graph.in_types))})"

    def _opaque_call(self, op: Op, args: Sequence[str], outs: Sequence[str]) -> list[str]:
        """The call of an operation in the table of constants, or of its function in the preamble."""
        if self.constants.table is None and op.name in _RULES and not op.params["num_consts"]:
            call = f"{self.with_rule(op)}({', '.join(args)})"
            return [f"{_targets(outs)} = {call}"]
        name = op.params.get("label", op.name)
        text = self.constants(identifier(name), self.to_callable(applied(op)), f"the operation {name}")
        return [f"{_targets(outs)} = {text}({', '.join(args)})" if outs else f"{text}({', '.join(args)})"]

    def with_rule(self, op: Op) -> str:
        """The name of a function with its own rule, which is added to the preamble at the first call."""
        key = (op.name, op.params["label"], op.in_types, op.params["call"], op.params["rule"])
        name = self.functions_with_rules.get(key)
        if name is None:
            used_names = set(self.used_names)
            lines, name = self.function(op.params["call"], op.params["label"])
            self.functions_with_rules[key] = name  # most rules call the function itself
            rule = _RULES[op.name](self, op, name)
            definition = [f"@jax.{op.name}", *lines, "", "", *rule, "", ""]
            exec("\n".join(definition), self.namespace)  # forms that call it are recorded to check them
            self.preamble += definition
            self.preamble_names |= self.used_names - used_names
        return name

    def _records_to(
        self, op: Op, args: Sequence[str], literal: Sequence[bool], outs: Sequence[str], lines: list[str]
    ) -> bool:
        """Whether some statements record to exactly this operation."""
        names = list(dict.fromkeys([arg for arg, known in zip(args, literal, strict=True) if not known]))
        types = dict(zip(args, op.in_types, strict=True))
        source = "\n".join([f"def check({', '.join(names)}):", *_indented([*lines, f"return {_many(outs)}"])])
        namespace = dict(self.namespace)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(source, namespace)
                graph = self.record(namespace["check"], [types[name] for name in names])
        except Exception:  # JAX refuses the guess
            return False
        if len(graph.nodes) != 1 or not self._same(graph.nodes[0].op, op):
            return False
        n, consts = len(names), len(graph.consts)
        (node,) = graph.nodes
        read = [names[i] if i < n else None for i in node.inputs]
        same = [got == (None if known else arg) for got, arg, known in zip(read, args, literal, strict=True)]
        return (
            all(same)
            and graph.outputs == tuple(range(n + consts, n + consts + len(outs)))
            and node.op.out_types == op.out_types
            and all(graph.types[i] == t for i, t, known in zip(node.inputs, op.in_types, literal, strict=True) if known)
        )

    def _same(self, other: Op, op: Op) -> bool:
        """Whether two operations are equal; without a table, the functions of custom rules do not count."""
        return other.key == op.key or (self.constants.table is None and operations_alike(other, op))


# --------------------------------------------------------------------------------------------------------------------
# regions


def _scan(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    p = op.params
    nc, nk, body = p["num_consts"], p["num_carry"], p["body"]
    name = writer.name("step")
    carry, rows = writer.name("carry"), writer.name("x")
    inputs = [writer.name(f"x{k}") for k in range(len(body.in_types) - nc)]
    lines, outs = writer.body(body, [*args[:nc], *inputs])
    unpack = [
        f"{_targets(names)} = {value}"
        for names, value in ((inputs[:nk], carry), (inputs[nk:], rows))
        if names
    ]  # fmt: skip
    more = [f"length={p['length']}"] if nc + nk == len(args) else []
    more += ["reverse=True"] if p["reverse"] else []
    more += [f"unroll={p['unroll']}"] if p["unroll"] != 1 else []
    arguments = ", ".join([name, _many(args[nc : nc + nk]), _many(args[nc + nk :]), *more])
    results = target.removesuffix(" = ").strip("[]").split(", ") if target else []
    left = f"{_many(results[:nk])}, {_many(results[nk:])} = " if results else ""
    return [
        f"def {name}({carry}, {rows}):",
        *_indented([*unpack, *lines, f"return {_many(outs[:nk])}, {_many(outs[nk:])}"]),
        f"{left}lax.scan({arguments})",
    ]


def _scan_bound(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    p, lines = op.params, []
    jaxpr = writer.jaxpr(p["body"], "step", lines)
    counts = ", ".join(f"{k}={p[k]!r}" for k in ("length", "reverse", "unroll", "num_consts", "num_carry"))
    return [*lines, f"{target}primitives.scan_p.bind({', '.join(args)}, jaxpr={jaxpr}, {counts})"]


def _while(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    p = op.params
    nc, nb = p["cond_consts"], p["body_consts"]
    lines = []
    functions = []
    for graph, wanted, consts in ((p["cond"], "keep_going", args[:nc]), (p["body"], "step", args[nc : nc + nb])):
        name, carry = writer.name(wanted), writer.name("carry")
        inputs = [writer.name(f"x{k}") for k in range(len(graph.in_types) - len(consts))]
        body, outs = writer.body(graph, [*consts, *inputs])
        result = outs[0] if wanted == "keep_going" else _many(outs)
        lines += [f"def {name}({carry}):", *_indented([f"{_targets(inputs)} = {carry}", *body, f"return {result}"])]
        functions.append(name)
    return [*lines, f"{target}lax.while_loop({', '.join(functions)}, {_many(args[nc + nb :])})"]


def _while_bound(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    p, lines = op.params, []
    cond, body = writer.jaxpr(p["cond"], "keep_going", lines), writer.jaxpr(p["body"], "step", lines)
    counts = f"cond_nconsts={p['cond_consts']}, body_nconsts={p['body_consts']}"
    return [
        *lines,
        f"{target}primitives.while_p.bind({', '.join(args)}, cond_jaxpr={cond}, body_jaxpr={body}, {counts})",
    ]


def _cond_bound(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    lines: list[str] = []
    branches = [writer.jaxpr(graph, f"branch{k}", lines) for k, graph in enumerate(op.params["branches"])]
    return [*lines, f"{target}primitives.cond_p.bind({', '.join(args)}, branches={_many(branches)})"]


def _switch(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    lines: list[str] = []
    names = []
    for k, graph in enumerate(op.params["branches"]):
        more, name = writer.function(graph, f"branch{k}")
        lines += more
        names.append(name)
    return [*lines, f"{target}lax.switch({', '.join([args[0], _targets(names), *args[1:]])})"]


def _remat(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    p = op.params
    lines, name = writer.function(p["body"], "block")
    more = "" if p["policy"] is None else f", policy={expression(p['policy'], writer.constants, 'policy')}"
    more += ", prevent_cse=False" if p["barrier"] is None else ""
    return [*lines, f"{target}jax.checkpoint({name}{more})({', '.join(args)})"]


def _remat_bound(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    p, lines = op.params, []
    jaxpr = writer.jaxpr(p["body"], "block", lines)
    prevent_cse, differentiated = p["barrier"] is not None, bool(p["barrier"])
    policy = expression(p["policy"], writer.constants, "policy")
    more = f"jaxpr={jaxpr}.jaxpr, prevent_cse={prevent_cse}, differentiated={differentiated}, policy={policy}"
    return [*lines, f"{target}primitives.remat_p.bind({', '.join([*args, more])})"]


def _linear_solve(writer: Writer, op: Op, args: Sequence[str], target: str) -> list[str]:
    p = op.params
    a, b, c, d = p["lengths"]
    rhs = args[a + b + c + d :]
    aux = len(p["solve"].outputs) > len(rhs)
    lines, functions = [], []
    for wanted, consts in (
        ("matvec", args[:a]),
        ("solve", args[a + b :][:c]),
        ("transpose_solve", args[a + b + c :][:d]),
    ):
        if p[wanted] is None:
            functions.append("None")
            continue
        name, xs = writer.name(wanted), writer.name("xs")
        inputs = [writer.name(f"x{k}") for k in range(len(rhs))]
        body, outs = writer.body(p[wanted], [*consts, *inputs])
        result = (
            _many(outs) if wanted == "matvec" or not aux else f"{_many(outs[: len(rhs)])}, {_many(outs[len(rhs) :])}"
        )
        head = f"def {name}({xs}):" if wanted == "matvec" else f"def {name}(_, {xs}):"
        lines += [head, *_indented([f"{_targets(inputs)} = {xs}", *body, f"return {result}"])]
        functions.append(name)
    matvec, solve, transpose_solve = functions
    left = target.removesuffix(" = ").strip("[]").split(", ")
    if aux:
        target = f"{_many(left[: len(rhs)])}, {_many(left[len(rhs) :])} = "
    more = ", has_aux=True" if aux else ""
    return [*lines, f"{target}lax.custom_linear_solve({matvec}, {_many(rhs)}, {solve}, {transpose_solve}{more})"]


def _jvp_rule(writer: Writer, op: Op, name: str) -> list[str]:
    n, outs = len(op.in_types), op.out_types
    live = [i for i, t in enumerate(op.in_types) if is_inexact(t)]
    lines, rule = writer.function(op.params["rule"].of((True,) * len(live)), f"{name}_jvp_of_all")
    entry = writer.name(f"{name}_jvp")
    tangents = iter(range(len(outs), 2 * len(outs)))
    zeros = [None if is_inexact(t) else f"np.zeros({t.shape!r}, jax.dtypes.float0)" for t in outs]
    results = [zero or f"results[{next(tangents)}]" for zero in zeros]
    return [
        *lines,
        "",
        "",
        f"@{name}.defjvp",
        f"def {entry}(primals, tangents):",
        *_indented([
            f"results = {rule}({', '.join([*[f'primals[{i}]' for i in range(n)], *[f'tangents[{i}]' for i in live]])})",
            f"return tuple(results[:{len(outs)}]), {_many(results)}",
        ]),
    ]  # fmt: skip


def _vjp_rule(writer: Writer, op: Op, name: str) -> list[str]:
    inexact = [is_inexact(t) for t in op.out_types]
    rule = op.params["rule"].of((*map(is_inexact, op.in_types), *inexact))
    count = len(rule.forward.outputs) - len(inexact)
    forward, first = writer.function(rule.forward, f"{name}_forward")
    backward, second = writer.function(rule.backward, f"{name}_backward")
    fwd, bwd = writer.name(f"{name}_fwd"), writer.name(f"{name}_bwd")
    cts = [f"cotangents[{k}]" for k, differentiable in enumerate(inexact) if differentiable]
    results = [f"results[{rule.wrt.index(i)}]" if i in rule.wrt else "None" for i in range(len(op.in_types))]
    return [
        *forward, "", "", *backward, "", "",
        f"def {fwd}(*primals):",
        *_indented([f"results = {first}(*primals)", f"return tuple(results[{count}:]), tuple(results[:{count}])"]),
        "", "",
        f"def {bwd}(residuals, cotangents):",
        *_indented([f"results = {second}({', '.join(['*residuals', *cts])})", f"return {_many(results)}"]),
        "", "",
        f"{name}.defvjp({fwd}, {bwd})",
    ]  # fmt: skip


#: the source of the rule of a function in the preamble
_RULES: dict[str, Callable[[Writer, Op, str], list[str]]] = {"custom_jvp": _jvp_rule, "custom_vjp": _vjp_rule}

_REGIONS: dict[str, tuple[Callable[[Writer, Op, Sequence[str], str], list[str]], ...]] = {
    "scan": (_scan, _scan_bound),
    "while": (_while, _while_bound),
    "cond": (_switch, _cond_bound),
    "remat": (_remat, _remat_bound),
    "custom_linear_solve": (_linear_solve,),
}


# --------------------------------------------------------------------------------------------------------------------
# text


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"{INDENT}{line}" for line in lines]


def _many(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _targets(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _commented(lines: list[str], node: Node) -> list[str]:
    """The lines of a node, the last of them with the user's line that it comes from."""
    if node.source is None:
        return lines
    return [*lines[:-1], f"{lines[-1]:<{COMMENT_COLUMN}}  # {node.source}"]


def program(
    graph: Graph,
    parameters: Sequence[str],
    inputs: Sequence[str],
    input_names: Sequence[str],
    result: Callable[[Sequence[str]], str],
    constants: Constants,
    to_callable: ToCallable,
    record: Record,
    name: str,
) -> str:
    """The source of a graph as a function.

    Arguments:
      parameters: the parameters of its signature.
      inputs: the expression of each flat input in terms of them.
      input_names: the user's name of each flat input.
      result: from the expressions of the flat outputs to that of the result.
      constants: the table of what has no source.
      to_callable: turns a graph into a callable for the table.
      record: records a function as a graph, to check the source.
      name: that of the function.
    """
    if graph.wide and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        return with_x64(program, graph, parameters, inputs, input_names, result, constants, to_callable, record, name)
    writer = Writer(constants, to_callable, record)
    writer.used_names.update([name, *[p.partition("=")[0].strip("*, ") for p in parameters]])
    lines, names = [], []
    for text, wanted in zip(inputs, input_names, strict=True):
        if text in writer.used_names:
            names.append(text)
        else:
            names.append(writer.name(wanted))
            lines.append(f"{names[-1]} = {text}")
    with eval_context():
        body, outs = writer.body(graph, names)
    lines += [*body, f"return {result(outs)}"]
    source = [f"def {name}({', '.join(parameters)}):", *_indented(lines)]
    source = [*writer.preamble, *source]
    header = [*HEADER, *([PRIMITIVES] if any("primitives." in line for line in source) else [])]
    if graph.wide:
        header.insert(0, "# with 64 bits: JAX_ENABLE_X64=1")
    text = "\n".join([*header, "", "", *source, ""])
    constants.prune(text)
    return text
