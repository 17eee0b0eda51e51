"""Running hooks on gradients: see NOTE [Hook order] in ``engine.py``."""

from collections.abc import Sequence
from typing import Any

from fgrad.mutable.tensor.node import Attached, Node
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor
from fgrad.mutable.tensor.tensor_type import TensorType


def tensor_hooks(node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    """Run the hooks of a node's output tensors, then retain their gradients."""
    if isinstance(node, AccumulateGrad):
        hooks = node.variable._tensor_hooks
        if hooks:
            grads[0] = hooked(hooks, grads[0], node.out_types[0])
        return grads
    attached = node._attached
    if attached is not None:
        for registered, number in attached.tensor_hooks or ():
            if registered:
                grads[number] = hooked(registered, grads[number], node.out_types[number])
        for number, store in (attached.retains or {}).items():
            store(grads[number])
    return grads


def hooked(hooks: dict[int, Any], grad: Tensor | None, type: TensorType) -> Tensor | None:
    """The gradient after its tensor's hooks have run."""
    for hook in list(hooks.values()):
        returned = hook(grad)
        if returned is not None:
            check_replacement(hook, returned, grad)
            grad = returned
    return grad


def check_replacement(hook: Any, replacement: Any, grad: Tensor | None) -> None:
    """Raise PyTorch's error for a hook's return value that cannot replace a gradient."""
    if replacement is None:
        return
    if grad is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(replacement, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{replacement.__class__.__name__}'")
    if replacement._type.dtype is not grad._type.dtype:
        types = f"(was {legacy(grad)} got {legacy(replacement)})"
        raise RuntimeError(f"hook '{_name(hook)}' has changed the type of value {types}")
    if replacement._type.shape != grad._type.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")


def legacy(tensor: Tensor) -> str:
    return f"torch.{tensor._type.dtype.scalar_name}Tensor"


def pre_hooks(attached: Attached, grads: list[Tensor | None]) -> list[Tensor | None]:
    for hook in list((attached.pre_hooks or {}).values()):
        replaced = hook(tuple(grads))
        if replaced is not None:
            grads = checked(hook, replaced, grads)
    return grads


def post_hooks(
    attached: Attached, input_grads: Sequence[Tensor | None], grads: Sequence[Tensor | None]
) -> Sequence[Tensor | None]:
    for hook in list((attached.post_hooks or {}).values()):
        replaced = hook(tuple(input_grads), tuple(grads))
        if replaced is not None:
            input_grads = checked(hook, replaced, input_grads)
    return input_grads


def checked(hook: Any, replaced: Any, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The validated return value of a node hook, which replaces all gradients."""
    if not isinstance(replaced, tuple):
        raise TypeError(f"expected tuple, but hook returned '{replaced.__class__.__name__}'")
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(replaced)}, but expected "
            f"{len(grads)})"
        )
    for replacement, grad in zip(replaced, grads, strict=True):
        check_replacement(hook, replacement, grad)
    return list(replaced)
