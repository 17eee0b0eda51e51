"""``vmap``: a function of single examples mapped over batches."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fgrad.graph.source import boundary
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.transforms.levels import cross_in, cross_out, is_mapped, mapping
from fgrad.torch import ops
from fgrad.torch.random import get_rng_state, set_rng_state
from fgrad.torch.trees import TreeSpec, flatten, spread, unflatten


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
        call = _Call(func, in_dims, out_dims, randomness, args)
        return call.run(kwargs) if chunk_size is None else call.run_in_chunks(kwargs, chunk_size)

    return wrapped


class _Call:
    """One call of a mapped function, its arguments checked."""

    def __init__(self, func: Callable[..., Any], in_dims: Any, out_dims: Any, randomness: str, args: tuple[Any, ...]):
        if not isinstance(out_dims, int):
            for dim in flatten(out_dims)[0]:
                if not isinstance(dim, int) and dim is not None:
                    raise ValueError(
                        f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                        "collection of ints representing where in the outputs the vmapped dimension should appear."
                    )
        self.func = func
        self.out_dims = out_dims
        self.randomness = randomness
        self.args, self.structure, self.dims = _matched(func, in_dims, args)
        self.size = _batch_size(self.args, self.dims)

    def run(self, kwargs: dict[str, Any]) -> Any:
        """Map over the whole batch."""
        return self._mapped(self.args, self.size, kwargs)

    def run_in_chunks(self, kwargs: dict[str, Any], chunk_size: int) -> Any:
        """Map over chunks of the batch, and concatenate the results."""
        state = get_rng_state() if self.randomness == "same" else None
        results: list[list[Any]] = []
        structure = None
        for size, part in self._chunks(chunk_size):
            if state is not None:
                set_rng_state(state)
            leaves, structure = flatten(self._mapped(part, size, kwargs))
            results.append(leaves)
        assert structure is not None
        dims = spread(self.out_dims, structure)
        assert dims is not None
        return unflatten(
            [ops.cat(parts, dim=dim) for parts, dim in zip(zip(*results, strict=True), dims, strict=True)], structure
        )

    def _chunks(self, chunk_size: int) -> Iterator[tuple[int, list[Any]]]:
        for start in range(0, self.size, chunk_size):
            length = min(chunk_size, self.size - start)
            yield (
                length,
                [
                    x if dim is None else x.narrow(dim, start, length)
                    for x, dim in zip(self.args, self.dims, strict=True)
                ],
            )

    def _mapped(self, args: Sequence[Any], size: int, kwargs: dict[str, Any]) -> Any:
        batches = [x if dim in (0, None) else ops.movedim(x, dim, 0) for x, dim in zip(args, self.dims, strict=True)]
        with mapping(size, self.randomness) as level:
            inside = [x if dim is None else cross_in(x, level) for x, dim in zip(batches, self.dims, strict=True)]
            outputs = self.func(*unflatten(inside, self.structure), **kwargs)
        leaves, structure = flatten(outputs)
        dims = self._out_dims(outputs, structure)
        results = [self._out(x, dim, level) for x, dim in zip(leaves, dims, strict=True)]
        for batch, example, dim in zip(batches, inside, self.dims, strict=True):
            if dim is not None and example._counter.value:
                batch.copy_(cross_out(example, level))
        return unflatten(results, structure)

    def _out_dims(self, outputs: Any, structure: TreeSpec) -> list[int | None]:
        out_dims = self.out_dims
        if isinstance(outputs, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
            return list(out_dims)
        dims = None if isinstance(outputs, Tensor) and isinstance(out_dims, tuple) else spread(out_dims, structure)
        if dims is None:
            raise ValueError(
                f"vmap({name_of(self.func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
                f"structure of `outputs`. out_dims has structure {flatten(out_dims)[1]} but outputs has structure "
                f"{structure}."
            )
        return dims

    def _out(self, output: Any, dim: int | None, level: Any) -> Any:
        name = name_of(self.func)
        if dim is None:
            if isinstance(output, Tensor) and is_mapped(output._value(), level):
                raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
            return output
        if not isinstance(output, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)}. Did you mean to set "
                "out_dims= to None for output?"
            )
        batch = cross_out(output, level)
        return batch if dim == 0 else ops.movedim(batch, 0, dim)


def _matched(
    func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...]
) -> tuple[list[Any], TreeSpec, list[int | None]]:
    """The leaves of the arguments, their structure, and the mapped axis of each."""
    name = name_of(func)
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
    leaves, structure = flatten(args)
    dims = spread(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
            f"`inputs`. in_dims has structure {flatten(in_dims)[1]} but inputs has structure {structure}."
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
    return leaves, structure, dims


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


def name_of(func: Any) -> str:
    """A function as PyTorch names it in errors."""
    if hasattr(func, "__name__"):
        return func.__name__
    return f"functools.partial({name_of(func.func)}, ...)" if isinstance(func, functools.partial) else repr(func)
