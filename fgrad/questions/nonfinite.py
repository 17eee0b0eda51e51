"""Where does this NaN or Inf come from?"""

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
from fgrad.jaxcore import Tracer, is_inexact, with_x64
from fgrad.passes.local import tangent_type
from fgrad.questions.asked import Asked, asked
from fgrad.questions.blame import trail
from fgrad.questions.culprit import Run
from fgrad.questions.diagnosis import diagnosed
from fgrad.questions.execution import Execution, Frame, quietly
from fgrad.questions.finding import Nonfinite


def nonfinite(fun: Callable[..., Any], argnums: Argnums | None = None) -> Callable[..., Nonfinite]:
    """A function that says where a NaN or Inf in ``fun``, or in its gradient, comes from.

    Arguments:
      fun: a function of pytrees of arrays.  If its output is a scalar, or several of which the first is one, its
        gradient is looked at too; of another output, the gradient of the sum.  It may be what ``grad`` or
        ``value_and_grad`` has returned: then the function that this differentiates is looked at, and its gradient.
      argnums: the positional arguments whose gradients are looked at; all by default.

    Returns:
      A function of the same arguments, which gives a ``Nonfinite``: the first operation, forward or backward, that made
      it of finite numbers, its line, these numbers and where they stand, the way from there to the result, and for
      known traps the mend, which has been tried.  It is false where everything is finite.

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
    return with_x64(_of, question) if question.graph.wide else _of(question)


def _of(question: Asked) -> Nonfinite:
    opened: set[Op] = set()
    run, refused = _run(question, opened, {})
    while bad := run.bad():
        loop = _guilty_loop(run.execution, bad[0][1])
        if loop is None or loop in opened:
            break
        opened.add(loop)
        inside, refused = _run(question, opened, {})
        if not inside.bad():  # rounded otherwise, step by step
            break
        run = inside
    return diagnosed(run, lambda replaced: _run(question, opened, replaced)[0], "jnp", _looked_at(question, refused))


def _guilty_loop(execution: Execution, cell: int) -> Op | None:
    """The loop that made a value not finite, if it was not gone into."""
    event = trail(execution, cell).event
    if event is None:
        return None
    for at in (event.of, event):
        if at is not None and at.op is not None and isinstance(at.op.primitive, Scan | While):
            return at.op
    return None


def _looked_at(question: Asked, refused: str) -> str:
    if refused:
        return f"forward; there is no backward ({refused})"
    if question.derivative or not question.wrt:
        return "the values"
    return f"the values, and the gradient of {question.loss_name}"


def _run(question: Asked, opened: set[Op], replaced: Mapping[int, Graph]) -> tuple[Run, str]:
    """Carry it out, forward and, unless it is a derivative itself, backward; why there is no backward, if so."""
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
    given = frozenset(frame.cells[: question.arguments])
    return Run(execution, results, len(outputs), names_of(frame, question.names), given), refused


def seeds(execution: Execution, question: Asked) -> list[tuple[int, int]]:
    """The values that are differentiated, each with the cell of a cotangent of ones."""
    seeded = []
    for k in question.loss:
        number = question.graph.outputs[k]
        type = tangent_type(question.graph.types[number])
        seeded.append((number, execution.cell(np.ones(type.shape, type.dtype))))
    return seeded


def names_of(frame: Frame, names: tuple[str, ...]) -> dict[int, str]:
    """What the user calls the values of a frame and of those inside it, by cell."""
    by_cell: dict[int, str] = {}
    todo = [(frame, names)]
    known: dict[int, tuple[str, ...]] = {}
    for at, called in todo:
        for cell, name in zip(at.cells, called, strict=True):
            if not name.startswith("%"):
                by_cell.setdefault(cell, name)
        for inner in [one for many in at.inner.values() for one in many]:
            if id(inner.graph) not in known:
                known[id(inner.graph)] = value_names(inner.graph)
            todo.append((inner, known[id(inner.graph)]))
    return by_cell


# -- jax_debug_nans --------------------------------------------------------------------------------------------------


def explain(error: FloatingPointError, graph: Graph, args: Sequence[Any], node: Node) -> None:
    """Add to JAX's error at a NaN or Inf where it comes from, once."""
    if getattr(error, "asked_nonfinite", False) or any(isinstance(x, Tracer) for x in args):
        return
    error.asked_nonfinite = True  # type: ignore[attr-defined]
    at = next(i for i, each in enumerate(graph.nodes) if each is node)
    first = len(graph.in_types) + len(graph.consts) + sum(len(each.op.out_types) for each in graph.nodes[:at])
    made = range(first, first + len(node.op.out_types))
    until = Graph(graph.in_types, graph.consts, graph.nodes[: at + 1], tuple(made))
    names = value_names(graph, [f"input {i}" for i in range(len(graph.in_types))])
    called = tuple([f"the result of {node.op.name}" if names[i].startswith("%") else names[i] for i in made])
    question = Asked(until, list(args), len(args), names[: len(until.types)], called, (), (), True)
    try:
        explanation = quietly(_of, question)
    except Exception:  # what cannot be explained is raised as it was
        return
    if explanation:
        error.args = (f"{error}\n\n{explanation}\n\n{_MORE}",)


_MORE = (
    "fgrad.nonfinite(f)(*args), without jax_debug_nans, says the same of a function with the names of its arguments."
)
