"""The former name of ``torch.func.functional_call``, and the block in which a module has another state."""

import contextlib
from collections.abc import Iterator
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.torch.func import modules


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with its parameters and buffers replaced: see ``torch.func.functional_call``.

    Source: `torch.nn.utils.stateless.functional_call
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.stateless.functional_call.html>`_.
    """
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
    )
    return modules.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


@contextlib.contextmanager
def _reparametrize_module(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Replace a module's parameters and buffers in a block, as ``functional_call`` does for one call.

    ``stack_weights``, the order in which they are put back, makes no difference: each name is replaced once.
    """
    with modules.state_replaced(module, parameters_and_buffers, tie_weights, strict):
        yield
