"""``torch.amp``: mixed precision: autocast, and scaling of losses.

Source: `torch.amp <https://docs.pytorch.org/docs/2.13/amp.html>`_.
"""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.torch.amp import (
        autocast_mode as autocast_mode,
        casting as casting,
        grad_scaler as grad_scaler,
        settings as settings,
    )
    from fgrad.torch.amp.autocast_mode import (
        autocast as autocast,
        custom_bwd as custom_bwd,
        custom_fwd as custom_fwd,
        is_autocast_available as is_autocast_available,
    )
    from fgrad.torch.amp.grad_scaler import GradScaler as GradScaler
else:
    __getattr__, __dir__ = deferred(
        __name__,
        {
            __name__: "autocast_mode casting grad_scaler settings",
            f"{__name__}.autocast_mode": "autocast custom_bwd custom_fwd is_autocast_available",
            f"{__name__}.grad_scaler": "GradScaler",
        },
    )

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
