"""Plans: an operation recorded for given types, with its derivatives by the rules of the functional core.

NOTE [What an operation saves]
An operation is a function of arrays.  Recorded for given types it is a graph, and its pull-back is the ``vjp`` pass's,
reduced to what it needs: the operation's own outputs replace the nodes that compute them, and the remaining inputs of
the pull-back are what the node saves.  So ``exp`` saves its result, ``sin`` its input, and a product the other factor,
only if the derivative is requested.  Nothing is annotated; where PyTorch saves something else, the operation is written
so that its rule reads what PyTorch's reads; if PyTorch recomputes a result in backward instead of saving it (a
quotient), the entry has no names of outputs.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from attrs import evolve, frozen
from jax import lax

from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.layout.gradient_views import GradientView, gradient_views
from fgrad.mutable.operation.traits import Absent
from fgrad.mutable.tensor.tensor_type import TensorType, type_of
from fgrad.mutable.values.evaluation import Routine, recorded
from fgrad.seam import (
    Builder,
    Graph,
    ShapedArray,
    evaluate,
    jvp,
    labelled,
    simplify,
    tangent_type,
    trim,
    unsourced,
    vjp,
    with_x64,
)

#: the inputs and the outputs that a pull-back reads
Reads = tuple[tuple[int, ...], tuple[int, ...]]


@frozen(eq=False)
class Pullback:
    """The requested gradients from saved inputs, saved outputs and the gradients of the inexact outputs.

    ``routine`` takes the inputs ``inputs``, the outputs ``outputs``, and then the gradients of the outputs
    ``received``, in this order.
    """

    routine: Routine
    wrt: tuple[int, ...]
    received: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: for each gradient that is a view of an incoming one: which one, and the view; see NOTE [Gradients that are views]
    views: tuple[GradientView | None, ...]
    #: the strides of each gradient that is not a view; None for row-major
    strides: tuple[Ints | None, ...]
    #: whether every gradient is an incoming one, or a view of a whole one: then no program has to run
    only_views: bool
    absent: Absent = "dependent"

    def operands_of(self, other: "Pullback", operands: Sequence[Any]) -> list[Any]:
        """The operands of this pull-back, which reads less of the same operation, given those of another one.

        What follows the values that the other one reads, such as the incoming gradients, is kept.
        """
        first = len(other.inputs) + len(other.outputs)
        inputs = dict(zip(other.inputs, operands, strict=False))
        outputs = dict(zip(other.outputs, operands[len(inputs) : first], strict=True))
        return [*(inputs[i] for i in self.inputs), *(outputs[k] for k in self.outputs), *operands[first:]]

    @cached_property
    def _sources(self) -> tuple[frozenset[int], ...]:
        """For each gradient, the inputs of the graph that it depends on."""
        graph = self.routine.graph
        sources = [frozenset({i}) for i in range(len(graph.in_types))] + [frozenset[int]()] * len(graph.consts)
        for node in graph.nodes:
            sources += [frozenset[int]().union(*[sources[i] for i in node.inputs])] * len(node.op.out_types)
        return tuple([sources[i] for i in graph.outputs])

    def undefined(self, received: Sequence[Any]) -> list[bool]:
        """Whether each gradient is undefined, as in PyTorch, not zero, if some incoming ones are None."""
        if self.absent == "none":
            return [False] * len(self.wrt)
        first = len(self.routine.graph.in_types) - len(received)
        missing = {first + i for i, gradient in enumerate(received) if gradient is None}
        unread = self.absent == "unread"
        incoming = [{i for i in read if i >= first} for read in self._sources]
        return [read <= missing if read else unread for read in incoming]


#: the pull-back of an operation through which no gradient flows
NOTHING = Pullback(Routine(Graph((), (), (), ())), (), (), (), (), (), (), False)


@frozen(eq=False)
class Pushforward:
    """Tangents of the inexact outputs from all inputs and the tangents of the inputs ``varied``."""

    routine: Routine
    varied: tuple[int, ...]


def planned_graph(function: Callable[..., Sequence[Any]], types: Sequence[ShapedArray], name: str) -> Graph:
    """The graph of an operation's function of arrays; anonymous functions with a custom rule are inlined."""
    return labelled(simplify(recorded(function, types)), name)


def types_of(graph: Graph) -> tuple[TensorType, ...]:
    """The types of a graph's outputs as tensors."""
    return tuple([type_of(t) for t in graph.out_types])


