"""The drawing of a tensor's history and of its gradient, side by side."""

from jax import tree_util

from fgrad.mutable.explain.graph_of import graph_of
from fgrad.mutable.explain.wording import check_tensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.seam import Drawing, drawing_of


def draw(tensor: Tensor) -> Drawing:
    """A drawing of how a tensor was computed, with the derivative of each operation next to it.

    Forward runs down the left side, from the leaves that require grad and the data; backward up the right side, to the
    gradients of the leaves.  What is saved stands between, with its bytes; it is what the gradient keeps as one
    program, which may be less than what the nodes hold one by one (``torch.residuals``).

    Arguments:
      tensor: a loss, or another tensor with a ``grad_fn``; backward may have run already.

    Returns:
      A ``Drawing``: it prints as a table, shows itself in notebooks, and has ``to_svg``, ``to_html``, ``to_dot`` and
      ``to_mermaid``.

    Raises:
      RuntimeError, TypeError: as ``graph_of`` does.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> x = torch.tensor([3.0, 4.0])
    >>> loss = (w * x).sum()
    >>> print(torch.draw(loss))
    arguments  forward     saved   backward         gradients
    w          mul         x  8 B  d mul            d loss / d w
    x
               reduce_sum          d reduce_sum
               loss                d loss / d loss
    """
    check_tensor(tensor, "draw")
    graph = graph_of(tensor)
    leaves, _ = tree_util.tree_unflatten(graph.in_tree, range(len(graph.names)))[0]
    return drawing_of(graph.core, graph.names, graph.out_names, sorted(leaves.values()), graph.out_names[0])
