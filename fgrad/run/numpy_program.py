"""Graphs of elementwise operations, sums and products on small arrays, as one function of NumPy arrays.

NOTE [NumPy runs what is small]
Handing two matrices of 32x32 to a compiled program and taking its result costs ten times what NumPy takes to multiply
them.  Where graphs are run one by one as the user's statements come (the mutable layer), and not whole, a graph whose
operations all have kernels therefore becomes a function with a line for each.  Making it takes three times as long as
interpreting the graph, so what runs once is interpreted.

What is small is a matter of time: NumPy does what takes it no longer than a compiled program takes to begin.  That
waits for a thread, for all of them where XLA shares the work out, and again for each matrix product that it shares.  So
a layer of 256 units on 128 examples is a small one.  What is not small NumPy may still run while it is new: XLA takes
longer to compile a program than NumPy to run it dozens of times.

NOTE [Memory from the heap]
The C library asks the system for the memory of a large array and gives it back at once, so that each operation pays for
every page anew: an eighth of the time of a denoiser's training step.  It stops doing so for arrays of the size of the
largest that has been freed, up to 32 MiB, so it is shown one, of which no page is ever touched.

Source: the description of ``M_MMAP_THRESHOLD`` in `mallopt(3) <https://man7.org/linux/man-pages/man3/mallopt.3.html>`_.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from fgrad.run.kernels.kernel import SUPPORTED, Compute, Kernel, KernelOf, kernel


@frozen
class NumpyProgram:
    """A graph as a function of NumPy arrays."""

    #: from flat arrays to the flat results, which must not be written
    run: Callable[[Sequence[np.ndarray]], list[np.ndarray]]
    #: extra nanoseconds, compared with a compiled program
    excess: float
    #: the elements of the largest value in it
    largest: int


#: the most operations of a graph that is considered, and
LOOKED_AT = 5000
#: the most elements of any value; no policy: bounds on the time spent here, beyond what any policy accepts
LARGEST = 1 << 22
#: measured costs of this machine's kind, no policy: the nanoseconds of a line, whatever it does;
LINE = 750
#: the launch overhead of a compiled program: alone, and if threads share arrays of this many elements;
BEGUN, SHARED, SHARED_SIZE = 35_000, 150_000, 1 << 15
#: and the overhead of sharing a matrix product of this many multiplications
PRODUCT, PRODUCT_SIZE = 25_000, 1 << 20
#: the bytes of the largest array whose size the C library learns from: see NOTE [Memory from the heap]
FREED = (32 << 20) - (64 << 10)

np.empty(FREED, np.uint8)


def numpy_program(graph: Graph, kernel_of: KernelOf = kernel, most: float = inf) -> NumpyProgram | None:
    """A graph as a function of NumPy arrays; None if an operation has no kernel, or NumPy would take too long."""
    graph = _with_calls_opened(graph)
    if not graph.nodes or len(graph.nodes) > LOOKED_AT or not _is_supported(graph):
        return None
    writer = _Writer(graph)
    for node in graph.nodes:
        found = kernel_of(node.op) or _control_flow(node.op, kernel_of)
        if found is None:
            return None
        writer.write(node, found)
    return writer.program() if writer.excess <= most else None


def _is_supported(graph: Graph) -> bool:
    """Whether all values have types with kernels and are small enough, and no constant is a tracer."""
    supported = all(t.dtype in SUPPORTED and t.size <= LARGEST for t in graph.types)
    return supported and not any(isinstance(const.value, Tracer) for const in graph.consts)


class _Writer:
    """A program under construction: a line for each node that is not constant."""

    def __init__(self, graph: Graph):
        self.graph: Graph = graph
        #: the constant values
        self.known: dict[int, np.ndarray] = {
            i: np.asarray(const.value, const.type.dtype) for i, const in enumerate(graph.consts, len(graph.in_types))
        }
        #: the current shapes of values: NumPy's broadcasting brings them to their full shapes when combined with others
        self.shapes: list[tuple[int, ...]] = [t.shape for t in graph.types[: len(graph.in_types) + len(graph.consts)]]
        #: by their first value
        self.lines: dict[int, Line] = {}
        #: the values of each computation that has a line, and those that stand for equal ones
        self.computed: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.equal: dict[int, int] = {}
        #: how to compute the transpose of a value, if it is a product
        self.transposed: dict[int, Compute] = {}
        self.largest: int = max([t.size for t in graph.types])
        self.excess: float = -_beginning(self.largest)

    def write(self, node: Node, found: Kernel) -> None:
        """Write the line of the next node, unless an equal one exists: derivatives recompute what they need."""
        compute, transposed = found.compute, found.transposed
        inputs = tuple([self.equal.get(i, i) for i in node.inputs])
        shapes = [self.shapes[i] for i in inputs]
        if found.elementwise:
            made = [np.broadcast_shapes(*shapes)]
        else:
            full_shapes = [t.shape for t in node.op.in_types]
            if shapes != full_shapes:
                compute = _of_full(compute, full_shapes)
                transposed = transposed and _of_full(transposed, full_shapes)
            made = [t.shape for t in node.op.out_types] if found.shape is None else [found.shape]
        numbers = tuple(range(len(self.shapes), len(self.shapes) + len(made)))
        self.shapes += made
        if all(i in self.known for i in inputs):
            self._fold(node, numbers, compute)
            return
        primitive, params, in_types = node.op.key[:3]
        # what computes each element does so whatever shape a number among its operands has
        types = [(t.dtype, t.shape) for t in node.op.out_types] if found.elementwise else in_types
        first = self.computed.setdefault((primitive, params, *types, *map(self._operand, inputs)), numbers)
        if first is not numbers:
            self.equal.update(zip(numbers, first, strict=True))
            return
        each = made[0] if found.elementwise and all(s == made[0] or math.prod(s) == 1 for s in shapes) else None
        self.lines[numbers[0]] = Line(numbers, node.op.name, compute, inputs, each, node.op.out_types[0].dtype)
        if transposed is not None:
            self.transposed[numbers[0]] = transposed
        self.excess += LINE + found.excess * max([t.size for t in (*node.op.in_types, *node.op.out_types)])
        if _products(node.op) >= PRODUCT_SIZE:
            self.excess -= PRODUCT

    def _fold(self, node: Node, numbers: tuple[int, ...], compute: Compute) -> None:
        """Fold a node of constants."""
        with np.errstate(all="ignore"):
            value = compute(*[self.known[i] for i in node.inputs])
        for i, x, t in zip(numbers, value if len(numbers) > 1 else [value], node.op.out_types, strict=True):
            self.known[i] = np.array(x, t.dtype, order="C")

    def _operand(self, i: int) -> Any:
        """The key of an operand: its number, or the value of a constant scalar."""
        value = self.known.get(i)
        return i if value is None or value.size > 1 else (value.dtype, value.tobytes())

    def _with_products_transposed(self, outputs: Sequence[int]) -> list[Line]:
        """The lines, with products that are only read transposed computed transposed, which BLAS does at no cost."""
        lines = dict(self.lines)
        reads = Counter(chain(outputs, *[line.operands for line in lines.values()]))
        for number, line in self.lines.items():
            if line.primitive == "transpose" and reads[source := line.operands[0]] == 1 and source in self.transposed:
                product = lines.pop(source)
                lines[number] = evolve(product, values=line.values, compute=self.transposed[source])
        return list(lines.values())

    def program(self) -> NumpyProgram:
        graph = self.graph
        outputs = [self.equal.get(i, i) for i in graph.outputs]
        full = {i: graph.types[i].shape for i in outputs if self.shapes[i] != graph.types[i].shape}
        lines = self._with_products_transposed(outputs)
        if len(lines) > 1 and any(line.each or isinstance(line.compute, np.ufunc) for line in lines):
            lines = in_blocks(lines, self.shapes, outputs)
        run = _function(lines, self.known, len(graph.in_types), outputs, full)
        return NumpyProgram(run, self.excess, self.largest)


def _beginning(largest: int) -> float:
    """The launch overhead, in nanoseconds, of a compiled program whose largest value has this many elements."""
    return SHARED if largest >= SHARED_SIZE else BEGUN


def _control_flow(op: Op, kernel_of: KernelOf) -> Kernel | None:
    """A loop or a branch as Python control flow over NumPy programs."""
    if op.effects:
        return None
    if op.name == "cond":
        return _choice(op, kernel_of)
    return _loop(op, kernel_of) if op.name == "scan" else None


def _choice(op: Op, kernel_of: KernelOf) -> Kernel | None:
    branches = op.params["branches"]
    programs = [p for g in branches if (p := _rearranging(g) or numpy_program(g, kernel_of)) is not None]
    if len(programs) < len(branches):
        return None

    def compute(index: Any, *args: Any) -> Any:
        # copy views: results are made read-only, and may be one of the arguments
        outs = [np.asarray(x)[...] for x in programs[position(index, len(programs))].run(args)]
        return outs if len(outs) > 1 else outs[0]

    excess = max([program.excess + _beginning(program.largest) for program in programs])
    return Kernel(compute, compute, excess / max([1, *[t.size for t in (*op.in_types, *op.out_types)]]), exact=False)


def _rearranging(graph: Graph) -> NumpyProgram | None:
    """The program of a branch that only returns operands."""
    if graph.nodes or graph.consts:
        return None
    return NumpyProgram(lambda values: [values[i] for i in graph.outputs], 0, max([0, *[t.size for t in graph.types]]))


def _loop(op: Op, kernel_of: KernelOf) -> Kernel | None:
    params = op.params
    length, nc, nk = params["length"], params["num_consts"], params["num_carry"]
    body = numpy_program(params["body"], kernel_of)
    if body is None:
        return None
    excess = length * (body.excess + _beginning(body.largest))
    run, stacked = body.run, op.out_types[nk:]
    dtypes = [t.dtype for t in params["body"].out_types[:nk]]
    turns = range(length)[::-1] if params["reverse"] else range(length)

    def compute(*args: Any) -> Any:
        # BLAS would copy a transposed factor at every iteration
        consts, xs = [np.asarray(x, order="C") for x in args[:nc]], args[nc + nk :]
        # views: what is returned is made read-only, and a carry may be one of the arguments still
        carry = [np.asarray(x, dtype)[...] for x, dtype in zip(args[nc:], dtypes, strict=False)]
        ys = [np.empty(t.shape, t.dtype) for t in stacked]
        for i in turns:
            outs = run([*consts, *carry, *[x[i, ...] for x in xs]])
            carry = outs[:nk]
            for y, out in zip(ys, outs[nk:], strict=True):
                y[i] = out
        found = [*carry, *ys]
        return found if len(found) > 1 else found[0]

    return Kernel(compute, compute, excess / max([1, *[t.size for t in (*op.in_types, *op.out_types)]]), exact=False)


def _products(op: Op) -> int:
    """How many multiplications a matrix product has; 0 for any other operation."""
    if op.name != "dot_general":
        return 0
    (inner, _), _ = op.params["dimension_numbers"]
    return op.out_types[0].size * math.prod([op.in_types[0].shape[i] for i in inner])


def _spread(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    # in a third of the time that ``broadcast_to`` takes
    out = np.empty(shape, value.dtype)
    out[...] = value
    return out


def _with_calls_opened(graph: Graph) -> Graph:
    """The graph with its calls inlined, unless it becomes too long."""
    while len(graph.nodes) <= LOOKED_AT and any(_called(node.op) is not None for node in graph.nodes):
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


def _of_full(compute: Compute, shapes: Sequence[tuple[int, ...]]) -> Compute:
    """A computation on arrays that are broadcast to their own shapes first."""
    return lambda *xs: compute(*map(np.broadcast_to, xs, shapes))


def _function(
    lines: Sequence[Line],
    known: Mapping[int, np.ndarray],
    inputs: int,
    outputs: Sequence[int],
    full: Mapping[int, tuple[int, ...]],
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """The lines as a function, generated as Python source: a loop over them would take as long as they do.

    Some outputs must still be broadcast to their ``full`` shapes.
    """
    scope: dict[str, Any] = {"asarray": np.asarray, "spread": _spread}
    scope |= {f"v{i}": value for i, value in known.items()}
    text = ["def run(values):"]
    if inputs:
        text.append(f"    {', '.join(f'v{i}' for i in range(inputs))}, = values")
    for line in lines:
        name = f"{line.primitive.replace('-', '_')}_{line.values[0]}"
        scope[name] = line.compute
        results = ", ".join([f"v{i}" for i in line.values])
        into = [] if line.over is None else [f"out=v{line.over}"]
        text.append(f"    {results} = {name}({', '.join([*[f'v{i}' for i in line.operands], *into])})")
    # the other outputs, which are not computed anew, are returned as they are
    made = {i for line in lines for i in line.values} | full.keys()
    for i in made.intersection(outputs):
        # NumPy gives a scalar for an array without axes, and what is transposed lies so in memory
        value = f"spread(v{i}, {full[i]})" if i in full else f"v{i}"
        text.append(f"    r{i} = asarray({value}, None, 'C')")
        text.append(f"    r{i}.setflags(False)")  # no write; by position, in half the time
    returned = [f"r{i}" if i in made else f"v{i}" for i in outputs]
    text.append(f"    return [{', '.join(returned)}]")
    for value in known.values():
        value.setflags(write=False)
    return function_of(text, scope, "NumPy program")
