"""``vmap``: a function of single examples mapped over batches."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from attrs import evolve

from fgrad.graph.source import boundary
from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides
from fgrad.mutable.operation.views import view_of
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.transforms.levels import Argument, MapLevel, cross_in, cross_out, is_mapped, mapping
from fgrad.torch import ops
from fgrad.torch.random import get_rng_state, set_rng_state
from fgrad.torch.trees import (
    TreeSpec,
    flatten as tree_flatten,
    spread as _broadcast_to_and_flatten,
    unflatten as tree_unflatten,
)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that applies ``func`` to every example of a batch at once.

    Arguments:
      func: takes and returns trees of tensors.
      in_dims: the mapped axis of each input, None where all examples share it; an integer, or a tree that is a prefix
        of the arguments.
      out_dims: the mapped axis of each output; None for an output that all examples share.
      randomness: "error" refuses random operations, "different" draws for each example, "same" once for all.
      chunk_size: how many examples to run at a time.

    Raises:
      ValueError: the axes do not fit the arguments or the results.
      RuntimeError: ``func`` reads an element into Python, draws random numbers under "error", or writes mapped values
        into a tensor from outside.

    >>> import fgrad.torch as torch
    >>> torch.func.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])

    Source: `torch.func.vmap <https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html>`_.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @boundary
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(out_dims, func)
        inputs = _Inputs(*_process_batched_inputs(in_dims, args, func))
        if chunk_size is None:
            return _mapped(func, inputs, out_dims, randomness, kwargs)
        return _mapped_in_chunks(func, inputs, out_dims, randomness, chunk_size, kwargs)

    return wrapped


class _Inputs(NamedTuple):
    """The arguments of a mapped function: the size of the batch, the mapped axis of each leaf, and the leaves."""

    size: int
    dims: list[int | None]
    leaves: list[Any]
    structure: TreeSpec

    def chunks(self, chunk_size: int) -> Iterator["_Inputs"]:
        for start in range(0, self.size, chunk_size):
            length = min(chunk_size, self.size - start)
            part = [
                x if dim is None else x.narrow(dim, start, length)
                for x, dim in zip(self.leaves, self.dims, strict=True)
            ]
            yield self._replace(size=length, leaves=part)


def _mapped(func: Callable[..., Any], inputs: _Inputs, out_dims: Any, randomness: str, kwargs: dict[str, Any]) -> Any:
    """Map over the whole batch."""
    with mapping(inputs.size, randomness) as level:
        examples = _create_batched_inputs(inputs.dims, inputs.leaves, level, inputs.structure)
        outputs = func(*examples, **kwargs)
    result = _unwrap_batched(outputs, out_dims, level, inputs.size, func)
    level.write_back()
    return result


def _mapped_in_chunks(
    func: Callable[..., Any],
    inputs: _Inputs,
    out_dims: Any,
    randomness: str,
    chunk_size: int,
    kwargs: dict[str, Any],
) -> Any:
    """Map over chunks of the batch, and concatenate the results."""
    state = get_rng_state() if randomness == "same" else None
    results: list[list[Any]] = []
    structure = None
    for part in inputs.chunks(chunk_size):
        if state is not None:
            set_rng_state(state)
        leaves, structure = tree_flatten(_mapped(func, part, out_dims, randomness, kwargs))
        results.append(leaves)
    assert structure is not None
    dims = _broadcast_to_and_flatten(out_dims, structure)
    assert dims is not None
    return tree_unflatten(
        [ops.cat(parts, dim=dim) for parts, dim in zip(zip(*results, strict=True), dims, strict=True)], structure
    )


# -- the steps of a call ---------------------------------------------------------------------------------------------
# This module is ``torch._functorch.vmap``.  Libraries replace its steps by their own, in order to map over their
# containers of tensors, so these have PyTorch's names and arguments.  Only the level is an object here, not a number.


def _process_batched_inputs(
    in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any]
) -> tuple[int, list[int | None], list[Any], TreeSpec]:
    """The size of the batch, the mapped axis of each leaf of the arguments, the leaves, and their structure."""
    name = _get_name(func)
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) "
            f"tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, structure = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
            f"`inputs`. in_dims has structure {tree_flatten(in_dims)[1]} but inputs has structure {structure}."
        )
    for i, (x, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but in_dim must be "
                "either an integer dimension or None."
            )
        if not isinstance(x, Tensor):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but the input is of "
                f"type {type(x)}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        rank = len(x._type.shape)
        if not -rank <= dim < rank:
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but that input is a "
                f"Tensor of dimensionality {rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
        dims[i] = dim % rank
    return _batch_size(leaves, dims), dims, leaves, structure


def _batch_size(leaves: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = [x._type.shape[dim] for x, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(a != b for a, b in itertools.pairwise(sizes)):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def _create_batched_inputs(
    flat_in_dims: Sequence[int | None], flat_args: Sequence[Any], vmap_level: MapLevel, args_spec: TreeSpec
) -> Any:
    """The arguments as the function sees them."""
    return tree_unflatten(
        [
            x if dim is None else _add_batch_dim(x, dim, vmap_level)
            for x, dim in zip(flat_args, flat_in_dims, strict=True)
        ],
        args_spec,
    )


def _add_batch_dim(batched: Tensor, in_dim: int, vmap_level: MapLevel) -> Tensor:
    """A batch as a tensor of single examples."""
    batch = batched if in_dim == 0 else ops.movedim(batched, in_dim, 0)
    examples = cross_in(batch, vmap_level)
    examples._counter = batch._counter
    vmap_level.arguments.append(Argument(batched, in_dim, batch, examples))
    return examples


def _remove_batch_dim(batched: Tensor, vmap_level: MapLevel, batch_size: int, out_dim: int) -> Tensor:
    """A tensor of single examples as the batch: where they lie in the memory of an argument, that or a view of it.

    One that all examples share is a view that repeats it.
    """
    argument = vmap_level.argument_of(batched)
    batch = None if argument is None else argument.batch
    if not (is_mapped(batched._value(), vmap_level) or is_tracked(batched) or modes.duals):
        batch = batched.expand(batch_size, *batched._type.shape)
    elif argument is not None and out_dim in (argument.axis, argument.axis - argument.given.dim()):
        return argument.given
    if batch is None:
        batch = _view_of_argument(batched, vmap_level)
    if batch is None:
        batch = cross_out(batched, vmap_level)
        batch._counter = batched._counter
    return batch if out_dim == 0 else ops.movedim(batch, 0, out_dim)


def _view_of_argument(examples: Tensor, level: MapLevel) -> Tensor | None:
    """The view of a batch that a view of its examples is; None if it is none, or has a history or tangents."""
    batch = level.batch_behind(examples)
    if batch is None or modes.duals or is_tracked(examples) or is_tracked(batch):
        return None
    inner, outer = examples._geometry_of(), batch._geometry_of()
    strides, offset = _in_batch(inner, outer)
    if strides is None or outer.conj or outer.neg:
        return None
    ratio = outer.dtype.itemsize / inner.dtype.itemsize
    first, start = outer.strides[0] * ratio, outer.offset * ratio
    if first % 1 or start % 1:
        return None
    geometry = evolve(
        inner, sizes=(level.size, *inner.sizes), strides=(int(first), *strides), offset=int(start) + offset
    )
    return view_of(batch, geometry, operation="vmap")


def _in_batch(inner: Geometry, outer: Geometry) -> tuple[Ints | None, int]:
    """The strides and offset in a batch of a view that was made of its examples as if they were contiguous.

    A step of the view is a step along one axis of the example or more of them.  There are no strides if the view goes
    beyond the end of an axis, as where axes were merged.
    """
    if not math.prod(inner.sizes):
        return inner.strides, 0
    unit = min(inner.dtype.itemsize, outer.dtype.itemsize)
    of_view, of_batch = inner.dtype.itemsize // unit, outer.dtype.itemsize // unit
    # an element of several units is one more axis
    sizes = (*outer.sizes[1:], of_batch)
    theirs = (*[of_batch * stride for stride in outer.strides[1:]], 1)
    steps = [*zip(inner.sizes, [of_view * stride for stride in inner.strides], strict=True), (of_view, 1)]

    def along(position: int) -> list[int]:
        """How far a position among contiguous elements is along each axis."""
        found = []
        for stride in contiguous_strides(sizes):
            ahead, position = divmod(position, stride)
            found.append(ahead)
        return found

    start = along(of_view * inner.offset)
    ends, mapped = [*start], []
    for count, stride in steps:
        ways = along(stride)
        ends = [end + (count - 1) * way for end, way in zip(ends, ways, strict=True)]
        mapped.append(sum(way * their for way, their in zip(ways, theirs, strict=True)))
    offset = sum(way * their for way, their in zip(start, theirs, strict=True))
    leaves = any(end >= size for end, size in zip(ends, sizes, strict=True))
    uneven = any(n > 1 and stride % of_view for (n, _), stride in zip(steps[:-1], mapped, strict=False))
    if leaves or uneven or offset % of_view or (of_view > 1 and mapped[-1] != 1):
        return None, 0
    return tuple([stride // of_view for stride in mapped[:-1]]), offset // of_view


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: MapLevel, batch_size: int, out_dim: int | None
) -> Any:
    """An output of the function as the caller sees it."""
    if out_dim is None:
        if isinstance(batched_output, Tensor) and is_mapped(batched_output._value(), vmap_level):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _unwrap_batched(
    batched_outputs: Any, out_dims: Any, vmap_level: MapLevel, batch_size: int, func: Callable[..., Any]
) -> Any:
    """The results of the function as the caller sees them."""
    name = _get_name(func)
    leaves, structure = tree_flatten(batched_outputs)
    dims = _out_dims(batched_outputs, out_dims, structure)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {structure}."
        )
    return tree_unflatten(
        [_maybe_remove_batch_dim(name, x, vmap_level, batch_size, dim) for x, dim in zip(leaves, dims, strict=True)],
        structure,
    )


def _out_dims(outputs: Any, out_dims: Any, structure: TreeSpec) -> list[int | None] | None:
    """The axis of each output; None if ``out_dims`` does not fit."""
    if isinstance(outputs, Tensor) and isinstance(out_dims, tuple):
        return list(out_dims) if len(out_dims) == 1 else None
    return _broadcast_to_and_flatten(out_dims, structure)


def _check_out_dims(out_dims: Any, func: Callable[..., Any]) -> None:
    for dim in tree_flatten(out_dims)[0]:
        if not isinstance(dim, int) and dim is not None:
            raise ValueError(
                f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                "collection of ints representing where in the outputs the vmapped dimension should appear."
            )


def _get_name(func: Any) -> str:
    """A function as PyTorch names it in errors."""
    if hasattr(func, "__name__"):
        return func.__name__
    return f"functools.partial({_get_name(func.func)}, ...)" if isinstance(func, functools.partial) else repr(func)
