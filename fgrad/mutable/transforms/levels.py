"""Levels of ``torch.func``, and tensors that cross between them.

NOTE [Levels]
``vmap`` opens a level.  A tensor that crosses into it or out of it does so as a recorded step, so that gradients cross
back: *in* takes a batch and gives single examples, *out* the reverse, and each is the derivative of the other.  A
tensor from outside that is used inside without being mapped is *lifted*: the same elements, but its gradient inside is
one for each example, and their sum outside.  Tensors know the level that they were made in; operations inside lift
those operands from outside that have history.

``grad``, ``vjp`` and ``jvp`` open a level too, but it is only a mark in the tape (NOTE [Entries]), and a number:
tensors made before it are captured by the differentiated function, and may not be written there.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from attrs import evolve, field, frozen
from jax import lax, numpy as jnp

from fgrad.mutable.context.modes import Scope, modes, no_grad
from fgrad.mutable.layout.geometry import Ints
from fgrad.mutable.tensor.node import Edge, Node
from fgrad.mutable.tensor.tensor import Tensor, alias, gradient_edge, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.transforms.forward import carry, counters_of
from fgrad.mutable.values.batched import Batched
from fgrad.mutable.values.device_of_value import accelerator_of, at
from fgrad.mutable.values.evaluation import Routine, array_type, concrete, constant, recorded

_numbers = itertools.count(1)


@frozen(eq=False)
class Argument:
    """A batch that a level maps over.

    Attributes:
      given: the tensor that ``vmap`` was called with.
      axis: its mapped axis.
      batch: the tensor with that axis first.
      examples: what the function sees, with the version counter of the batch, and the node, value and version that the
        batch knows of.
    """

    given: Tensor
    axis: int
    batch: Tensor
    examples: Tensor
    node: Node | None = field(init=False)
    value: Any = field(init=False, repr=False)
    version: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "node", self.examples._node)
        object.__setattr__(self, "value", self.examples._value())
        object.__setattr__(self, "version", self.examples._counter.value)

    @property
    def unchanged(self) -> bool:
        """Whether nothing was written to the examples; a version counts writes to the batch, too."""
        return self.examples._node is self.node and self.examples._value() is self.value


@frozen(eq=False)
class MapLevel:
    """One open call of ``vmap``.

    Attributes:
      number: greater than those of the levels that it is in.
      size: of the batch.
      randomness: "error", "different" or "same".
      outer_modes: ``modes.level`` and ``modes.derived`` outside of it.
      arguments: the batches that it maps over.
      duals: the tensors from outside of which dual tensors were made inside, as seen there, and their first node.
    """

    number: int
    size: int
    randomness: str
    outer_modes: tuple[int, int]
    arguments: list[Argument] = field(factory=list, init=False, repr=False)
    duals: list[tuple[Tensor, Tensor, Node | None]] = field(factory=list, init=False, repr=False)

    def argument_of(self, examples: Tensor) -> Argument | None:
        """The argument of which these are the examples themselves, written or not; None if they have been detached."""
        for argument in self.arguments:
            if argument.examples is examples:
                return argument if examples._node is argument.node or is_tracked(examples) else None
        return None

    def batch_behind(self, view: Tensor) -> Tensor | None:
        """The batch in whose examples' memory this is a view."""
        return next((each.batch for each in self.arguments if each.examples._storage is view._storage), None)

    def renew(self, argument: Argument) -> None:
        """Take the examples as they are now for those of the batch, to which what changed has been written."""
        self.arguments[self.arguments.index(argument)] = evolve(argument)

    def write_back(self) -> None:
        """Copy to the batches what was written to their examples, and give others the history of what was written.

        Called after the level.
        """
        while self.arguments:
            argument = self.arguments.pop(0)
            batch, examples = argument.batch, argument.examples
            if not argument.unchanged:
                # what was written without a record, in no_grad or to a detached tensor, is written so here
                with nullcontext() if examples._node is not argument.node else no_grad():
                    batch.copy_(cross_out(examples, self))
                counter, *others = counters_of(batch, modes.dual_level + 1)
                counter.value -= 1  # each write has been counted, and the copy is none
                for other in others:
                    other.value += counter.value - argument.version - 1
        while self.duals:
            outside, inside, node = self.duals.pop(0)
            if inside._node is not node:  # the memory is the same, and the write has been counted
                versions = [(counter, counter.value) for counter in counters_of(outside, modes.dual_level + 1)]
                outside.copy_(cross_out(inside, self)[0])
                for counter, version in versions:
                    counter.value = version


