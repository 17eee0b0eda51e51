"""Modules constructed without initial values."""

import inspect
from typing import Any

from fgrad.torch.nn.modules.module import Module
from fgrad.torch.random.default import get_rng_state, set_rng_state


def skip_init(module_cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """Construct a module with uninitialised parameters and buffers, drawing no random numbers.

    Arguments:
      module_cls: the class of the module, which takes a ``device``.
      args, kwargs: the arguments of the class.

    Raises:
      RuntimeError: it is not a module class, or takes no ``device``.

    >>> import fgrad.torch as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 5, 1).weight.shape
    torch.Size([1, 5])

    Source: `torch.nn.utils.skip_init <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.skip_init.html>`_.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    state = get_rng_state()
    try:
        return module_cls(*args, **kwargs, device=device).to_empty(device=device)
    finally:
        set_rng_state(state)
