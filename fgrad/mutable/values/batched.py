"""Batched values: arrays with a batch axis hidden from the function that computes with them.

NOTE [Batching is below the tape]
``torch.func.vmap`` runs a function once for a whole batch.  Inside, a tensor's storage holds a *batched value*: an
array whose first axis is the batch of one level of ``vmap``, and which shows only the other axes.  A routine that is
given one runs its graph under ``jax.vmap``; so every operation, view, write and pull-back batches, in the function and
in the backward that passes through it later, and the tape above sees the types of single examples.

Values of several levels nest, the innermost level outside: level numbers rise inwards, so a value of levels 1 and 2 is
always ``Batched(Batched(array, 1), 2)``.
"""

from typing import Any, ClassVar

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints


class Batched:
    """An array whose first axis is the batch of a level."""

    __slots__ = ("array", "level")

    #: whether one was ever made; until then, routines do not look for any
    exist: ClassVar[bool] = False

    #: the array with the batch axis in front; batched itself if levels nest
    array: Any
    #: the number of the level
    level: int

    def __init__(self, array: Any, level: int):
        Batched.exist = True
        self.array = array
        self.level = level

    @property
    def shape(self) -> Ints:
        return tuple(self.array.shape[1:])

    @property
    def ndim(self) -> int:
        return len(self.array.shape) - 1

    @property
    def size(self) -> int:
        """How many elements one example has."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if all(level.number != self.level for level in modes.maps):
            raise RuntimeError(
                "Either your tensor may have escaped from inside a function being vmapped and this is a user error "
                "(see https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch "
                "error in `vmap` Please file an issue if it looks like the latter"
            )
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
            "Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere "
            "inside PyTorch internals, please file a bug report."
        )


def unbatched(value: Any) -> Any:
    """The array that a value holds: with the batch axes of all levels in front, the outermost level's first."""
    while value.__class__ is Batched:
        value = value.array
    return value


def levels_of(value: Any) -> Ints:
    """The numbers of the levels at which a value is batched, the outermost first."""
    return (*levels_of(value.array), value.level) if value.__class__ is Batched else ()


def batched(array: Any, levels: Ints) -> Any:
    """An array whose first axes are the batches of these levels, as a batched value."""
    for level in levels:
        array = Batched(array, level)
    return array
