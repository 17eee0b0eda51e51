"""Modes, defaults and settings that a call may leave set: ``torch.set_grad_enabled(False)`` without a block."""

from typing import Any

from attrs import frozen

from fgrad.mutable.context.modes import modes
from fgrad.mutable.types.devices import default_devices
from fgrad.mutable.types.dtypes import dtype, get_default_dtype, set_default_dtype
from fgrad.torch.settings import Settings, process, restore_settings

#: the fields of ``modes`` that a function can set for longer than a call
_MODES = ("grad", "inference", "anomaly", "check_nan", "forward_grad", "saved_hooks", "saved_hooks_disabled")
_MODES += ("snapshot", "multithreading", "handlers", "handled", "pushed", "casting", "autocast", "unusual")
_MODES += ("dual_level", "duals")


@frozen
class Switches:
    """The switches at one time."""

    modes: dict[str, Any]
    dtype: dtype
    devices: tuple[Any, ...]
    settings: Settings

    @staticmethod
    def now() -> "Switches":
        """As they are."""
        devices = default_devices.chosen, default_devices.entered
        return Switches({x: getattr(modes, x) for x in _MODES}, get_default_dtype(), devices, process.settings)

    def changed(self) -> str | None:
        """The name of one that is no longer as it was."""
        now = Switches.now()
        if now == self:
            return None
        names = [name for name in _MODES if now.modes[name] != self.modes[name]]
        return names[0] if names else "a default or a setting"

    def restore(self) -> None:
        """Put them back."""
        if Switches.now() == self:
            return
        fields = vars(modes)
        fields |= self.modes
        set_default_dtype(self.dtype)
        default_devices.chosen, default_devices.entered = self.devices
        restore_settings(self.settings)
