"""One execution of a graph on numbers, forward and backward, with all its values and steps.

NOTE [Executions]
A compiled program does not keep intermediate values, so here a graph is run operation by operation.  Each value has a
*cell*; each executed operation is an *event* with the cells that it read and wrote; each run of a graph, be it the
function's, a step of a loop or a branch, is a *frame*, which maps the graph's values to cells.  The backward pass calls
the pull-back of each event's operation, as the pass that builds backward graphs does.  So an event of backward knows
its event of forward, and each value its cotangent.  Branches and blocks always have frames of their own, loops only if
they are to be opened: other loops are one event.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from attrs import define, field

from fgrad.graph.graph import Graph, Node
from fgrad.graph.op import Op, Region, intern
from fgrad.graph.regions import Cond, CustomVmap, Remat, Scan, While, position
from fgrad.graph.source import Source
from fgrad.jaxcore import primitive, typeof
from fgrad.jaxtypes import is_inexact
from fgrad.passes.dependence import at_node, is_differentiated_jointly, rule_of, varied_from
from fgrad.passes.local import tangent_type
from fgrad.passes.vjp import adjoint, pullback
from fgrad.rules.kinds import Region as RegionRule
from fgrad.run.interpreter import outputs
from fgrad.run.kernels.kernel import kernel_as_xla

Compute = Callable[[Sequence[Any]], Sequence[Any]]


@define(eq=False)
class Event:
    """One executed operation.

    Attributes:
      op: the operation; None for movements of values in and out of the steps of a loop, and if only the results are
        known.
      compute: from the operands to the results.
      reads, writes: cells.
      source: the user's line.
      frame: its frame.
      node: the node of the frame's graph.
      of: in the backward pass, the event of the forward pass to whose derivative it belongs.
      number: how many were executed before it.
      graph: the graph that was executed, if it was one.
    """

    op: Op | None
    compute: Compute
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    source: Source | None
    frame: "Frame"
    node: Node | None
    of: "Event | None"
    number: int
    graph: Graph | None = None

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.op.name if self.op is not None else self.frame.called


@define(eq=False)
class Frame:
    """One run of a graph.

    Attributes:
      graph: the graph.
      cells: the cell of each of its values, by number.
      cotangents: the cells of the cotangents of those that have one.
      inner: the frames inside, by the position of the node: the steps of a loop, or the one run of a block.
      above: the frame and the position of the node that this is inside.
      step: the index of this step of a loop; None outside loops.
      called: the user's name of the frame, if it is one operation to the user, at the line ``source``.
      scope: the path of the module in which it ran.
      as_event: the frame as one event, if it is one operation to the user.
    """

    graph: Graph
    cells: list[int]
    cotangents: dict[int, int] = field(factory=dict)
    inner: dict[int, list["Frame"]] = field(factory=dict)
    events: dict[int, Event] = field(factory=dict)
    above: "tuple[Frame, int] | None" = None
    step: int | None = None
    called: str = ""
    source: Source | None = None
    scope: str = ""
    as_event: Event | None = None

    def outputs(self) -> list[int]:
        """The cells of the graph's outputs."""
        return [self.cells[i] for i in self.graph.outputs]


