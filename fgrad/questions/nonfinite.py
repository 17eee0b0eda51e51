"""``nonfinite``: where a NaN or Inf comes from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.api.arguments import Argnums
from fgrad.graph.graph import Graph, Node
from fgrad.graph.names import value_names
from fgrad.graph.op import Op
from fgrad.graph.regions import Scan, While
from fgrad.graph.source import boundary
from fgrad.jaxcore import Tracer, with_x64
from fgrad.jaxtypes import is_inexact
from fgrad.passes.local import tangent_type
from fgrad.questions.asked import Asked, asked
from fgrad.questions.blame import trail
from fgrad.questions.culprit import Run
from fgrad.questions.diagnosis import diagnosed
from fgrad.questions.execution import Execution, Frame, quietly
from fgrad.questions.finding import Nonfinite


def nonfinite(fun: Callable[..., Any], argnums: Argnums | None = None) -> Callable[..., Nonfinite]:
    """A function that finds out where a NaN or Inf in ``fun``, or in its gradient, comes from.

    Arguments:
      fun: a function of pytrees of arrays.  If its output is a scalar, or the first of several is one, its gradient is
        examined too; otherwise the gradient of the sum.  For a result of ``grad`` or ``value_and_grad``, the function
        that it differentiates is examined, and its gradient.
      argnums: the positional arguments whose gradients are examined; all by default.

    Returns:
      A function of the same arguments that returns a ``Nonfinite``: the first operation, forward or backward, that
      produced it from finite numbers, its line, these numbers and their indices, the path from there to the result, and
      for known traps a fix, which has been tried.  It is false if everything is finite.

    Raises:
      TypeError: an argument is being traced, so that it has no numbers.

    >>> import fgrad, jax.numpy as jnp
    >>> def loss(x):
    ...     root = jnp.where(x > 0.0, jnp.sqrt(x), 0.0)
    ...     return jnp.sum(root)
    >>> cause = fgrad.nonfinite(loss)(jnp.array([4.0, 0.0]))
    >>> cause.phase, cause.operation, cause.places[0].index, cause.mend.checked
    ('backward', 'sqrt', (1,), True)
    >>> bool(fgrad.nonfinite(loss)(jnp.array([4.0, 1.0])))
    False
    """

    @boundary
    def asking(*args: Any, **kwargs: Any) -> Nonfinite:
        return quietly(_answer, fun, args, kwargs, argnums)

    return asking


def _answer(fun: Callable[..., Any], args: Any, kwargs: Any, argnums: Any) -> Nonfinite:
    question = asked(fun, args, kwargs, argnums, "nonfinite")
    return with_x64(_diagnose, question) if question.graph.wide else _diagnose(question)


def _diagnose(question: Asked) -> Nonfinite:
    opened: set[Op] = set()
    run, refused = _run(question, opened, {})
    while bad := run.bad():
        loop = _faulty_loop(run.execution, bad[0][1])
        if loop is None or loop in opened:
            break
        opened.add(loop)
        inside, refused = _run(question, opened, {})
        if not inside.bad():  # rounding differs step by step
            break
        run = inside
    return diagnosed(run, lambda replaced: _run(question, opened, replaced)[0], "jnp", _examined(question, refused))


def _faulty_loop(execution: Execution, cell: int) -> Op | None:
    """The loop that produced a non-finite value, if it was executed as one event."""
    event = trail(execution, cell).event
    if event is None:
        return None
    for candidate in (event.of, event):
        op = None if candidate is None else candidate.op
        if op is not None and isinstance(op.primitive, Scan | While):
            return op
    return None


def _examined(question: Asked, refused: str) -> str:
    if refused:
        return f"forward; there is no backward ({refused})"
    if question.derivative or not question.wrt:
        return "the values"
    return f"the values, and the gradient of {question.loss_name}"


def _run(question: Asked, opened: set[Op], replaced: Mapping[int, Graph]) -> tuple[Run, str]:
    """Execute it forward and, unless it is a derivative itself, backward; and why there is no backward, if so."""
    graph = question.graph
    execution = Execution(opened, replaced)
    frame = execution.run(graph, [execution.cell(value) for value in question.values])
    outputs = [
        (question.outputs[k], frame.cells[number])
        for k, number in enumerate(graph.outputs)
        if is_inexact(graph.types[number])
    ]
    results, refused = list(outputs), ""
    if question.loss and question.wrt and not question.derivative:
        try:
            cts = execution.pull(frame, seeds(execution, question), question.wrt)
            results += [(f"d {question.loss_name} / d {question.names[i]}", cell) for i, cell in cts.items()]
        except errors.REFUSALS as error:
            refused = str(error).split("\n")[0]
    arguments = frozenset(frame.cells[: question.arguments])
    return Run(execution, results, len(outputs), names_of(frame, question.names), arguments), refused


def seeds(execution: Execution, question: Asked) -> list[tuple[int, int]]:
    """The differentiated values, each with the cell of a cotangent of ones."""
    seeded = []
    for k in question.loss:
        number = question.graph.outputs[k]
        type = tangent_type(question.graph.types[number])
        seeded.append((number, execution.cell(np.ones(type.shape, type.dtype))))
    return seeded


def names_of(frame: Frame, names: tuple[str, ...]) -> dict[int, str]:
    """The user's names for the values of a frame and its inner frames, by cell."""
    by_cell: dict[int, str] = {}
    todo = [(frame, names)]
    known: dict[int, tuple[str, ...]] = {}
    for outer, outer_names in todo:
        for cell, name in zip(outer.cells, outer_names, strict=True):
            if not name.startswith("%"):
                by_cell.setdefault(cell, name)
        for inner in [inner for frames in outer.inner.values() for inner in frames]:
            if id(inner.graph) not in known:
                known[id(inner.graph)] = value_names(inner.graph)
            todo.append((inner, known[id(inner.graph)]))
    return by_cell


# -- jax_debug_nans --------------------------------------------------------------------------------------------------


def explain(error: FloatingPointError, graph: Graph, args: Sequence[Any], node: Node) -> None:
    """Add the origin of a NaN or Inf to JAX's error, once."""
    if getattr(error, "asked_nonfinite", False) or any(isinstance(x, Tracer) for x in args):
        return
    error.asked_nonfinite = True  # type: ignore[attr-defined]
    position = next(i for i, other in enumerate(graph.nodes) if other is node)
    first = len(graph.in_types) + len(graph.consts) + sum(len(other.op.out_types) for other in graph.nodes[:position])
    outs = range(first, first + len(node.op.out_types))
    up_to_node = Graph(graph.in_types, graph.consts, graph.nodes[: position + 1], tuple(outs))
    names = value_names(graph, [f"input {i}" for i in range(len(graph.in_types))])
    called = tuple([f"the result of {node.op.name}" if names[i].startswith("%") else names[i] for i in outs])
    question = Asked(up_to_node, list(args), len(args), names[: len(up_to_node.types)], called, (), (), True)
    try:
        explanation = quietly(_diagnose, question)
    except Exception:  # without an explanation the error is raised unchanged
        return
    if explanation:
        error.args = (f"{error}\n\n{explanation}\n\n{_MORE}",)


_MORE = (
    "fgrad.nonfinite(f)(*args), without jax_debug_nans, says the same of a function with the names of its arguments."
)
