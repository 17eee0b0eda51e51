"""Anomaly mode: backward looks for NaN, and an error in it shows the forward call it belongs to.

Source: `Anomaly detection <https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection>`_.
"""

from functools import partial
from typing import Any

from fgrad.mutable.backward import engine
from fgrad.mutable.context.modes import Mode, check_switch, modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.node import Node


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return modes.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return modes.check_nan


class set_detect_anomaly(Mode):
    """Sets anomaly mode: at once as a function, for a block as a context manager."""

    def __init__(self, mode: bool, check_nan: bool = True):
        check_switch("set_anomaly_enabled", mode)
        self.close: Any = partial(vars(modes).update, anomaly=modes.anomaly, check_nan=modes.check_nan)
        self.mode: bool = mode
        self.check: bool = check_nan
        modes.anomaly, modes.check_nan = mode, check_nan

    def clone(self) -> "set_detect_anomaly":
        return set_detect_anomaly(self.mode, self.check)

    def __enter__(self) -> None:
        return None


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


def _report(node: Node) -> None:
    """Warn with the traceback of the forward call of a node that failed, and of the call that made that node."""
    if not modes.anomaly:
        return
    if node.forward_trace is None:
        warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information.",
            UserWarning,
        )
        return
    warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        + "".join(node.forward_trace),
        UserWarning,
    )
    parent = node.parent
    if parent is not None and parent.forward_trace is not None:
        warn(
            f"Previous calculation was induced by {parent.name()}. Traceback of forward call that induced the previous "
            "calculation:\n" + "".join(parent.forward_trace),
            UserWarning,
        )


engine.anomaly.report = _report
