"""Saved tensors: what a node keeps for backward, and the check that it was not written since.

NOTE [Saved is a handle and a version]
A node saves tensors, not values: unpacking at backward reads what the tensor's storage holds *then*.  The version saved
with the handle must still be the counter's, else the value has changed and PyTorch raises.  A write through ``.data``
does not bump the saved handle's counter, so it goes unnoticed and changes the gradient, as it does in PyTorch.  In
snapshot mode the array itself is kept (arrays are immutable, so that costs nothing) and nothing is checked.

An output of the node itself is saved as a handle without history: node, output, node would be a cycle, and a graph
would be freed late.  ``grad_fn`` is restored on unpacking (PyTorch: torch/csrc/autograd/saved_variable.cpp).
"""

import weakref
from typing import Any

from fgrad.mutable.context.modes import modes, no_grad, unusual
from fgrad.mutable.ports import AUDIT, CHANGED
from fgrad.mutable.tensor.node import TWICE, Node, function_name, node_name
from fgrad.mutable.tensor.origin import LEFT
from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor, accumulator, alias, gradient_function, new, new_tensor
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.types.dtypes import native_name
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.batched import batched, levels_of, unbatched
from fgrad.mutable.values.deferral import computed

INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)


DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please "
    "use out-of-place `.detach()` instead"
)


def _has_left(tensor: Tensor) -> bool:
    """Whether a tensor is a constant since the function in which it was made has returned."""
    return tensor._origin is not None and tensor._origin.reason == LEFT


class StopRecomputation(Exception):
    """What a hook raises that packs the last tensor which a recomputation is for."""


