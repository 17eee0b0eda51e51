"""``Module``, the base of all layers: what it holds, how it is called, trained, hooked, saved and shown."""

import weakref
from collections.abc import Callable
from typing import Any, Self

from fgrad.deferred import import_at_first_use
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.ports import AT_ENTRANCE
from fgrad.mutable.tensor.hooks import RemovableHandle
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.nn.modules.hooks import (
    BackwardHook,
    WithModule,
    add,
    everywhere,
    register_module_backward_hook as register_module_backward_hook,
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
    register_module_forward_hook as register_module_forward_hook,
    register_module_forward_pre_hook as register_module_forward_pre_hook,
    register_module_full_backward_hook as register_module_full_backward_hook,
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
    register_module_module_registration_hook as register_module_module_registration_hook,
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from fgrad.torch.nn.modules.state import (
    _EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX,  # noqa: F401  (by this name libraries ask for it)
    State,
    _IncompatibleKeys as _IncompatibleKeys,
)


class _Compiling:
    """How a module is compiled; ``fgrad.torch.compiler`` sets it."""

    compile: Any = None


compiling: _Compiling = _Compiling()

#: the hooks of all modules, by PyTorch's private name
_global_parameter_registration_hooks = everywhere.parameter_registration


class Module(State):
    """The base of all layers and models: parameters, buffers and submodules are its attributes.

    >>> import fgrad.torch as torch
    >>> class Affine(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = torch.nn.Parameter(torch.tensor(2.0))
    ...         self.register_buffer("shift", torch.tensor(1.0))
    ...
    ...     def forward(self, x):
    ...         return self.scale * x + self.shift
    >>> Affine()(torch.tensor(3.0))
    tensor(7., grad_fn=<AddBackward0>)
    >>> list(Affine().state_dict())
    ['scale', 'shift']

    Source: `torch.nn.Module <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html>`_.
    """

    def forward(self, *input: Any) -> Any:
        """Compute the outputs; every subclass defines its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # ----------------------------------------------------------------------------------------------------------------
    # calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # see NOTE [Signals] and NOTE [Names in the mutable layer]
        state = vars(modes)
        outer = state.get("module")
        try:
            state["module"] = (weakref.ref(self), outer)
            return (self.forward if self._is_unhooked() else _Call(self).run)(*args, **kwargs)
        except Exception as error:
            AT_ENTRANCE.call(error, (*args, *kwargs.values()), self)
            raise
        finally:
            state["module"] = outer

    def _is_unhooked(self) -> bool:
        return not (
            self._backward_hooks
            or self._backward_pre_hooks
            or self._forward_hooks
            or self._forward_pre_hooks
            or everywhere.backward_pre
            or everywhere.backward
            or everywhere.forward
            or everywhere.forward_pre
        )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls from now on; the arguments are those of ``torch.compile``."""
        import_at_first_use("fgrad.torch.compiler")  # the compiler is imported at first use
        compiling.compile(self, *args, **kwargs)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; what it returns replaces the arguments.

        Arguments:
          prepend: before the hooks registered so far.
          with_kwargs: the hook is called as ``hook(module, args, kwargs)`` and returns both or None.
        """
        handle = add(self._forward_pre_hooks, hook, prepend=prepend, extra=[self._forward_pre_hooks_with_kwargs])
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``; what it returns replaces the output.

        Arguments:
          prepend: before the hooks registered so far.
          with_kwargs: the hook is called as ``hook(module, args, kwargs, output)``.
          always_call: also when ``forward`` or another hook raises.

        >>> import fgrad.torch as torch
        >>> module = torch.nn.Identity()
        >>> handle = module.register_forward_hook(lambda module, args, output: output + 1)
        >>> module(1)
        2
        """
        extra = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = add(self._forward_hooks, hook, prepend=prepend, extra=extra)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the outputs are known; it may return others."""
        return add(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known.

        Returns:
          The handle; the hook itself may return other gradients of the inputs.

        Raises:
          RuntimeError: the module has hooks of the deprecated kind.

        >>> import fgrad.torch as torch
        >>> module = torch.nn.ReLU()
        >>> handle = module.register_full_backward_hook(lambda module, grad_input, grad_output: print(grad_input))
        >>> module(torch.ones(1, requires_grad=True)).backward()
        (tensor([1.]),)
        """
        return self._register_backward_hook(hook, full=True, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As ``register_full_backward_hook``, with the gradients of the last operation only; deprecated."""
        return self._register_backward_hook(hook, full=False, prepend=False)

    def _register_backward_hook(self, hook: Callable[..., Any], full: bool, prepend: bool) -> RemovableHandle:
        if self._is_full_backward_hook is not None and self._is_full_backward_hook is not full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full
        return add(self._backward_hooks, hook, prepend=prepend)

    # ----------------------------------------------------------------------------------------------------------------
    # training

    def train(self, mode: bool = True) -> Self:
        """Put the module and its descendants in training mode, in which dropout drops and batch norm learns.

        Raises:
          ValueError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Put the module and its descendants in evaluation mode.

        >>> import fgrad.torch as torch
        >>> torch.nn.Dropout(0.9).eval()(torch.ones(2))
        tensor([1., 1.])
        """
        return self.train(False)

    # ----------------------------------------------------------------------------------------------------------------
    # showing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text between the parentheses of the module's ``repr``."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        if not children and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        lines = [*(extra.split("\n") if extra else []), *children]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def indented(text: str) -> str:
    """``text`` with all lines but the first indented by two, blank ones emptied."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in rest)])


class _Call:
    """One call of a module that has hooks."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        self.result: Any = None
        self.called: set[int] = set()

    def run(self, /, *args: Any, **kwargs: Any) -> Any:
        self.args = args
        self.kwargs = kwargs
        try:
            return self._run()
        except Exception:
            # run the ``always_call`` hooks that have not run, then re-raise
            self._call_remaining_hooks()
            raise

    def _run(self) -> Any:
        module = self.module
        full, deprecated = self._backward_hooks()
        pre = [*everywhere.backward_pre.values(), *module._backward_pre_hooks.values()]
        self._call_forward_pre_hooks()
        backward_hook = BackwardHook(module, full, pre) if full or pre else None
        if backward_hook is not None:
            self.args = backward_hook.around_inputs(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        self._call_forward_hooks()
        if backward_hook is not None:
            if not isinstance(self.result, Tensor | tuple):
                warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                    f"received {type(self.result)}",
                )
            self.result = backward_hook.around_outputs(self.result)
        if deprecated:
            self._attach(deprecated)
        return self.result

    def _backward_hooks(self) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
        """The full hooks, and those of the deprecated kind."""
        kinds: dict[bool, list[Callable[..., Any]]] = {True: [], False: []}
        if everywhere.is_full_backward is not None:
            kinds[everywhere.is_full_backward] += everywhere.backward.values()
        if self.module._is_full_backward_hook is not None:
            kinds[self.module._is_full_backward_hook] += self.module._backward_hooks.values()
        return kinds[True], kinds[False]

    def _call_forward_pre_hooks(self) -> None:
        module = self.module
        for id, hook in (*everywhere.forward_pre.items(), *module._forward_pre_hooks.items()):
            if id not in module._forward_pre_hooks_with_kwargs:
                changed = hook(module, self.args)
                if changed is not None:
                    self.args = changed if isinstance(changed, tuple) else (changed,)
                continue
            changed = hook(module, self.args, self.kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                )
            self.args, self.kwargs = changed

    def _call_forward_hooks(self) -> None:
        module = self.module
        for id, hook in (*everywhere.forward.items(), *module._forward_hooks.items()):
            if id in module._forward_hooks_always_called or id in everywhere.forward_always_called:
                self.called.add(id)
            with_kwargs = id in module._forward_hooks_with_kwargs or id in everywhere.forward_with_kwargs
            changed = hook(module, self.args, *([self.kwargs] if with_kwargs else []), self.result)
            if changed is not None:
                self.result = changed

    def _call_remaining_hooks(self) -> None:
        # PyTorch gives keyword arguments to a module's own hooks only when it gets here
        module = self.module
        for name, hooks, always, with_kwargs in (
            ("global module", everywhere.forward, everywhere.forward_always_called, {}),
            ("module", module._forward_hooks, module._forward_hooks_always_called, module._forward_hooks_with_kwargs),
        ):
            for id, hook in hooks.items():
                if id not in always or id in self.called:
                    continue
                try:
                    changed = hook(module, self.args, *([self.kwargs] if id in with_kwargs else []), self.result)
                    if changed is not None:
                        self.result = changed
                except Exception as error:
                    warn(
                        f"{name} forward hook with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {error}",
                    )

    def _attach(self, hooks: list[Callable[..., Any]]) -> None:
        """Hooks of the deprecated kind are hooks of the node of the first tensor in the output."""
        tensor = self.result
        while not isinstance(tensor, Tensor):
            if isinstance(tensor, dict):
                tensor = next(value for value in tensor.values() if isinstance(value, Tensor))
            else:
                tensor = tensor[0]
        if tensor.grad_fn is not None:
            for hook in hooks:
                tensor.grad_fn.register_hook(WithModule(hook, self.module))
            _warn_of_missing_grads(self.args, self.result, tensor.grad_fn)


def _warn_of_missing_grads(inputs: Any, result: Any, grad_fn: Any) -> None:
    """Warn of gradients that a hook of the deprecated kind will not see."""
    missing = _missing_grads(inputs, result, grad_fn)
    if missing is not None:
        warn(f"Using {missing}", FutureWarning)


_FULL = "Please use register_full_backward_hook to get the documented behavior."


def _missing_grads(inputs: Any, result: Any, grad_fn: Any) -> str | None:
    results, tensors = _tensors(result), _tensors(inputs)
    if results is None:
        return (
            "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of the grad_output. "
            + _FULL
        )
    if tensors is None:
        return (
            "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of the grad_input. "
            + _FULL
        )
    nodes = {tensor.grad_fn for tensor in results if tensor.grad_fn is not None}
    if not nodes or (len(nodes) == 1 and grad_fn not in nodes):
        return (
            "a non-full backward hook when outputs are nested in python data structure is deprecated and will be "
            "removed in future versions. This hook will be missing some grad_output."
        )
    if len(nodes) > 1:
        return (
            "a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and will be "
            f"removed in future versions. This hook will be missing some grad_output. {_FULL}"
        )
    before = {tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None}
    if before != {node for node, _ in grad_fn.next_functions}:
        return (
            "a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will be "
            f"removed in future versions. This hook will be missing some grad_input. {_FULL}"
        )
    return None


def _tensors(value: Any) -> tuple[Any, ...] | None:
    """``value`` as a tuple of tensors, if it is a tensor or such a tuple."""
    if isinstance(value, Tensor):
        return (value,)
    return value if isinstance(value, tuple) and all(isinstance(item, Tensor) for item in value) else None
