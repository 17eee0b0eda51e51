"""Functions of tensors as functions of arrays, recorded once and run as one program.

NOTE [Fused functions]
Nothing in a tensor is really mutated: an operation on a tensor that holds a traced value points its storage to another
traced value.  So a function that makes tensors, writes into views of them and calls ``backward`` is, run on traced
values, a pure function of those values; its graph is what the functional core differentiates, maps and compiles.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from jax import tree_util

from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.operation.operands import number
from fgrad.mutable.tensor.cut import settled
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, TensorType, type_of
from fgrad.mutable.values.evaluation import Routine, at_hand, recorded
from fgrad.seam import here, simplify

#: how many recorded functions are kept
ROUTINES_KEPT = 1024


@frozen(eq=False)
class _Captured:
    routine: Routine
    structure: Any
    types: tuple[TensorType, ...]


_captured: OrderedDict[Any, _Captured] = OrderedDict()


def note_position() -> None:
    """Tell a capture that Python reads where a tensor lies in its memory."""
    if modes.capturing is not None:
        modes.capturing.note_position()


def is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a pytree, with tensors as leaves, and its structure."""
    return tree_util.tree_flatten(tree, is_leaf=is_tensor)


def fused(update: Callable[..., Any], trees: Sequence[Any], numbers: dict[str, float]) -> Any:
    """Run ``update(*trees, numbers)`` as one program, recorded once for these types.

    Arguments:
      update: a pure function of tensors; equal ones share a program.
      trees: pytrees of tensors.
      numbers: inputs of the program that count as Python numbers in type promotion.

    Returns:
      The pytree of tensors that ``update`` returns, without history.
    """
    leaves, structure = flatten(tuple(trees))
    if modes.capturing is not None:
        modes.capturing.lift_operands(leaves)
    names = tuple(numbers)
    key = (update, structure, tuple([x._type for x in leaves]), names)
    captured = _captured.get(key)
    if captured is None:
        captured = _captured[key] = _capture(update, leaves, structure, names)
        if len(_captured) > ROUTINES_KEPT:
            _captured.popitem(last=False)
    else:
        _captured.move_to_end(key)
    outs = captured.routine([*(x._value() for x in leaves), *map(number, numbers.values())])
    results = [new_tensor(at_hand(v, t.numel), t) for v, t in zip(outs, captured.types, strict=True)]
    return tree_util.tree_unflatten(captured.structure, results)


def _capture(update: Callable[..., Any], leaves: Sequence[Tensor], structure: Any, names: Sequence[str]) -> _Captured:
    out_structure: Any = None

    def function(*arrays: Any) -> list[Any]:
        nonlocal out_structure
        count = len(leaves)
        tensors = [new_tensor(a, x._type) for a, x in zip(arrays, leaves, strict=False)]
        numbers = {name: wrapped_number(a) for name, a in zip(names, arrays[count:], strict=True)}
        with no_grad():
            outs, out_structure = flatten(update(*tree_util.tree_unflatten(structure, tensors), numbers))
        return [x._value() for x in outs]

    graph = simplify(recorded(function, [*(x._type.array for x in leaves), *[NUMBER_TYPES[float].array] * len(names)]))
    return _Captured(Routine(graph), out_structure, tuple([type_of(t) for t in graph.out_types]))


def wrapped_number(array: Any) -> Tensor:
    """A traced number as a tensor that counts as a Python number in type promotion."""
    return new_tensor(array, NUMBER_TYPES[float])


def assign(tensors: Sequence[Tensor], new: Sequence[Tensor], writes: int = 1) -> None:
    """Write the elements of ``new`` into tensors of the same types, unrecorded; count ``writes`` writes for each."""
    source = here(4)
    if modes.capturing is not None:
        modes.capturing.lift_operands(tensors)
    for tensor, value in zip(tensors, new, strict=True):
        tensor._overwrite(settled(tensor, value._value()), "optimizer step", source, writes)
