"""What a program requires of its inputs: an index in range, and the like (NOTE [Expectations]).

Most of it depends on a small tensor that a call is given (labels, tokens), so that NumPy checks it before the program
runs.  Nothing has to be undone then, and nobody waits for the program's own verdict.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from attrs import frozen

from fgrad.graph.graph import Graph
from fgrad.mutable.capture.capture import Capture, StorageInput
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.passes.simplify import simplify
from fgrad.run.numpy_program import NumpyProgram, numpy_program
from fgrad.torch.compiler.external_tensors import ExternalTensors
from fgrad.torch.compiler.windows import views_of_arguments

#: the elements of a tensor that NumPy checks; for more the program does it
LARGEST = 1 << 16


@frozen(eq=False)
class Requirement:
    """A check of some tensors, by their indices, before a program runs.

    Attributes:
      graph: whether the check holds, from the arrays.
      reads: the tensors.
    """

    graph: Graph
    reads: list[int]
    program: NumpyProgram

    def holds(self, arrays: Sequence[Any]) -> bool:
        return bool(self.program.run([np.asarray(x) for x in arrays])[0])


def requirement_of(capture: Capture, external: ExternalTensors) -> tuple[Requirement | None, Tensor | None]:
    """What is checked before the program runs, and what the program has to check itself."""
    before, inside, inputs = list[Tensor](), list[Tensor](), dict[Any, StorageInput]()
    possible = views_of_arguments(capture, external.arguments)
    storages = {x.input.number: x for x in capture.storages.values()}
    for flag in capture.expected:
        read = [storages.get(number) for number in capture.tape.used([flag._value()])]
        known = [x for x in read if x is not None and _is_at_hand(x) and x.storage not in possible]
        if len(known) < len(read) or capture.tape.home is not None:
            inside.append(flag)
        else:
            before.append(flag)
            inputs.update([(x.input.number, x) for x in known])
    if not before:
        return None, _all_of(inside)
    ins = [x.input for x in inputs.values()]
    graph = simplify(capture.tape.closed(ins, [reduce(and_, before)._value()]))
    program = numpy_program(graph)
    if program is None:
        return None, _all_of([*inside, *before])
    return Requirement(graph, [external.index_of(x.storage) for x in inputs.values()], program), _all_of(inside)


def _is_at_hand(x: StorageInput) -> bool:
    """Whether an input is small, and no result of the program's last call."""
    return not x.is_written and x.array.size <= LARGEST


def _all_of(flags: Sequence[Tensor]) -> Tensor | None:
    return reduce(and_, flags) if flags else None
