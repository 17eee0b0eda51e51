"""``state_dict`` and ``load_state_dict``: a module's parameters and persistent buffers as a flat dictionary."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fgrad.mutable.context.entrance import entrance
from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.hooks import RemovableHandle
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.__future__ import get_swap_module_params_on_conversion
from fgrad.torch.nn.modules.conversion import Conversion
from fgrad.torch.nn.modules.hooks import WithModule, add
from fgrad.torch.nn.modules.registration import buffers_of, parameters_of
from fgrad.torch.nn.parameter import Parameter, is_lazy
from fgrad.torch.utils.swapping import swap_tensors

_EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """The keys that ``load_state_dict`` found missing and unexpected."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"

    __str__ = __repr__


def _load(
    module: Any,
    local: Any,
    prefix: str,
    metadata: Any,
    assign: bool,
    keys: _IncompatibleKeys,
    errors: list[str],
) -> None:
    """Load a module and those inside of it."""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(local, prefix, local_metadata, True, *keys, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            chosen = {key: value for key, value in local.items() if key.startswith(inner)}
            _load(child, chosen, inner, metadata, assign, keys, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                "values, if incompatible_keys need to be modified, it should be done inplace."
            )


def _swap(tensor: Any, loaded: Any, assign: bool) -> None:
    """Swap a parameter or buffer with what its class makes of the loaded tensor."""
    new = tensor.module_load(loaded, assign=assign)
    if new is tensor or new is loaded:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in "
            "module_load"
        )
    if isinstance(tensor, Parameter):
        if isinstance(new, Parameter):
            new.requires_grad_(tensor.requires_grad)
        else:
            new = Parameter(new, requires_grad=tensor.requires_grad)
    swap_tensors(tensor, new)


class State(Conversion):
    """A module as a flat dictionary of tensors."""

    #: saved in the metadata of a state dict, for ``_load_from_state_dict`` to read older ones
    _version: int = 1

    # ----------------------------------------------------------------------------------------------------------------
    # saving

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by their names, detached and sharing their storage.

        Arguments:
          destination: a dictionary to add them to.
          prefix: put before every name.
          keep_vars: the parameters and buffers themselves, not detached.

        >>> import fgrad.torch as torch
        >>> list(torch.nn.Linear(2, 1).state_dict(prefix="head."))
        ['head.weight', 'head.bias']

        Source: `torch.nn.Module.state_dict
        <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.state_dict>`_.
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            positional = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = positional["destination"] if destination is None else destination
            prefix = prefix or positional.get("prefix", "")
            keep_vars = keep_vars or positional.get("keep_vars", False)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = replaced
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in [*parameters_of(self).items(), *self._persistent_buffers().items()]:
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def _persistent_buffers(self) -> dict[str, Any]:
        return {name: buf for name, buf in buffers_of(self).items() if name not in self._non_persistent_buffers_set}

    def get_extra_state(self) -> Any:
        """Further state for ``state_dict``; a subclass that overrides this overrides ``set_extra_state`` too."""
        raise RuntimeError(_NO_EXTRA_STATE.format("get"))

    def set_extra_state(self, state: Any) -> None:
        """Restore what ``get_extra_state`` returned."""
        raise RuntimeError(_NO_EXTRA_STATE.format("set"))

    # ----------------------------------------------------------------------------------------------------------------
    # loading

    @entrance
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy the tensors of ``state_dict`` into the parameters and buffers of the same names.

        Arguments:
          strict: raise where names are missing or unexpected.
          assign: keep the tensors of ``state_dict`` themselves instead of copying.

        Returns:
          The missing and the unexpected names.

        Raises:
          RuntimeError: names (if ``strict``) or shapes do not fit; the message lists them all.

        >>> import fgrad.torch as torch
        >>> torch.nn.Linear(2, 1).load_state_dict(torch.nn.Linear(2, 1).state_dict())
        <All keys matched successfully>

        Source: `torch.nn.Module.load_state_dict
        <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict>`_.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys = _IncompatibleKeys([], [])
        missing, unexpected = keys
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        copied: Any = OrderedDict(state_dict)
        if metadata is not None:
            copied._metadata = metadata
        _load(self, copied, "", metadata, assign, keys, errors)
        if strict and unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if strict and missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        return keys

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        members = {**parameters_of(self), **self._persistent_buffers()}
        members = {name: tensor for name, tensor in members.items() if tensor is not None}
        for name, tensor in members.items():
            key = prefix + name
            if key in state_dict:
                error = self._load_tensor(name, key, tensor, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE
        if type(self).set_extra_state is not State.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        for key in state_dict if strict else ():
            if key.startswith(prefix) and key != extra:
                name, dot, _ = key[len(prefix) :].partition(".")
                if name not in (self._modules if dot else members):
                    unexpected_keys.append(key)

    def _load_tensor(self, name: str, key: str, tensor: Any, loaded: Any, assign: bool) -> str | None:
        """Copy or assign one tensor; the message where it does not fit."""
        if not isinstance(loaded, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(loaded)}"
            )
        if is_lazy(tensor) and is_lazy(loaded):
            return None
        if not is_lazy(tensor):
            if tensor.dim() == 0 and tuple(loaded.shape) == (1,):
                loaded = loaded.select(0, 0)  # scalars were saved with one dimension before PyTorch 0.4
            if loaded.shape != tensor.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {loaded.shape} from checkpoint, the shape in "
                    f"current model is {tensor.shape}."
                )
        if tensor.is_meta and not loaded.is_meta and not assign:
            warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
            )
        swap = get_swap_module_params_on_conversion()
        try:
            with no_grad():
                if swap:
                    _swap(tensor, loaded, assign)
                    return None
                if not assign:
                    tensor.copy_(loaded)
                    return None
                if isinstance(tensor, Parameter):
                    if isinstance(loaded, Parameter):
                        loaded.requires_grad_(tensor.requires_grad)
                    else:
                        loaded = Parameter(loaded, requires_grad=tensor.requires_grad)
                setattr(self, name, loaded)
        except Exception as error:
            return (
                f'While {"swapping" if swap else "copying"} the parameter named "{key}", '
                f"whose dimensions in the model are {tensor.size()} and "
                f"whose dimensions in the checkpoint are {loaded.size()}, an exception occurred : {error.args}."
            )
        return None

    # ----------------------------------------------------------------------------------------------------------------
    # hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict`` collects."""
        return add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> Any:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after ``state_dict`` has collected."""
        hook._from_public_api = True
        return add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As ``register_state_dict_post_hook``; a dictionary that this hook returns replaces the result."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`` first."""
        return add(self._load_state_dict_pre_hooks, WithModule(hook, self))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return add(self._load_state_dict_pre_hooks, WithModule(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` once loaded; it may change the lists of names in place."""
        return add(self._load_state_dict_post_hooks, hook)


_NO_EXTRA_STATE = (
    "Reached a code path in Module.{}_extra_state() that should never be called. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
)


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
