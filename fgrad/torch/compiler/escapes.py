"""What is made inside of a captured call and outlives it where no walk finds it.

NOTE [Escapes]
A function may leave a tensor, or a number that is computed from tensors, where no walk looks: in a queue, in a
context variable, in a list of more than ``LARGEST`` elements.  What is traced is of no use there once the recording is
over.  So all that is made inside is held weakly.  What is still alive when the function has returned, and is found
neither by the walk nor in the result and its history, has escaped.  Such a call continues in pieces, which give it its
value.  If that happens again, the function is never recorded again: a recording that cannot continue would leave
something traced behind.
"""

import gc
from collections.abc import Collection, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from fgrad.mutable.capture.scopes import Slots, as_dict
from fgrad.mutable.capture.snapshot import Hidden, Location, Snapshot
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.symbolic import SymbolicNumber
from fgrad.mutable.values.batched import unbatched
from fgrad.torch.compiler.containers import flat
from fgrad.torch.compiler.new_tensors import NotReplayable
from fgrad.torch.compiler.step import Step
from fgrad.torch.nn.modules.module import Module


class Escape(NotReplayable):
    """Something traced has escaped."""


_ESCAPED = "a {} that the function makes outlives it where no walk finds it: in a queue, a large container"


def check_escapes(step: Step, outside: Collection[Node]) -> None:
    """Raise ``Escape`` if something traced has escaped.

    Arguments:
      outside: the nodes that stand for histories from outside.
    """
    if not _escaped(step, outside):
        return
    gc.collect()  # what is left may be garbage
    for kind in _escaped(step, outside):
        raise Escape(_ESCAPED.format(kind))


def _escaped(step: Step, outside: Collection[Node]) -> list[str]:
    """The kinds of what has escaped."""
    capture = step.capture
    tensors = [x for ref in capture.created.tensors if (x := ref()) is not None and _is_traced(x, capture.tape)]
    numbers = [x for ref in capture.symbolic.made if (x := ref()) is not None and x._index >= capture.symbolic.inputs]
    if not tensors and not numbers:
        return []
    appended = [x for each in capture.growing.values() for x in each.appended]
    known = {id(x): x for x in flat([step.result, *capture.expected, *appended])}
    for walk in (step.after, Snapshot(uses_any=True).walk([(Location("result", ("result",)), step.result)])):
        known |= {id(x): x for x in walk.tensors}
        known |= {id(x): x for container, _ in walk.containers.values() for x in flat(_values(container))}
        known |= {id(x): x for scope, name, _ in walk.variables.values() for x in flat([scope.get(name, None)])}
    if any(id(x) not in known for x in (*tensors, *numbers)):
        nodes = [x._node for x in known.values() if isinstance(x, Tensor) and x._node is not None]
        known |= {id(x): x for x in _held_by(nodes, outside)}
    return ["tensor" for x in tensors if id(x) not in known] + ["number" for x in numbers if id(x) not in known]


def _is_traced(tensor: Tensor, tape: Any) -> bool:
    return getattr(unbatched(tensor._storage.array), "_trace", None) is tape


def _values(container: Any) -> Iterable[Any]:
    if isinstance(container, Hidden):
        return container.values()
    return (
        [x for item in as_dict(container).items() for x in item] if isinstance(container, dict | Slots) else container
    )


def _held_by(nodes: Collection[Node], outside: Collection[Node]) -> Iterator[Any]:
    """The tensors and the symbolic numbers that a history holds."""
    stack, visited = list[Any](nodes), {id(x) for x in (*nodes, *outside)}
    while stack:
        value = stack.pop()
        if isinstance(value, SymbolicNumber):
            yield value
            continue
        if isinstance(value, Tensor):
            yield value
            held: Iterable[Any] = [value._node, value._view, value._grad]
        else:
            held = value.__closure__ or () if isinstance(value, FunctionType) else gc.get_referents(value)
        for x in held:
            if id(x) not in visited and not isinstance(x, type | ModuleType | Module):
                visited.add(id(x))
                stack.append(x)