class Execution:
    """The values of all cells, and the events in order.

    Arguments:
      opened: the loops whose steps get frames of their own, by their operations.
      replaced: graphs to run in place of nodes, by the identity of the node.
    """

    def __init__(self, opened: Collection[Op] = (), replaced: Mapping[int, Graph] | None = None):
        self.opened: Collection[Op] = opened
        self.replaced: Mapping[int, Graph] = replaced or {}
        self.values: list[Any] = []
        #: the event that wrote each cell; None for values from outside
        self.makers: list[Event | None] = []
        self.events: list[Event] = []

    def cell(self, value: Any) -> int:
        """A cell for a value from outside."""
        self.values.append(value)
        self.makers.append(None)
        return len(self.values) - 1

    # -- forward -----------------------------------------------------------------------------------------------------

    def run(self, graph: Graph, args: Sequence[int], of: Event | None = None, **fields: Any) -> Frame:
        """Run a graph on cells."""
        frame = Frame(graph, [*args, *(self.cell(const.value) for const in graph.consts)], **fields)
        for at, node in enumerate(graph.nodes):
            frame.cells += self._run_node(frame, at, node, [frame.cells[i] for i in node.inputs], of)
        return frame

    def _run_node(self, frame: Frame, at: int, node: Node, reads: Sequence[int], of: Event | None) -> Sequence[int]:
        op, source = node.op, frame.source or node.source
        if of is not None and not has_rule_of_its_own(of):
            source = of.source
        if op.effects and not op.out_types:
            return []  # a print, which has no results and would print again
        replacement = self.replaced.get(id(node))
        called = replacement or _called(op)
        if called is not None:
            return self._inside(frame, at, called, reads, of).outputs()
        if isinstance(op.primitive, Cond):
            branches = op.params["branches"]
            index = position(np.asarray(self.values[reads[0]]), len(branches))
            return self._inside(frame, at, branches[index], reads[1:], of).outputs()
        if op in self.opened:
            loop = self._run_scan if isinstance(op.primitive, Scan) else self._run_while
            return loop(frame, at, op, reads, of)
        event = self.event(op, reads, frame, node, source, of)
        frame.events[at] = event
        return event.writes

    def result(self, event: Event, value: Any) -> int:
        """A cell for a result of an operation that is not executed here."""
        self.values.append(value)
        self.makers.append(event)
        return len(self.values) - 1

    def event(
        self, op: Op, reads: Sequence[int], frame: Frame, node: Node | None, source: Source | None, of: Event | None
    ) -> Event:
        """Execute an operation."""
        return self._execute(op, lambda values: outputs(op, values, kernel_as_xla), reads, frame, node, source, of)

    def moved(self, compute: Callable[..., Any], reads: Sequence[int], frame: Frame) -> int:
        """The cell of the result of a function that only moves elements."""
        event = self._execute(None, lambda values: (compute(*values),), reads, frame, None, None, None)
        return event.writes[0]

    def _execute(
        self,
        op: Op | None,
        compute: Compute,
        reads: Sequence[int],
        frame: Frame,
        node: Node | None,
        source: Source | None,
        of: Event | None,
    ) -> Event:
        with np.errstate(all="ignore"):
            outs = compute([self.values[i] for i in reads])
        first = len(self.values)
        writes = tuple(range(first, first + len(outs)))
        event = Event(op, compute, tuple(reads), writes, source, frame, node, of, len(self.events))
        self.values += outs
        self.makers += [event] * len(outs)
        self.events.append(event)
        return event

    def _inside(
        self, frame: Frame, at: int, graph: Graph, args: Sequence[int], of: Event | None, step: int | None = None
    ) -> Frame:
        inner = self.run(
            graph,
            args,
            of,
            above=(frame, at),
            step=step,
            called=frame.called,
            source=frame.source,
            scope=frame.scope,
            as_event=frame.as_event,
        )
        frame.inner.setdefault(at, []).append(inner)
        return inner

    def _run_scan(self, frame: Frame, at: int, op: Op, reads: Sequence[int], of: Event | None) -> Sequence[int]:
        body, nc, nk, length = op.params["body"], op.params["num_consts"], op.params["num_carry"], op.params["length"]
        consts, carry, xs = reads[:nc], list(reads[nc : nc + nk]), reads[nc + nk :]
        ys: dict[int, list[int]] = {}
        frame.inner[at] = []
        for t in _steps(op):
            parts = [self.moved(lambda x, t=t: np.asarray(x)[t], [x], frame) for x in xs]
            outs = self._inside(frame, at, body, [*consts, *carry, *parts], of, t).outputs()
            carry, ys[t] = outs[:nk], outs[nk:]
        stacked = []
        for k, type in enumerate(op.out_types[nk:]):
            column = [ys[t][k] for t in range(length)]
            stacked.append(self.moved(lambda *parts, type=type: _stacked(parts, type), column, frame))
        return [*carry, *stacked]

    def _run_while(self, frame: Frame, at: int, op: Op, reads: Sequence[int], of: Event | None) -> Sequence[int]:
        nc, nb = op.params["cond_consts"], op.params["body_consts"]
        cond_consts, body_consts, carry = reads[:nc], reads[nc : nc + nb], list(reads[nc + nb :])
        frame.inner[at] = []
        step = 0
        while np.asarray(self.values[self.run(op.params["cond"], [*cond_consts, *carry], of).outputs()[0]]):
            carry = self._inside(frame, at, op.params["body"], [*body_consts, *carry], of, step).outputs()
            step += 1
        return carry

    # -- backward ----------------------------------------------------------------------------------------------------

    def pull(self, frame: Frame, seeds: Sequence[tuple[int, int]], wrt: Sequence[int]) -> dict[int, int]:
        """Pull cotangents back through a frame.

        ``seeds`` are values of the graph with the cells of their cotangents.  Returns the cells of the cotangents of
        the inputs ``wrt``, but for zeros; the frame has all others.
        """
        graph, cts = frame.graph, frame.cotangents
        varied = varied_from(graph, wrt)
        for value, cell in seeds:
            if value in varied:
                self._add(frame, value, cell, None)
        first = len(graph.types)
        for at in range(len(graph.nodes) - 1, -1, -1):
            node = graph.nodes[at]
            count = len(node.op.out_types)
            first -= count
            live = tuple([first + k in cts and first + k in varied for k in range(count)])
            if True not in live:
                continue
            needs = tuple([i in varied for i in node.inputs])
            out_cts = {k: cts[first + k] for k in range(count) if live[k]}
            input_cts = self._pull_node(frame, at, node, needs, out_cts, list(range(first, first + count)))
            for i, cell in zip([i for i in node.inputs if i in varied], input_cts, strict=True):
                if cell is not None:
                    self._add(frame, i, cell, frame.events.get(at))
        return {i: cts[i] for i in wrt if i in cts}

    def _add(self, frame: Frame, value: int, cell: int, of: Event | None) -> None:
        previous = frame.cotangents.get(value)
        frame.cotangents[value] = cell if previous is None else self.total(previous, cell, frame, of)

    def total(self, a: int, b: int, frame: Frame, of: Event | None) -> int:
        """The cell of the sum of two cotangents."""
        op = intern(primitive("add_any"), {}, [typeof(self.values[i]) for i in (a, b)])
        return self.event(op, (a, b), frame, None, of and of.source, of).writes[0]

    def _pull_node(
        self,
        frame: Frame,
        at: int,
        node: Node,
        needs: tuple[bool, ...],
        out_cts: Mapping[int, int],
        outs: Sequence[int],
    ) -> Sequence[int | None]:
        """The cells of the cotangents of a node's inputs that vary, None for zeros."""
        op = node.op
        wanted = [i for i, needed in enumerate(needs) if needed]
        if id(node) in self.replaced or isinstance(op.primitive, Remat | CustomVmap):
            cts = self._pull_inside(frame.inner[at][0], out_cts, wanted)
            return [cts.get(i) for i in wanted]
        if isinstance(op.primitive, Cond):
            cts = self._pull_inside(frame.inner[at][0], out_cts, [i - 1 for i in wanted])
            return [cts.get(i - 1) for i in wanted]
        if isinstance(op.primitive, Scan) and op in self.opened:
            return self._pull_scan(frame, at, op, needs, out_cts)
        reads = [frame.cells[i] for i in node.inputs]
        event = frame.events.get(at) or self._stand_in(frame, at, node, reads, [frame.cells[i] for i in outs])
        live = tuple([k in out_cts for k in range(len(op.out_types))])
        args = [*reads, *(frame.cells[i] for i in outs)]
        if is_differentiated_jointly(op):
            region = at_node(node, adjoint, op, needs, live)
            args += self.run(region.forward, reads, event).outputs()[len(outs) :]
            graph, results = region.backward, region.results
        else:
            local = at_node(node, pullback, op, needs, live)
            graph, results = local.graph, local.results
        cells = self.run(graph, [*args, *out_cts.values()], event).outputs()
        return [None if r is None else cells[r] for r in results]

    def _stand_in(self, frame: Frame, at: int, node: Node, reads: Sequence[int], writes: Sequence[int]) -> Event:
        """A call with a frame of its own as one event, for its derivative."""
        op = node.op
        compute: Compute = lambda values: outputs(op, values, kernel_as_xla)  # noqa: E731
        number = len(self.events)
        event = Event(op, compute, tuple(reads), tuple(writes), node.source, frame, node, None, number)
        frame.events[at] = event
        return event

    def _pull_inside(self, inner: Frame, out_cts: Mapping[int, int], wrt: Sequence[int]) -> dict[int, int]:
        return self.pull(inner, [(inner.graph.outputs[k], cell) for k, cell in out_cts.items()], wrt)

    def _pull_scan(
        self, frame: Frame, at: int, op: Op, needs: tuple[bool, ...], out_cts: Mapping[int, int]
    ) -> Sequence[int | None]:
        nc, nk = op.params["num_consts"], op.params["num_carry"]
        consts, carries, xs = range(nc), range(nc, nc + nk), range(nc + nk, len(needs))
        wrt = _varied_inputs(op, needs)
        carry = {k: cell for k, cell in out_cts.items() if k < nk}
        ys = {k: cell for k, cell in out_cts.items() if k >= nk}
        totals: dict[int, int] = {}
        by_step: dict[int, dict[int, int]] = {i: {} for i in wrt if i in xs}
        steps = {inner.step: inner for inner in frame.inner[at]}
        for t in reversed(list(_steps(op))):
            inner = steps[t]
            slices = {k: self.moved(lambda ct, t=t: np.asarray(ct)[t], [ct], inner) for k, ct in ys.items()}
            cts = self._pull_inside(inner, {**carry, **slices}, wrt)
            carry = {i - nc: cell for i, cell in cts.items() if i in carries}
            for i, cell in cts.items():
                if i in consts:
                    totals[i] = cell if i not in totals else self.moved(_added, [totals[i], cell], inner)
                elif i in xs:
                    by_step[i][t] = cell
        columns = {i: self._column(op, i, cells, frame) for i, cells in by_step.items()}
        cotangents = {**totals, **{nc + k: cell for k, cell in carry.items()}, **columns}
        return [cotangents.get(i) for i, needed in enumerate(needs) if needed]

    def _column(self, op: Op, i: int, by_step: Mapping[int, int], frame: Frame) -> int:
        """The cell of the cotangent of a scan's sequence, from those of its elements by step, else zeros."""
        type = tangent_type(op.in_types[i])
        zeros = np.zeros(type.shape[1:], type.dtype)
        column = [by_step[t] if t in by_step else self.cell(zeros) for t in range(op.params["length"])]
        return self.moved(lambda *cts: _stacked(cts, type), column, frame)

    # -- queries ------------------------------------------------------------------------------------------------------

    def is_finite(self, cell: int) -> bool:
        """Whether all numbers of a value are finite; a value without numbers counts as finite."""
        return is_finite(self.values[cell])


