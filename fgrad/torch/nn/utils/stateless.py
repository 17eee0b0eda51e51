"""The former name of ``torch.func.functional_call``."""

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
