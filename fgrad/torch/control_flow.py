"""Branches and loops as functions: ``torch.cond``, ``torch.while_loop`` and ``associative_scan``, run in Python.

Source: `Control Flow - Cond <https://docs.pytorch.org/docs/2.13/cond.html>`_.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.func.maps import vmap
from fgrad.torch.ops.views.axes import movedim
from fgrad.torch.ops.views.joining import cat, stack
from fgrad.torch.ops.views.rearranging import flip
from fgrad.torch.ops.views.views import wrap_dim
from fgrad.torch.utils._pytree import tree_flatten, tree_unflatten


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Apply one of two functions to the operands.

    Arguments:
      pred: a truth value, or a tensor of one element.
      true_fn, false_fn: functions of the operands.
      operands: a tuple of tensors, or of trees of tensors.

    Raises:
      RuntimeError: ``pred`` is something else, or a function cannot be called.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([3.0])
    >>> torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    tensor([4.])
    """
    if not isinstance(pred, bool | Tensor) or (isinstance(pred, Tensor) and pred._type.numel != 1):
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Apply ``body_fn`` to the carry while ``cond_fn`` holds.

    Arguments:
      cond_fn: a function from the carry to a truth value or a tensor of one.
      body_fn: a function from the carry to the next one, a tuple.
      carried_inputs: the initial carry.

    >>> import fgrad.torch as torch
    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(1)))
    (tensor(3), tensor([8.]))
    """
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        carried = tuple(body_fn(*carried))
    return carried


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """The results of an associative function of two elements along an axis, over all elements up to each one.

    Arguments:
      combine_fn: from two trees, as ``xs`` without the axis, to one.
      xs: a tree of tensors with the same number of elements along ``dim``.
      reverse: begin at the last element.
      combine_mode: accepted as in PyTorch, which needs "generic" on a CPU.

    Raises:
      ValueError: an argument is not of these kinds.
      IndexError: there is no such axis.
      RuntimeError: ``reverse`` is no truth value, or the function returns another structure than its arguments'.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.control_flow import associative_scan
    >>> associative_scan(lambda a, b: a * b, torch.tensor([1.0, 2.0, 3.0]), 0, combine_mode="generic")
    tensor([1., 2., 6.])
    """
    leaves, structure = tree_flatten(xs)
    dim = _checked_scan(combine_fn, leaves, dim, reverse, combine_mode)
    mapped = vmap(combine_fn)

    def combine(left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        made, of = tree_flatten(mapped(tree_unflatten(left, structure), tree_unflatten(right, structure)))
        if of != structure:
            raise RuntimeError(f"Expected the output of combine_fn to have the structure {structure}, but got {of}.")
        return made

    rows = [movedim(x, dim, 0) for x in leaves]
    rows = _scanned(combine, [flip(x, [0]) for x in rows] if reverse else rows)
    rows = [flip(x, [0]) for x in rows] if reverse else rows
    return tree_unflatten([movedim(x, 0, dim) for x in rows], structure)


def _checked_scan(combine_fn: Any, leaves: Sequence[Any], dim: Any, reverse: Any, combine_mode: Any) -> int:
    """The axis of a scan."""
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if any(not isinstance(x, Tensor) for x in leaves):
        raise ValueError("xs leaves must be a Tensor")
    if combine_mode == "pointwise" and any(x.device.type not in ("cuda", "xpu") for x in leaves):
        raise ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or XPU")
    at = wrap_dim(dim, leaves[0].ndim)
    if any(x.ndim <= at or not x.shape[at] for x in leaves):
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    return at


def _scanned(combine: Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]], rows: list[Tensor]) -> list[Tensor]:
    """The scan along the first axis: pairs are combined and scanned, and what lies between follows from these."""
    count = len(rows[0])
    if count < 2:
        return rows
    odd = _scanned(combine, combine([x[:-1:2] for x in rows], [x[1::2] for x in rows]))
    even = [x[:1] for x in rows]
    if count > 2:
        later = combine([x[: (count - 1) // 2] for x in odd], [x[2::2] for x in rows])
        even = [cat([x, y]) for x, y in zip(even, later, strict=True)]
    half = count // 2
    pairs = [stack([x[:half], y], 1).flatten(0, 1) for x, y in zip(even, odd, strict=True)]
    return [cat([x, y[half:]]) for x, y in zip(pairs, even, strict=True)] if count % 2 else pairs