class SavedTensor:
    """One tensor that a node has saved."""

    __slots__ = (
        "tensor",
        "version",
        "output",
        "leaf",
        "array",
        "hooks",
        "packed",
        "levels",
        "type",
        "view_node",
        "owner",
        "name",
        "block",
        "__weakref__",
    )

    tensor: Tensor | None
    name: str
    output: bool
    leaf: bool
    version: int
    #: an output of an in-place operation on a view: its grad_fn is not the saving node but the view's own
    view_node: "weakref.ref[Any] | None"
    owner: Any
    array: Any
    hooks: Any
    packed: Any
    #: of ``vmap``, in which what was packed is a single example; hooks have the whole batch, as in PyTorch
    levels: Any
    type: Any
    #: the block of allow_mutation_on_saved_tensors that it was saved in, and can be read in alone
    block: Any

    def __init__(self) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    def _alias(self, tensor: Tensor) -> Tensor:
        """Another handle on the tensor, without history."""
        result = alias(tensor)
        result._output_nr, result._tangents = tensor._output_nr, tensor._tangents
        return result

    def _apply_modes(self, tensor: Tensor) -> None:
        """Apply the active modes, but for hooks."""
        if modes.snapshot:
            self.array = tensor._value()
            if modes.mutable is not None:
                self.block = modes.mutable
                self.block.saved.add(self)
            if not self.output:
                # a later write would change the tensor's history, too
                self.owner = gradient_function(tensor)
        if modes.release == "1.x" and self.tensor is tensor:
            # PyTorch 1.x always saved another handle, so assigning .data did not affect the saved value
            handle = self.tensor = self._alias(tensor)
            if not self.output:
                handle._requires_grad, handle._accumulator = tensor._requires_grad, tensor._accumulator
                handle._node = gradient_function(tensor)

    def apply_hooks(self, tensor: Tensor) -> None:
        """Apply the hooks of the innermost context, which are passed the tensor itself, with its history."""
        if modes.saved_hooks and not tensor._wrapped_number:
            self._pack(tensor, *modes.saved_hooks[-1])

    def register_hooks(self, pack: Any, unpack: Any = None) -> None:
        """Keep ``pack(tensor)`` in place of the tensor, and get it back by ``unpack``.

        Raises:
          RuntimeError: the saved tensor has hooks already or was freed, or ``pack`` writes to its argument.

        Source: `Hooks for autograd saved tensors
        <https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html>`_.
        """
        if not (callable(pack) and callable(unpack)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. A saved tensor takes two functions, pack and "
                f"unpack; not {type_name(unpack if callable(pack) else pack)}."
            )
        if self.hooks is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        if self.tensor is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. "
                "Saved intermediate values of the graph are freed when you call "
                ".backward() or autograd.grad(). Specify retain_graph=True if you "
                "need to backward through the graph a second time or if you need to "
                "access saved variables after calling backward."
            )
        original = self.tensor
        # a leaf that requires no gradient is packed itself, and unpacked as the same object
        detached = original._requires_grad if self.leaf else not self.output
        self._pack(alias(original) if detached else original, pack, unpack)

    def _pack(self, to_pack: Tensor, pack: Any, unpack: Any) -> None:
        original: Any = self.tensor
        self.levels = levels_of(to_pack._value())
        if self.levels:
            array = unbatched(to_pack._value())
            to_pack = new_tensor(array, tensor_type(original._type.dtype, tuple(array.shape)))
            to_pack._level = 0
        version = to_pack._counter.value
        with no_grad():
            self.packed = pack(to_pack)
        if to_pack._counter.value != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                "cannot be modified by in-place operations as this can lead to unexpected side-effects. Please open an "
                "issue if you need to perform in-place operations on the input to a pack hook."
            )
        self.hooks = (pack, unpack)
        self.type = original._type
        if self.leaf:
            self.owner = accumulator(original) if original._requires_grad else None
        elif not self.output:
            self.owner = gradient_function(original)
        self.version = original._output_nr
        self.tensor = None

    def release(self) -> None:
        self.tensor = None
        self.array = None
        self.hooks = None
        self.packed = None
        self.owner = None

    # -- reading ------------------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Any:
        """The saved array, checked.

        Raises:
          RuntimeError: it was freed, or written since it was saved.
        """
        return computed(self.waiting(node))

    def waiting(self, node: Node) -> Any:
        """The same, or its placeholder if it is deferred."""
        tensor = self.current()
        if tensor is not None:
            return tensor._waiting()
        if self.array is not None:
            self._check_block()
            if modes.findings is not None:
                AUDIT.call(self, node)
            return self.array
        if self.hooks is not None:
            return self._as_saved(self._unpacked(), node)._value()
        return self._attached(node)._value()

    def current(self) -> Tensor | None:
        """The tensor, if it still holds the saved value and has no hooks; None if ``value`` has more to do."""
        tensor = self.tensor
        if tensor is None or self.array is not None or self.version != tensor._counter.value:
            return None
        if not self.leaf and not self.output and gradient_function(tensor) is None:
            return None
        return tensor

    def operand(self, node: Node) -> Tensor:
        """The saved tensor with its history, checked.

        Raises:
          RuntimeError: it was freed, or written or detached since it was saved.
        """
        if self.hooks is None:
            self._attached(node)
            return self.unpack(node)
        return self._as_saved(self.unpack(node), node)

    def unpack(self, node: Node) -> Tensor:
        """The tensor that was saved, with its history."""
        if self.hooks is not None:
            result = self._unpacked()
            if self.leaf and self.owner is None:
                return result
            handle = alias(result, result._counter)
            handle._tangents = result._tangents
            if self.leaf:
                if self.owner is not None:
                    handle._requires_grad = True
                    handle._accumulator = weakref.ref(self.owner)
            else:
                handle._node = node if self.output else self.owner
                handle._output_nr = self.version
            return handle
        tensor = self._checked(node)
        if not self.output or self.leaf:
            return tensor if self.array is None else self._snapshot(tensor)
        handle = alias(tensor) if self.array is None else self._with_saved_elements(tensor)
        handle._node = self._maker(node)
        handle._output_nr, handle._tangents = tensor._output_nr, tensor._tangents
        return handle

    def _maker(self, node: Node) -> Node:
        """The ``grad_fn`` of a saved output: the saving node, or a view's own one while it is alive."""
        writer = None if self.view_node is None else self.view_node()
        return node if writer is None else writer

    def _snapshot(self, tensor: Tensor) -> Tensor:
        """The tensor as it was saved, if a later write has replaced its storage's array."""
        if tensor._value() is self.array:
            return tensor
        handle = self._with_saved_elements(tensor)
        if self.leaf:
            handle._requires_grad = tensor._requires_grad
            handle._accumulator = tensor._accumulator
        else:
            handle._node, handle._output_nr = self.owner, tensor._output_nr
        return handle

    def _with_saved_elements(self, tensor: Tensor) -> Tensor:
        """A tensor without history with the saved elements."""
        handle = alias(tensor)
        handle._storage = Storage(self.array, tensor._type.dtype)
        handle._geometry = None
        return handle

    def _attached(self, node: Node) -> Tensor:
        tensor = self.tensor
        # as in PyTorch, before the version check
        inner = not self.leaf and not self.output and self.array is None
        if inner and tensor is not None and gradient_function(tensor) is None and not _has_left(tensor):
            raise RuntimeError(DETACHED)
        return self._checked(node)

    def _checked(self, node: Node) -> Tensor:
        tensor = self.tensor
        if tensor is None:
            raise RuntimeError(TWICE)
        self._check_block()
        if self.version != tensor._counter.value and self.array is None:
            # of several, PyTorch unpacks the inputs before the outputs, each in the order of their names
            first = min([s for s in getattr(node, "saved", ()) if _is_changed(s)] or [self], key=SavedTensor._rank)
            assert first.tensor is not None
            raise CHANGED.call(first, node, first._text(first.tensor, node))
        return tensor

    def _check_block(self) -> None:
        if self.block is not None and (modes.mutable is not self.block or self not in self.block.saved):
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )

    def _rank(self) -> Any:
        return self.output, self.name

    def _text(self, tensor: Tensor, node: Node) -> str:
        name = native_name(tensor._type.dtype)
        text = (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{name} {list(tensor._type.shape)}]"
        )
        maker = self._maker(node) if self.output and not self.leaf else gradient_function(tensor)
        if maker is not None:
            name = node_name(maker) if modes.release == "1.x" else function_name(maker)
            text += f", which is output {tensor._output_nr} of {name},"
        text += f" is at version {tensor._counter.value}; expected version {self.version} instead."
        if modes.anomaly:
            return text + (
                " Hint: the backtrace further above shows the operation that failed to compute its gradient. "
                "The variable in question was changed in there or anywhere later. Good luck!"
            )
        return text + (
            " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
            + (
                "torch.autograd.set_detect_anomaly(True)."
                if modes.release == "1.x"
                else "torch.autograd.set_detect_anomaly(True, check_nan=False)."
            )
        )

    def _as_saved(self, unpacked: Tensor, node: Node) -> Tensor:
        """A hook's result, in the type and shape that the pull-back was made for.

        Raises:
          RuntimeError: it has another shape, and cannot be broadcast to that of the packed tensor.
        """
        if unpacked._type.dtype is not self.type.dtype:
            unpacked = unpacked.to(self.type.dtype)
        given_shape, shape = unpacked._type.shape, self.type.shape
        if given_shape == shape:
            return unpacked
        # the gradient is summed over extra axes; axes of size 1 need no sum
        more = max(len(given_shape) - len(shape), 0)
        inner = given_shape[more:]
        fits = all(a in (b, 1) for a, b in zip(reversed(inner), reversed(shape), strict=False))
        if not node.broadcasts_saved or any(n != 1 for n in given_shape[:more]) or not fits:
            raise RuntimeError(
                f"{node_name(node)}: the unpack hook of what was saved as {self.name!r} gave a tensor of shape "
                f"{list(given_shape)}, but what was packed has shape {list(shape)}. "
                "Way out: give the shape that was packed."
            )
        return unpacked.reshape(inner).expand(shape)

    def _unpacked(self) -> Tensor:
        tensor = self.hooks[1](self.packed)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type_name(tensor)}"
            )
        if self.levels:
            example = tensor_type(tensor._type.dtype, tensor._type.shape[len(self.levels) :])
            return new_tensor(batched(tensor._value(), self.levels), example)
        return tensor

    def __repr__(self) -> str:
        return f"<torch._C._autograd.SavedTensor object at {hex(id(self))}>"


