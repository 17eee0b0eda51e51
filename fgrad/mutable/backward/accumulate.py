"""Accumulation: a gradient is made to fit its tensor, and a leaf adds it to its ``.grad``.

A ``.grad`` has the layout that PyTorch gives it.
"""

import math
import sys
from collections.abc import Sequence

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Geometry, Ints, contiguous_strides, is_dense
from fgrad.mutable.operation.operation import apply
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.operation.overlap import check_repeated
from fgrad.mutable.operation.reduction import ADD, CAST, COPY, SUM_TO
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.node import Edge, Node, node_name, updating_leaf
from fgrad.mutable.tensor.tensor import Tensor, alias, gradient_function, is_tracked, new_tensor, to_device_of
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.transforms.forward import take_tangents
from fgrad.mutable.values.device_of_value import elsewhere

CAPTURED = (
    "functionalize: backward() inside the function would set the .grad of a tensor from outside. Pass the tensor as an "
    "argument, or say with inputs= which gradients are wanted."
)


#: how many references the engine has to a gradient where it asks whether there are others: the buffer, the caller's
#: variable, the parameter, the argument of ``getrefcount``.  From 3.14 on Python does not count all references of local
#: variables, so the number proves nothing there.
REFERENCES = 4 if sys.version_info < (3, 14) else 0


class Read:
    """A leaf's ``.grad`` as it was read; another thread may change it meanwhile."""

    __slots__ = ("leaf", "grad", "version")

    def __init__(self, leaf: Tensor):
        self.leaf: Tensor = leaf
        self.grad: Tensor | None = leaf._grad
        self.version: int = 0 if self.grad is None else self.grad._counter.value

    def is_current(self) -> bool:
        grad = self.leaf._grad
        return grad is self.grad and (grad is None or grad._counter.value == self.version)


