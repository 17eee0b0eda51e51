"""Warnings, which have the user's line as their place, however deep in the library they are given.

Python's filters show a warning once for each place: a place inside of the library would be one for all programs.
"""

import sys
import warnings

from fgrad.mutable.context.entrance import explanation
from fgrad.seam import is_hidden


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning at the innermost frame that is not the library's own.

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
    warnings.warn(explanation.warning(message), category, stacklevel=level)
