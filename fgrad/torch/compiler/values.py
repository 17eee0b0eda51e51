"""What a replayed call returns or sets: values that are looked up in what it has read and made."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.constants import compared
from fgrad.torch.compiler.containers import Structure, put_together


@frozen(eq=False)
class Constant:
    """A value that is the same at each call."""

    value: Any

    def __call__(self, tensors: Sequence[Tensor], new: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        return self.value


@frozen(eq=False)
class ExternalRef:
    """A tensor from outside."""

    index: int

    def __call__(self, tensors: Sequence[Tensor], new: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        return tensors[self.index]


@frozen(eq=False)
class NewRef:
    """A tensor that the call makes."""

    index: int

    def __call__(self, tensors: Sequence[Tensor], new: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        return new[self.index]


@frozen(eq=False)
class NumberRef:
    """One of the call's numbers (NOTE [Symbolic numbers])."""

    index: int

    def __call__(self, tensors: Sequence[Tensor], new: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        return numbers[self.index]


@frozen(eq=False)
class Tree:
    """A tree of values."""

    structure: Structure
    leaves: list["Value"]

    def __call__(self, tensors: Sequence[Tensor], new: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        return self.put_together([leaf(tensors, new, numbers) for leaf in self.leaves])

    def put_together(self, leaves: Sequence[Any]) -> Any:
        return put_together(self.structure, iter(leaves))


Value = Constant | ExternalRef | NewRef | NumberRef | Tree


def signature(value: Value) -> Any:
    """Equal for the values of two recordings of a call that are made in the same way."""
    match value:
        case Tree(structure, leaves):
            return structure, tuple([signature(leaf) for leaf in leaves])
        case Constant(held):
            return compared(held)
    return type(value), value.index
