"""The seam: the names of the core that the mutable layer may use, and no others (``tests/test_architecture.py``)."""

from typing import TYPE_CHECKING

from fgrad.api.custom import custom_jvp
from fgrad.api.rules import define_rule
from fgrad.deferred import deferred
from fgrad.errors import CaptureError, UndefinedDerivativeError, shown
from fgrad.graph.family import LARGEST, SMALLEST, Family, is_symbolic, symbols
from fgrad.graph.graph import Builder, Const, Graph, Node, evaluate, labelled, unsourced
from fgrad.graph.likeness import calls_alike
from fgrad.graph.op import Op, Region, intern
from fgrad.graph.port import Port
from fgrad.graph.source import RawSource, Source, here, hide_frames, is_hidden, visible
from fgrad.jaxcore import WIDE, ShapedArray, Tracer, checks_each_primitive, copied, primitive, with_x64
from fgrad.passes.jvp import jvp
from fgrad.passes.local import tangent_type
from fgrad.passes.simplify import simplify
from fgrad.passes.trim import needed_inputs, trim
from fgrad.passes.vjp import vjp
from fgrad.record.recording import CONST, INPUT, LITERAL
from fgrad.record.stager import Stager, stage_closed
from fgrad.run.cache import Cache
from fgrad.run.deferral import may_wait
from fgrad.run.executable import SILENT, Executable, bind
from fgrad.run.interpreter import in_memory
from fgrad.run.overwriting import Call, Overwriting, make_calls, overwriting
from fgrad.run.policy import PaceOf, Policy, active, backwards, on_accelerators, operations, pieces
from fgrad.run.prices import Size, prices
from fgrad.run.replacement import Places, replacement

#: what only the answers to questions need
if TYPE_CHECKING:
    from fgrad.api.by_name import graph_by_name
    from fgrad.graph.answer import Answer, Records, Table
    from fgrad.graph.named_call import named_call
    from fgrad.graph.names import stored_names
    from fgrad.graph.text import dtype_text
    from fgrad.questions.culprit import Run, main_event
    from fgrad.questions.diagnosis import diagnosed
    from fgrad.questions.draw import Drawing, drawing_of
    from fgrad.questions.execution import Event, Execution, Frame, quietly
    from fgrad.questions.finding import Nonfinite
    from fgrad.questions.residuals import Reader, Residual, Residuals, numbered
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            "fgrad.api.by_name": "graph_by_name",
            "fgrad.graph.answer": "Answer Records Table",
            "fgrad.graph.named_call": "named_call",
            "fgrad.graph.names": "stored_names",
            "fgrad.graph.text": "dtype_text",
            "fgrad.questions.culprit": "Run main_event",
            "fgrad.questions.diagnosis": "diagnosed",
            "fgrad.questions.draw": "Drawing drawing_of",
            "fgrad.questions.execution": "Event Execution Frame quietly",
            "fgrad.questions.finding": "Nonfinite",
            "fgrad.questions.residuals": "Reader Residual Residuals numbered",
        },
    )

__all__ = [
    "Answer",
    "Builder",
    "Cache",
    "CONST",
    "Call",
    "CaptureError",
    "Const",
    "Event",
    "Drawing",
    "Executable",
    "Execution",
    "Family",
    "Frame",
    "Graph",
    "INPUT",
    "LARGEST",
    "LITERAL",
    "Node",
    "Nonfinite",
    "Op",
    "Overwriting",
    "PaceOf",
    "Policy",
    "Places",
    "Port",
    "RawSource",
    "Reader",
    "Region",
    "Records",
    "Residual",
    "Residuals",
    "Run",
    "SILENT",
    "SMALLEST",
    "ShapedArray",
    "Size",
    "Source",
    "Stager",
    "Table",
    "Tracer",
    "UndefinedDerivativeError",
    "WIDE",
    "active",
    "backwards",
    "bind",
    "calls_alike",
    "checks_each_primitive",
    "copied",
    "custom_jvp",
    "deferred",
    "define_rule",
    "drawing_of",
    "dtype_text",
    "diagnosed",
    "evaluate",
    "graph_by_name",
    "here",
    "hide_frames",
    "in_memory",
    "intern",
    "is_hidden",
    "is_symbolic",
    "jvp",
    "labelled",
    "main_event",
    "make_calls",
    "may_wait",
    "named_call",
    "needed_inputs",
    "numbered",
    "on_accelerators",
    "operations",
    "overwriting",
    "primitive",
    "pieces",
    "prices",
    "quietly",
    "replacement",
    "shown",
    "simplify",
    "stage_closed",
    "stored_names",
    "symbols",
    "tangent_type",
    "trim",
    "unsourced",
    "visible",
    "vjp",
    "with_x64",
]
