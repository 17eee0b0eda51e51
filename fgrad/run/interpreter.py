"""Running a graph node by node: by NumPy kernels where they exist, else by JAX's primitives.

NOTE [NumPy does the first run]
JAX compiles each primitive for each shape, which takes some 40 ms and would be nearly all the time of a program's first
run.  So a new graph runs on NumPy kernels, on the CPU.  Operations without one (64-bit functions that XLA
computes better, calls of the user's code) go to JAX, and so do those that take NumPy longer than compiling would.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from fgrad.graph.graph import Graph, evaluate, last_uses
from fgrad.graph.op import Op, Region
from fgrad.graph.regions import Cond, position
from fgrad.jaxcore import ShapedArray, Tracer, checks_each_primitive, copied, primitive, typeof
from fgrad.run.kernels.kernel import Compute, KernelOf

_NUMBERS = (bool, int, float, complex, np.generic, np.ndarray)
#: the extra nanoseconds that NumPy may take for one node, and the elements of its largest value.  No policy: half of
#: the time that JAX takes to compile one primitive, whichever back end runs the graph later
EXCESS, LARGEST = 20_000_000, 1 << 22


def interpret(graph: Graph, args: Sequence[Any], kernel_of: KernelOf) -> list[Any]:
    """The values of a graph's outputs, as JAX or NumPy arrays; no argument is a tracer."""
    values: list[Any] = [*args, *(const.value for const in graph.consts)]
    if checks_each_primitive() or not all(map(in_memory, values)):
        return evaluate(graph, args)
    values += [None] * (len(graph.types) - len(values))
    number = len(args) + len(graph.consts)
    with np.errstate(all="ignore"):
        for node, dead in zip(graph.nodes, last_uses(graph), strict=True):
            outs = outputs(node.op, [values[i] for i in node.inputs], kernel_of)
            for out in outs:
                values[number] = out
                number += 1
            for i in dead:
                values[i] = None
    return [values[i] for i in graph.outputs]


def outputs(op: Op, inputs: Sequence[Any], kernel_of: KernelOf) -> Sequence[Any]:
    """The results of one operation, as JAX or NumPy arrays."""
    if op.effects:  # the user's code is passed JAX arrays
        inputs = [copied(x) if isinstance(x, np.ndarray) else x for x in inputs]
    if isinstance(op.primitive, Cond):
        branches = op.params["branches"]
        return interpret(branches[position(np.asarray(inputs[0]), len(branches))], inputs[1:], kernel_of)
    called = op.primitive.called(op.params) if isinstance(op.primitive, Region) else None
    if called is not None:
        return interpret(called, inputs, kernel_of)
    compute = _compute(op, kernel_of)
    if compute is None:
        return op.bind(inputs)
    result = compute(*[np.asarray(x, t.dtype) for x, t in zip(inputs, op.in_types, strict=True)])
    return result if isinstance(result, list) else (_broadcast(result, op.out_types[0]),)


def _compute(op: Op, kernel_of: KernelOf) -> Compute | None:
    """The NumPy computation of an operation; None if there is no kernel or it would take too long."""
    kernel = kernel_of(op)
    largest = max([t.size for t in (*op.in_types, *op.out_types)])
    return None if kernel is None or largest > LARGEST or kernel.excess * largest > EXCESS else kernel.compute


def _broadcast(value: Any, type: ShapedArray) -> np.ndarray:
    """A value broadcast to its full shape, which kernels may leave undone."""
    array = np.asarray(value, type.dtype)
    return array if array.shape == type.shape else np.broadcast_to(array, type.shape)


def as_arrays(values: Sequence[Any], types: Sequence[ShapedArray]) -> list[Any]:
    """The results of an interpreted graph as JAX arrays, as a compiled program returns them."""
    return [_as_array(x, t) for x, t in zip(values, types, strict=True)]


def _as_array(value: Any, type: ShapedArray) -> Any:
    if type.dtype == jax.dtypes.float0 or (isinstance(value, jax.Array) and typeof(value).weak_type == type.weak_type):
        return value
    if isinstance(value, np.ndarray) and not type.weak_type:
        return copied(value)
    params = {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}
    return primitive("convert_element_type").bind(value, **params)


def in_memory(value: Any) -> bool:
    """Whether NumPy can read a value in place, and JAX would put the results on the same device."""
    if isinstance(value, jax.Array):
        return (
            not isinstance(value, Tracer)
            and type(value.sharding) is SingleDeviceSharding
            and not value.committed
            and next(iter(value.devices())).platform == "cpu"
        )
    return isinstance(value, _NUMBERS)
