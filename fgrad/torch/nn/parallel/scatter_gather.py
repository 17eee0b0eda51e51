"""``torch.nn.parallel.scatter_gather``: only values that are not tensors can be scattered, for lack of GPUs.

Source: PyTorch's ``torch/nn/parallel/scatter_gather.py``.
"""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Sequence[Any]:
    """The inputs once for each device.

    Raises:
      NotImplementedError: the inputs contain a tensor, which would be split among several GPUs.
    """
    if isinstance(inputs, Tensor):
        raise NotImplementedError("scatter: fgrad computes on one device; shard JAX arrays instead.")
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return [type(inputs)(*parts) for parts in _scattered(inputs, target_gpus)]
    if isinstance(inputs, tuple) and inputs:
        return _scattered(inputs, target_gpus)
    if isinstance(inputs, list) and inputs:
        return [list(parts) for parts in _scattered(inputs, target_gpus)]
    if isinstance(inputs, dict) and inputs:
        return [type(inputs)(parts) for parts in _scattered(inputs.items(), target_gpus)]
    return [inputs for _ in target_gpus]


def _scattered(parts: Any, target_gpus: Sequence[Any]) -> list[Any]:
    return list(zip(*[scatter(part, target_gpus) for part in parts], strict=True))