def _last_inexact(types: Sequence[TensorType]) -> int:
    """The index of the last type that has derivatives; of the last one, if none has."""
    return max([i for i, type in enumerate(types) if type.inexact], default=len(types) - 1)


class Plan:
    """An operation recorded for the types of its operands."""

    __slots__ = (
        "routine",
        "out_types",
        "gradient_types",
        "inexact",
        "differentiable",
        "reads_outputs",
        "always_saved",
        "pullbacks",
        "_special",
        "_pushforwards",
    )

    def __init__(
        self,
        routine: Routine,
        out_types: tuple[TensorType, ...],
        reads_outputs: bool = True,
        always_saved: tuple[int, ...] = (),
        auxiliary: tuple[int, ...] = (),
    ):
        self.routine: Routine = routine
        self.out_types: tuple[TensorType, ...] = out_types
        #: of the outputs whose gradients a node takes: indices and other integers that come last have none
        self.gradient_types: tuple[TensorType, ...] = out_types[: _last_inexact(out_types) + 1]
        #: the outputs that have derivatives
        self.inexact: tuple[int, ...] = tuple(
            [i for i, t in enumerate(self.out_types) if t.inexact and i not in auxiliary]
        )
        self.differentiable: bool = bool(self.inexact)
        #: whether the pull-back reads the outputs instead of recomputing them
        self.reads_outputs: bool = reads_outputs
        #: the inputs, and after them the outputs, that are saved although no derivative reads them
        self.always_saved: tuple[int, ...] = always_saved
        #: the pull-backs made so far, by the requested operands
        self.pullbacks: dict[tuple[int, ...], Pullback] = {}
        self._special: dict[tuple[tuple[int, ...], tuple[int, ...], bool], Pullback] = {}
        self._pushforwards: dict[tuple[int, ...], Pushforward] = {}

    @property
    def graph(self) -> Graph:
        return self.routine.graph

    def pullback(self, wrt: tuple[int, ...]) -> Pullback:
        pullback = self.pullbacks.get(wrt)
        if pullback is None:
            pullback = self.pullbacks[wrt] = self.pulled_back(wrt)
        return pullback

    def pulled_back(self, wrt: tuple[int, ...]) -> Pullback:
        """The pull-back, worked out."""
        return as_pullback(wrt, self.inexact, *self.pullback_graph(wrt))

    def pullback_graph(self, wrt: tuple[int, ...]) -> tuple[Graph, Reads]:
        """The graph of the pull-back, and what it reads."""
        return self.pullback_of(self.graph, wrt)

    def pullback_of(self, graph: Graph, wrt: tuple[int, ...]) -> tuple[Graph, Reads]:
        """The same for the graph of the operation with symbols in it."""
        return with_x64(_pullback, graph, wrt, self.inexact, self.reads_outputs, self.always_saved)

    def special_pullback(self, wrt: tuple[int, ...], received: tuple[int, ...], reads_outputs: bool) -> Pullback:
        """The pull-back of the gradients of some outputs, which may recompute what it needs of outputs.

        Zeros for the other gradients give the same but where a derivative that nobody asked for is not finite.
        """
        key = wrt, received, reads_outputs
        pullback = self._special.get(key)
        if pullback is None:
            parts = with_x64(_pullback, self.graph, wrt, received, reads_outputs, self.always_saved)
            pullback = self._special[key] = as_pullback(wrt, received, *parts)
        return pullback

    def partial_pullback(self, pullback: Pullback, received: tuple[int, ...]) -> Pullback:
        """The pull-back for a node that has saved what another one reads, if it received some gradients only.

        It is that other one where nothing is read, since zeros then do for the gradients that are missing.
        """
        if not (pullback.inputs or pullback.outputs) or received == pullback.received:
            return pullback
        partial = self.special_pullback(pullback.wrt, received, self.reads_outputs)
        reads_more = set(partial.inputs) - set(pullback.inputs) or set(partial.outputs) - set(pullback.outputs)
        return pullback if reads_more else evolve(partial, strides=pullback.strides)

    def pushforward(self, varied: tuple[int, ...]) -> Pushforward:
        pushforward = self._pushforwards.get(varied)
        if pushforward is None:
            pushforward = self._pushforwards[varied] = with_x64(_pushforward, self.graph, varied, self.inexact)
        return pushforward


