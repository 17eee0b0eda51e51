"""Where a perturbation of an argument ends in a graph.

NOTE [Following a movement]
If an argument's gradient is zero, perturbing the argument does not change the result.  So the elements with zero
gradient are perturbed, each by a different number, and the tangents are followed forward, operation by operation, at
the values of one call: into branches, steps of loops and the bodies of custom rules.  The operations that have an input
tangent and no output tangent are the reason, and what they are says why.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from attrs import define, frozen

from fgrad.graph.graph import Graph, Node
from fgrad.graph.op import Op, Region
from fgrad.graph.regions import Cond, CustomJvp, CustomVjp, Scan, While, position
from fgrad.graph.source import Source
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import is_differentiated_jointly, is_zero
from fgrad.passes.local import Local, tangent_type
from fgrad.passes.vjp import pushforward, tangents as region_tangents
from fgrad.questions.call import evaluated, every_value

#: a sum cancels if no more than this is left, in units of the precision
ROUNDING = 32

#: operations that pass some of their elements on and leave the others
_CHOOSING = {
    "select_n": "where takes the other case",
    "max": "the other operand of max is larger",
    "min": "the other operand of min is smaller",
    "clamp": "it is beyond the bound of clamp",
    "reduce_max": "it is not the largest",
    "reduce_min": "it is not the smallest",
    "cummax": "it is not the largest",
    "cummin": "it is not the smallest",
    "gather": "gather reads other elements",
    "dynamic_slice": "the slice reads other elements",
    "slice": "the slice reads other elements",
    "dynamic_update_slice": "it is overwritten",
    "scatter": "it is overwritten",
    "split": "only other parts are used",
}
#: operations that become flat for large arguments
_SATURATING = frozenset({
    "tanh", "logistic", "erf", "erfc", "exp", "exp2", "expm1", "log1p", "sinh", "cosh", "atan", "div", "rsqrt",
    "sqrt", "pow", "integer_pow", "erf_inv", "lgamma", "asinh",
})  # fmt: skip
#: operations to skip when looking for the reason why a factor is zero
_MOVING = frozenset({
    "broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "convert_element_type", "neg",
    "stop_gradient",
})  # fmt: skip
_MULTIPLYING = frozenset(("mul", "dot_general", "conv_general_dilated"))

_COMPARISONS = frozenset({
    "gt", "ge", "lt", "le", "eq", "ne", "is_finite", "and", "or", "not", "argmax", "argmin", "sort",
})  # fmt: skip


@define(eq=False)
class Note:
    """One operation at which tangents end.

    Attributes:
      kind: "cut", "masked", "saturated" or "cancels".
      alive: whether the operation's results have a cotangent that is not zero.
      count: how many elements ended there.
    """

    kind: str
    operation: str
    text: str
    source: Source | None
    alive: bool
    count: int = 0


class Walk:
    """A walk that follows tangents through a graph: see NOTE [Following a movement].

    Arguments:
      names: those of the graph's values.
      alive: the values with nonzero cotangents.
    """

    def __init__(self, names: Sequence[str], alive: set[int]):
        self.names: Sequence[str] = names
        self.alive: set[int] | None = alive
        self.notes: dict[Any, Note] = {}
        #: custom backward rules on the way
        self.rules: list[Note] = []
        #: the line of the enclosing call, for nodes without one
        self.source: Source | None = None
        self.ends_alive: bool = True

    def run(self, graph: Graph, args: Sequence[Any], tangents: dict[int, Any]) -> list[Any]:
        """The tangents of a graph's outputs, None for none."""
        values = every_value(graph, args)
        names, alive, source = self.names, self.alive, self.source
        # inner graphs have no names and cotangents
        self.names, self.alive = (), None
        number = len(graph.in_types) + len(graph.consts)
        for node in graph.nodes:
            count = len(node.op.out_types)
            live = {k: tangents[i] for k, i in enumerate(node.inputs) if i in tangents}
            if live:
                if alive is not None:
                    self.ends_alive = not alive.isdisjoint(range(number, number + count))
                self.source = node.source or source
                ins = [values[i] for i in node.inputs]
                outs = values[number : number + count]
                moved = self.node(node, ins, outs, live, _Producers(graph, names))
                tangents |= {number + k: t for k, t in enumerate(moved) if t is not None and nonzero(t)}
            number += count
        self.source = source
        return [tangents.get(i) for i in graph.outputs]

    def node(
        self, node: Node, ins: Sequence[Any], outs: Sequence[Any], live: dict[int, Any], of: "_Producers"
    ) -> Sequence[Any]:
        """The tangents of a node's results."""
        op = node.op
        inside = self.inside(node, ins, live)
        if inside is not None:
            return inside
        if is_zero(op):
            self.note("cut", node, _cut(op), live)
            return ()
        moved = _pushed(op, ins, outs, live)
        if _cancels(op, ins, outs, live, moved):
            self.note("cancels", node, f"the parts of {op.name} add up to zero", live)
            return ()
        if any(t is not None and nonzero(t) for t in moved):
            self.partly(node, ins, live, moved, of)
        elif not (isinstance(op.primitive, CustomJvp) and self.within(op, ins, live)):
            self.note(*_ended(node, ins, live, of), live)
        return moved

    def inside(self, node: Node, ins: Sequence[Any], live: dict[int, Any]) -> Sequence[Any] | None:
        """The tangents of the results of an operation with inner graphs, by walking these; None for others."""
        op, region, params = node.op, node.op.primitive, node.op.params
        if not isinstance(region, Region) or isinstance(region, CustomJvp):
            return None
        if isinstance(region, Cond):
            branches = params["branches"]
            branch = branches[position(np.asarray(ins[0]), len(branches))]
            return self.run(branch, ins[1:], {k - 1: t for k, t in live.items() if k})
        if isinstance(region, Scan):
            return self.scan(op, ins, live)
        if isinstance(region, While):
            return self.loop(op, ins, live)
        graph = region.called(params)
        if graph is None:
            return None
        if isinstance(region, CustomVjp):
            text = f"the backward rule of {params['label']} gives zero"
            self.rules.append(Note("cut", "custom_vjp", text, self.source, True, _count(live)))
        return self.run(graph, ins, dict(live))

    def within(self, op: Op, ins: Sequence[Any], live: dict[int, Any]) -> bool:
        """Walk the body of a call whose own rule returns zero; whether the reason is there."""
        before = len(self.notes)
        self.run(op.params["call"], ins, dict(live))
        return len(self.notes) > before

    def scan(self, op: Op, ins: Sequence[Any], live: dict[int, Any]) -> Sequence[Any]:
        params = op.params
        body, nc, nk, length = params["body"], params["num_consts"], params["num_carry"], params["length"]
        carry = list(ins[nc : nc + nk])
        moving = {k: t for k, t in live.items() if k < nc + nk}
        stacked: list[Any] = [None] * (len(op.out_types) - nk)
        for t in reversed(range(length)) if params["reverse"] else range(length):
            xs = {k: np.asarray(v)[t] for k, v in live.items() if k >= nc + nk}
            inputs = [*ins[:nc], *carry, *(np.asarray(x)[t] for x in ins[nc + nk :])]
            outs = self.run(body, inputs, {k: v for k, v in {**moving, **xs}.items() if nonzero(v)})
            carry = evaluated(body, inputs)[:nk]
            moving = {k: v for k, v in moving.items() if k < nc}
            moving |= {nc + k: v for k, v in enumerate(outs[:nk]) if v is not None}
            for k, v in enumerate(outs[nk:]):
                if v is not None:
                    stacked[k] = np.zeros(op.out_types[nk + k].shape, v.dtype) if stacked[k] is None else stacked[k]
                    stacked[k][t] = v
        return [*(moving.get(nc + k) for k in range(nk)), *stacked]

    def loop(self, op: Op, ins: Sequence[Any], live: dict[int, Any]) -> Sequence[Any]:
        nc, nb = op.params["cond_consts"], op.params["body_consts"]
        consts, carry = ins[nc : nc + nb], list(ins[nc + nb :])
        moving = {k - nc: t for k, t in live.items() if k >= nc}
        while np.asarray(evaluated(op.params["cond"], [*ins[:nc], *carry])[0]):
            outs = self.run(op.params["body"], [*consts, *carry], dict(moving))
            carry = evaluated(op.params["body"], [*consts, *carry])
            moving = {k: t for k, t in moving.items() if k < nb}
            moving |= {nb + k: t for k, t in enumerate(outs) if t is not None}
        return [moving.get(nb + k) for k in range(len(op.out_types))]

    def partly(self, node: Node, ins: Sequence[Any], live: dict[int, Any], moved: Sequence[Any], of: Any) -> None:
        """Note the elements that end at an operation through which others pass."""
        out = next((t for t in moved if t is not None), None)
        shapes = {np.shape(t) for t in live.values()}
        if out is None or len(moved) != 1:
            return
        came = np.logical_or.reduce([np.asarray(t) != 0 for t in live.values()]) if len(shapes) == 1 else None
        if came is not None and came.shape == np.shape(out):
            lost = int((came & (np.asarray(out) == 0)).sum())
        elif node.op.name in _CHOOSING:
            lost = max(_count(live) - int(np.count_nonzero(out)), 0)
        else:
            return
        if lost and node.op.name not in _SPREADING:
            ended = _ended(node, ins, live, of)
            self.note(*ended, live, lost)

    def note(self, kind: str, node: Node, text: str, live: dict[int, Any], count: int | None = None) -> None:
        note = self.notes.get((self.source, node.op.name))
        if note is None:
            note = self.notes[self.source, node.op.name] = Note(kind, node.op.name, text, self.source, self.ends_alive)
        note.count += _count(live) if count is None else count


