"""The methods of operators as functions, which take an operator or its name."""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.torch.library.custom_op import OPERATORS, CustomOpDef


def _operator(op: CustomOpDef | str) -> CustomOpDef:
    if not isinstance(op, CustomOpDef | str):
        raise ValueError(f"register(...): got unexpected type for op: {type(op)}")
    if isinstance(op, CustomOpDef):
        return op
    if op not in OPERATORS:
        raise RuntimeError(f"{op} is no operator that torch.library.custom_op has made")
    return OPERATORS[op]


def register_autograd(
    op: CustomOpDef | str, backward: Callable[..., Any], /, *, setup_context: Callable[..., None] | None = None
) -> None:
    """Register the derivative of an operator: see ``CustomOpDef.register_autograd``.

    >>> import fgrad.torch as torch
    >>> @torch.library.custom_op("library_doc::fifth", mutates_args=())
    ... def fifth(x: torch.Tensor) -> torch.Tensor:
    ...     return x / 5
    >>> torch.library.register_autograd("library_doc::fifth", lambda ctx, grad: grad / 5)
    """
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: CustomOpDef | str, func: Callable[..., Any] | None = None, /) -> Any:
    """Register the shapes of an operator's results: see ``CustomOpDef.register_fake``.

    The operator may be unknown, for libraries do this for those that they have in machine code, which does not run
    here (``torch.ops.load_library``).
    """
    if isinstance(op, str) and op not in OPERATORS:
        return (lambda function: function) if func is None else func
    definition = _operator(op)
    return definition.register_fake if func is None else definition.register_fake(func)


def register_kernel(
    op: CustomOpDef | str, device_types: str | Sequence[str] | None, func: Callable[..., Any] | None = None, /
) -> Any:
    """Register another implementation of an operator: see ``CustomOpDef.register_kernel``."""
    return _operator(op).register_kernel(device_types, func)


def register_vmap(op: CustomOpDef | str, func: Callable[..., Any] | None = None, /) -> Any:
    """Register the ``vmap`` rule of an operator: see ``CustomOpDef.register_vmap``."""
    return _operator(op).register_vmap(func)