class GradientLevel(MapLevel):
    """One that autograd opens itself, for a batch of gradients or tangents: custom functions run in it as they are."""


def transforming() -> bool:
    """Whether a transformation of ``torch.func`` is open; levels that autograd opens itself are none."""
    return not all(isinstance(level, GradientLevel) for level in modes.transforms)


def next_level() -> int:
    """The number of a new level."""
    return next(_numbers)


class mapping(Scope):
    """Open a level of ``vmap`` for a block."""

    def __init__(self, size: int, randomness: str, kind: type[MapLevel] = MapLevel):
        self.as_value: Any = kind(next(_numbers), size, randomness, (modes.level, modes.derived))

    def values(self) -> dict[str, Any]:
        level = self.as_value
        return {
            "transforms": (*modes.transforms, level),
            "maps": (*modes.maps, level),
            "level": level.number,
        }


def mapping_gradients(size: int) -> mapping:
    """Open a level for a batch of gradients or tangents."""
    return mapping(size, "error", GradientLevel)


class capturing(Scope):
    """Open a level for a function being recorded: tensors from outside may not be written in the block."""

    def values(self) -> dict[str, Any]:
        number = next(_numbers)
        return {"level": number, "capture": number}


def deriving() -> dict[str, Any]:
    """A block with a level for a function being differentiated: tensors from outside may not be written inside."""
    number = next(_numbers)
    return {"level": number, "derived": number}


class below(Scope):
    """Leave the levels from a given one inwards for a block: code there sees whole batches."""

    def __init__(self, level: MapLevel):
        self.level = level

    def values(self) -> dict[str, Any]:
        number, derived = self.level.outer_modes
        return {
            "transforms": modes.transforms[: modes.transforms.index(self.level)],
            "maps": modes.maps[: modes.maps.index(self.level)],
            "level": number,
            "derived": derived,
        }


class inside(Scope):
    """Open levels again, for a block: what was recorded in them is run backward after they were closed."""

    def __init__(self, levels: Sequence[MapLevel]):
        self.levels = levels

    def values(self) -> dict[str, Any]:
        transforms, maps = list(modes.transforms), list(modes.maps)
        for level in self.levels:
            if level not in maps:
                # outside of those that were opened later
                later = next((each for each in maps if each.number > level.number), None)
                transforms.insert(len(transforms) if later is None else transforms.index(later), level)
                maps.insert(len(maps) if later is None else maps.index(later), level)
        numbers = [level.number for level in self.levels]
        return {"transforms": tuple(transforms), "maps": tuple(maps), "level": max([modes.level, *numbers])}


# -- values ----------------------------------------------------------------------------------------------------------


def value_in(value: Any, level: MapLevel) -> Any:
    """A whole batch as a batched value."""
    if value.__class__ is Batched and value.level > level.number:
        return Batched(value_in(_swapped(value.array), level), value.level)
    return Batched(value, level.number)


def value_out(value: Any, level: MapLevel) -> Any:
    """A value inside as a whole batch; an unbatched one is repeated."""
    if value.__class__ is not Batched or value.level < level.number:
        return _repeated(value, level.size)
    if value.level == level.number:
        return value.array
    return Batched(_swapped(value_out(value.array, level)), value.level)


def value_sum(value: Any, level: MapLevel) -> Any:
    """The sum over the batch of a level; a value not batched there stays as it is."""
    if value.__class__ is not Batched or value.level < level.number:
        return value
    if value.level == level.number:
        return _run(_sum_first, value.array)
    return Batched(value_sum(value.array, level), value.level)


def is_mapped(value: Any, level: MapLevel) -> bool:
    """Whether a value is batched at a level."""
    while value.__class__ is Batched and value.level > level.number:
        value = value.array
    return value.__class__ is Batched and value.level == level.number


def mapped_at(operands: Iterable[Any]) -> MapLevel | None:
    """The innermost level at which one of the tensors among operands is mapped."""
    values = [x._value() for x in operands if isinstance(x, Tensor)]
    return next((level for level in reversed(modes.maps) if any(is_mapped(x, level) for x in values)), None)


def _swapped(value: Any) -> Any:
    return _run(_swap, value)


def _swap(x: Any) -> Any:
    return jnp.swapaxes(x, 0, 1)


def _sum_first(x: Any) -> Any:
    return lax.reduce_sum(x, (0,))


