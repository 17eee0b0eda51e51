"""Derivatives of regions, made from the derivatives of their bodies: one file per kind of region.

Each is imported when its rule is first asked for.
"""

from fgrad.graph.foreign import foreign_linear
from fgrad.graph.linear_regions import only_transposed
from fgrad.passes.dependence import FOREIGN
from fgrad.rules.kinds import RULES

RULES.defer(
    __name__,
    {
        "branches": ("cond",),
        "custom": ("custom_jvp", "custom_vjp", only_transposed),
        "foreign": (FOREIGN, foreign_linear),
        "linear": ("linear_call",),
        "loops": ("scan", "while"),
        "mapped": ("custom_vmap",),
        "named_calls": ("named_call",),
        "opaques": ("opaque", "python_call"),
        "rematerialised": ("remat",),
        "sharded": ("shard_map",),
        "solves": ("custom_linear_solve",),
    },
)
