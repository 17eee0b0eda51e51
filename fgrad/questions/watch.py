"""``watch``: the values and cotangents of a function's variables, by name or by line."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from fgrad import errors
from fgrad.api.arguments import Argnums
from fgrad.graph.answer import Records, Table
from fgrad.graph.graph import Graph
from fgrad.graph.names import runs, value_names
from fgrad.graph.op import Op
from fgrad.graph.regions import Scan, While
from fgrad.graph.source import Source, boundary
from fgrad.graph.text import type_text
from fgrad.jaxcore import typeof, with_x64
from fgrad.questions.asked import Asked, asked
from fgrad.questions.execution import Execution, Frame, bodies, numbers, quietly
from fgrad.questions.nonfinite import seeds

#: how many elements of a value are shown
SHOWN = 4


@frozen(eq=False)
class Record:
    """One value of a run.

    Attributes:
      name: the user's name for it.
      value: the array.
      cotangent: the derivative of the output with respect to it; None if the output does not depend on it.
      source: the user's line that computed it; None for an argument.
      steps: the index of the step in each loop around it, outermost first.
    """

    name: str
    value: Any
    cotangent: Any
    source: Source | None
    steps: tuple[int, ...]


@frozen(repr=False, str=False)
class Watched(Records):
    """For each watched name or line the records in order, one for each time it was computed.

    Attributes:
      of: the output of which the cotangents are derivatives.
      records: the records by name or line.
      refused: why there are no cotangents, if so.
    """

    of: str
    records: dict[str, list[Record]]
    refused: str = ""

    def parts(self) -> Iterator[str | Table]:
        rows = [
            (
                record.name,
                ", ".join(map(str, record.steps)),
                type_text(typeof(record.value)),
                _shown(record.value),
                "-" if record.cotangent is None else _shown(record.cotangent),
                "an argument" if record.source is None else str(record.source),
            )
            for record in self.findings()
        ]
        yield Table(("name", "step", "type", "value", f"d {self.of} / d it", "line"), rows)
        if self.refused:
            yield f"There are no cotangents: {self.refused}"


def _shown(value: Any) -> str:
    array = numbers(value).reshape(-1)
    elements = " ".join(f"{x:.4g}" if array.dtype.kind in "fc" else str(x) for x in array[:SHOWN])
    if array.size <= SHOWN:
        return elements if np.ndim(value) == 0 else f"[{elements}]"
    if array.dtype.kind != "f":
        return f"[{elements} ...]"
    return f"[{elements} ...] norm {np.linalg.norm(array.astype(np.float64)):.4g}"


def watch(fun: Callable[..., Any], *names: str | int, argnums: Argnums | None = None) -> Callable[..., Watched]:
    """A function that returns values inside ``fun``, and the derivatives of its output with respect to them.

    The code of ``fun`` need not change.

    Arguments:
      fun: a function of pytrees of arrays.  Its output is differentiated if it is a scalar, or the first of several if
        that is one, else their sum.  For a result of ``grad`` or ``value_and_grad``, the function behind it is watched.
      names: variables of the code (``"h"``, ``"self.h"``), paths of arguments (``"params['w']"``), or lines of its
        file (numbers, or texts such as ``"model.py:12"``).  Without any, all variables are watched.
      argnums: the positional arguments to which cotangents flow; all by default.

    Returns:
      A function of the same arguments that returns a ``Watched``: a mapping from each of ``names`` to a list of
      records with ``value``, ``cotangent``, ``source`` and ``steps``.  A variable of a loop has a record for each step.

    Raises:
      TypeError: an argument is being traced, so that it has no numbers.
      NameError: there is no such variable or line; the message lists those that there are.

    >>> import fgrad, jax.numpy as jnp
    >>> def loss(w, x):
    ...     h = jnp.tanh(w * x)
    ...     return jnp.sum(h ** 2)
    >>> seen = fgrad.watch(loss, "h")(0.5, jnp.array([1.0, 2.0]))
    >>> record, = seen["h"]
    >>> print(record.value, record.cotangent)
    [0.46211717 0.7615942 ] [0.92423433 1.5231884 ]
    """

    @boundary
    def watching(*args: Any, **kwargs: Any) -> Watched:
        return quietly(_answer, fun, names, args, kwargs, argnums)

    return watching


def _answer(fun: Callable[..., Any], names: Sequence[str | int], args: Any, kwargs: Any, argnums: Any) -> Watched:
    question = asked(fun, args, kwargs, argnums, "watch")
    return with_x64(_of, question, names) if question.graph.wide else _of(question, names)


def _of(question: Asked, names: Sequence[str | int]) -> Watched:
    known = _known(question.graph, question.names)
    chosen = list(map(str, names)) if names else list(dict.fromkeys(_plain_names(known)))
    matched = {name: [_matches(name, *each) for each in known] for name in chosen}
    for name, values in matched.items():
        if not any(map(any, values)):
            raise _unknown(name, known)
    wanted = {
        id(graph): {name: values[k] for name, values in matched.items() if any(values[k])}
        for k, (graph, _, _) in enumerate(known)
    }
    execution = Execution(_to_open(question.graph, {id(g) for g, _, _ in known if wanted[id(g)]}))
    frame = execution.run(question.graph, [execution.cell(value) for value in question.values])
    refused = ""
    if question.loss and question.wrt:
        try:
            execution.pull(frame, seeds(execution, question), question.wrt)
        except errors.REFUSALS as error:
            refused = str(error).split("\n")[0]
    names_of = {id(graph): called for graph, called, _ in known}
    records: dict[str, list[Record]] = {name: [] for name in chosen}
    for inner, steps in _frames(frame):
        for name, numbers_of in wanted.get(id(inner.graph), {}).items():
            for number, watched in enumerate(numbers_of):
                if watched:
                    records[name].append(_record(execution, inner, number, names_of[id(inner.graph)][number], steps))
    return Watched(question.loss_name, records, refused)


#: a graph, the names of its values, and the user's lines that computed them
Known = tuple[Graph, tuple[str, ...], list[Source | None]]


def _known(graph: Graph, names: Sequence[str]) -> list[Known]:
    """The graph and the graphs inside that get frames of their own, outermost first."""
    graphs: list[Known] = [(graph, tuple(names), _sources(graph))]
    seen = {id(graph)}
    for outer, _, _ in graphs:
        for node in outer.nodes:
            for body in bodies(node.op):
                if id(body) not in seen:
                    seen.add(id(body))
                    graphs.append((body, value_names(body), _sources(body)))
    return graphs


def _sources(graph: Graph) -> list[Source | None]:
    """The line of each value that is the result of a user's instruction, None for intermediate values."""
    sources: list[Source | None] = [None] * len(graph.types)
    for values, source in runs(graph):
        if values:
            sources[values[-1]] = source
    number = len(graph.in_types) + len(graph.consts)
    for node in graph.nodes:
        for k in range(len(node.op.out_types)):
            if node.source is not None and (len(node.op.out_types) > 1):
                sources[number + k] = node.source
        number += len(node.op.out_types)
    return sources


