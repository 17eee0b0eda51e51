"""Eighth floor: why an error was raised, why a gradient is missing; it reads everything below, and nothing reads it.

``fgrad.torch`` imports it only when something is wrong.

It uses ``context``, ``values``, ``tensor``, ``operation``, ``write``, ``backward``.
"""

from typing import TYPE_CHECKING

from fgrad.seam import deferred

if TYPE_CHECKING:
    from fgrad.mutable.explain.audit import restore_context as restore_context, tensors_on_context as tensors_on_context
    from fgrad.mutable.explain.explain import non_leaf as non_leaf
    from fgrad.mutable.explain.lost_history import warn_of_lost_history as warn_of_lost_history
    from fgrad.mutable.explain.why_no_grad import no_history as no_history, not_used as not_used
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            f"{__name__}.audit": "restore_context tensors_on_context",
            f"{__name__}.explain": "non_leaf",
            f"{__name__}.lost_history": "warn_of_lost_history",
            f"{__name__}.why_no_grad": "no_history not_used",
        },
    )
