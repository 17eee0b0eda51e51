"""Short summaries of a graph's values, for display."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fgrad.graph.graph import Graph
from fgrad.jaxcore import Tracer, eval_context
from fgrad.run.executable import run

#: arrays of up to this many elements are shown in full
FEW = 4


def summaries(graph: Graph, values: Sequence[Any]) -> dict[int, str]:
    """Summaries of all values of a graph at some inputs, by number.

    >>> import jax.numpy as jnp
    >>> from fgrad.graph.importing import from_jaxpr
    >>> summaries(from_jaxpr(jax.make_jaxpr(jnp.sin)(jnp.zeros(8))), [jnp.zeros(8)])[1]
    'from 0 to 0, mean 0, norm 0'
    """
    every = Graph(graph.in_types, graph.consts, graph.nodes, tuple(range(len(graph.types))))
    return {i: summary(x) for i, x in enumerate(run(every, values))}


def summary(value: Any) -> str:
    """An array in a few words: its elements, or their range and norm, and how many are not finite."""
    if isinstance(value, Tracer) or value.dtype == jax.dtypes.float0:
        return "no numbers"
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        with eval_context():
            value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":  # bfloat16 and the like
        array = array.astype(np.float32)
    if array.size <= FEW:
        return np.array2string(array, precision=6, separator=", ")
    if array.dtype.kind == "b":
        return f"{np.count_nonzero(array):,} of {array.size:,} true"
    bad = array.size - np.count_nonzero(np.isfinite(array))
    note = f", {np.count_nonzero(np.isnan(array)):,} NaN, {np.count_nonzero(np.isinf(array)):,} infinite" if bad else ""
    finite = array[np.isfinite(array)]
    if not finite.size:
        return note.removeprefix(", ")
    if array.dtype.kind == "c":
        return f"norm {np.linalg.norm(finite):.6g}{note}"
    finite = finite.astype(np.float64)
    extent = f"from {finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.6g}"
    return f"{extent}, norm {np.linalg.norm(finite):.6g}{note}"
