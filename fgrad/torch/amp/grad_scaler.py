"""``torch.amp.GradScaler``: losses scaled, so that small gradients do not underflow in float16."""

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any, ClassVar

from attrs import define, field

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.capture import usually
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.torch import cuda, ops


class OptState(Enum):
    """The state of an optimiser in this iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


@define
class _Progress:
    """The progress of an optimiser in this iteration."""

    stage: OptState = OptState.READY
    #: one if a gradient is not finite; None before the check
    found_inf: Any = field(default=None)


class GradScaler:
    """Multiplies losses by a scale and divides gradients by it; steps with non-finite gradients are skipped.

    Arguments:
      device: the type of device of the losses.
      init_scale: the first scale.
      growth_factor: by which the scale grows after ``growth_interval`` steps in a row.
      backoff_factor: by which it shrinks after a skipped step.
      growth_interval: the number of steps before the scale grows.
      enabled: whether it has an effect.

    Raises:
      AssertionError: ``growth_factor`` is not above 1, or ``backoff_factor`` not below 1.

    >>> import fgrad.torch as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> scaler, optimizer = torch.GradScaler("cpu"), torch.optim.SGD([w], lr=0.5)
    >>> scaler.scale(w.sum()).backward()
    >>> w.grad
    tensor([65536., 65536.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.5000, 0.5000], requires_grad=True)

    Source: `torch.amp.GradScaler <https://docs.pytorch.org/docs/2.13/amp.html#torch.amp.GradScaler>`_.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if device == "cuda" and enabled and not cuda.is_available():
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        # created with the first loss
        self._scale: Any = None
        self._growth_tracker: Any = None
        self._per_optimizer_states: dict[int, _Progress] = defaultdict(_Progress)

    def scale(self, outputs: Any) -> Any:
        """A loss, or all in a list, tuple or other iterable, times the scale.

        Raises:
          ValueError: one is not a tensor.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            loss: Any = outputs
            return loss * self._started()
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _started(self) -> Any:
        if self._scale is None:
            self._scale = ops.full((), self._init_scale, dtype=dtypes.float32)
            self._growth_tracker = ops.full((), self._init_growth_tracker, dtype=dtypes.int32)
        return self._scale

    def _check_started(self, function: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {function} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimiser's gradients by the scale in place, for example before clipping.

        Raises:
          RuntimeError: it was already called in this iteration, or the optimiser has made its step.
          ValueError: gradients are of float16.
        """
        if not self._enabled:
            return
        self._check_started("unscale_")
        progress = self._per_optimizer_states[id(optimizer)]
        if progress.stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if progress.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.double().reciprocal().float()
        progress.found_inf = _unscale(optimizer, inverse)
        progress.stage = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients and make an optimiser's step if they are finite; returns its result.

        Raises:
          RuntimeError: the step was already made in this iteration, or a ``closure`` is given.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_started("step")
        progress = self._per_optimizer_states[id(optimizer)]
        if progress.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage is OptState.READY:
            self.unscale_(optimizer)
        if progress.found_inf is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if usually(progress.found_inf, False) else optimizer.step(*args, **kwargs)
        progress.stage = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Update the scale after the steps of an iteration, or set it.

        Raises:
          AssertionError: no gradients were checked, or the new scale is neither a number nor a tensor of one.
        """
        if not self._enabled:
            return
        self._check_started("update")
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
        elif new_scale is not None:
            if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                    "requires_grad=False."
                )
            self._scale.copy_(new_scale)
        else:
            self._adapt([each.found_inf for each in self._per_optimizer_states.values() if each.found_inf is not None])
        self._per_optimizer_states.clear()

    def _adapt(self, found_infs: list[Any]) -> None:
        if not found_infs:
            raise AssertionError("No inf checks were recorded prior to update.")
        found_inf = ops.stack(found_infs).any()
        steps, grown = self._growth_tracker + 1, self._scale * self._growth_factor
        grows = steps == self._growth_interval
        kept = ops.where(grows & grown.isfinite(), grown, self._scale)
        self._scale.copy_(ops.where(found_inf, self._scale * self._backoff_factor, kept))
        self._growth_tracker.copy_(steps.masked_fill(found_inf | grows, 0))

    def get_scale(self) -> float:
        """The scale; 1 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """The growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of steps before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps before the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Whether it has an effect."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and its parameters; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state.

        Raises:
          RuntimeError: the state is empty.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            state |= {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
            state |= {"_scale": None, "_growth_tracker": None}
        return state


def _unscale(optimizer: Any, inverse: Any) -> Any:
    """Multiply gradients by ``inverse``; returns a tensor, one if any was not finite, or None without gradients."""
    params = [param for group in optimizer.param_groups for param in group["params"] if param.grad is not None]
    if not params:
        return None
    if any(param.grad.dtype is dtypes.float16 for param in params):
        raise ValueError("Attempting to unscale FP16 gradients.")
    finite = [param.grad.isfinite().all() for param in params]
    with no_grad():
        for param in params:
            param.grad.data.mul_(inverse)  # PyTorch's operation counts no write
        return ops.stack(finite).all().logical_not().to(dtypes.float32)


class FormerGradScaler(GradScaler):
    """``torch.amp.GradScaler`` by its former name, in the module of a device.

    Attributes:
      kind: the kind of device.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_of_former(self.kind, "GradScaler(args...)", f"GradScaler('{self.kind}', args...)")
        super().__init__(self.kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def warn_of_former(kind: str, old: str, new: str) -> None:
    """Warn that a name in the module of a device is deprecated."""
    warn(f"`torch.{kind}.amp.{old}` is deprecated. Please use `torch.amp.{new}` instead.", FutureWarning)
