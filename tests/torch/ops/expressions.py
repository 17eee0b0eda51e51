"""What an expression comes to on either library: values, types, strides, errors and warnings."""

import re
import warnings
from typing import Any

import numpy as np


def _put(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def _described(found: Any) -> Any:
    if hasattr(found, "grad_fn"):
        node = None if found.grad_fn is None else type(found.grad_fn).__name__
        values = found.detach()
        values = np.asarray(values.float().tolist() if "bfloat16" in str(found.dtype) else values.tolist())
        return (
            str(found.dtype),
            tuple(found.shape),
            found.stride(),
            found._is_view(),
            node,
            np.round(values, 5).tolist(),
        )
    if isinstance(found, tuple | list):
        return [_described(each) for each in found]
    return str(found).replace("fgrad.torch", "torch")


class _Index:
    def __index__(self) -> int:
        return 1


class _Sequence:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return (1, 0)[i]


def outcome(torch: Any, expression: str) -> Any:
    named = {
        "torch": torch,
        "np": np,
        "put": _put,
        "Index": _Index,
        "Sequence": _Sequence,
        "x": torch.arange(12.0).reshape(3, 4),
        "z": torch.tensor([1 + 2j, 3 - 1j]),
        "last": torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "byte": torch.ones(2, 2, dtype=torch.uint8),
        "index": torch.tensor([[0, 1]]),
        "leaf": torch.ones(2, 4, requires_grad=True),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = repr(_described(eval(expression, named)))
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    texts = {re.sub(r" \(Triggered internally.*", "", str(each.message), flags=re.DOTALL) for each in caught}
    return found, texts