def as_pullback(wrt: tuple[int, ...], received: tuple[int, ...], graph: Graph, reads: Reads) -> Pullback:
    """The pull-back with a graph."""
    inputs, outputs = reads
    views = gradient_views(graph, len(inputs) + len(outputs))
    only_views = all(p is not None and (p[1] is None or p[1].keeps_all) for p in views)
    return Pullback(Routine(graph), wrt, received, inputs, outputs, views, (None,) * len(wrt), only_views)


def _pullback(
    graph: Graph, wrt: tuple[int, ...], inexact: tuple[int, ...], reads_outputs: bool, also: tuple[int, ...]
) -> tuple[Graph, Reads]:
    n, m = len(graph.in_types), len(graph.out_types)
    ct_types = [tangent_type(graph.out_types[k]) for k in inexact]

    def function(*flat: Any) -> list[Any]:
        ins, outs, cts = flat[:n], flat[n : n + m], flat[n + m :]
        cotangents = evaluate(joint, [*ins, *outs, *map(_conj, cts)])
        return [
            lax.full(graph.in_types[i].shape, 0, graph.in_types[i].dtype) if k is None else _conj(cotangents[k])
            for i, k in zip(wrt, results, strict=True)
        ]

    joint, results = _with_outputs_given(graph, wrt, inexact, reads_outputs)
    types = [*graph.in_types, *graph.out_types, *ct_types]
    indices = [k for k in results if k is not None]
    if len(indices) == len(results) and all(t.dtype.kind != "c" for t in types):
        # need not be recorded again, which would take as long as all the rest
        full = unsourced(Graph(joint.in_types, joint.consts, joint.nodes, tuple([joint.outputs[k] for k in indices])))
    else:
        full = recorded(function, types)
    full = _reduced(full)
    used = {i for node in full.nodes for i in node.inputs} | set(full.outputs) | set(also)
    reads = [i for i in range(n + m) if i in used]
    builder = Builder(full.in_types)
    outs = builder.splice(full, builder.inputs)
    cut = builder.finish(outs, [builder.inputs[i] for i in [*reads, *range(n + m, n + m + len(inexact))]])
    return cut, (tuple([i for i in reads if i < n]), tuple([i - n for i in reads if i >= n]))


def _reduced(graph: Graph) -> Graph:
    """A graph without dead code, also in the graphs of its regions."""
    graph = simplify(graph)
    return trim(graph) if graph.has_regions else graph


def _conj(x: Any) -> Any:
    """PyTorch's gradient of a complex value is the conjugate of JAX's cotangent."""
    return lax.conj(x) if x.dtype.kind == "c" else x


def _with_outputs_given(
    graph: Graph, wrt: Sequence[int], inexact: Sequence[int], reads_outputs: bool
) -> tuple[Graph, list[int | None]]:
    """The graph (inputs, outputs, cotangents) -> input cotangents, and the output index of each of ``wanted``."""
    m = len(graph.out_types)
    inexact_set = set(inexact)
    joint = vjp(graph, list(wrt), [k in inexact_set for k in range(m)])
    full = joint.graph
    n = len(graph.in_types)
    builder = Builder([*graph.in_types, *graph.out_types])
    cts = [builder.input(t) for t in full.in_types[n:]]
    known = {
        value: n + k
        for k, value in reversed(list(enumerate(full.outputs[:m])))
        if reads_outputs and value >= len(full.in_types)
    }
    numbers = [*builder.inputs[:n], *cts, *(builder.const(c) for c in full.consts)]
    for at in range(len(full.in_types), len(numbers)):
        numbers[at] = known.get(at, numbers[at])
    for node in full.nodes:
        first = builder.emit(node.op, tuple([numbers[i] for i in node.inputs]), node.source)
        for k in range(len(node.op.out_types)):
            numbers.append(known.get(len(numbers), first + k))
    wanted_outputs = [numbers[i] for i in full.outputs[m:]]
    return builder.finish(wanted_outputs), list(joint.results)


def _pushforward(graph: Graph, varied: tuple[int, ...], inexact: tuple[int, ...]) -> Pushforward:
    joint = jvp(graph, list(varied))
    m = len(graph.out_types)
    types = [*graph.in_types, *[tangent_type(graph.in_types[i]) for i in varied]]

    def function(*flat: Any) -> list[Any]:
        results = evaluate(joint.graph, flat)
        tangents = results[m:]
        return [
            lax.full(graph.out_types[k].shape, 0, graph.out_types[k].dtype) if index is None else tangents[index]
            for k, index in [(k, joint.results[k]) for k in inexact]
        ]

    return Pushforward(Routine(_reduced(recorded(function, types))), varied)
