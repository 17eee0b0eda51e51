"""Functions of tensors as functions of arrays, recorded once and run as one program.

NOTE [Fused functions]
Nothing in a tensor is really mutated: an operation on a tensor that holds a traced value points its storage to another
traced value.  So a function that makes tensors, writes into views of them and calls ``backward`` is, run on traced
values, a pure function of those values; its graph is what the functional core differentiates, maps and compiles.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from attrs import frozen
from jax import block_until_ready, tree_util

from fgrad.mutable.context.modes import modes, no_grad, unusual
from fgrad.mutable.operation.operands import number
from fgrad.mutable.operation.overlap import check_repeated
from fgrad.mutable.tensor.cut import settled
from fgrad.mutable.tensor.in_memory import is_own, window
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import NUMBER_TYPES, TensorType, type_of
from fgrad.mutable.values.evaluation import Routine, at_hand, recorded, silent
from fgrad.seam import (
    Builder,
    Cache,
    Call,
    Graph,
    Overwriting,
    active,
    here,
    in_memory,
    make_calls,
    operations,
    overwriting,
    simplify,
    with_x64,
)

#: from an item and its result, with positions in place of tensors, which result replaces which operand
Overwritten = Callable[[Any, Any], Iterable[tuple[int, int]]]

#: how many recorded functions are kept
ROUTINES_KEPT = 1024


@frozen(eq=False)
class _Captured:
    routine: Routine
    structure: Any
    types: tuple[TensorType, ...]
    #: how results are written over operands, and what computes the others; None if that cannot be
    overwriting: tuple[Overwriting, Routine] | None = None


_captured: Cache[Any, _Captured] = Cache(ROUTINES_KEPT)


def note_position() -> None:
    """Tell a capture that Python reads where a tensor lies in its memory."""
    if modes.capturing is not None:
        modes.capturing.note_position()


def gives_number(x: Tensor) -> bool:
    """Whether a capture gives Python the number in a traced tensor: one that runs in pieces does."""
    return modes.capturing is not None and modes.capturing.gives_number(x)


def note_copy(copy: Tensor, viewed: Tensor) -> None:
    """Tell a capture that a tensor is a copy, which is a view where numbers are known."""
    if modes.capturing is not None:
        modes.capturing.note_copy(copy, viewed)


def usually(flag: Tensor, usual: bool) -> bool:
    """Whether a tensor of one element is not zero; ``usual`` says what to expect.

    A compiled call that branches on it is a program for the usual case (NOTE [Expectations]).
    """
    return bool(flag) if modes.capturing is None else modes.capturing.usually(flag, usual)


def is_met(requirement: Tensor) -> bool:
    """Whether a tensor of one element is not zero, where the caller raises an error if it is.

    A compiled call expects that it is not (NOTE [Expectations]); a graph that is kept checks no elements.
    """
    return bool(requirement) if modes.capturing is None else modes.capturing.is_met(requirement)


def expect(requirement: Callable[[], Any]) -> None:
    """Expect that a tensor has no zeros: what an operation requires of elements that nobody knows yet.

    If it has, a compiled call runs uncompiled, and the operation raises its error (NOTE [Expectations]).
    """
    if modes.capturing is not None:
        modes.capturing.expect(requirement)


def expect_within(index: Tensor, low: int, high: int) -> None:
    """Expect that the elements of an index lie in ``[low, high)``."""
    expect(lambda: (index >= low) & (index < high))


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
    names = tuple(numbers)
    key = (update, structure, _types(leaves), names)
    return _run(_captured_for(key, lambda: _capture(update, leaves, structure, names), leaves), leaves, numbers)


def fused_each(
    update: Callable[..., Any],
    items: Sequence[Any],
    trees: Sequence[Any],
    numbers: dict[str, float],
    overwritten: Overwritten,
) -> tuple[list[Any], Iterable[Call]]:
    """Run ``update(item, *trees, numbers)`` for each of some items, all as one program.

    The function is recorded once for all items of equal types.  Otherwise as ``fused``.

    Arguments:
      overwritten: from an item and its result, with positions in place of tensors, which result replaces which operand.

    Returns:
      The results, and calls that are still to be made by ``overwrite``: they write large results over operands that
      nobody else holds (NOTE [Overwriting]).  In the place of such a result is the operand.
    """
    each = [flatten((item, *trees)) for item in items]
    shared = len(flatten(tuple(trees))[0])
    names = tuple(numbers)
    own = [leaves[: len(leaves) - shared] for leaves, _ in each]
    common = each[0][0][len(own[0]) :] if each else []
    key = (update, tuple([(structure, _types(leaves)) for leaves, structure in each]), names)
    leaves = [*[x for part in own for x in part], *common]
    captured = _captured_for(key, lambda: _capture_each(update, each, own, common, names, overwritten), leaves)
    if captured.overwriting is None or not _may_overwrite(captured.overwriting[0], leaves):
        return _run(captured, leaves, numbers), ()
    return _begun(captured, *captured.overwriting, leaves, numbers)


def _overwriting(graph: Graph, pairs: Mapping[int, int]) -> tuple[Overwriting, Routine] | None:
    """How results are written over operands, and what computes the others; None if that cannot be."""
    over = overwriting(graph, pairs)
    return None if over is None else (over, Routine(with_x64(simplify, over.rest)))


def _may_overwrite(over: Overwriting, leaves: Sequence[Tensor]) -> bool:
    """Whether NumPy may write over these operands, and can read all of them."""
    if (unusual.on and unusual.within()) or not operations(active()).overwrites:
        return False
    holders = Counter([id(x._storage) for x in leaves])
    for i in over.written.values():
        storage = leaves[i]._storage
        if storage.__class__ is not Storage or holders[id(storage)] > 1 or not is_own(storage):
            return False
        if leaves[i]._geometry is not None or storage.home is not None:
            return False
    return all(x.__class__ is np.ndarray or in_memory(x) for x in [leaf._value() for leaf in leaves])


def _begun(
    captured: _Captured, over: Overwriting, rest: Routine, leaves: Sequence[Tensor], numbers: dict[str, float]
) -> tuple[list[Any], Iterable[Call]]:
    """The results that are not written over operands, and the calls for those that are."""
    windows = {i: window(leaves[i]._storage, leaves[i]._type.geometry) for i in over.written.values()}
    values = [*[x._value() for x in leaves], *map(number, numbers.values())]
    # they may be views of operands, or not computed yet
    outs = [_apart(x, windows) for x in block_until_ready(rest(values))]
    arrays = {i: np.asarray(windows.get(i, values[i])).reshape(-1) for each in over.chains for i in each.read}
    others, types = iter(outs), captured.types
    results = [
        leaves[over.written[k]] if k in over.written else new_tensor(at_hand(next(others), t.numel), t)
        for k, t in enumerate(types)
    ]
    return tree_util.tree_unflatten(captured.structure, results), over.calls(arrays, list(others))


def _apart(value: Any, windows: Mapping[int, np.ndarray]) -> Any:
    """The elements of a result, in none of the memory that is overwritten."""
    if getattr(value, "base", None) is None or not any(np.may_share_memory(value, x) for x in windows.values()):
        return value
    copy = value.copy()
    copy.setflags(write=False)
    return copy


def _types(leaves: Sequence[Tensor]) -> tuple[TensorType, ...]:
    return tuple([x._type for x in leaves])


def _captured_for(key: Any, capture: Callable[[], _Captured], leaves: Sequence[Tensor]) -> _Captured:
    """What is recorded under a key, to be run on some tensors."""
    if modes.capturing is not None:
        modes.capturing.lift_operands(leaves)
    captured = _captured.get(key)
    if captured is None:
        captured = capture()
        captured = _captured.enter(key, captured, len(captured.routine.graph.nodes))
    return captured


def _run(captured: _Captured, leaves: Sequence[Tensor], numbers: dict[str, float]) -> Any:
    """Run what is recorded on some tensors and numbers."""
    outs = captured.routine([*(x._value() for x in leaves), *map(number, numbers.values())])
    results = [new_tensor(at_hand(v, t.numel), t) for v, t in zip(outs, captured.types, strict=True)]
    return tree_util.tree_unflatten(captured.structure, results)


def _capture_each(
    update: Callable[..., Any],
    each: Sequence[tuple[list[Tensor], Any]],
    own: Sequence[Sequence[Tensor]],
    common: Sequence[Tensor],
    names: Sequence[str],
    overwritten: Overwritten,
) -> _Captured:
    builder = Builder([x._type.array for leaves in (*own, common) for x in leaves])
    inputs = iter(builder.inputs[: len(builder.inputs) - len(common)])
    args = [list(islice(inputs, len(leaves))) for leaves in own]
    rest = builder.inputs[len(builder.inputs) - len(common) :]
    rest += [builder.input(NUMBER_TYPES[float].array) for _ in names]
    recorded_for: dict[Any, _Captured] = {}
    outs: list[int] = []
    structures = []
    pairs: dict[int, int] = {}
    for (leaves, structure), numbers in zip(each, args, strict=True):
        key = structure, _types(leaves)
        one = recorded_for.get(key)
        if one is None:
            one = recorded_for[key] = _capture(update, leaves, structure, names)
        result = tree_util.tree_unflatten(one.structure, range(len(outs), len(outs) + len(one.types)))
        pairs.update(overwritten(tree_util.tree_unflatten(structure, [*numbers, *rest][: len(leaves)])[0], result))
        outs += builder.splice(one.routine.graph, [*numbers, *rest])
        structures.append(one.structure)
    graph = simplify(builder.finish(outs, builder.inputs))
    structure = tree_util.tree_structure([tree_util.tree_unflatten(s, [0] * s.num_leaves) for s in structures])
    types = tuple([type_of(t) for t in graph.out_types])
    return _Captured(Routine(graph), structure, types, _overwriting(graph, pairs))


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


def assign(writes: Sequence[tuple[Tensor, Tensor, int]]) -> None:
    """Write the elements of a tensor into another one of its type, unrecorded, and count so many writes, for each.

    Raises:
      RuntimeError: elements of a written tensor share memory.
    """
    source = here(4)
    for tensor, _, _ in writes:
        check_repeated(tensor)
    if modes.capturing is not None:
        modes.capturing.lift_operands([tensor for tensor, _, _ in writes])
    for tensor, value, times in writes:
        tensor._overwrite(settled(tensor, value._value()), "optimizer step", source, times)


def overwrite(writes: Sequence[tuple[Tensor, int]], calls: Iterable[Call]) -> None:
    """Make the calls that write the elements of some tensors, and count so many writes for each: both, or neither."""
    if not writes:
        return
    source = here(4)
    versions = [tensor._counter.value for tensor, _ in writes]
    done: list[bool] = []
    try:
        for tensor, times in writes:
            for _ in range(times):
                tensor._bump("optimizer step", source)
        silent().run(make_calls, calls, done)
    except BaseException:
        if not done:  # a signal: see NOTE [Signals]
            for (tensor, _), version in zip(writes, versions, strict=True):
                tensor._counter.value = version
        raise
