"""``is_grads_batched`` of ``torch.autograd.grad``: one backward for a batch of gradients, by mapping over them."""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.backward import engine
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.transforms.levels import cross_in, cross_out, mapping
from fgrad.torch.autograd.backward import batching


def batched_gradients(
    roots: Sequence[tuple[Any, Tensor | None]], keep_graph: bool, create_graph: bool, inputs: Sequence[Any]
) -> list[Tensor | None]:
    """``run_backward`` for gradients that have a leading axis of many, as have the results.

    Raises:
      ValueError: they are not equally many.
    """
    sizes = [g._type.shape[0] for _, g in roots if g is not None]
    if len(set(sizes)) != 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    with mapping(sizes[0], "error") as level:
        examples = [(edge, None if g is None else cross_in(g, level)) for edge, g in roots]
        found = engine.run_backward(examples, keep_graph, create_graph, inputs, False)
    return [None if g is None else cross_out(g, level) for g in found]


batching.run = batched_gradients
