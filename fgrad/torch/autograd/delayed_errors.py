"""Errors raised when a gradient arrives: for tensors that must not be differentiated again."""

import functools
from collections.abc import Sequence
from typing import Any

from fgrad.graph.source import here
from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.tensor.node import Edge, Node, named
from fgrad.mutable.tensor.tensor import Tensor, alias, gradient_edge, is_tracked


def once_differentiable(fn: Any) -> Any:
    """Mark a ``backward`` that cannot itself be differentiated: differentiating its gradients raises.

    Source: `torch.autograd.function.once_differentiable
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.function.once_differentiable.html>`_.
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not modes.grad or not any(isinstance(x, Tensor) and is_tracked(x) for x in args):
            return outputs
        several = isinstance(outputs, tuple)
        leaves = [None if x is None else alias(x) for x in (outputs if several else (outputs,))]
        for leaf in leaves:
            if leaf is not None:
                leaf._requires_grad = True
        results = delayed_error(
            "trying to differentiate twice a function that was marked with @once_differentiable", leaves
        )
        return tuple(results) if several else results[0]

    return wrapper


class DelayedError(Node):
    """A node that raises when a gradient reaches it."""

    __slots__ = ("message",)

    def __init__(self, message: str, edges: Sequence[Edge | None], types: Sequence[Any]):
        super().__init__(edges, types, here(4))
        self.message: str = message

    def apply(self, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        raise RuntimeError(self.message)


_Error = named(DelayedError, "torch::autograd::Error")


def delayed_error(message: str, tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tensors as outputs of a node that raises when a gradient reaches it."""
    edges = [None if x is None else gradient_edge(x) for x in tensors]
    node = _Error(message, edges, [None if x is None else x._type for x in tensors])
    results = [None if x is None else alias(x) for x in tensors]
    for i, (x, edge) in enumerate(zip(results, edges, strict=True)):
        if x is not None and edge is not None:
            x._node, x._output_nr = node, i
    return results
