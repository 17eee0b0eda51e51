"""What hooks make of gradients while the engine runs: see NOTE [Hook order] in ``engine.py``."""

from collections.abc import Sequence
from typing import Any

from fgrad.torch.core.node import Node
from fgrad.torch.core.tensor import AccumulateGrad, Tensor
from fgrad.torch.core.types import TensorType


def tensor_hooks(node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    """Run the hooks of the tensors that a node made, then what retains their gradients."""
    if isinstance(node, AccumulateGrad):
        hooks = node.variable._backward_hooks
        if hooks:
            grads[0] = hooked(hooks, grads[0], node.out_types[0])
        return grads
    if node.tensor_hooks is not None:
        for registered, number in node.tensor_hooks:
            if registered:
                grads[number] = hooked(registered, grads[number], node.out_types[number])
    if node.retains is not None:
        for number, store in node.retains.items():
            store(grads[number])
    return grads


def hooked(hooks: dict[int, Any], grad: Tensor | None, type: TensorType) -> Tensor | None:
    """A gradient after the hooks of its tensor."""
    for hook in list(hooks.values()):
        found = hook(grad)
        if found is not None:
            if grad is None:
                raise RuntimeError("can't replace a None gradient with a non-None value")
            if not isinstance(found, Tensor):
                raise TypeError(f"expected Variable, but hook returned '{found.__class__.__name__}'")
            check_replacement(hook, found, grad)
            grad = found
    return grad


def check_replacement(hook: Any, found: Tensor, grad: Tensor) -> None:
    name = getattr(hook, "__name__", "<unknown>")
    if found._type.dtype is not grad._type.dtype:
        raise RuntimeError(f"hook '{name}' has changed the type of value (was {legacy(grad)} got {legacy(found)})")
    if found._type.shape != grad._type.shape:
        raise RuntimeError(f"hook '{name}' has changed the size of value")


def legacy(tensor: Tensor) -> str:
    return f"torch.{tensor._type.dtype.scalar_name}Tensor"


def pre_hooks(node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    for hook in list((node.pre_hooks or {}).values()):
        found = hook(tuple(grads))
        if found is not None:
            grads = listed(hook, found, len(grads))
    return grads


def post_hooks(node: Node, found: Sequence[Tensor | None], grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    for hook in list((node.post_hooks or {}).values()):
        replaced = hook(tuple(found), tuple(grads))
        if replaced is not None:
            found = listed(hook, replaced, len(found))
    return found


def listed(hook: Any, found: Any, count: int) -> list[Tensor | None]:
    name = getattr(hook, "__name__", "<unknown>")
    values = list(found) if isinstance(found, tuple | list) else [found]
    if len(values) != count:
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(values)}, but expected {count})"
        )
    return values
