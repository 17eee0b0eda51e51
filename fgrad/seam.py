"""The seam: the names of the core that the mutable layer may use, and no others (``tests/test_architecture.py``)."""

from fgrad.api.rules import define_rule
from fgrad.errors import UndefinedDerivativeError, captured_number
from fgrad.graph.graph import Builder, Const, Graph, evaluate
from fgrad.graph.names import stored_names
from fgrad.graph.op import Op, Region
from fgrad.graph.source import RawSource, Source, here, is_hidden
from fgrad.jaxcore import WIDE, ShapedArray, Tracer, checks_each_primitive, copied, widely
from fgrad.passes.jvp import jvp
from fgrad.passes.local import tangent_type
from fgrad.passes.simplify import simplify
from fgrad.passes.trim import trim
from fgrad.passes.vjp import vjp
from fgrad.record.recording import Stager, stage_closed
from fgrad.run.cache import Cache
from fgrad.run.executable import SILENT, Executable
from fgrad.run.policy import PaceOf, active, operations, pieces

__all__ = [
    "Builder",
    "Cache",
    "Const",
    "Executable",
    "Graph",
    "Op",
    "PaceOf",
    "RawSource",
    "Region",
    "SILENT",
    "ShapedArray",
    "Source",
    "Stager",
    "Tracer",
    "UndefinedDerivativeError",
    "WIDE",
    "active",
    "captured_number",
    "checks_each_primitive",
    "copied",
    "define_rule",
    "evaluate",
    "here",
    "is_hidden",
    "jvp",
    "operations",
    "pieces",
    "simplify",
    "stage_closed",
    "stored_names",
    "tangent_type",
    "trim",
    "vjp",
    "widely",
]
