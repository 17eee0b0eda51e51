"""Modules as functions the way of ``functorch``, which ``torch.func.functional_call`` replaced.

Source: `functorch <https://docs.pytorch.org/docs/2.0/functorch.html>`_.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.func.modules import check_models_alike, functional_call, named_tensors, swap_tensor
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters and buffers: what ``make_functional_with_buffers`` returns."""

    def __init__(self, stateless_model: Module, param_names: Sequence[str], buffer_names: Sequence[str]):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)
        self.buffer_names = tuple(buffer_names)

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        names = (*self.param_names, *self.buffer_names)
        state = dict(zip(names, (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(Module):
    """A module as a function of its parameters: what ``make_functional`` returns."""

    def __init__(self, stateless_model: Module, param_names: Sequence[str]):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module without buffers as a function of its parameters, and copies of these.

    Arguments:
      model: the module, which is left alone.
      disable_autograd_tracking: the copies do not require grad.

    Raises:
      RuntimeError: the module has buffers.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.func.functional_modules import make_functional
    >>> function, params = make_functional(torch.nn.Linear(2, 1))
    >>> function([torch.ones(1, 2), torch.zeros(1)], torch.tensor([1., 2.]))
    tensor([3.])
    """
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    stateless, params, _ = _without_state(model, disable_autograd_tracking)
    return FunctionalModule(stateless, [*params]), tuple(params.values())


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function of its parameters and buffers, and copies of both; see ``make_functional``.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.func.functional_modules import make_functional_with_buffers
    >>> function, params, buffers = make_functional_with_buffers(torch.nn.BatchNorm1d(2))
    >>> len(params), len(buffers), function(params, buffers, torch.ones(3, 2)).shape
    (2, 3, torch.Size([3, 2]))
    """
    return _with_buffers(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Modules of one class as one function, to be mapped over their stacked parameters and buffers.

    Raises:
      RuntimeError: there is not a module, or they differ in class or in training mode.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.func.functional_modules import combine_state_for_ensemble
    >>> function, params, buffers = combine_state_for_ensemble([torch.nn.Linear(2, 1) for _ in range(4)])
    >>> torch.vmap(function, (0, 0, None))(params, buffers, torch.ones(2)).shape
    torch.Size([4, 1])
    """
    check_models_alike("combine_state_for_ensemble", models)
    functions, params, buffers = zip(*[_with_buffers(model) for model in models], strict=True)
    return functions[0], _stacked(params), _stacked(buffers)


def _with_buffers(model: Module, disable_autograd_tracking: bool = False) -> Any:
    stateless, params, buffers = _without_state(model, disable_autograd_tracking)
    function = FunctionalModuleWithBuffers(stateless, [*params], [*buffers])
    return function, tuple(params.values()), tuple(buffers.values())


def _without_state(model: Module, untracked: bool) -> tuple[Module, dict[str, Tensor], dict[str, Tensor]]:
    """A copy of a module with tensors on ``meta`` for its state, and the copied parameters and buffers by name."""
    stateless = copy.deepcopy(model)
    params, buffers = dict(stateless.named_parameters()), dict(stateless.named_buffers())
    # one for all names of a tied tensor
    empty: dict[Tensor, Tensor] = {}
    for name, tensor in named_tensors(stateless).items():
        if tensor not in empty:
            shape_only = ops.empty_like(tensor, device="meta")
            empty[tensor] = Parameter(shape_only) if isinstance(tensor, Parameter) else shape_only
        swap_tensor(stateless, name, empty[tensor])
    if untracked:
        for param in params.values():
            param.requires_grad_(False)
    return stateless, params, buffers


def _stacked(states: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple([ops.stack(tensors).detach() for tensors in zip(*states, strict=True)])
