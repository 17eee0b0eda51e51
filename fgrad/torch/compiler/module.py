"""What ``torch.compile`` returns for a module: a module whose call is compiled."""

from collections.abc import Callable
from typing import Any

from fgrad.torch.compiler.originals import original_of
from fgrad.torch.nn.modules import module as modules
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import attributes_of


class OptimizedModule(Module):
    """A wrapper of a module whose call is compiled; everything else is the module's.

    Source: PyTorch: torch/_dynamo/eval_frame.py, ``OptimizedModule``.
    """

    _orig_mod: Module

    def __init__(self, module: Module, compiled: Callable[..., Any]):
        super().__init__()
        self._orig_mod = module
        attributes_of(self)["_compiled_call"] = compiled
        del attributes_of(self)["training"]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return attributes_of(self)["_compiled_call"](*args, **kwargs)

    @property
    def training(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The module's."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        self._orig_mod.training = mode

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return attributes_of(self)["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "training") or name in attributes_of(self):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in attributes_of(self):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)


def compile_in_place(module: Module, compile: Callable[[Any], Any]) -> None:
    """Compile a module's own calls, as ``Module.compile`` does."""
    forward = original_of(module.forward)
    compiled = compile(forward)
    if compiled is not forward:
        module.__dict__.update(forward=compiled, _compiled_call_impl=compiled)


def enter(compile: Callable[..., Any]) -> None:
    """Make ``torch.compile`` known to ``Module.compile``."""
    modules.compiling.compile = lambda module, *args, **named: compile_in_place(
        module, lambda forward: compile(forward, *args, **named)
    )