def save(tensor: Tensor, name: str, output: bool = False) -> SavedTensor:
    """Save a tensor for the backward of a node, as the modes of the moment require; ``output``: the node has made it.

    Raises:
      RuntimeError: it is an inference tensor.
    """
    saved = save_unhooked(tensor, name, output, None)
    if unusual.on:
        saved.apply_hooks(tensor)
    return saved


def save_unhooked(tensor: Tensor, name: str, output: bool, view_node: Node | None) -> SavedTensor:
    """The same, before hooks are applied.

    ``view_node``: the new ``grad_fn`` of a view, if an in-place operation on that view has made it.
    """
    if tensor._inference and not modes.transforms:
        raise RuntimeError(INFERENCE)
    saved = new(SavedTensor)
    saved.tensor, saved.name, saved.output, saved.version = tensor, name, output, tensor._counter.value
    saved.view_node = None if view_node is None else weakref.ref(view_node)
    saved.owner = saved.array = saved.hooks = saved.packed = saved.block = None
    saved.leaf = tensor._node is None and (tensor._view is None or gradient_function(tensor) is None)
    if output and not saved.leaf:
        saved.tensor = saved._alias(tensor)
    if unusual.on:
        saved._apply_modes(tensor)
    return saved


def _is_changed(saved: Any) -> bool:
    """Whether a saved value is a tensor that was written since."""
    if not isinstance(saved, SavedTensor) or saved.tensor is None or saved.array is not None:
        return False
    return saved.version != saved.tensor._counter.value
