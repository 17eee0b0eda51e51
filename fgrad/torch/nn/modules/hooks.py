"""Hooks of modules: the global tables, and the identities around a module's backward."""

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from attrs import define, field

from fgrad.mutable.context.modes import is_grad_enabled
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.hooks import RemovableHandle
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.autograd import Function

_Table = OrderedDict[int, Callable[..., Any]]


def add(table: _Table, hook: Callable[..., Any], *, prepend: bool = False, extra: Any = None) -> RemovableHandle:
    """Put ``hook`` last in ``table``, or first."""
    handle = RemovableHandle(table, extra_dict=extra)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


# --------------------------------------------------------------------------------------------------------------------
# hooks of all modules


@define(eq=False)
class GlobalHooks:
    """The hooks that every module calls before its own."""

    forward_pre: _Table = field(factory=OrderedDict)
    forward: _Table = field(factory=OrderedDict)
    forward_with_kwargs: OrderedDict[int, bool] = field(factory=OrderedDict)
    forward_always_called: OrderedDict[int, bool] = field(factory=OrderedDict)
    backward_pre: _Table = field(factory=OrderedDict)
    backward: _Table = field(factory=OrderedDict)
    #: whether ``backward`` holds full backward hooks or the deprecated kind; None before the first
    is_full_backward: bool | None = None
    buffer_registration: _Table = field(factory=OrderedDict)
    module_registration: _Table = field(factory=OrderedDict)
    parameter_registration: _Table = field(factory=OrderedDict)


#: one for the process, as in PyTorch
everywhere: GlobalHooks = GlobalHooks()


def _registered(table: _Table, module: Any, name: str, value: Any) -> Any:
    for hook in table.values():
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def buffer_registration(module: Any, name: str, value: Any) -> Any:
    """The buffer that is kept when ``value`` is registered."""
    return _registered(everywhere.buffer_registration, module, name, value)


def module_registration(module: Any, name: str, value: Any) -> Any:
    """The child that is kept when ``value`` is registered."""
    return _registered(everywhere.module_registration, module, name, value)


