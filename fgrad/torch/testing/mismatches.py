"""The messages about values that are not close."""

from typing import Any

import numpy as np

from fgrad.mutable.tensor.tensor import Tensor


def _difference(kind: str, size: Any, index: tuple[int, ...] | None, tolerance: float, exact: bool) -> str:
    text = (
        f"{kind.title()} difference: {size}"
        if index is None
        else f"Greatest {kind} difference: {size} at index {index}"
    )
    return text if exact else f"{text} (up to {tolerance} allowed)"


def of_scalars(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """The message for two numbers."""
    exact = rtol == 0 and atol == 0
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    return "\n".join(
        [
            f"Scalars are not {'equal' if exact else 'close'}!\n",
            f"Expected {expected} but got {actual}.",
            _difference("absolute", absolute, None, atol, exact),
            _difference("relative", relative, None, rtol, exact),
        ]
    )


def of_tensors(actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float) -> str:
    """The message for two tensors: how many elements differ, and the greatest absolute and relative differences."""
    exact = rtol == 0 and atol == 0
    count = matches.numel()
    wrong = count - int(matches.sum())
    if not actual._type.inexact:
        actual, expected = actual.long(), expected.long()
    absolute = (actual - expected).abs().masked_fill(matches, 0)
    relative = (absolute / expected.abs()).masked_fill(matches, 0)
    text = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n",
        f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})",
    ]
    for kind, differences, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        size, position = differences.flatten().max(0)
        index = tuple([int(i) for i in np.unravel_index(int(position), tuple(matches.shape))])
        text.append(_difference(kind, size.item(), index, tolerance, exact))
    return "\n".join(text)
