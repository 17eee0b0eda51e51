"""Running a graph node by node on values: by NumPy where it gives the same bits, by JAX's primitives elsewhere."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from fgrad.graph.graph import Graph, evaluate, last_uses
from fgrad.graph.op import Region
from fgrad.jaxcore import Tracer, checks_each_primitive, copied
from fgrad.run.numbers import computation

_NUMBERS = (bool, int, float, complex, np.generic, np.ndarray)


def interpret(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The values of a graph's outputs, as arrays of JAX or NumPy; nothing is traced.

    See NOTE [NumPy runs what is met first].
    """
    values: list[Any] = [*args, *(const.value for const in graph.consts)]
    if checks_each_primitive() or not all(map(in_memory, values)):
        return evaluate(graph, args)
    values += [None] * (len(graph.types) - len(values))
    number = len(args) + len(graph.consts)
    with np.errstate(all="ignore"):
        for node, dead in zip(graph.nodes, last_uses(graph), strict=True):
            inputs = [values[i] for i in node.inputs]
            if node.op.effects:  # what calls the user's code hands arrays of JAX to it
                inputs = [copied(x) if isinstance(x, np.ndarray) else x for x in inputs]
            called = node.op.primitive.called(node.op.params) if isinstance(node.op.primitive, Region) else None
            if called is not None:
                outs: Sequence[Any] = interpret(called, inputs)
            elif (compute := computation(node.op)) is None:
                outs = node.op.bind(inputs)
            else:
                found = compute(*[np.asarray(x, t.dtype) for x, t in zip(inputs, node.op.in_types, strict=True)])
                outs = found if isinstance(found, list) else (np.asarray(found, node.op.out_types[0].dtype),)
            for out in outs:
                values[number] = out
                number += 1
            for i in dead:
                values[i] = None
    return [values[i] for i in graph.outputs]


def in_memory(value: Any) -> bool:
    """Whether NumPy can read a value where it is, and JAX would put what is computed from it back there."""
    if isinstance(value, jax.Array):
        return (
            not isinstance(value, Tracer)
            and type(value.sharding) is SingleDeviceSharding
            and not value.committed
            and next(iter(value.devices())).platform == "cpu"
        )
    return isinstance(value, _NUMBERS)
