"""The seam: the names of the core that the mutable layer may use, and no others (``tests/test_architecture.py``)."""

from fgrad.api.by_name import graph_by_name
from fgrad.api.custom import custom_jvp
from fgrad.api.rules import define_rule
from fgrad.errors import CaptureError, UndefinedDerivativeError, shown
from fgrad.graph.answer import Answer, Records, Table
from fgrad.graph.graph import Builder, Const, Graph, Node, evaluate, unsourced
from fgrad.graph.labels import labelled
from fgrad.graph.names import stored_names
from fgrad.graph.op import Op, Region, intern
from fgrad.graph.source import RawSource, Source, here, is_hidden
from fgrad.graph.text import dtype_text
from fgrad.graph.unrecorded import unrecorded
from fgrad.jaxcore import WIDE, ShapedArray, Tracer, checks_each_primitive, copied, widely
from fgrad.passes.jvp import jvp
from fgrad.passes.local import tangent_type
from fgrad.passes.simplify import simplify
from fgrad.passes.trim import needed_inputs, trim
from fgrad.passes.vjp import vjp
from fgrad.questions.culprit import Run, main_event
from fgrad.questions.diagnosis import diagnosed
from fgrad.questions.draw import Drawing, drawing_of
from fgrad.questions.execution import Event, Execution, Frame, quietly
from fgrad.questions.finding import Nonfinite
from fgrad.questions.residuals import Reader, Residual, Residuals, numbered
from fgrad.record.recording import CONST, INPUT, LITERAL, Stager, stage_closed
from fgrad.run.cache import Cache
from fgrad.run.executable import SILENT, Executable, bind
from fgrad.run.policy import PaceOf, active, operations, pieces

__all__ = [
    "Answer",
    "Builder",
    "Cache",
    "CONST",
    "CaptureError",
    "Const",
    "Event",
    "Drawing",
    "Executable",
    "Execution",
    "Frame",
    "Graph",
    "INPUT",
    "LITERAL",
    "Node",
    "Nonfinite",
    "Op",
    "PaceOf",
    "RawSource",
    "Reader",
    "Region",
    "Records",
    "Residual",
    "Residuals",
    "Run",
    "SILENT",
    "ShapedArray",
    "Source",
    "Stager",
    "Table",
    "Tracer",
    "UndefinedDerivativeError",
    "WIDE",
    "active",
    "bind",
    "checks_each_primitive",
    "copied",
    "custom_jvp",
    "define_rule",
    "drawing_of",
    "dtype_text",
    "diagnosed",
    "evaluate",
    "graph_by_name",
    "here",
    "intern",
    "is_hidden",
    "jvp",
    "labelled",
    "main_event",
    "needed_inputs",
    "numbered",
    "operations",
    "pieces",
    "quietly",
    "shown",
    "simplify",
    "stage_closed",
    "stored_names",
    "tangent_type",
    "trim",
    "unrecorded",
    "unsourced",
    "vjp",
    "widely",
]
