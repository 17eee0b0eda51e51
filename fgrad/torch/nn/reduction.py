"""The deprecated arguments of losses that ``reduction`` has replaced."""

from fgrad.mutable.context.warning import warn


def get_enum(reduction: str) -> int:
    """The number by which PyTorch's kernels know a ``reduction``.

    >>> get_enum("mean")
    1
    """
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        reduction = "mean"
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def legacy_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """The ``reduction`` that ``size_average`` and ``reduce`` stand for, with PyTorch's warning.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     legacy_reduction(False, None)
    'sum'

    Source: `torch.nn.MSELoss <https://docs.pytorch.org/docs/2.13/generated/torch.nn.MSELoss.html>`_.
    """
    mean, reduced = size_average is None or bool(size_average), reduce is None or bool(reduce)
    reduction = "none" if not reduced else "mean" if mean else "sum"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    return reduction


legacy_get_string = legacy_reduction
