"""``shard_map``: a function of the parts of arrays that lie on the devices of a mesh.

The types of values in its body say along which axes of the mesh they vary, and collectives have a meaning there only.
So its derivatives are worked out while JAX traces a ``shard_map``, by ``sharded_graph`` for any function of parts.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from fgrad.graph.graph import Graph, evaluate
from fgrad.graph.importing import IMPORTERS, from_jaxpr
from fgrad.graph.op import Op, Region, intern
from fgrad.jaxcore import ShapedArray


class ShardMap(Region):
    """``body`` on each device's part of the inputs.

    Parameters: ``body``; ``mesh``; ``in_specs`` and ``out_specs``, how inputs and outputs lie on it; ``check``, whether
    types say what varies; ``axes``, the axes of the mesh that are mapped.
    """

    name = "shard_map"

    def run(self, params: dict[str, Any], args: Sequence[Any]) -> Sequence[Any]:
        body = params["body"]
        return sharded(params, lambda *xs: evaluate(body, xs), params["in_specs"], params["out_specs"])(*args)

    def infer(self, params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        return _traced(lambda *xs: self.run(params, xs), in_types).out_avals

    def has_effects(self, params: dict[str, Any]) -> bool:
        return params["body"].effects


def sharded(
    params: dict[str, Any],
    function: Callable[..., Sequence[Any]],
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
) -> Callable[..., Sequence[Any]]:
    """A flat function of parts as one of whole arrays, on the mesh and axes of a ``ShardMap``."""
    mesh = params["mesh"]
    call = jax.shard_map(
        lambda *xs: tuple(function(*xs)), mesh=mesh, in_specs=tuple(in_specs), out_specs=tuple(out_specs),
        axis_names=params["axes"], check_vma=params["check"],
    )  # fmt: skip
    if jax.sharding.AxisType.Explicit not in mesh.axis_types:
        return call
    # the sharding of a value is part of its type then, and that of a cotangent may be another than its value's
    return lambda *args: call(
        *[jax.sharding.reshard(x, NamedSharding(mesh, spec)) for x, spec in zip(args, in_specs, strict=True)]
    )


def sharded_graph(
    params: dict[str, Any],
    function: Callable[..., Sequence[Any]],
    in_types: Sequence[ShapedArray],
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
) -> Graph:
    """The graph of ``sharded(function)``; the function is called while JAX traces it, on the parts' types."""
    return from_jaxpr(_traced(sharded(params, function, in_specs, out_specs), in_types))


def _traced(function: Callable[..., Any], types: Sequence[ShapedArray]) -> Any:
    return jax.make_jaxpr(function)(*types)


def _import(params: dict[str, Any], in_types: Sequence[ShapedArray]) -> Op:
    new = {
        "body": from_jaxpr(params["jaxpr"]), "mesh": params["mesh"],
        "in_specs": tuple(params["in_specs"]), "out_specs": tuple(params["out_specs"]),
        "check": params["check_vma"], "axes": params["newly_manual_axes"],
    }  # fmt: skip
    return intern(shard_map, new, in_types)


shard_map: ShardMap = ShardMap()
IMPORTERS["shard_map"] = _import
