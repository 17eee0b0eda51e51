"""The part of ``torch._C`` that autograd programs use: node classes by name, and the engine's state."""

import weakref
from types import SimpleNamespace
from typing import Any

from fgrad.mutable.backward.engine import running
from fgrad.mutable.context.modes import check_switch, modes
from fgrad.mutable.context.torch_function.protocol import (
    ALL,
    NONE,
    DisableTorchFunction as DisableTorchFunction,
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
    disabled_torch_function_impl as _disabled_torch_function_impl,
    pop_mode,
    push_mode,
)
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.autograd.delayed_errors import delayed_error
from fgrad.torch.autograd.function import Function
from fgrad.torch.methods.subclasses import disabled_torch_dispatch_impl as _disabled_torch_dispatch_impl
from fgrad.torch.stand_ins import names, submodules

#: the package whose modules the table lists
__path__: list[str] = []
__getattr__, __dir__ = submodules(__name__)
_TensorMeta = type(Tensor)
globals().update(names("_C"))

__all__ = ["_disabled_torch_dispatch_impl", "_disabled_torch_function_impl"]


class _DelayedError:
    """Attaches a node that raises when a gradient reaches it."""

    def __init__(self, message: str, num_inputs: int):
        self.message = message
        self.num_inputs = num_inputs

    def __call__(self, *tensors: Tensor) -> Any:
        if len(tensors) != self.num_inputs:
            raise TypeError(f"expected {self.num_inputs} arguments, got {len(tensors)} instead")
        results = delayed_error(self.message, tensors)
        return results[0] if len(results) == 1 else tuple(results)


class UndefinedGrad(Function):
    """The tensor itself, without gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> None:
        return None


_functions = SimpleNamespace(
    AccumulateGrad=AccumulateGrad, DelayedError=_DelayedError, UndefinedGrad=lambda: UndefinedGrad.apply
)


def _current_graph_task_id() -> int:
    """The id of the running backward, -1 if none is."""
    return running.tasks[-1].number if running.tasks else -1


def _get_tracing_state() -> None:
    """The state of TorchScript's tracing: always None."""


def _is_tracing() -> bool:
    """Whether TorchScript is tracing: never."""
    return False


def _log_api_usage_once(event: str) -> None:
    """PyTorch's usage statistics: nothing is logged."""


def _current_autograd_node() -> Node | None:
    """The node that backward is running."""
    return running.tasks[-1].node if running.tasks else None


def _will_engine_execute_node(node: Any) -> bool:
    """Whether the running backward will reach a node."""
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type_name(node)}")
    if not running.tasks:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    task = running.tasks[-1]
    if isinstance(node, AccumulateGrad) and node in (task.captures or ()):
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return task.runs(node)


class _WeakTensorRef:
    """Whether a tensor is still there."""

    def __init__(self, tensor: Tensor):
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        return self._reference() is None


def is_grad_enabled() -> bool:
    """Whether operations are recorded."""
    return modes.grad


def is_inference_mode_enabled() -> bool:
    """Whether results are inference tensors."""
    return modes.inference


def is_anomaly_enabled() -> bool:
    """Whether nodes note where they were made."""
    return modes.anomaly


def _is_fwd_grad_enabled() -> bool:
    """Whether operations propagate tangents."""
    return modes.forward_grad


def _set_grad_enabled(enabled: bool) -> None:
    """Set whether operations are recorded."""
    check_switch("set_grad_enabled", enabled)
    modes.grad = enabled


def _is_multithreading_enabled() -> bool:
    """What ``set_multithreading_enabled`` has set."""
    return modes.multithreading


def _is_view_replay_enabled() -> bool:
    """Whether views of a written base are made anew by their own operations: never, here."""
    return False


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Set whether operations propagate tangents."""
    modes.forward_grad = enabled


def _are_functorch_transforms_active() -> bool:
    """Whether the program runs inside a transformation of ``torch.func``."""
    return bool(modes.transforms)


def _is_torch_function_enabled() -> bool:
    """Whether classes of arguments may override calls."""
    return modes.overriding == ALL


def _is_torch_function_all_disabled() -> bool:
    """Whether modes, too, may not override calls."""
    return modes.overriding == NONE


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode is active."""
    return modes.overriding != NONE and bool(modes.handlers)


def _len_torch_function_stack() -> int:
    """The number of active modes."""
    return len(modes.handlers)


def _get_function_stack_at(level: int) -> Any:
    """A mode by its index, the outermost first."""
    return modes.handlers[level]


def _push_on_torch_function_stack(mode: Any) -> None:
    """Enter a mode."""
    push_mode(mode)


def _pop_torch_function_stack() -> Any:
    """Leave the innermost mode."""
    return pop_mode()


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Without effect: ``vmap`` has a rule for each operation, and falls back on none."""


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Whether ``vmap`` says that an operation has no rule: never."""
    return False
