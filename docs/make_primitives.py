"""The table of primitives: the kind of each rule, and what its pull-back reads, found by recording it at its samples.

``python docs/make_primitives.py`` prints it; the documentation's build includes it.
"""

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import jax

import fgrad.passes.regions  # noqa: F401  (enters the regions' rules)
import tests.rules
from fgrad import errors
from fgrad.graph.graph import Graph
from fgrad.graph.op import Op
from fgrad.graph.regions import REGIONS
from fgrad.jaxcore import typeof
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import is_zero
from fgrad.passes.vjp import pullback
from fgrad.record.stager import stage_closed
from fgrad.rules.kinds import RULES, Bilinear, Elementwise, Linear, OfComplex, Undefined, Zero


def samples() -> Iterator[Any]:
    """The calls at which the tests differentiate every primitive."""
    for module in pkgutil.iter_modules(tests.rules.__path__):
        if module.name.startswith("samples_"):
            yield from importlib.import_module(f"tests.rules.{module.name}").SAMPLES


def operations(graph: Graph, name: str) -> Iterator[Op]:
    return (node.op for node in graph.nodes if node.op.name == name)


@functools.cache
def recorded() -> dict[str, list[Op]]:
    """By primitive, the operations that its samples record."""
    found: dict[str, list[Op]] = {}
    with jax.enable_x64(True):
        for sample in samples():
            if sample.axis:
                continue  # a collective: it needs an axis to run along
            args = jax.tree.map(jax.numpy.asarray, sample.args)
            flat, tree = jax.tree.flatten(args)

            def call(*xs: Any, sample: Any = sample, tree: Any = tree) -> list[Any]:
                return jax.tree.leaves(sample.fun(*tree.unflatten(xs)))

            graph = stage_closed(call, [typeof(x) for x in flat])
            found.setdefault(sample.primitive, []).extend(operations(graph, sample.primitive))
    return found


def reads(op: Op) -> list[tuple[int, set[int], set[int]]]:
    """For each input that has a derivative, which inputs and which outputs of the operation its pull-back reads."""
    n, m = len(op.in_types), len(op.out_types)
    found = []
    for at in [i for i, t in enumerate(op.in_types) if is_inexact(t)]:
        try:
            with jax.enable_x64(True):
                graph = pullback(op, tuple([i == at for i in range(n)]), tuple(map(is_inexact, op.out_types))).graph
        except errors.UndefinedDerivativeError:
            continue
        used = {i for node in graph.nodes for i in node.inputs} | set(graph.outputs)
        found.append((at, {i for i in used if i < n}, {i - n for i in used if n <= i < n + m}))
    return found


def names(count: int, of: set[int], one: str, several: str) -> list[str]:
    if not of:
        return []
    if count == 1:
        return [one]
    return [f"every {one}" if len(of) == count else f"{several} {', '.join(str(i + 1) for i in sorted(of))}"]


def read_by(name: str) -> str:
    """In words, what the rule of a primitive reads, over all samples of the most common number of arguments."""
    ops = [
        op
        for op in recorded().get(name, [])
        if any(map(is_inexact, op.in_types)) and any(map(is_inexact, op.out_types)) and not is_zero(op)
    ]
    if not ops:
        return ""
    counts = [(len(op.in_types), len(op.out_types)) for op in ops]
    n, m = max(set(counts), key=counts.count)
    found = [each for op, count in zip(ops, counts, strict=True) if count == (n, m) for each in reads(op)]
    ins, outs = (set().union(*(each[k] for each in found)) for k in (1, 2))
    if n == 2 and ins == {0, 1} and all(at not in read for at, read, _ in found):
        said = ["the other input"]
    else:
        said = names(n, ins, "input", "input")
    return ", ".join(said + names(m, outs, "output", "output")) or "nothing"


def kind(rule: Any) -> str:
    match rule:
        case Elementwise():
            return "elementwise"
        case Linear():
            return "linear"
        case Bilinear():
            return "bilinear"
        case _:
            modes = [mode for mode in ("vjp", "jvp") if getattr(rule, mode, None) is not None]
            real = ", zero for real numbers" if isinstance(rule, OfComplex) else ""
            return f"general ({' and '.join(modes)}{real})" if modes else "region"


def row(name: str, rule: Any) -> str:
    if isinstance(rule, Zero | Undefined):
        return f"| `{name}` | {rule.reason} |"
    said = "what the graphs inside read" if name in REGIONS else read_by(name) or "—"
    return f"| `{name}` | {kind(rule)} | {said} |"


def table() -> str:
    """The tables, in Markdown."""
    rules = {name: RULES[name] for name in sorted(name for name in RULES if isinstance(name, str))}
    zero = {name: rule for name, rule in rules.items() if isinstance(rule, Zero)}
    none = {name: rule for name, rule in rules.items() if isinstance(rule, Undefined)}
    parts = [
        ("With a derivative", "| primitive | kind | reads |\n|---|---|---|", rules.keys() - zero.keys() - none.keys()),
        ("With a derivative that is zero", "| primitive | why |\n|---|---|", zero.keys()),
        ("Without a derivative", "| primitive | why, and the way out |\n|---|---|", none.keys()),
    ]
    return "\n".join(
        "\n".join([f"## {title}\n", head, *(row(name, rules[name]) for name in sorted(chosen)), ""])
        for title, head, chosen in parts
    )


if __name__ == "__main__":
    print(table())
