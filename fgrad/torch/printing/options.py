"""The process-wide options of printing, and their profiles."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from attrs import asdict, evolve, frozen


@frozen
class PrintOptions:
    """The options of `set_printoptions`, which explains them."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: Mapping[str | None, PrintOptions] = MappingProxyType(
    {
        "default": PrintOptions(),
        "short": PrintOptions(precision=2, edgeitems=2),
        "full": PrintOptions(threshold=math.inf),
    }
)

# As in PyTorch, the options belong to the process.
_current = PrintOptions()


def current() -> PrintOptions:
    """The current options.

    >>> current().linewidth
    80
    """
    return _current


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; options left out stay, except ``sci_mode``, which becomes automatic.

    Arguments:
      precision: digits after the point.
      threshold: tensors of more elements than this are summarised.
      edgeitems: how many elements at both ends of a dimension a summary shows.
      linewidth: the maximal length of lines.
      profile: ``"default"``, ``"short"`` or ``"full"`` (no summaries), to which the other arguments then apply.
      sci_mode: whether numbers have exponents; ``None`` depends on their magnitudes.

    >>> import fgrad.torch as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.12345])
    tensor([1.12])
    >>> torch.set_printoptions(profile='default')
    >>> torch.tensor([1.12345])
    tensor([1.1235])

    Source: `torch.set_printoptions <https://docs.pytorch.org/docs/2.13/generated/torch.set_printoptions.html>`_.
    """
    global _current
    options = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    _current = evolve(_PROFILES.get(profile, _current), **changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """The current options, as arguments for `set_printoptions`.

    >>> get_printoptions()['precision']
    4
    """
    return asdict(_current)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set how tensors are printed within a block; the arguments are those of `set_printoptions`.

    >>> import fgrad.torch as torch
    >>> with printoptions(precision=1):
    ...     print(torch.tensor([0.25]))
    tensor([0.2])
    """
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)
