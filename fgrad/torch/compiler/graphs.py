"""``torch.capture``: the graph of a program on mutable tensors, with the user's names."""

from collections.abc import Callable
from typing import Any

from fgrad.api.graphs import Graph
from fgrad.torch.compiler.step import Step, captured


def capture(function: Callable[..., Any]) -> Callable[..., Graph]:
    """A function that returns the graph of one call of ``function``, and changes nothing.

    Arguments:
      function: a function of tensors: a whole training step, a module, a loss.

    Returns:
      A function of the same arguments that returns the graph of a call made now.  The inputs are the tensors that the
      call reads (arguments, parameters, buffers, ``.grad``, an optimiser's state, the state of the generator) and its
      learning rates; the outputs are the results and whatever the call writes.
      ``graph.names`` and ``graph.out_names`` say which is which; ``graph(*values)`` runs it on arrays in this order.

    Raises:
      CaptureError: the function needs a number that depends on its inputs (``if loss > 3``, ``loss.item()``); the
        message names the line.  Or it can reach a NumPy array in the memory of a tensor that it writes.  Whatever the
        function raises, all tensors and objects are as they were.

    >>> import fgrad.torch as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> def step(x):
    ...     optimizer.zero_grad()
    ...     loss = model(x).square().mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> graph = torch.capture(step)(torch.ones(3, 2))
    >>> graph.names
    ('model.weight', 'model.bias', 'args[0]', "optimizer.param_groups[0]['lr']")
    >>> graph.out_names[:3]
    ('result', 'model.weight (written)', 'model.bias (written)')
    >>> model.weight.grad is None
    True
    """

    def graph_of(*args: Any, **kwargs: Any) -> Graph:
        return captured(function, args, kwargs, Step.graph)

    return graph_of
