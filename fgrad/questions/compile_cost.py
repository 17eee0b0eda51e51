"""What will this cost to compile?"""

from collections.abc import Callable
from typing import Any

from fgrad.api.arguments import check_function
from fgrad.api.graphs import make_graph
from fgrad.graph.outline import CompileCost


def compile_cost(fun: Callable[..., Any]) -> Callable[..., CompileCost]:
    """A function of ``fun``'s arguments that says what compiling ``fun`` will cost, before anything is compiled.

    Arguments:
      fun: a function of arrays; ``fgrad.grad(loss)`` asks for the gradient's cost.

    Returns:
      A function whose result has the number of ``operations``, of each of the ``primitives``, what repeats
      (``unrolled``: the blocks that Python loops left behind, with lines, loop and times), and how many operations
      would be left if each block stood there once (``outlined``).  It is false where nothing repeats.

    Raises:
      NotConcreteError, ArgumentTypeError: as ``make_graph``.

    >>> import fgrad, jax.numpy as jnp
    >>> def net(x, layers):
    ...     for w in layers:
    ...         x = jnp.tanh(x @ w)
    ...     return x.sum()
    >>> w = jnp.zeros((3, 3))
    >>> cost = fgrad.compile_cost(net)(w, [w] * 12)
    >>> cost.operations, cost.outlined, cost.unrolled[0].count
    (25, 3, 12)
    """

    check_function(fun, "compile_cost")

    def cost_of(*args: Any, **kwargs: Any) -> CompileCost:
        return make_graph(fun)(*args, **kwargs).compile_cost()

    return cost_of