def _plain_names(known: Sequence[Known]) -> Iterator[str]:
    for _, names, _ in known:
        for name in names:
            if not name.startswith("%"):
                yield name.partition("#")[0]


def _matches(wanted: str, graph: Graph, names: Sequence[str], sources: Sequence[Source | None]) -> list[bool]:
    """Which values of a graph are wanted: those with this name, or computed by this line."""
    line = re.fullmatch(r"(?:(.*):)?(\d+)", wanted)
    if line is None:
        return [name == wanted or name.partition("#")[0] == wanted for name in names]
    file, number = line[1] or "", int(line[2])
    return [source is not None and source.line == number and source.file.endswith(file) for source in sources]


def _unknown(name: str, known: Sequence[Known]) -> NameError:
    there = ", ".join(dict.fromkeys(_plain_names(known))) or "none"
    lines = sorted({str(source) for _, _, sources in known for source in sources if source is not None})
    return NameError(
        f"watch: nothing in the graph is called {errors.shown(name)}. The variables are: {there}. "
        f"The lines are: {', '.join(lines)}. A variable is there if an operation on arrays that the output depends on "
        "was stored in it."
    )


def _to_open(graph: Graph, wanted: set[int]) -> set[Op]:
    """The loops that have wanted values inside, at any depth."""
    loops: set[Op] = set()

    def visit(outer: Graph) -> bool:
        inside = False
        for node in outer.nodes:
            for body in bodies(node.op):
                if visit(body):
                    inside = True
                    if isinstance(node.op.primitive, Scan | While):
                        loops.add(node.op)
        return inside or id(outer) in wanted

    visit(graph)
    return loops


def _frames(frame: Frame, steps: tuple[int, ...] = ()) -> Iterator[tuple[Frame, tuple[int, ...]]]:
    """A frame and those inside it with the steps of the loops around them, in program order."""
    yield frame, steps
    for position in sorted(frame.inner):
        for inner in frame.inner[position]:
            yield from _frames(inner, steps if inner.step is None else (*steps, inner.step))


def _record(execution: Execution, frame: Frame, number: int, name: str, steps: tuple[int, ...]) -> Record:
    cotangent = frame.cotangents.get(number)
    return Record(
        name,
        np.asarray(execution.values[frame.cells[number]]),
        None if cotangent is None else np.asarray(execution.values[cotangent]),
        _source_of(frame, number),
        steps,
    )


def _source_of(frame: Frame, number: int) -> Source | None:
    return next((node.source for node, outs in frame.graph.numbered() if number in outs), None)
