"""Graphs of elementwise operations, sums and products on small arrays, as one function of NumPy arrays.

NOTE [NumPy runs what is small]
Calling a compiled program with two 32x32 matrices costs ten times what NumPy takes to multiply them.  So where graphs
run one by one as the user's statements come (the mutable layer), a graph whose operations all have kernels becomes a
function with a line for each.  Generating it takes three times as long as interpreting the graph, so graphs that run
once are interpreted.

*Small* is a matter of time: NumPy takes no longer than the launch of a compiled program.  A launch waits for a thread,
or for all of them where XLA splits the work, and again at each matrix product that it splits.  So a layer of 256 units
on 128 examples is small.  NumPy may also run larger graphs while they are new: XLA takes longer to compile one than
NumPy to run it dozens of times.

NOTE [Numbers are prepared once]
The mutable layer passes a Python number as an array without axes, whose type is weak; equal numbers are one array.  A
program first converts it to the type of the elements, which takes NumPy as long as adding two small arrays.  So what
depends on such numbers alone is kept, and computed again only for others.

NOTE [Memory from the heap]
The C library gets the memory of a large array from the system and returns it at once, so each operation pays for page
faults: an eighth of the time of a denoiser's training step.  It stops doing so for sizes up to that of the largest
array freed so far, at most 32 MiB.  So one is allocated and freed here, without touching its pages.

Source: the description of ``M_MMAP_THRESHOLD`` in `mallopt(3) <https://man7.org/linux/man-pages/man3/mallopt.3.html>`_.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.graph.graph import Builder, Graph, Node
from fgrad.graph.op import Op, Region
from fgrad.graph.regions import position
from fgrad.graph.source import function_of
from fgrad.jaxcore import Tracer
from fgrad.run.blocks import Line, in_blocks
from fgrad.run.kernels.kernel import HALVES, SUPPORTED, Compute, Kernel, KernelOf, kernel


@frozen
class NumpyProgram:
    """A graph as a function of NumPy arrays."""

    #: from flat arrays to the flat results, which must not be written
    run: Callable[[Sequence[np.ndarray]], list[np.ndarray]]
    #: extra nanoseconds, compared with a compiled program
    excess: float
    #: the elements of the largest value in it
    largest: int
    #: the function that computes its only result from its operands, a new row-major array, if it is a single one
    kernel: Compute | None = None


#: the most operations of a graph, and the most elements of a value, that are considered; beyond what policies accept
LONGEST, LARGEST = 5000, 1 << 22
#: measured, in nanoseconds: the overhead of a line;
LINE = 750
#: the launch of a compiled program on one thread, and on several, as from this many elements on;
LAUNCH, THREADED_LAUNCH, THREADED_SIZE = 35_000, 150_000, 1 << 15
#: and of a matrix product on several threads, as from this many multiplications on
PRODUCT, PRODUCT_SIZE = 25_000, 1 << 20
#: operations that read few elements of their first operand
_GATHERS = frozenset(("dynamic_slice", "gather"))
#: the elements of a value that is freed after its last use, not at the end
FREED_SIZE = 1 << 12
#: what is constant is computed once and kept, up to this many elements, or as many as a constant from which it follows
KEPT_SIZE = 1 << 14
#: the bytes of the largest array that the C library takes into account: see NOTE [Memory from the heap]
FREED = (32 << 20) - (64 << 10)

np.empty(FREED, np.uint8)


def numpy_program(graph: Graph, kernel_of: KernelOf = kernel, most: float = inf) -> NumpyProgram | None:
    """A graph as a function of NumPy arrays; None if an operation has no kernel, or NumPy would take too long."""
    called, graph = graph, with_calls_inlined(graph)
    if called.nodes and not graph.nodes:
        return _selection(graph)
    if not graph.nodes or len(graph.nodes) > LONGEST or not _is_supported(graph):
        return None
    largest = max(_touched(graph))
    if largest > LARGEST:
        return None
    writer = _Writer(graph, largest)
    for node in graph.nodes:
        row = kernel_of(node.op) or _control_flow(node.op, kernel_of)
        if row is None:
            return None
        writer.write(node, row)
    return writer.program() if writer.excess <= most else None


def _is_supported(graph: Graph) -> bool:
    """Whether all values have types with kernels, and no constant is a tracer."""
    supported = all(t.dtype in SUPPORTED or t.dtype in HALVES for t in graph.types)
    return supported and not any(isinstance(const.value, Tracer) for const in graph.consts)


def _touched(graph: Graph) -> list[int]:
    """How many elements of each value a run touches: of an input from which elements are gathered, only those."""
    # ``prod`` of the shape takes a fifth of the time of ``size``
    counts = [math.prod(t.shape) for t in graph.types]
    gathered: dict[int, int] = {}
    whole = set(graph.outputs)
    for node in graph.nodes:
        source = node.inputs[0] if node.op.name in _GATHERS else None
        if source is not None and source < len(graph.in_types):
            gathered[source] = max(gathered.get(source, 0), node.op.out_types[0].size)
            whole.update(node.inputs[1:])
        else:
            whole.update(node.inputs)
    for i in gathered.keys() - whole:
        counts[i] = min(counts[i], gathered[i])
    return counts


@frozen
class Prepared:
    """The lines that depend on numbers alone, and these inputs: see NOTE [Numbers are prepared once]."""

    numbers: Sequence[int]
    lines: Sequence[Line]


class _Writer:
    """Builds a program: a line for each node that is not constant."""

    def __init__(self, graph: Graph, largest: int):
        self.graph: Graph = graph
        #: the elements of the largest value, as far as a run touches them
        self.largest: int = largest
        #: the constant values
        self.known: dict[int, np.ndarray] = {
            i: np.asarray(const.value, const.type.dtype) for i, const in enumerate(graph.consts, len(graph.in_types))
        }
        #: the numbers of constants that are broadcast to other shapes, as views
        self.broadcast: dict[tuple[int, tuple[int, ...]], int] = {}
        #: the shapes in which values are computed: NumPy may broadcast them to their full shapes later
        self.shapes: list[tuple[int, ...]] = [t.shape for t in graph.types[: len(graph.in_types) + len(graph.consts)]]
        #: by their first result
        self.lines: dict[int, Line] = {}
        #: the results of each computation that has a line, and for repeated ones the results to use
        self.computed: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.equal: dict[int, int] = {}
        #: how to compute the transpose of a value, if it is a product
        self.transposed: dict[int, Compute] = {}
        self.excess: float = -_launch(largest)

    def write(self, node: Node, row: Kernel) -> None:
        """Add the line of the next node, unless an equal one exists: derivatives recompute what they need."""
        compute, transposed = row.compute, row.transposed
        inputs = tuple([self.equal.get(i, i) for i in node.inputs])
        shapes = [self.shapes[i] for i in inputs]
        if row.elementwise:
            out_shapes = shapes[:1] if shapes.count(shapes[0]) == len(shapes) else [np.broadcast_shapes(*shapes)]
        else:
            short = {k: t.shape for k, t in enumerate(node.op.in_types) if shapes[k] != t.shape}
            if short and not all(i in self.known for i in inputs):
                inputs = tuple([self._constant(i, short.get(k)) for k, i in enumerate(inputs)])
                short = {k: shape for k, shape in short.items() if inputs[k] not in self.known}
            if short:
                compute = _on_full_shapes(compute, short)
                transposed = transposed and _on_full_shapes(transposed, short)
            out_shapes = [t.shape for t in node.op.out_types] if row.shape is None else [row.shape]
        numbers = tuple(range(len(self.shapes), len(self.shapes) + len(out_shapes)))
        self.shapes += out_shapes
        if all(i in self.known for i in inputs):
            most = max([KEPT_SIZE, *[self.known[i].size for i in inputs]])
            if all(math.prod(s) <= most for s in out_shapes):
                self._fold(node, numbers, compute)
                return
        primitive, params, in_types = node.op.key[:3]
        # an elementwise computation does not depend on the shapes of scalar operands
        types = [(t.dtype, t.shape) for t in node.op.out_types] if row.elementwise else in_types
        first = self.computed.setdefault((primitive, params, *types, *map(self._operand, inputs)), numbers)
        if first is not numbers:
            self.equal.update(zip(numbers, first, strict=True))
            return
        shape = out_shapes[0]
        fusible = row.elementwise and all(s == shape or math.prod(s) == 1 for s in shapes)
        dtype = node.op.out_types[0].dtype
        self.lines[numbers[0]] = Line(numbers, node.op.name, compute, inputs, shape if fusible else None, dtype)
        if transposed is not None:
            self.transposed[numbers[0]] = transposed
        read = node.op.in_types[node.op.name in _GATHERS :]
        self.excess += LINE + row.excess * max([math.prod(t.shape) for t in (*read, *node.op.out_types)])
        if _multiplications(node.op) >= PRODUCT_SIZE:
            self.excess -= PRODUCT

    def _fold(self, node: Node, numbers: tuple[int, ...], compute: Compute) -> None:
        """Evaluate a node whose inputs are constant."""
        with np.errstate(all="ignore"):
            value = compute(*[self.known[i] for i in node.inputs])
        for i, x, t in zip(numbers, value if len(numbers) > 1 else [value], node.op.out_types, strict=True):
            self.known[i] = np.array(x, t.dtype, order="C")

    def _constant(self, i: int, shape: tuple[int, ...] | None) -> int:
        """The number of a constant broadcast to a shape, if it is not None; any other value itself."""
        if shape is None or i not in self.known:
            return i
        number = self.broadcast.get((i, shape))
        if number is None:
            number = self.broadcast[i, shape] = len(self.graph.types) + len(self.broadcast)
            self.known[number] = np.broadcast_to(self.known[i], shape)
        return number

    def _operand(self, i: int) -> Any:
        """The key of an operand: its number, or the value of a constant scalar."""
        value = self.known.get(i)
        return i if value is None or value.size > 1 else (value.dtype, value.tobytes())

    def _with_products_transposed(self, outputs: Sequence[int]) -> list[Line]:
        """The lines, with products that are only read transposed computed as such, which costs BLAS nothing."""
        lines = dict(self.lines)
        reads = Counter(chain(outputs, *[line.operands for line in lines.values()]))
        for number, line in self.lines.items():
            if line.primitive == "transpose" and reads[source := line.operands[0]] == 1 and source in self.transposed:
                product = lines.pop(source)
                lines[number] = evolve(product, values=line.values, compute=self.transposed[source])
        return list(lines.values())

    def _prepared(self, lines: list[Line]) -> "tuple[Prepared, list[Line]]":
        """The lines that depend on numbers alone, with these, and the others."""
        numbers = [i for i, t in enumerate(self.graph.in_types) if t.weak_type and not t.shape]
        settled = {*numbers, *self.known}
        first: list[Line] = []
        others: list[Line] = []
        for line in lines if numbers else ():
            if settled.issuperset(line.operands) and all(math.prod(self.shapes[i]) == 1 for i in line.values):
                settled.update(line.values)
                first.append(line)
            else:
                others.append(line)
        return Prepared(numbers, first), others if numbers else lines

    def program(self) -> NumpyProgram:
        graph = self.graph
        outputs = [self.equal.get(i, i) for i in graph.outputs]
        full = {i: graph.types[i].shape for i in outputs if self.shapes[i] != graph.types[i].shape}
        prepared, lines = self._prepared(self._with_products_transposed(outputs))
        if len(lines) > 1 and any(line.elementwise_shape or isinstance(line.compute, np.ufunc) for line in lines):
            lines = in_blocks(lines, self.shapes, outputs)
        large: set[int] = set()
        if self.largest >= FREED_SIZE:
            large = {i for i, shape in enumerate(self.shapes) if math.prod(shape) >= FREED_SIZE}
        read = {*outputs, *[i for line in (*prepared.lines, *lines) for i in line.operands]}
        known = {i: value for i, value in self.known.items() if i in read}
        run = _function(lines, prepared, known, len(graph.in_types), outputs, full, large)
        return NumpyProgram(run, self.excess, self.largest, None if full else _single(lines, graph, outputs))


def _single(lines: Sequence[Line], graph: Graph, outputs: Sequence[int]) -> Compute | None:
    """The computation of an elementwise program of one line, if its result is an array in row-major order."""
    operands = tuple(range(len(graph.in_types)))
    if len(lines) != 1 or lines[0].operands != operands or tuple(outputs) != lines[0].values:
        return None
    return lines[0].compute if lines[0].elementwise_shape else None


def _launch(largest: int) -> float:
    """The launch overhead, in nanoseconds, of a compiled program whose largest value has this many elements."""
    return THREADED_LAUNCH if largest >= THREADED_SIZE else LAUNCH


def _control_flow(op: Op, kernel_of: KernelOf) -> Kernel | None:
    """A loop or a branch as Python control flow over NumPy programs."""
    if op.effects:
        return None
    if op.name == "cond":
        return _cond(op, kernel_of)
    return _scan(op, kernel_of) if op.name == "scan" else None


def _cond(op: Op, kernel_of: KernelOf) -> Kernel | None:
    branches = op.params["branches"]
    programs = [p for g in branches if (p := _selection(g) or numpy_program(g, kernel_of)) is not None]
    if len(programs) < len(branches):
        return None

    def compute(index: Any, *args: Any) -> Any:
        # as views: results are made read-only, and may be the arguments themselves
        outs = [np.asarray(x)[...] for x in programs[position(index, len(programs))].run(args)]
        return outs if len(outs) > 1 else outs[0]

    excess = max([program.excess + _launch(program.largest) for program in programs])
    return Kernel(compute, compute, excess / max([1, *[t.size for t in (*op.in_types, *op.out_types)]]), exact=False)


def _selection(graph: Graph) -> NumpyProgram | None:
    """The program of a branch that only returns some of its operands."""
    if graph.nodes or graph.consts:
        return None
    return NumpyProgram(lambda values: [values[i] for i in graph.outputs], 0, max([0, *[t.size for t in graph.types]]))


def _scan(op: Op, kernel_of: KernelOf) -> Kernel | None:
    params = op.params
    length, nc, nk = params["length"], params["num_consts"], params["num_carry"]
    body = numpy_program(params["body"], kernel_of)
    if body is None:
        return None
    excess = length * (body.excess + _launch(body.largest))
    run, stacked = body.run, op.out_types[nk:]
    dtypes = [t.dtype for t in params["body"].out_types[:nk]]
    iterations = range(length)[::-1] if params["reverse"] else range(length)

    def compute(*args: Any) -> Any:
        # BLAS would copy a transposed factor at every iteration
        consts, xs = [np.asarray(x, order="C") for x in args[:nc]], args[nc + nk :]
        # as views: results are made read-only, and a carry may still be one of the arguments
        carry = [np.asarray(x, dtype)[...] for x, dtype in zip(args[nc:], dtypes, strict=False)]
        ys = [np.empty(t.shape, t.dtype) for t in stacked]
        for i in iterations:
            outs = run([*consts, *carry, *[x[i, ...] for x in xs]])
            carry = outs[:nk]
            for y, out in zip(ys, outs[nk:], strict=True):
                y[i] = out
        outs = [*carry, *ys]
        return outs if len(outs) > 1 else outs[0]

    return Kernel(compute, compute, excess / max([1, *[t.size for t in (*op.in_types, *op.out_types)]]), exact=False)


def _multiplications(op: Op) -> int:
    """How many multiplications a matrix product has; 0 for any other operation."""
    if op.name != "dot_general":
        return 0
    (inner, _), _ = op.params["dimension_numbers"]
    return op.out_types[0].size * math.prod([op.in_types[0].shape[i] for i in inner])


def _broadcast(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    # takes a third of the time of ``broadcast_to``
    out = np.empty(shape, value.dtype)
    out[...] = value
    return out


def with_calls_inlined(graph: Graph) -> Graph:
    """The graph with its calls inlined, unless it becomes too long."""
    while len(graph.nodes) <= LONGEST and any(_called(node.op) is not None for node in graph.nodes):
        builder = Builder(graph.in_types)
        numbers = [*builder.inputs, *map(builder.const, graph.consts)]
        for node in graph.nodes:
            inputs = [numbers[i] for i in node.inputs]
            called = _called(node.op)
            if called is None:
                first = builder.emit(node.op, tuple(inputs), node.source)
                numbers += range(first, first + len(node.op.out_types))
            else:
                numbers += builder.splice(called, inputs)
        graph = builder.finish([numbers[i] for i in graph.outputs])
    return graph


def _called(op: Op) -> Graph | None:
    return op.primitive.called(op.params) if isinstance(op.primitive, Region) and not op.effects else None


def _on_full_shapes(compute: Compute, shapes: Mapping[int, tuple[int, ...]]) -> Compute:
    """A computation on arrays some of which, by their positions, are broadcast to their own shapes first."""

    def on_full_shapes(*xs: Any) -> Any:
        full = [*xs]
        for k, shape in shapes.items():
            full[k] = np.broadcast_to(full[k], shape)
        return compute(*full)

    return on_full_shapes


def _last_uses(lines: Sequence[Line], outputs: Sequence[int], values: Collection[int]) -> dict[int, list[int]]:
    """By the position of a line, which of some values are computed before and not used after it."""
    computed = {i for line in lines for i in line.values}.intersection(values).difference(outputs)
    last: dict[int, int] = {}
    for at, line in enumerate(lines):
        last.update(dict.fromkeys(computed.intersection(line.operands), at))
    ends: dict[int, list[int]] = {}
    for i, at in last.items():
        ends.setdefault(at, []).append(i)
    return ends


def _call(line: Line, scope: dict[str, Any]) -> str:
    """The source of a line, whose computation is entered in the scope."""
    name = f"{line.primitive.replace('-', '_')}_{line.values[0]}"
    scope[name] = line.compute
    results = ", ".join([f"v{i}" for i in line.values])
    out = [] if line.buffer is None else [f"out=v{line.buffer}"]
    return f"    {results} = {name}({', '.join([*[f'v{i}' for i in line.operands], *out])})"


def _function(
    lines: Sequence[Line],
    prepared: Prepared,
    known: Mapping[int, np.ndarray],
    inputs: int,
    outputs: Sequence[int],
    full: Mapping[int, tuple[int, ...]],
    large: Collection[int],
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The lines as generated Python source: a loop over them would take as long as they do.

    Some outputs must still be broadcast to their ``full`` shapes.  ``large`` values are freed after their last use.
    """
    freed = _last_uses(lines, outputs, large) if large else {}
    scope: dict[str, Any] = {"asarray": np.asarray, "broadcast": _broadcast}
    scope |= {f"v{i}": value for i, value in known.items()}
    text = ["def run(values):"]
    if inputs:
        text.append(f"    {', '.join(f'v{i}' for i in range(inputs))}, = values")
    if prepared.lines:
        numbers = [f"v{i}" for i in prepared.numbers]
        results = [f"v{i}" for line in prepared.lines for i in line.values]
        body = [*[_call(line, scope) for line in prepared.lines], *[f"    {v} = asarray({v})" for v in results]]
        returned = f"    return {', '.join([*numbers, *results])}"
        scope["prepare"] = function_of([f"def run({', '.join(numbers)}):", *body, returned], scope, "NumPy program")
        scope["kept"] = [(None,) * len(numbers)]
        text.append("    prepared = kept[0]")
        text.append(f"    if {' or '.join([f'prepared[{k}] is not {v}' for k, v in enumerate(numbers)])}:")
        text.append(f"        prepared = kept[0] = prepare({', '.join(numbers)})")
        text.append(f"    {', '.join([*numbers, *results])} = prepared")
    for at, line in enumerate(lines):
        text.append(_call(line, scope))
        if at in freed:
            text.append(f"    del {', '.join([f'v{i}' for i in freed[at]])}")
    # inputs and constants are returned as they are
    computed = {i for line in lines for i in line.values} | full.keys()
    for i in computed.intersection(outputs):
        # NumPy returns a scalar for an array without axes, and a transposed array is not in C order
        value = f"broadcast(v{i}, {full[i]})" if i in full else f"v{i}"
        text.append(f"    r{i} = asarray({value}, None, 'C')")
        text.append(f"    r{i}.setflags(False)")  # write=False; twice as fast by position
    returned = [f"r{i}" if i in computed else f"v{i}" for i in outputs]
    text.append(f"    return [{', '.join(returned)}]")
    for value in known.values():
        value.setflags(write=False)
    return function_of(text, scope, "NumPy program")
