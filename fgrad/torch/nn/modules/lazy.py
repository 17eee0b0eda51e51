"""Modules that infer missing sizes from the input of their first call."""

from typing import TYPE_CHECKING, Any

from fgrad.mutable.context.modes import no_grad
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import buffers_of, parameters_of
from fgrad.torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    _Base = Module
else:
    _Base = object


class LazyModuleMixin(_Base):
    """Makes a module lazy: its uninitialised parameters get their shapes in the first call.

    A class that uses it writes ``initialize_parameters(*args)`` and names in ``cls_to_become`` the class that its
    objects have afterwards.

    Source: `torch.nn.modules.lazy.LazyModuleMixin
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.modules.lazy.LazyModuleMixin.html>`_.
    """

    cls_to_become: type[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in [*parameters_of(self).items(), *self._persistent_buffers().items()]:
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """Before loading: take the shapes from the tensors that are loaded."""
        for name, tensor in [*parameters_of(self).items(), *buffers_of(self).items()]:
            loaded = state_dict.get(prefix + name)
            if is_lazy(tensor) and loaded is not None and not is_lazy(loaded):
                with no_grad():
                    tensor.materialize(loaded.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters, from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether some parameter or buffer still waits for its shape."""
        return any(is_lazy(tensor) for tensor in [*parameters_of(self).values(), *buffers_of(self).values()])

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
