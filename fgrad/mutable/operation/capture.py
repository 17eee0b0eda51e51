"""Functions of tensors as functions of arrays, recorded once and run as one program.

NOTE [Fused functions]
Nothing in a tensor is really mutated: an operation on a tensor that holds a traced value points its storage to another
traced value.  So a function that makes tensors, writes into views of them and calls ``backward`` is, run on traced
values, a pure function of those values; its graph is what the functional core differentiates, maps and compiles.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from attrs import frozen
from jax import block_until_ready, tree_util

from fgrad.mutable.context.modes import modes, no_grad, unusual
from fgrad.mutable.operation.operands import number
from fgrad.mutable.operation.overlap import check_repeated
from fgrad.mutable.tensor.cut import is_cutting, without_history
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
    types: tuple[TensorType, ...]


@frozen(eq=False)
class _CapturedOnce(_Captured):
    #: of the result
    structure: Any


@frozen(eq=False)
class _CapturedEach(_Captured):
    #: for each item its result, with positions in place of tensors
    results: Sequence[Any]
    #: how results are written over operands, and what computes the others; None if that cannot be
    overwriting: tuple[Overwriting, Routine] | None


_C = TypeVar("_C", bound=_Captured)
_captured: Cache[Any, Any] = Cache(ROUTINES_KEPT)


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


@frozen(eq=False)
class Made:
    """The results of an update of several items."""

    #: for each item its result, with positions among the values in place of tensors
    results: Sequence[Any]
    #: the elements of the results, ``OVERWRITING`` for those that ``calls`` write
    values: Sequence[Any]
    types: Sequence[TensorType]
    #: calls that are still to be made by ``overwrite``, in parts: they write large results over operands that nobody
    #: else holds, NOTE [Overwriting]
    calls: Sequence[Iterable[Call]] = ()


#: the elements of a result that is written over an operand
OVERWRITING: Any = object()


def fused_each(
    update: Callable[..., Any],
    items: Sequence[tuple[Any, list[Tensor]]],
    built: Callable[[Any, Sequence[Any]], Any],
    tensors: Mapping[str, Tensor],
    numbers: Mapping[str, float],
    overwritten: Overwritten,
) -> Made:
    """Run ``update(item, tensors, numbers)`` for each of some items, all as one program.

    The function is recorded once for all items of equal types.  Otherwise as ``fused``.

    Arguments:
      items: for each item its tensors, and before them what says how it is built of them.
      built: gives the item; it is called for recording alone.
      overwritten: from an item and its result, with positions in place of tensors, which result replaces which operand.
    """
    leaves = [x for _, own in items for x in own]
    leaves += tensors.values()
    names = tuple(numbers)
    key = (update, tuple([form for form, _ in items]), _types(leaves), tuple(tensors), names)
    capture = lambda: _capture_each(update, items, built, tensors, names, overwritten)  # noqa: E731
    captured = _captured_for(key, capture, leaves)
    if captured.overwriting is None or not _may_overwrite(captured.overwriting[0], leaves):
        return Made(captured.results, _values(captured, leaves, numbers), captured.types)
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
    captured: _CapturedEach, over: Overwriting, rest: Routine, leaves: Sequence[Tensor], numbers: Mapping[str, float]
) -> Made:
    """The results that are not written over operands, and the calls for those that are."""
    windows = {i: window(leaves[i]._storage, leaves[i]._type.geometry) for i in over.written.values()}
    values = [*[x._value() for x in leaves], *map(number, numbers.values())]
    # they may be views of operands, or not computed yet
    outs = [_apart(x, windows) for x in block_until_ready(rest(values))]
    arrays = {i: np.asarray(windows.get(i, values[i])).reshape(-1) for each in over.chains for i in each.read}
    others, types = iter(outs), captured.types
    made = [OVERWRITING if k in over.written else at_hand(next(others), t.numel) for k, t in enumerate(types)]
    return Made(captured.results, made, types, over.parts(arrays, list(others)))


def _apart(value: Any, windows: Mapping[int, np.ndarray]) -> Any:
    """The elements of a result, in none of the memory that is overwritten."""
    if getattr(value, "base", None) is None or not any(np.may_share_memory(value, x) for x in windows.values()):
        return value
    copy = value.copy()
    copy.setflags(write=False)
    return copy


def _types(leaves: Sequence[Tensor]) -> tuple[TensorType, ...]:
    return tuple([x._type for x in leaves])


def _captured_for(key: Any, capture: Callable[[], _C], leaves: Sequence[Tensor]) -> _C:
    """What is recorded under a key, to be run on some tensors."""
    if modes.capturing is not None:
        modes.capturing.lift_operands(leaves)
    captured = _captured.get(key)
    if captured is None:
        captured = capture()
        captured = _captured.enter(key, captured, len(captured.routine.graph.nodes))
    return captured


def _run(captured: _CapturedOnce, leaves: Sequence[Tensor], numbers: Mapping[str, float]) -> Any:
    """Run what is recorded on some tensors and numbers."""
    values = _values(captured, leaves, numbers)
    results = [new_tensor(value, t) for value, t in zip(values, captured.types, strict=True)]
    return tree_util.tree_unflatten(captured.structure, results)


def _values(captured: _Captured, leaves: Sequence[Tensor], numbers: Mapping[str, float]) -> list[Any]:
    """The elements of the results."""
    outs = captured.routine([*[x._value() for x in leaves], *map(number, numbers.values())])
    return [at_hand(value, t.numel) for value, t in zip(outs, captured.types, strict=True)]


def _capture_each(
    update: Callable[..., Any],
    items: Sequence[tuple[Any, list[Tensor]]],
    built: Callable[[Any, Sequence[Any]], Any],
    tensors: Mapping[str, Tensor],
    names: Sequence[str],
    overwritten: Overwritten,
) -> _CapturedEach:
    builder = Builder([x._type.array for _, own in items for x in own])
    inputs = iter(builder.inputs)
    args = [list(islice(inputs, len(own))) for _, own in items]
    common = {name: builder.input(x._type.array) for name, x in tensors.items()}
    numbers = [builder.input(NUMBER_TYPES[float].array) for _ in names]
    recorded_for: dict[Any, _CapturedOnce] = {}
    outs: list[int] = []
    results = []
    pairs: dict[int, int] = {}
    for (form, own), positions in zip(items, args, strict=True):
        key = form, _types(own)
        one = recorded_for.get(key)
        if one is None:
            leaves, structure = flatten((built(form, own), dict(tensors)))
            one = recorded_for[key] = _capture(update, leaves, structure, names)
        result = tree_util.tree_unflatten(one.structure, range(len(outs), len(outs) + len(one.types)))
        item = built(form, positions)
        pairs.update(overwritten(item, result))
        outs += builder.splice(one.routine.graph, [*flatten((item, common))[0], *numbers])
        results.append(result)
    graph = simplify(builder.finish(outs, builder.inputs))
    types = tuple([type_of(t) for t in graph.out_types])
    return _CapturedEach(Routine(graph), types, results, _overwriting(graph, pairs))


def _capture(
    update: Callable[..., Any], leaves: Sequence[Tensor], structure: Any, names: Sequence[str]
) -> _CapturedOnce:
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
    return _CapturedOnce(Routine(graph), tuple([type_of(t) for t in graph.out_types]), out_structure)


def wrapped_number(array: Any) -> Tensor:
    """A traced number as a tensor that counts as a Python number in type promotion."""
    return new_tensor(array, NUMBER_TYPES[float])


def assign(writes: Sequence[tuple[Tensor, Any, int]]) -> None:
    """Write elements into a tensor, unrecorded, and count so many writes, for each.

    Raises:
      RuntimeError: elements of a written tensor share memory.
    """
    source = here(4)
    for tensor, _, _ in writes:
        check_repeated(tensor)
    if modes.capturing is not None:
        modes.capturing.lift_operands([tensor for tensor, _, _ in writes])
    cuts = is_cutting()  # as ``settled``, asked once
    for tensor, value, times in writes:
        tensor._overwrite(without_history(tensor, value) if cuts else value, "optimizer step", source, times)


def overwrite(writes: Sequence[tuple[Tensor, int]], calls: Sequence[Iterable[Call]]) -> None:
    """Make the calls that write the elements of some tensors, and count so many writes for each: both, or neither."""
    if not writes:
        return
    source = here(4)
    versions = [tensor._counter.value for tensor, _ in writes]
    done: list[bool] = []
    try:
        for tensor, times in writes:
            tensor._bump("optimizer step", source, times)
        silent().run(make_calls, calls, done)
    except BaseException:
        if not done:  # a signal: see NOTE [Signals]
            for (tensor, _), version in zip(writes, versions, strict=True):
                tensor._counter.value = version
        raise
