"""``autograd.Function`` inside transformations: its ``vmap`` rule, written or generated.

NOTE [Functions below and above a map]
A function with a ``vmap`` of its own is called on whole batches, below the level at which it is mapped.  If a level of
``grad`` or ``jvp`` is open inside that map, the derivative there is the function's own ``backward`` of single examples:
then only ``forward`` runs on whole batches, and the node is recorded as usual.  A generated rule needs no code:
``forward`` and ``backward`` run on batched values.
"""

from typing import Any

from attrs import frozen

from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.transforms.levels import (
    GradientLevel,
    MapLevel,
    below,
    cross_in,
    cross_out,
    is_mapped,
    mapped_at,
    transforming,
)
from fgrad.torch import ops
from fgrad.torch.autograd.function_node import Rules, call
from fgrad.torch.trees import flatten, spread, unflatten

_PAGE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


@frozen
class VmapInfo:
    """The argument ``info`` of a function's ``vmap``: the batch size and the randomness."""

    batch_size: int
    randomness: str


def apply_transformed(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function inside a transformation.

    Raises:
      RuntimeError: the function has no ``setup_context``, or is mapped and has no rule for it, or two.
      NotImplementedError: it is mapped, and a tensor is passed to it by name.
    """
    if not transforming():
        return call(cls, args, kwargs)
    if cls.setup_context is Rules.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod. {_PAGE}"
        )
    level = mapped_at(flatten(args)[0])
    if level is None or isinstance(level, GradientLevel):
        return call(cls, args, kwargs)
    if any(isinstance(x, Tensor) for x in flatten(kwargs)[0]):
        raise NotImplementedError(
            "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only Tensors to "
            f"autograd.Function. Got: {kwargs}"
        )
    overridden = cls.vmap is not Rules.vmap
    if cls.generate_vmap_rule:
        if overridden:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden "
                "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
                f"avoid ambiguity. {_PAGE}"
            )
        return call(cls, args, kwargs)
    if not overridden:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            f"the vmap staticmethod or set generate_vmap_rule=True. {_PAGE}"
        )
    if modes.transforms.index(level) == len(modes.transforms) - 1:
        return _on_batches(cls, level, args)
    return call(cls, args, kwargs, lambda *given: _on_batches(cls, level, given))


def _on_batches(cls: Any, level: MapLevel, args: tuple[Any, ...]) -> Any:
    """The results of the function's own rule on whole batches, mapped again."""
    leaves, structure = flatten(args)
    with below(level):
        pairs = [_batch(x, level) for x in leaves]
        batches = [batch for batch, _ in pairs]
        dims = unflatten([dim for _, dim in pairs], structure)
        versions = [None if dim is None else batch._counter.value for batch, dim in pairs]
        returned = cls.vmap(VmapInfo(level.size, level.randomness), dims, *unflatten(batches, structure))
    for x, (batch, dim), version in zip(leaves, pairs, versions, strict=True):
        if dim is not None and batch._counter.value != version:
            _write_examples(x, batch, dim, level)
    expected = (
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible "
        "with the output. "
    )
    if not isinstance(returned, tuple):
        raise RuntimeError(f"{expected}Got a {type(returned)} instead")
    if len(returned) != 2:
        raise RuntimeError(f"{expected}Got {len(returned)} returns instead")
    output, out_dims = returned
    outputs, out_structure = flatten(output)
    mapped_dims = spread(out_dims, out_structure)
    if mapped_dims is None:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure "
            f"{flatten(out_dims)[1]} but output has structure {out_structure}. {_PAGE}"
        )
    examples = [
        x if dim is None or not isinstance(x, Tensor) else _examples(x, dim, level, leaves, batches)
        for x, dim in zip(outputs, mapped_dims, strict=True)
    ]
    return unflatten(examples, out_structure)


def _batch(x: Any, level: MapLevel) -> tuple[Any, int | None]:
    """An argument as a whole batch, as it was given to ``vmap`` if it is an argument there, and its mapped axis."""
    if not (isinstance(x, Tensor) and is_mapped(x._value(), level)):
        return x, None
    argument = level.argument_of(x)
    if argument is None:
        return cross_out(x, level), 0
    if argument.unchanged:
        return argument.given, argument.axis
    return ops.movedim(cross_out(x, level), 0, argument.axis), argument.axis


def _write_examples(x: Tensor, batch: Tensor, dim: int, level: MapLevel) -> None:
    """Write to an argument what the function's rule has written to its batch, with the history of it."""
    x.copy_(cross_in(ops.movedim(batch, dim, 0), level))
    if x._counter is batch._counter:
        x._counter.value -= 1  # the rule's write has been counted
    argument = level.argument_of(x)
    # with a level inside, the function's own node is yet to be recorded, and to be written back after the level
    if argument is not None and batch is argument.given and modes.transforms[-1] is level:
        level.renew(argument)


def _examples(output: Tensor, dim: int, level: MapLevel, args: list[Any], batches: list[Any]) -> Tensor:
    """An output, mapped again; an argument returned as it is stays that argument."""
    for arg, batch in zip(args, batches, strict=True):
        if output is batch:
            return arg
    return cross_in(output if dim == 0 else ops.movedim(output, dim, 0), level)
