"""The base of all optimisers: parameter groups, state, hooks, saving and loading."""

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any

from fgrad.mutable.context.entrance import entrance
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.hooks import RemovableHandle
from fgrad.mutable.tensor.tensor import Tensor, to_device_of
from fgrad.mutable.types.dtypes import float32
from fgrad.torch.nn.modules.registration import typename

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
#: PyTorch's name of it
ParamsT = Parameters
Group = dict[str, Any]
StateDict = dict[str, Any]
Hook = Callable[..., Any]

_step_pre_hooks: dict[int, Hook] = OrderedDict()
_step_post_hooks: dict[int, Hook] = OrderedDict()

#: the registers of hooks that every optimiser has
_REGISTERS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """The implementations that an optimiser takes by default, which libraries ask for: neither is there."""
    return False, False


class _Required:
    """The default of an option that each parameter group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: _Required = _Required()


class Optimizer:
    """What all optimisers share: parameter groups, per-parameter state, hooks, ``state_dict``; ``step`` is theirs.

    Args:
      params: an iterable of tensors, of ``(name, tensor)`` pairs, or of dictionaries, each a parameter group with
        its own options beside ``"params"``.
      defaults: the options of the groups that give none.

    Raises:
      TypeError: ``params`` is one tensor or has something else than tensors in it.
      ValueError: there are no parameters, or one stands in two groups, or is no leaf.

    >>> import fgrad.torch as torch
    >>> class Descent(torch.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     @torch.no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for param in group["params"]:
    ...                 param.sub_(group["lr"] * param.grad)
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = Descent([w], lr=0.5)
    >>> w.square().sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0., 0.], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/optim.html#base-class
    """

    @entrance
    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._complete()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + typename(params)
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _complete(self) -> None:
        """Give what a fresh or an unpickled optimiser lacks: registers of hooks, and a step that calls them."""
        for register in _REGISTERS:
            self.__dict__.setdefault(register, OrderedDict())
        self._patch_step_function()

    def _patch_step_function(self) -> None:
        cls = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = self.profile_hook_step(cls.step)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._complete()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        shown = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            lines = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            shown += f"\nParameter Group {i}\n" + "".join(lines)
        return shown + ")"

    # Stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; ``closure`` evaluates the model again and returns the loss."""
        raise NotImplementedError

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """``func`` with the registered hooks before and after it."""

        @functools.wraps(func)
        def step(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            if modes.capturing is not None:
                modes.capturing.lift_reachable(self, "optimizer")
            for hook in chain(_step_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{func} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                args, kwargs = result
            out = func(*args, **kwargs)
            for hook in chain(self._optimizer_step_post_hooks.values(), _step_post_hooks.values()):
                hook(self, args, kwargs)
            return out

        step.hooked = True  # type: ignore[attr-defined]
        return step

    def _state_before(self, group: Group, param: Tensor) -> dict[str, Any]:
        """A state of a parameter from which a later step does what the first one does; empty where none is known."""
        return {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros.

        Args:
          set_to_none: ``grad`` becomes ``None``; otherwise it is detached and zeroed in place.

        >>> import fgrad.torch as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> w.sum().backward()
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> optimizer.zero_grad(set_to_none=False)
        >>> w.grad
        tensor([0., 0.])
        >>> optimizer.zero_grad()
        >>> w.grad is None
        True

        Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Optimizer.zero_grad.html
        """
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                    continue
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    # Parameter groups

    @entrance
    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters to optimise, as when frozen layers are thawed during training.

        Args:
          param_group: ``"params"`` and the options of this group.

        Raises:
          TypeError: the group is no dictionary, its parameters are a set, or one of them is no tensor.
          ValueError: a parameter is no leaf or stands in another group; some have names and some have none.

        >>> import fgrad.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        >>> optimizer.add_param_group({"params": torch.ones(1, requires_grad=True), "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]

        Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Optimizer.add_param_group.html
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        self._separate_names(param_group)
        params = param_group["params"]
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + typename(param))
            if not self.defaults.get("differentiable") and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        own = set(params)
        if len(own) != len(params):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
            )
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param group "
                    f"{'with' if 'param_names' in param_group else 'without'} names to the optimizer"
                )
        if any(param in own for group in self.param_groups for param in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    @staticmethod
    def _separate_names(param_group: Group) -> None:
        """Make ``params`` of the group a list of tensors, with ``param_names`` beside it if they came in pairs."""
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but "
                "the ordering of tensors in sets will change between runs. Please use a list instead."
            )
        entries = [params] if isinstance(params, Tensor) else list(params)
        names = [entry[0] for entry in entries if isinstance(entry, tuple)]
        param_group["params"] = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        if names:
            if len(names) != len(entries):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names

    # Saving and loading

    def state_dict(self) -> StateDict:
        """The state and the options of the groups, with parameters as numbers.

        Returns:
          ``{"state": {number: state}, "param_groups": [...]}``; the tensors are the optimiser's own, not copies.

        >>> import fgrad.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0]

        Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Optimizer.state_dict.html
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        start = 0
        groups = []
        for group in self.param_groups:
            # one that is met twice has the number of its last place
            numbers |= {id(param): i for i, param in enumerate(group["params"], start) if id(param) not in numbers}
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {numbers[id(key)] if isinstance(key, Tensor) else key: value for key, value in self.state.items()}
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over the state and the options that ``state_dict`` of a like optimiser gave.

        Args:
          state_dict: what ``state_dict()`` returned; tensors are cast to the type and device of their parameter,
            except ``"step"``.

        Raises:
          ValueError: the groups differ in number or in size.

        >>> import fgrad.torch as torch
        >>> def descent(lr):
        ...     return torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=lr)
        >>> optimizer = descent(0.1)
        >>> optimizer.load_state_dict(descent(0.5).state_dict())
        >>> optimizer.param_groups[0]["lr"]
        0.5

        Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.Optimizer.load_state_dict.html
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(old["params"]) != len(new["params"]) for old, new in zip(self.param_groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        owners: dict[Any, tuple[Tensor, Group]] = {}
        for group, new in zip(self.param_groups, saved, strict=True):
            for number, param in zip(new["params"], group["params"], strict=True):
                owners[number] = param, new
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                param, group = owners[key]
                state[param] = _loaded(value, None, param, group)
            else:
                state[key] = value
        for group, new in zip(self.param_groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # Hooks

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new ``(args, kwargs)``."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict`` is made."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` on each ``state_dict``; it may return another."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; it may return another."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    _optimizer_step_pre_hooks: OrderedDict[int, Hook]
    _optimizer_step_post_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Hook]


def _register(register: Any, hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(register)
    register[handle.id] = hook
    if prepend:
        register.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of every optimiser."""
    return _register(_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of every optimiser."""
    return _register(_step_post_hooks, hook)


def _loaded(value: Any, key: Any, param: Tensor, group: Group) -> Any:
    """A saved value of a parameter's state, its tensors as that parameter wants them."""
    if isinstance(value, Tensor):
        if key == "step":
            if group.get("capturable", False) or group.get("fused", False):
                value = value.to(dtype=float32)
            return to_device_of(param, value)
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, Mapping):
        return {k: _loaded(v, k, param, group) for k, v in value.items()}
    if isinstance(value, Iterable):
        return type(value)(_loaded(v, None, param, group) for v in value)  # type: ignore[call-arg]
    return value
