"""Warnings, reported at the user's line however deep in the library they are issued.

Python's filters show a warning once per location, and a location inside the library would be the same for all.
"""

import sys
import warnings

from attrs import define, field

from fgrad.mutable.ports import WARNING
from fgrad.seam import is_hidden


@define
class _Once:
    """The warnings that come once in a process, as PyTorch's ``TORCH_WARN_ONCE``; ``set_warn_always`` repeats them."""

    always: bool = False
    issued: set[str] = field(factory=set)


once: _Once = _Once()


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost frame outside the library.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("take care")
    >>> str(caught[0].message), caught[0].category
    ('take care', <class 'UserWarning'>)
    """
    level, frame = 2, sys._getframe(1)
    while is_hidden(frame.f_code) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(WARNING.call(message), category, stacklevel=level)


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at its first occasion in the process, as PyTorch's ``TORCH_WARN_ONCE``."""
    if first_time(message):
        warn(message, category)


def first_time(warning: str) -> bool:
    """Whether a once-only warning is due; marks it as given.

    Source: `torch.set_warn_always <https://docs.pytorch.org/docs/2.13/generated/torch.set_warn_always.html>`_.
    """
    if once.always:
        return True
    fresh = warning not in once.issued
    once.issued.add(warning)
    return fresh