def parameter_registration(module: Any, name: str, value: Any) -> Any:
    """The parameter that is kept when ``value`` is registered."""
    return _registered(everywhere.parameter_registration, module, name, value)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a module registers a buffer; what it returns is kept instead.

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    return add(everywhere.buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, child)`` whenever a module registers a child; what it returns is kept instead.

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    return add(everywhere.module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever a module registers one; what it returns is kept instead.

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    return add(everywhere.parameter_registration, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every module's ``forward``; what it returns replaces the arguments.

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    return add(everywhere.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every module's ``forward``; what it returns replaces the output.

    Arguments:
      with_kwargs: the hook is called as ``hook(module, args, kwargs, output)``.
      always_call: also when ``forward`` raises.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.nn.modules.module import register_module_forward_hook
    >>> with register_module_forward_hook(lambda module, args, output: print(type(module).__name__)):
    ...     _ = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU())(torch.ones(1))
    Identity
    ReLU
    Sequential

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    extra = [everywhere.forward_always_called, everywhere.forward_with_kwargs]
    handle = add(everywhere.forward, hook, extra=extra)
    if with_kwargs:
        everywhere.forward_with_kwargs[handle.id] = True
    if always_call:
        everywhere.forward_always_called[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the gradients of every module's inputs are computed.

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    return add(everywhere.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` once the gradients of every module's inputs are computed.

    Raises:
      RuntimeError: a hook of the deprecated kind is registered.

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    return _register_backward(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """As ``register_module_full_backward_hook``, with the gradients of the last operation only; deprecated.

    Raises:
      RuntimeError: a full backward hook is registered.

    Source: `torch.nn.modules.module <https://docs.pytorch.org/docs/2.13/nn.html#global-hooks-for-module>`_.
    """
    return _register_backward(hook, full=False)


def _register_backward(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    if everywhere.is_full_backward is not None and everywhere.is_full_backward is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    everywhere.is_full_backward = full
    return add(everywhere.backward, hook)


class WithModule:
    """A hook that is called with its module first, without keeping the module alive."""

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        self.hook = hook
        self.module: weakref.ref[Any] = weakref.ref(module)
        functools.update_wrapper(self, hook, updated=())  # the engine's errors call a hook by its name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __reduce__(self) -> Any:
        # the copy of a module calls the hook with itself
        return WithModule, (self.hook, self.module())


# --------------------------------------------------------------------------------------------------------------------
# backward


class BackwardHookFunction(Function):
    """The identity.  Around a module's inputs and its outputs, its nodes see all their gradients together."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        return args


BackwardHookFunction._backward_cls.passes_on = True


class BackwardHook:
    """One call's full backward hooks: an identity around the inputs, another around the outputs, hooks on both.

    The node of the outputs runs first: its hook keeps the gradients and calls the pre-hooks.  The node of the inputs
    runs last, when the module's own backward is done: its hook calls the hooks with both.
    """

    def __init__(self, module: Any, hooks: list[Callable[..., Any]], pre_hooks: list[Callable[..., Any]]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: Any = None
        self.inputs: _TensorPositions | None = None
        self.outputs: _TensorPositions | None = None
        self.n_inputs = 0

    def around_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        def hook(grad_input: tuple[Any, ...], _: Any) -> Any:
            return self._on_grad_inputs(grad_input)

        hook.behind = self._input_hook_calls  # type: ignore[attr-defined]
        self.n_inputs: int = len(args)
        args, self.inputs = _through_identity(args, hook)
        return args

    def around_outputs(self, result: Any) -> Any:
        def hook(_: Any, grad_output: tuple[Any, ...]) -> Any:
            return self._on_grad_outputs(grad_output)

        hook.behind = self._output_hook_calls  # type: ignore[attr-defined]
        if isinstance(result, tuple):
            result, self.outputs = _through_identity(result, hook)
            return result
        (result,), self.outputs = _through_identity((result,), hook)
        return result

    def _input_hook_calls(self) -> list[tuple[str, Callable[..., Any], str, int | None]]:
        """The hooks called with the gradients of the inputs, for ``hook_schedule``: kind, hook, module, handle."""
        tables = everywhere.backward, self.module._backward_hooks
        return [("module hook", hook, type(self.module).__name__, _handle(hook, tables)) for hook in self.hooks]

    def _output_hook_calls(self) -> list[tuple[str, Callable[..., Any], str, int | None]]:
        """The hooks called with the gradients of the outputs."""
        tables, name = (everywhere.backward_pre, self.module._backward_pre_hooks), type(self.module).__name__
        calls = [("module pre-hook", hook, name, _handle(hook, tables)) for hook in self.pre_hooks]
        return calls + self._input_hook_calls() if self.inputs is None else calls

    def _on_grad_inputs(self, grad_input: tuple[Any, ...]) -> Any:
        # without gradients of the outputs, that of the inputs bypassed the module, as in double backward
        if self.grad_outputs is None or self.inputs is None:
            return None
        grads = self.inputs.spread(grad_input)
        for hook in self.hooks:
            changed = hook(self.module, grads, self.grad_outputs)
            if changed is None:
                continue
            if len(changed) != len(grads):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, "
                    f"got {len(changed)}, but expected {len(grads)}"
                )
            grads = changed
        self.grad_outputs = None
        return self.inputs.collect(grads)

    def _on_grad_outputs(self, grad_output: tuple[Any, ...]) -> Any:
        assert self.outputs is not None
        self.grad_outputs = self.outputs.spread(grad_output)
        expected = len(self.grad_outputs)
        for hook in self.pre_hooks:
            changed = hook(self.module, self.grad_outputs)
            if changed is None:
                continue
            if len(changed) != expected:
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(changed)}, but expected {expected}"
                )
            self.grad_outputs = changed
        grads = self.grad_outputs
        if self.inputs is None:
            self._call_without_grad_inputs()
        return self.outputs.collect(grads)

    def _call_without_grad_inputs(self) -> None:
        """No input requires a gradient, so no node runs last: call the hooks now."""
        warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
        )
        for hook in self.hooks:
            changed = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            if changed is not None and not (isinstance(changed, tuple) and all(grad is None for grad in changed)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None


def _handle(hook: Any, tables: tuple[_Table, ...]) -> int | None:
    """The id of a hook's handle, in whichever of the tables has it."""
    return next((id for table in tables for id, each in table.items() if each is hook), None)


@define
class _TensorPositions:
    """The positions of the tensors among a call's arguments or results."""

    size: int
    tensors: list[int]

    def spread(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """One value for each argument: None where it is no tensor."""
        spread: list[Any] = [None] * self.size
        for position, value in zip(self.tensors, values, strict=True):
            spread[position] = value
        return tuple(spread)

    def collect(self, values: Any) -> tuple[Any, ...]:
        return tuple(values[position] for position in self.tensors)


def _through_identity(
    values: tuple[Any, ...], hook: Callable[..., Any]
) -> tuple[tuple[Any, ...], _TensorPositions | None]:
    """``values``, the tensors among them sent through an identity whose node has ``hook``; None where no node is."""
    positions = _TensorPositions(len(values), [i for i, value in enumerate(values) if isinstance(value, Tensor)])
    tensors = positions.collect(values)
    if not (is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return values, None
    new = BackwardHookFunction.apply(*tensors)
    node = next(tensor.grad_fn for tensor in new if tensor.grad_fn is not None)
    node.register_hook(hook)
    changed = list(values)
    for position, value in zip(positions.tensors, new, strict=True):
        changed[position] = value
    if type(values) is tuple:
        return tuple(changed), positions
    return type(values)(*changed), positions  # a named tuple
