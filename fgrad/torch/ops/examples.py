"""Functions that read elements into Python, inside ``vmap``: they are called for one example after the other."""

import functools
from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.transforms.levels import below, cross_in, cross_out, is_mapped, mapped_at
from fgrad.torch.ops.views.joining import stack
from fgrad.torch.trees import flatten, unflatten


def each_example(operator: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Inside ``vmap`` a function runs for each example; of the operator's PyTorch warns that it does."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not modes.maps or kwargs.get("out") is not None:
                return function(*args, **kwargs)
            return _one_by_one(operator, function, args, kwargs)

        return called

    return wrap


def _one_by_one(
    operator: str | None, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    leaves, structure = flatten((args, kwargs))
    level = mapped_at(leaves)
    if level is None:
        return function(*args, **kwargs)
    if operator is not None:
        warn_of_examples(operator)
    mapped = [isinstance(x, Tensor) and is_mapped(x._value(), level) for x in leaves]
    examples, result_structure = [], structure
    with below(level):
        batches = [cross_out(x, level) if m else x for x, m in zip(leaves, mapped, strict=True)]
        for i in range(level.size):
            positional, named = unflatten(
                [x.select(0, i) if m else x for x, m in zip(batches, mapped, strict=True)], structure
            )
            results, result_structure = flatten(_one_by_one(operator, function, positional, named))
            examples.append(results)
        batched = [stack(list(results)) for results in zip(*examples, strict=True)]
    return unflatten([cross_in(x, level) for x in batched], result_structure)


def warn_of_examples(operator: str) -> None:
    """PyTorch's warning that an operator is called for each example."""
    warn(
        "There is a performance drop because we have not yet implemented the batching rule for "
        f"{operator}. Please file us an issue on GitHub so that we can prioritize its implementation."
    )
