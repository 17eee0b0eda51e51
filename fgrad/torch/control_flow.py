"""Branches and loops as functions: ``torch.cond`` and ``torch.while_loop``, run in Python.

Source: `Control Flow - Cond <https://docs.pytorch.org/docs/2.13/cond.html>`_.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor


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
