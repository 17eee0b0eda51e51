"""``torch.nn.modules.utils``: helpers that libraries of layers import.

Source: `torch.nn.modules.utils <https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/utils.py>`_.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fgrad.torch.nn.modules.sizes import each


def _ntuple(count: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes ``count``-tuples of single values."""
    parse = partial(each, count=count)
    parse.__name__ = name  # type: ignore[attr-defined]
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values: Sequence[Any], count: int) -> tuple[Any, ...]:
    """The values in reverse, each ``count`` times: the form of padding."""
    return tuple(value for value in reversed(values) for _ in range(count))


def _list_with_default(out_size: list[int], defaults: list[int]) -> Any:
    """The given sizes, None replaced by the default."""
    if isinstance(out_size, int | tuple):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    tail = defaults[-len(out_size) :]
    return [default if size is None else size for size, default in zip(out_size, tail, strict=False)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Strip a prefix, such as ``DataParallel``'s, from the names of a ``state_dict``.

    >>> state = {'module.weight': 1}
    >>> consume_prefix_in_state_dict_if_present(state, 'module.')
    >>> state
    {'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in [key for key in metadata if key]:
            if key == prefix.replace(".", ""):
                metadata[""] = metadata.pop(key)
            elif key.startswith(prefix):
                metadata[key.removeprefix(prefix)] = metadata.pop(key)