def is_finite(value: Any) -> bool:
    """Whether all numbers of a value are finite; a value without numbers counts as finite."""
    return not is_inexact(typeof(value)) or bool(np.isfinite(numbers(value)).all())


def numbers(value: Any) -> np.ndarray:
    """A value as an array for NumPy's functions; narrow floats that they do not support are widened."""
    array = np.asarray(value)
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)


def bodies(op: Op) -> list[Graph]:
    """The graphs that get frames of their own when an operation is executed."""
    called = _called(op)
    if called is not None:
        return [called]
    if isinstance(op.primitive, Cond):
        return list(op.params["branches"])
    return [op.params["body"]] if isinstance(op.primitive, Scan | While) else []


def _called(op: Op) -> Graph | None:
    return op.primitive.called(op.params) if isinstance(op.primitive, Region) else None


def has_rule_of_its_own(event: Event) -> bool:
    """Whether the derivative is a rule of the user's, whose lines should be shown."""
    return event.op is not None and event.op.name in ("custom_vjp", "custom_jvp", "linear_call")


def _varied_inputs(op: Op, needs: tuple[bool, ...]) -> list[int]:
    """The inputs of a scan's body that vary in some step, if the scan's inputs marked by ``needs`` do."""
    rule, nc, nk = rule_of(op), op.params["num_consts"], op.params["num_carry"]
    assert isinstance(rule, RegionRule) and rule.varied is not None
    varies = [*needs[:nc], *rule.varied(op, needs)[:nk], *needs[nc + nk :]]
    return [i for i, does in enumerate(varies) if does]


def _steps(op: Op) -> Sequence[int]:
    length = op.params["length"]
    return range(length - 1, -1, -1) if op.params["reverse"] else range(length)


def _added(a: Any, b: Any) -> np.ndarray:
    return np.asarray(a) + np.asarray(b)


def _stacked(parts: Sequence[Any], type: Any) -> np.ndarray:
    if not parts:
        return np.zeros(type.shape, type.dtype)
    return np.stack([np.asarray(x) for x in parts])


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function without JAX's checks for NaNs, and with ``jit`` enabled."""
    with jax.debug_nans(False), jax.debug_infs(False), jax.disable_jit(False):
        return function(*args)
