"""``torch.autograd.graph``: hooks on saved tensors and on several tensors, and gradient edges.

Source: `torch.autograd.graph <https://docs.pytorch.org/docs/stable/autograd.html#autograd-graph>`_.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any
from weakref import WeakSet

from fgrad.mutable.backward import engine
from fgrad.mutable.context.modes import ITSELF, Mode, Scope, modes, unusual
from fgrad.mutable.tensor.hooks import RemovableHandle
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import GradientEdge, Tensor, gradient_edge
from fgrad.mutable.types.type_names import type_name
from fgrad.torch.methods.autograd import increment_version


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The gradient edge of a tensor.

    Raises:
      RuntimeError: the tensor does not require grad.
    """
    edge = gradient_edge(tensor)
    if edge is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge)


class saved_tensors_hooks(Scope):
    """Tensors saved in the block are packed by ``pack_hook``, and unpacked by ``unpack_hook``.

    The pairs are a stack: leaving a block takes the innermost pair off, also where blocks are not left in the order in
    which they were entered.

    >>> import fgrad.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), torch.tensor):
    ...     y = (x * x).sum()
    >>> y.backward(); x.grad
    tensor([2., 2.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks(): {name} must be a function, not {type_name(hook)}")
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def values(self) -> dict[str, Any]:
        if modes.saved_hooks_disabled is not None:
            raise RuntimeError(modes.saved_hooks_disabled)
        unusual.enter()
        return {"saved_hooks": (*modes.saved_hooks, (self.pack_hook, self.unpack_hook))}

    def end(self, before: dict[str, Any]) -> Callable[[], Any]:
        state: Any = vars(modes)
        # each step of this iterator takes the last pair off, in C: see NOTE [Signals]
        left = map(itemgetter(slice(None, -1)), map(state.get, repeat("saved_hooks")))
        return map(state.update, map(zip, repeat(("saved_hooks",)), zip(left))).__next__


class save_on_cpu(saved_tensors_hooks):
    """Tensors saved in the block are kept on the CPU until backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        def pack(tensor: Tensor) -> Any:
            return tensor.device, tensor.cpu()

        def unpack(packed: Any) -> Tensor:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)
        self.pin_memory = pin_memory
        self.device_type = device_type


class disable_saved_tensors_hooks(Mode):
    """Refuses hooks on saved tensors within the block, with a message."""

    def __init__(self, error_message: str):
        self.message = error_message

    def clone(self) -> "disable_saved_tensors_hooks":
        return disable_saved_tensors_hooks(self.message)

    def values(self) -> dict[str, Any]:
        if modes.saved_hooks:
            raise RuntimeError(self.message)
        return {"saved_hooks_disabled": self.message}


class set_warn_on_accumulate_grad_stream_mismatch(Mode):
    """Accepted as in PyTorch; there are no streams here."""

    def __init__(self, enabled: bool):
        self.enabled = enabled

    def values(self) -> dict[str, Any]:
        return {}


class allow_mutation_on_saved_tensors(Mode):
    """Saved tensors may be written: backward reads their old values.

    Arrays are immutable, so the old values are still there and nothing is copied.

    >>> import fgrad.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 2
    ...     z = (y * y).sum()
    ...     _ = y.zero_()
    ...     z.backward()
    >>> x.grad
    tensor([8., 8.])
    """

    as_value = ITSELF

    def __init__(self) -> None:
        #: what was saved in the block and is still held by a graph
        self.saved: WeakSet[SavedTensor] = WeakSet()

    def values(self) -> dict[str, Any]:
        if modes.snapshot:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        return {"snapshot": True, "mutable": self}

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self.clear()

    @property
    def tid_to_weakhandle(self) -> dict[Any, Tensor]:
        """The tensors that graphs of the block hold, each once, by what tells them apart."""
        return {(id(s.tensor), s.version): s.tensor for s in list(self.saved) if s.tensor is not None}

    @property
    def cloned(self) -> dict[Any, Tensor]:
        """Those written since they were saved, which PyTorch would have copied."""
        return {key: t for key, t in self.tid_to_weakhandle.items() if t._counter.value != key[1]}

    @property
    def original(self) -> dict[Any, Tensor]:
        """Those not written since."""
        return {key: t for key, t in self.tid_to_weakhandle.items() if t._counter.value == key[1]}

    def clear(self) -> None:
        """Forget what was saved; there are no copies to clear."""
        self.saved.clear()


class _MultiHandle(RemovableHandle):
    """Removes the hooks of several tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call ``fn`` once in a backward: with all gradients of the tensors once they are complete, or with the first.

    Tensors that get no gradient in that backward are None.

    Raises:
      AssertionError: all gradients are asked for, and a tensor does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        first_only = _Any(fn)
        return _MultiHandle([t.register_hook(first_only) for t in tensors if t.requires_grad])
    collected = _All(fn, tensors)
    return _MultiHandle([t.register_hook(collected.hook(i)) for i, t in enumerate(tensors)])


class _Any:
    """Passes on the first gradient of a backward."""

    def __init__(self, fn: Callable[[Tensor], Any]):
        self.fn = fn

    def __call__(self, grad: Tensor) -> None:
        notes = engine.running.tasks[-1].notes
        if not notes.get(self):
            notes[self] = True
            self.fn(grad)


class _All:
    """Collects the gradients of a backward and passes them on together."""

    def __init__(self, fn: Callable[[Sequence[Tensor | None]], Any], tensors: Sequence[Tensor]):
        self.fn = fn
        edges = [gradient_edge(t) for t in tensors]
        if None in edges:
            raise AssertionError("Expected gradient function to be set")
        self.nodes: list[Any] = [edge[0] for edge in edges if edge is not None]

    def hook(self, i: int) -> Callable[[Tensor], None]:
        def inner(grad: Tensor) -> None:
            task = engine.running.tasks[-1]
            grads = task.notes.setdefault(self, [None] * len(self.nodes))
            missing = task.notes.setdefault((self, "left"), [sum(map(task.runs, self.nodes))])
            grads[i] = grad
            missing[0] -= 1
            if not missing[0]:
                self.fn(task.notes.pop(self))

        return inner


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
