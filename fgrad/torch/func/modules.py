"""Modules as functions of their state: ``functional_call`` and ``stack_module_state``."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fgrad.mutable.tensor.changes import pop_entry, set_entry
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.nn.modules.batchnorm import _BatchNorm
from fgrad.torch.nn.modules.registration import buffers_of, parameters_of

#: the value of a name that the module does not have
_MISSING: Any = object()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with its parameters and buffers replaced by other tensors.

    Arguments:
      module: the module.
      parameter_and_buffer_dicts: tensors by the names of ``named_parameters`` and ``named_buffers``, in one dict or
        several; the others stay the module's.
      args, kwargs: the arguments; ``args`` other than a tuple is the only one.
      tie_weights: a tensor replaces all names that share a parameter.
      strict: all names must be given, and no others.

    Returns:
      The module's result.  Buffers that it reassigns are in the dict afterwards.

    Raises:
      ValueError: two dicts have the same name, or names of a shared parameter are given different tensors.
      RuntimeError: names are missing or unknown, with ``strict``.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> state = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    >>> torch.func.functional_call(layer, state, torch.tensor([1., 2.]))
    tensor([3.])

    Source: `torch.func.functional_call
    <https://docs.pytorch.org/docs/stable/generated/torch.func.functional_call.html>`_.
    """
    state = _merged(parameter_and_buffer_dicts)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with state_replaced(module, state, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    repeated = [key for key, count in Counter([key for d in dicts for key in d]).items() if count > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {key: x for d in dicts for key, x in d.items()}


@contextlib.contextmanager
def state_replaced(module: Any, state: dict[str, Tensor], tie_weights: bool, strict: bool) -> Iterator[None]:
    """Replace the module's tensors for a block; afterwards ``state`` has their final values."""
    new = _with_tied_names(module, state) if tie_weights else state
    if strict:
        _check_names(module, new)
    old: dict[str, Any] = {}
    try:
        for name, tensor in new.items():
            old[name] = swap_tensor(module, name, tensor)
        yield
    finally:
        final = {name: swap_tensor(module, name, tensor) for name, tensor in old.items()}
        state.update({name: final[name] for name in state if name in final})


def named_tensors(module: Any) -> dict[str, Tensor]:
    """The parameters and buffers of a module under all their names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _with_tied_names(module: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state with a tensor under one name of a shared parameter copied to its other names."""
    names: dict[Tensor, list[str]] = {}
    for name, tensor in named_tensors(module).items():
        names.setdefault(tensor, []).append(name)
    values = dict(state)
    for tied in names.values():
        named = [name for name in tied if name in state]
        if len(tied) == 1 or not named:
            continue
        if len({id(state[name]) for name in named}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. Consider using "
                "tie_weights=False"
            )
        values |= dict.fromkeys(tied, state[named[0]])
    return values


def _check_names(module: Any, state: dict[str, Tensor]) -> None:
    valid = set(named_tensors(module))
    problems = [
        f"{problem} key(s): {', '.join(map(repr, sorted(keys)))}."
        for problem, keys in (("Unexpected", set(state) - valid), ("Missing", valid - set(state)))
        if keys
    ]
    if problems:
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(problems))


def swap_tensor(module: Any, name: str, tensor: Any) -> Any:
    """Replace the tensor of a module under a name; returns the old one."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if not last:
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (parameters_of(owner), buffers_of(owner)):
        if last in table:
            old = table[last]
            if tensor is _MISSING:
                pop_entry(table, last)
            else:
                set_entry(table, last, tensor)
            return old
    old = getattr(owner, last, _MISSING)
    if old is not _MISSING and old is not None and not isinstance(old, Tensor):
        raise TypeError(f"attribute `{last}`: {old} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(owner, last, tensor)
    elif old is not _MISSING:
        delattr(owner, last)
    return old


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of several modules of one class, each stacked along a new first axis, and their buffers.

    Raises:
      RuntimeError: there is not a module, or they differ in class, in training mode or in ``requires_grad``.

    >>> import fgrad.torch as torch
    >>> params, buffers = torch.func.stack_module_state([torch.nn.Linear(2, 3) for _ in range(4)])
    >>> params["weight"].shape
    torch.Size([4, 3, 2])

    Source: `torch.func.stack_module_state
    <https://docs.pytorch.org/docs/stable/generated/torch.func.stack_module_state.html>`_.
    """
    check_models_alike("stack_module_state", models)
    return (
        _stacked([dict(model.named_parameters()) for model in models]),
        _stacked([dict(model.named_buffers()) for model in models]),
    )


def check_models_alike(function: str, models: Any) -> None:
    """Raise PyTorch's error for modules whose states cannot be stacked."""
    if len(models) == 0:
        raise RuntimeError(f"{function}: Expected at least one model, got 0.")
    if len({bool(model.training) for model in models}) > 1:
        raise RuntimeError(f"{function}: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{function}: Expected all models to be of the same class.")


def _stacked(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    parameters = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        require = {x.requires_grad for x in tensors}
        if len(require) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        stacked = ops.stack(tensors)
        parameters[name] = stacked.detach().requires_grad_() if require == {True} else stacked
    return parameters


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make every batch normalisation in a module use batch statistics and track none; returns the module.

    Source: `torch.func.replace_all_batch_norm_modules_
    <https://docs.pytorch.org/docs/stable/generated/torch.func.replace_all_batch_norm_modules_.html>`_.
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
