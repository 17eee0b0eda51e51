"""Selecting the arguments to differentiate with respect to, and checking results."""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.trees import map_leaves

Argnums = int | tuple[int, ...]


def positions(argnums: Any, count: int) -> tuple[int, ...]:
    """The positions of ``argnums``, non-negative.

    Raises:
      RuntimeError: they are not integers, out of range, empty or repeated.
    """
    if not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    indices = tuple([_position(i, count) for i in (argnums if isinstance(argnums, tuple) else (argnums,))])
    if not indices:
        raise RuntimeError("argnums must be non-empty")
    if len(set(indices)) != len(indices):
        raise RuntimeError(f"argnums elements must be unique, got {indices}")
    return indices


def _position(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def chosen(args: tuple[Any, ...], argnums: Any) -> Any:
    """The argument selected by an integer, or the tuple of those selected by a tuple."""
    arguments = tuple([args[i] for i in positions(argnums, len(args))])
    return arguments[0] if isinstance(argnums, int) else arguments


def replaced(args: tuple[Any, ...], argnums: Any, new: Any) -> tuple[Any, ...]:
    """The arguments with the selected ones replaced."""
    values = list(args)
    for i, x in zip(positions(argnums, len(args)), (new,) if isinstance(argnums, int) else new, strict=True):
        values[i] = x
    return tuple(values)


def others(enter: Callable[[Any], Any], args: tuple[Any, ...], argnums: Any) -> tuple[Any, ...]:
    """The arguments, those that are not selected mapped by a function."""
    selected = positions(argnums, len(args))
    return tuple([x if i in selected else enter(x) for i, x in enumerate(args)])


def split_aux(result: Any, has_aux: bool, function: str) -> tuple[Any, Any]:
    """The output and the auxiliary data.

    Raises:
      RuntimeError: ``has_aux`` is set and the result is not a pair.
    """
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{function}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def undone(leave: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """A tree with its tensors taken out of a level.

    Raises:
      RuntimeError: a leaf is not a tensor.
    """

    def out(x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
        return leave(x)

    return map_leaves(out, tree)


def check_outputs(outputs: Sequence[Any], function: str) -> None:
    """Raise PyTorch's error if there is no output, or one that is not a tensor."""
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(
            f"{function}: Expected f to be a function that has non-empty output (got output = {list(outputs)})"
        )
    for x in outputs:
        if not isinstance(x, Tensor):
            raise RuntimeError(
                f"{function}: expected f(*primals) to return only tensors, got unsupported type {type(x)}"
            )


def check_real(function: str, leaves: Sequence[Any], role: str) -> None:
    """Raise PyTorch's error if a tensor is complex."""
    for i, x in enumerate(leaves):
        if isinstance(x, Tensor) and x._type.dtype.is_complex:
            raise RuntimeError(
                f"{function}: Expected all {role} to be real but received complex tensor at flattened input idx: {i}"
            )