#: operations whose results' elements are not those of the operands in their places
_SPREADING = frozenset({
    "dot_general", "transpose", "rev", "sort", "cumsum", "cumprod", "fft", "reduce_sum",
})  # fmt: skip


def _count(live: dict[int, Any]) -> int:
    return sum(int(np.count_nonzero(t)) for t in live.values())


def _pushed(op: Op, ins: Sequence[Any], outs: Sequence[Any], live: dict[int, Any]) -> list[Any]:
    """The tangents of an operation's results, by its rule."""
    live_inputs = tuple([k in live for k in range(len(ins))])
    flat_tangents = [np.asarray(t, tangent_type(op.in_types[k]).dtype) for k, t in live.items()]
    if is_differentiated_jointly(op):
        local: Local = region_tangents(op, live_inputs)
        outputs = evaluated(local.graph, [*ins, *flat_tangents])[len(outs) :]
    else:
        local = pushforward(op, live_inputs)
        outputs = evaluated(local.graph, [*ins, *outs, *flat_tangents])
    return [
        None if k is None or not is_inexact(t) else outputs[k] for k, t in zip(local.results, op.out_types, strict=True)
    ]


def _cancels(op: Op, ins: Sequence[Any], outs: Sequence[Any], live: dict[int, Any], moved: Sequence[Any]) -> bool:
    """Whether the tangents of an operation's inputs cancel, but for rounding."""
    if len(live) > 1:
        parts = [_pushed(op, ins, outs, {k: t}) for k, t in live.items()]
    elif op.name == "reduce_sum":
        parts = [_pushed(op, ins, outs, {k: np.abs(t) for k, t in live.items()})]
    else:
        return False
    largest = max([float(np.max(np.abs(t), initial=0.0)) for each in parts for t in each if t is not None], default=0.0)
    left = max([float(np.max(np.abs(t), initial=0.0)) for t in moved if t is not None], default=0.0)
    precision = max([float(jax.numpy.finfo(t.dtype).eps) for t in op.out_types if is_inexact(t)], default=0.0)
    return largest > 0 and left <= ROUNDING * precision * largest


