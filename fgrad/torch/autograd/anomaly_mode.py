"""Anomaly mode: backward looks for NaN, and an error in it shows the forward call it belongs to.

Source: `Anomaly detection <https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection>`_.
"""

from typing import Any

from fgrad.mutable.context.modes import Mode, Switch, check_switch, modes
from fgrad.mutable.context.warning import warn


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return modes.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return modes.check_nan


class set_detect_anomaly(Switch):
    """Sets anomaly mode: at once as a function, for a block as a context manager."""

    def __init__(self, mode: bool, check_nan: bool = True):
        check_switch("set_anomaly_enabled", mode)
        self.mode: bool = mode
        self.check: bool = check_nan
        self.set(anomaly=mode, check_nan=check_nan)

    def clone(self) -> "set_detect_anomaly":
        return set_detect_anomaly(self.mode, self.check)


class detect_anomaly(Mode):
    """Anomaly mode for a block.

    >>> import warnings, fgrad.torch as torch
    >>> with warnings.catch_warnings(action="ignore"), torch.autograd.detect_anomaly():
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, check_nan: bool = True):
        self.check = check_nan
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
        )

    def clone(self) -> "detect_anomaly":
        return detect_anomaly(self.check)

    def values(self) -> dict[str, Any]:
        return {"anomaly": True, "check_nan": self.check}
