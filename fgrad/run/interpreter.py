"""Running a graph node by node on values: by NumPy's kernels where there are such, by JAX's primitives elsewhere.

NOTE [NumPy runs what is met first]
JAX compiles each primitive anew for each shape, which takes some 40 ms; the first run of a program spent nearly all its
time so.  So a graph that is met for the first time runs on NumPy's kernels, on the CPU.  What has none (functions of
64-bit numbers that XLA computes better, decompositions, what calls the user's code) goes to JAX, and so does what takes
NumPy longer than compiling it would.
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
#: nanoseconds that NumPy may take longer for one node, and the elements of its largest value
EXCESS, LARGEST = 20_000_000, 1 << 22


def interpret(graph: Graph, args: Sequence[Any], kernel_of: KernelOf) -> list[Any]:
    """The values of a graph's outputs, as arrays of JAX or NumPy; nothing is traced."""
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
    """The results of one operation, as arrays of JAX or NumPy."""
    if op.effects:  # what calls the user's code hands arrays of JAX to it
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
    """How NumPy computes an operation; None if it has no kernel or would take too long."""
    kernel = kernel_of(op)
    largest = max([t.size for t in (*op.in_types, *op.out_types)])
    return None if kernel is None or largest > LARGEST or kernel.excess * largest > EXCESS else kernel.compute


def _broadcast(value: Any, type: ShapedArray) -> np.ndarray:
    """A value with the axes that a kernel leaves to be broadcast."""
    array = np.asarray(value, type.dtype)
    return array if array.shape == type.shape else np.broadcast_to(array, type.shape)


def as_arrays(values: Sequence[Any], types: Sequence[ShapedArray]) -> list[Any]:
    """The results of an interpreted graph as a compiled one would give them: they may be scalars, or NumPy's."""
    return [_as_array(x, t) for x, t in zip(values, types, strict=True)]


def _as_array(value: Any, type: ShapedArray) -> Any:
    if type.dtype == jax.dtypes.float0 or (isinstance(value, jax.Array) and typeof(value).weak_type == type.weak_type):
        return value
    if isinstance(value, np.ndarray) and not type.weak_type:
        return copied(value)
    params = {"new_dtype": type.dtype, "weak_type": type.weak_type, "sharding": None}
    return primitive("convert_element_type").bind(value, **params)


def in_memory(value: Any) -> bool:
    """Whether NumPy can read a value in place, and JAX would put results of it on the same device."""
    if isinstance(value, jax.Array):
        return (
            not isinstance(value, Tracer)
            and type(value.sharding) is SingleDeviceSharding
            and not value.committed
            and next(iter(value.devices())).platform == "cpu"
        )
    return isinstance(value, _NUMBERS)