def _cut(op: Op) -> str:
    if op.name == "stop_gradient":
        return "stop_gradient"
    if op.name == "convert_element_type":
        return f"the cast to {op.out_types[0].dtype}"
    if op.name in _COMPARISONS:
        return f"{op.name} has no derivative"
    return f"{op.name} is flat between its jumps"


def _ended(node: Node, ins: Sequence[Any], live: dict[int, Any], of: "_Producers") -> tuple[str, Node, str]:
    """The kind of an operation at which tangents end, and what happens there."""
    name = node.op.name
    if name in _CHOOSING:
        return "masked", node, _CHOOSING[name]
    if name in _MULTIPLYING and len(live) == 1:
        (other,) = [k for k in range(2) if k not in live]
        if not np.asarray(ins[other]).all():
            flat, factor = of.why(node.inputs[other])
            return ("saturated" if flat else "masked"), node, f"it is multiplied by {factor}, which is 0"
        return "saturated", node, "the product is too small for the type"
    if name in _MULTIPLYING or name in ("square", "integer_pow", "pow", "abs"):
        return "saturated", node, f"the slope of {name} is 0 at 0"
    if name in _SATURATING:
        return "saturated", node, f"{name} is flat there"
    if isinstance(node.op.primitive, Region):
        return "cut", node, f"the rule of {node.op.params.get('label', name)} gives zero"
    return "saturated", node, f"the slope of {name} is 0 there"


@frozen(eq=False)
class _Producers:
    """The nodes that compute a graph's values."""

    graph: Graph
    names: Sequence[str]

    def why(self, number: int) -> tuple[bool, str]:
        """Whether a factor is zero because a function is flat, and its name."""
        producers = {i: node for node, outs in self.graph.numbered() for i in outs}
        name = self.names[number] if number < len(self.names) else ""
        producer = producers.get(number)
        while producer is not None and producer.op.name in _MOVING and producer.inputs:
            number = producer.inputs[0]
            if number < len(self.names) and name.startswith("%"):
                name = self.names[number]
            producer = producers.get(number)
        if not name or name.startswith("%"):
            name = "a constant" if producer is None else f"the result of {producer.op.name}"
        return producer is not None and (producer.op.name in _SATURATING or producer.op.name == "sub"), name


def nonzero(t: Any) -> bool:
    return bool(np.any(np.asarray(t) != 0))