def _repeated(value: Any, size: int) -> Any:
    return _repeating(tuple(value.shape), value.dtype, size)([value])[0]


@lru_cache(1 << 10)
def _repeating(shape: tuple[int, ...], dtype: Any, size: int) -> Routine:
    return Routine(recorded(lambda x: [jnp.broadcast_to(x, (size, *shape))], [array_type(shape, dtype)]))


def _run(function: Callable[[Any], Any], value: Any) -> Any:
    return _routine(function, tuple(value.shape), value.dtype)([value])[0]


@lru_cache(1 << 10)
def _routine(function: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any) -> Routine:
    return Routine(recorded(lambda x: [function(x)], [array_type(shape, dtype)]))


RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)

SAME_RANDOM = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"
)


def drawn(draw: Callable[[Ints], Any]) -> Any:
    """Random numbers drawn by ``draw``, which takes the axes to prepend to its own.

    Inside ``vmap`` there is an axis for each level that draws different numbers for each example.

    Raises:
      RuntimeError: a level refuses random numbers.
    """
    different = _different()
    if modes.capturing is not None and not modes.maps:
        return modes.capturing.draw(draw)
    return _batched(constant(draw(tuple([level.size for level in different]))), different)


def drawn_like(draw: Callable[[Ints], Any], parameters: Iterable[Tensor]) -> Any:
    """The same of numbers to which the elements of some tensors are applied.

    Raises:
      RuntimeError: a level refuses random numbers, or wants the same ones for parameters that differ.
    """
    _check_alike([x._value() for x in parameters], _different())
    return drawn(draw)


def drawn_for(draw: Callable[..., Any], *parameters: Any) -> Any:
    """Random numbers drawn by ``draw`` from arrays of parameters, on the device of the first.

    Inside ``vmap`` the arrays have an axis for each level that draws different numbers for each example.

    Raises:
      RuntimeError: a level refuses random numbers, or wants the same ones for parameters that differ.
    """
    different = _different()
    accelerator = accelerator_of(parameters[0])
    if modes.capturing is not None and not modes.maps:
        return at(modes.capturing.draw(draw, *parameters), accelerator)
    _check_alike(parameters, different)
    rank = max([len(value.shape) for value in parameters])
    arrays = []
    for value in parameters:
        lead = (1,) * (rank - len(value.shape))
        for level in reversed(different):
            value = value_out(value, level)
        array = concrete(value)
        before = len(different)
        arrays.append(array.reshape(array.shape[:before] + lead + array.shape[before:]) if lead else array)
    return _batched(at(constant(draw(*arrays)), accelerator), different)


def _check_alike(parameters: Iterable[Any], different: Sequence[MapLevel]) -> None:
    """Raise PyTorch's error if parameters differ at a level that wants the same numbers for all examples."""
    if any(level not in different and is_mapped(value, level) for value in parameters for level in modes.maps):
        raise RuntimeError(SAME_RANDOM)


def _different() -> list[MapLevel]:
    """The levels that draw different random numbers for each example."""
    if any(level.randomness == "error" for level in modes.maps):
        raise RuntimeError(RANDOM)
    return [level for level in modes.maps if level.randomness == "different"]


def _batched(value: Any, maps: Sequence[MapLevel]) -> Any:
    for level in maps:
        value = Batched(value, level.number)
    return value


# -- tensors ---------------------------------------------------------------------------------------------------------


class Crossing(Node):
    """The node of a tensor that crossed a level."""

    __slots__ = ("level",)

    def __init__(self, tensor: Tensor, edge: Edge, level: MapLevel, type: TensorType):
        super().__init__((edge,), (type,), None)
        self.level: MapLevel = level


class MapIn(Crossing):
    """A batch that has become single examples."""

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return [None if grads[0] is None else cross_back(grads[0], self.level)]


class MapOut(Crossing):
    """Single examples that have become a batch."""

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return [None if grads[0] is None else cross_in(grads[0], self.level)]


class Lift(Crossing):
    """A tensor from outside that is the same for all examples.

    Its gradient is the sum over them; asked for inside of the level, it is that of each.
    """

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return grads if grads[0] is None or self.level in modes.maps else [cross_sum(grads[0], self.level)]


class Sum(Crossing):
    """The sum over the batch, as a crossing."""

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return [None if grads[0] is None else lift(grads[0], self.level)]


