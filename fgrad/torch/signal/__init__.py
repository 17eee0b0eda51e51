"""``torch.signal``: windows.

Source: `torch.signal <https://docs.pytorch.org/docs/2.13/signal.html>`_.
"""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.signal import windows as windows
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "windows",
        },
    )
