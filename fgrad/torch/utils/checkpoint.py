"""``torch.utils.checkpoint``: memory traded for time: backward recomputes the tensors that it needs.

Source: `torch.utils.checkpoint <https://docs.pytorch.org/docs/stable/checkpoint.html>`_.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fgrad.mutable.context.modes import enable_grad, modes, no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.amp.autocast_mode import present_autocast
from fgrad.torch.autograd.backward import _is_checkpoint_valid, backward
from fgrad.torch.autograd.function import Function
from fgrad.torch.random.default import default_generator, fork_rng
from fgrad.torch.utils.recomputation import CheckpointError, Frame
from fgrad.torch.utils.selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
    debug_contexts,
)

Contexts = tuple[Any, Any]


class _Settings(threading.local):
    """The settings of this module's context managers; None leaves it to the call."""

    early_stop: bool | None = None
    debug: bool | None = None


_settings = _Settings()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether recomputations inside the block end as soon as they can, overriding the calls."""
    before, _settings.early_stop = _settings.early_stop, enable
    try:
        yield
    finally:
        _settings.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Whether errors list the operations that ran, overriding the calls unless None."""
    before, _settings.debug = _settings.debug, enabled
    try:
        yield
    finally:
        _settings.debug = before


def noop_context_fn() -> Contexts:
    """Contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


_DETERMINISM: dict[str, Callable[[Tensor], Any]] = {
    "default": lambda x: {"shape": x.shape, "dtype": x.dtype, "device": x.device},
    "none": lambda x: None,
}


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without saving the tensors for its backward, which recomputes them.

    Arguments:
      function, args: the function and its arguments.
      use_reentrant: whether the recomputation runs a nested backward (the older kind).
      context_fn: returns two context managers, for the forward and for the recomputation.
      determinism_check: "default" compares shapes, dtypes and devices of the saved tensors, "none" nothing.
      debug: list the operations in the error of a recomputation that differs.
      early_stop: end a recomputation as soon as it has everything needed.
      preserve_rng_state: whether the recomputation draws the same random numbers as the forward (by default yes).
      kwargs: further arguments of the function.

    Raises:
      ValueError: arguments contradict each other.
      CheckpointError: in backward, the recomputation saved other tensors than the forward.
      RuntimeError: with ``use_reentrant``, in ``autograd.grad`` or a backward with ``inputs=``.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.utils.checkpoint import checkpoint
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).sum().backward()

    Source: `torch.utils.checkpoint.checkpoint
    <https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.checkpoint>`_.
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
            "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but "
            "if you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for "
            "more details on the differences between the two variants.",
            UserWarning,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    explain = None
    if debug if _settings.debug is None else _settings.debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        context_fn, explain = debug_contexts()
    if determinism_check not in _DETERMINISM:
        raise ValueError(f"determinism_check should be one of {list(_DETERMINISM)}, but got {determinism_check}")
    during_forward, during_recomputation = context_fn()
    state = default_generator.get_state() if preserve else None
    if not modes.grad:
        return function(*args, **kwargs)
    casting = present_autocast()

    def recompute(*inputs: Any) -> None:
        with _random_state(state), casting, during_recomputation:
            function(*inputs, **kwargs)

    stop = early_stop if _settings.early_stop is None else _settings.early_stop
    frame = Frame(recompute, args, stop, _DETERMINISM[determinism_check], explain)
    with frame.recording(), during_forward:
        return function(*args, **kwargs)


@contextlib.contextmanager
def _random_state(state: Any) -> Iterator[None]:
    """A context that sets the state of the generator, and restores it."""
    with fork_rng(enabled=state is not None):
        if state is not None:
            default_generator.set_state(state)
        yield


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor among the inputs requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs, with tensors detached."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs])


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The accelerators of the arguments, and their generators' states: here all devices share one generator."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Restore what ``get_device_states`` returned, which is nothing."""


class CheckpointFunction(Function):
    """The older kind: a function whose backward reruns the forward, and a backward through that."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random_state = default_generator.get_state() if preserve_rng_state else None
        ctx.casting = present_autocast()
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.tensor_positions = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.tensor_positions])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not _is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, x in zip(ctx.tensor_positions, ctx.saved_tensors, strict=True):
            inputs[i] = x.detach().requires_grad_(x.requires_grad)
        with _random_state(ctx.random_state), ctx.casting, enable_grad():
            returned = ctx.run_function(*inputs)
        outputs = returned if isinstance(returned, tuple) else (returned,)
        pairs = [(x, g) for x, g in zip(outputs, grads, strict=False) if isinstance(x, Tensor) and x.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([x for x, _ in pairs], [g for _, g in pairs])
        return (None, None, *[x.grad if isinstance(x, Tensor) else None for x in inputs])


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Apply functions, or the modules of a ``Sequential``, in order, in checkpointed segments.

    The last segment is not checkpointed.

    Source: `torch.utils.checkpoint.checkpoint_sequential
    <https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.checkpoint_sequential>`_.
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In "
            "version 2.9 we will raise an exception if use_reentrant is not passed. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. "
            "Refer to docs for more details on the differences between the two variants.",
            UserWarning,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments
    starts = list(range(0, size * (segments - 1), size))

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    for start in starts:
        input = checkpoint(part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(len(starts) * size, len(steps))(input)


__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