def cross_in(tensor: Tensor, level: MapLevel) -> Tensor:
    """A tensor whose first axis is the batch, as a tensor of single examples."""
    tensor = brought_in(tensor, level.number)
    type = tensor_type(tensor._type.dtype, tensor._type.shape[1:])
    return _crossed(tensor, new_tensor(value_in(tensor._value(), level), type), level, MapIn, cross_in, level.number)


def cross_out(tensor: Tensor, level: MapLevel) -> Tensor:
    """A tensor of single examples as the whole batch; it may be one from outside."""
    tensor = brought_in(tensor)
    return _batch(lift(tensor, level) if tensor._level < level.number else tensor, level, cross_out)


def cross_back(grad: Tensor, level: MapLevel) -> Tensor:
    """The gradient of single examples as that of the batch: backward does not know the level that it was made in."""
    return _batch(grad, level, cross_back)


def _batch(examples: Tensor, level: MapLevel, cross: Callable[[Tensor, MapLevel], Tensor]) -> Tensor:
    type = tensor_type(examples._type.dtype, (level.size, *examples._type.shape))
    return _crossed(examples, new_tensor(value_out(examples._value(), level), type), level, MapOut, cross, None)


def cross_sum(tensor: Tensor, level: MapLevel) -> Tensor:
    """The sum of a tensor over the examples."""
    result = new_tensor(value_sum(tensor._value(), level), tensor._type)
    return _crossed(tensor, result, level, Sum, cross_sum, None)


def lift(tensor: Tensor, level: MapLevel) -> Tensor:
    """A tensor from outside, for use inside."""
    return _crossed(tensor, alias(tensor), level, Lift, lift, level.number, tensor._type)


def _crossed(
    tensor: Tensor,
    result: Tensor,
    level: MapLevel,
    node: type[Crossing],
    cross: Callable[[Tensor, MapLevel], Tensor],
    number: int | None,
    type: TensorType | None = None,
) -> Tensor:
    if type is not None:
        result._type = type
    result._inference = tensor._inference
    if number is not None:
        result._level = number
    edge = gradient_edge(tensor) if modes.grad and tensor._type.inexact and is_tracked(tensor) else None
    if edge is not None:
        result._node = node(tensor, edge, level, result._type)
    for dual_level in range(modes.dual_level + 1):
        carry(tensor, result, dual_level, lambda tangent: cross(tangent, level))
    return result


def lifted(operands: Sequence[Any]) -> Sequence[Any]:
    """The operands, those from outside with history lifted into the levels between."""
    if modes.capturing is not None:
        modes.capturing.lift_operands(operands)
    if not modes.grad:
        return operands
    inside = modes.level
    for i, x in enumerate(operands):
        if isinstance(x, Tensor) and x._level < inside and is_tracked(x):
            operands = [*operands[:i], brought_in(x), *operands[i + 1 :]]
    return operands


def brought_in(tensor: Tensor, end: float = math.inf) -> Tensor:
    """A tensor as seen at the innermost level, or at the innermost one with a number below ``end``."""
    if modes.grad and is_tracked(tensor):
        for level in modes.maps:
            if tensor._level < level.number < end:
                tensor = lift(tensor, level)
    return tensor


def brought_to_write(tensor: Tensor) -> Tensor:
    """A tensor as seen at the innermost level; if it is written there, the tensor gets the history."""
    inside = brought_in(tensor)
    if inside is not tensor:
        modes.maps[-1].duals.append((tensor, inside, inside._node))
    return inside


#: PyTorch's error, which names the operation; most are "arithmetic"
INPLACE = (
    "vmap: inplace {0}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try to use out-of-place operators instead of inplace {0}. If said operator is being "
    "called inside the PyTorch framework, please file a bug report instead."
)


def check_write(tensor: Tensor, value: Any) -> None:
    """Raise an error if a tensor from outside a level would hold a value from inside."""
    root = tensor if tensor._view is None else tensor._view.base
    if root._level < modes.capture:
        raise RuntimeError(
            "functionalize: a tensor from outside of the function is written inside it, which would be lost when the "
            "function's graph runs again. Pass the tensor as an argument, or write to a clone() of it."
        )
    if outgrows(tensor, value):
        raise RuntimeError(INPLACE.format("arithmetic"))


def outgrows(tensor: Tensor, value: Any) -> bool:
    """Whether a value is batched at a level and a tensor, from outside of it, is not."""
    root = tensor if tensor._view is None else tensor._view.base
    if value.__class__ is not Batched or root._level >= value.level:
        return False
    have = tensor._storage.array
    return have.__class__ is not Batched or have.level < value.level