def accumulate_grad(leaf: Tensor, grad: Tensor | None) -> None:
    """Add a gradient to a leaf's ``.grad``: in place, unless the sum is itself recorded; then run its hooks."""
    if grad is None:
        return
    if modes.level:
        if leaf._level < modes.capture:
            raise RuntimeError(CAPTURED)
        if modes.capturing is not None:
            modes.capturing.lift_tensor(leaf)
    if (leaf._node if leaf._view is None else gradient_function(leaf)) is not None:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if elsewhere.exist:
        grad = to_device_of(leaf, grad)
    with updating_leaf:
        old = leaf._grad
        if not is_tracked(leaf):
            pass  # a leaf that no longer requires grad accumulates nothing, but its hooks still run
        elif old is None:
            accumulated = (recorded_copy if modes.grad else moved_or_copied)(grad, leaf)
            now = object()
            leaf._grad = accumulated
            changes.fields = now
        elif not modes.grad:
            check_repeated(old)
            total = apply(ADD, (old, grad))
            old._overwrite(total._waiting(), "add_", None)
            if total._tangents is not None:
                take_tangents(old, total)
        else:
            accumulated, now = apply(ADD, (old, grad)), object()
            leaf._grad = accumulated
            changes.fields = now
    hooks = leaf._post_accumulate_grad_hooks
    for hook in list(hooks.values()) if hooks else ():
        returned = hook(leaf)
        if returned is not None and not isinstance(returned, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{returned.__class__.__name__}'")
        if returned is not None and returned is not leaf:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def layout(leaf: Tensor, sizes: Ints) -> Ints:
    """The strides of a leaf's ``.grad``: its own if it leaves no gaps, else row-major.

    The gradient has other sizes where the leaf got its own by ``.data = ...`` after its node was made.

    Source: PyTorch: torch/csrc/autograd/functions/accumulate_grad.h, "Gradient Layout Contract".
    """
    g = leaf._geometry_of()
    return g.strides if g.sizes == sizes and is_dense(g.sizes, g.strides) else contiguous_strides(sizes)


def recorded_copy(grad: Tensor, leaf: Tensor) -> Tensor:
    """A differentiable ``.grad``: a new tensor holding a copy of the gradient."""
    target = new_tensor(zeros(grad._type)._value(), grad._type, layout(leaf, grad._type.shape))
    copy = apply(COPY, (target, grad))
    copy._bump("copy_", None)
    return copy


def moved_or_copied(grad: Tensor, leaf: Tensor) -> Tensor:
    """A ``.grad``: the incoming tensor if nothing else refers to it, though its memory may be another's; else a copy.

    Arrays are immutable, so the copy is just a new storage.  Where PyTorch copies, which it does into an empty tensor
    if the leaf has no gaps, that counts as a write.  A view that has its memory for itself becomes a tensor without a
    geometry, so that the next backward may run as one program.

    Source: PyTorch: torch/csrc/autograd/functions/accumulate_grad.h, accumulateGrad; utils/grad_layout_contract.h
    """
    strides, geometry = layout(leaf, grad._type.shape), grad._geometry_of()
    # an axis of size 1 with stride 0 is an expanded one
    fits = all(s == t or (n == 1 and s) for n, s, t in zip(geometry.sizes, geometry.strides, strides, strict=True))
    # references: the engine's buffer, the caller's parameter, the parameter, the argument below
    alone = fits and sys.getrefcount(grad) <= REFERENCES
    if alone and (grad._geometry is None or shares(grad, geometry)):
        return alias(grad)
    copy = new_tensor(grad._waiting(), grad._type, strides)
    g = leaf._geometry_of()
    if not alone and is_dense(g.sizes, g.strides):
        copy._counter.value = 1
    return copy


def shares(grad: Tensor, geometry: Geometry) -> bool:
    """Whether a view is of a part of its memory, or others refer to that."""
    storage = grad._storage
    is_whole = storage.dtype is geometry.dtype and storage.count == math.prod(geometry.sizes)
    return not is_whole or sys.getrefcount(storage) > 3


def validated(node: Node, input_grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Gradients made to fit their tensors: summed over broadcast axes and cast."""
    edges = node.next_edges
    if len(input_grads) != len(edges):
        raise RuntimeError(
            f"{node_name(node)} returned an incorrect number of gradients (expected {len(edges)}, got "
            f"{len(input_grads)})"
        )
    for i, (edge, grad) in enumerate(zip(edges, input_grads, strict=True)):
        if edge is None or grad is None:
            continue
        type = edge[0].out_types[edge[1]]
        if grad._type is not type:
            fitted = reduced(node, i, grad, type_at(edge, grad))
            input_grads = [*input_grads[:i], fitted, *input_grads[i + 1 :]]
    return input_grads


def type_at(edge: Edge, grad: Tensor) -> TensorType:
    """The type that a gradient has to have at a node's output."""
    node, number = edge
    type = node.out_types[number]
    return tensor_type(grad._type.dtype, type.shape) if node._takes_any_dtype else type


def reduced(node: Node, input_nr: int, grad: Tensor, type: TensorType) -> Tensor:
    shape = grad._type.shape
    if shape != type.shape:
        if not expands_to(type.shape, shape):
            raise RuntimeError(
                f"Function {node_name(node)} returned an invalid gradient at index {input_nr} - got {list(shape)} but "
                f"expected shape compatible with {list(type.shape)}"
            )
        grad = apply(SUM_TO, (grad,), (type.shape,))
    return cast(grad, type)


def cast(grad: Tensor, type: TensorType) -> Tensor:
    return grad if grad._type.dtype is type.dtype else apply(CAST, (grad,), (type.dtype,))


def expands_to(shape: Sequence[int], desired: Sequence[int]) -> bool:
    """Whether a shape broadcasts to another."""
    if len(shape) > len(desired):
        return False
    return all(a in (b, 1) for a, b in zip(reversed(shape), reversed(desired), strict=False))
