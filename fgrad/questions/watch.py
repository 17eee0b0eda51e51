"""What happens inside: values and cotangents of a function's variables, by name or by line."""

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
      name: what the user calls it.
      value: the array.
      cotangent: the derivative of the output with respect to it; None where the output does not depend on it.
      source: the user's line that made it; None of an argument.
      steps: the number of the step in each loop around it, the outermost first.
    """

    name: str
    value: Any
    cotangent: Any
    source: Source | None
    steps: tuple[int, ...]


@frozen(repr=False, str=False)
class Watched(Records):
    """What was watched: for each name or line that was asked for, the records in order, one for each time.

    Attributes:
      of: the output that the cotangents are derivatives of.
      records: the records by what was asked for.
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
    """A function that gives values inside ``fun``, and the derivatives of its output with respect to them.

    The code of ``fun`` stays as it is.

    Arguments:
      fun: a function of pytrees of arrays; the output is differentiated if it is a scalar, of several the first if that
        is one, else their sum.  It may be what ``grad`` or ``value_and_grad`` has returned: then the function that this
        differentiates is watched.
      names: variables of the code (``"h"``, ``"self.h"``), paths of arguments (``"params['w']"``), or lines of its
        file (numbers, or texts such as ``"model.py:12"``).  Without any, all variables are watched.
      argnums: the positional arguments on the way to which there are cotangents; all by default.

    Returns:
      A function of the same arguments, which gives a ``Watched``: a mapping from each of ``names`` to a list of
      records with ``value``, ``cotangent``, ``source`` and ``steps``.  A variable of a loop has a record for each step.

    Raises:
      TypeError: an argument is being traced, so that it has no numbers.
      NameError: there is no such variable or line; the message says which there are.

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
    for at, steps in _frames(frame):
        for name, numbers_of in wanted.get(id(at.graph), {}).items():
            for number, watched in enumerate(numbers_of):
                if watched:
                    records[name].append(_record(execution, at, number, names_of[id(at.graph)][number], steps))
    return Watched(question.loss_name, records, refused)


#: a graph, the names of its values, and the user's lines that made them
Known = tuple[Graph, tuple[str, ...], list[Source | None]]


def _known(graph: Graph, names: Sequence[str]) -> list[Known]:
    """The graph and all in it that can be gone into, the outermost first."""
    graphs: list[Known] = [(graph, tuple(names), _sources(graph))]
    seen = {id(graph)}
    for at, _, _ in graphs:
        for node in at.nodes:
            for body in bodies(node.op):
                if id(body) not in seen:
                    seen.add(id(body))
                    graphs.append((body, value_names(body), _sources(body)))
    return graphs


def _sources(graph: Graph) -> list[Source | None]:
    """The line of each value that is the result of a user's instruction; of what was made on the way to it, None."""
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
    """Which values of a graph are asked for: those of this name, or made by this line."""
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
    """The loops in which, at some depth, there is something that is asked for."""
    loops: set[Op] = set()

    def within(at: Graph) -> bool:
        inside = False
        for node in at.nodes:
            for body in bodies(node.op):
                if within(body):
                    inside = True
                    if isinstance(node.op.primitive, Scan | While):
                        loops.add(node.op)
        return inside or id(at) in wanted

    within(graph)
    return loops


def _frames(frame: Frame, steps: tuple[int, ...] = ()) -> Iterator[tuple[Frame, tuple[int, ...]]]:
    """A frame and those inside it with the steps of the loops around them, in the order of the program."""
    yield frame, steps
    for at in sorted(frame.inner):
        for inner in frame.inner[at]:
            yield from _frames(inner, steps if inner.step is None else (*steps, inner.step))


def _record(execution: Execution, frame: Frame, number: int, name: str, steps: tuple[int, ...]) -> Record:
    cotangent = frame.cotangents.get(number)
    return Record(
        name,
        np.asarray(execution.values[frame.cells[number]]),
        None if cotangent is None else np.asarray(execution.values[cotangent]),
        next((source for source in (_made(frame, number),) if source is not None), None),
        steps,
    )


def _made(frame: Frame, number: int) -> Source | None:
    at = len(frame.graph.in_types) + len(frame.graph.consts)
    for node in frame.graph.nodes:
        count = len(node.op.out_types)
        if at <= number < at + count:
            return node.source
        at += count
    return None
