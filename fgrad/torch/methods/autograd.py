"""What tensors have for autograd: ``grad``, ``requires_grad_``, ``detach``, hooks, versions, ``data``."""

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from fgrad.graph.source import here
from fgrad.mutable import explain
from fgrad.mutable.backward.engine import queue_callback
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.operation.capture import note_position
from fgrad.mutable.operation.origins import note_origin
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.cut import constant_of, cut, derive, grafted
from fgrad.mutable.tensor.hooks import RemovableHandle, register
from fgrad.mutable.tensor.storage import VersionCounter
from fgrad.mutable.tensor.tensor import Tensor, alias, gradient_function, gradient_type, is_tracked
from fgrad.mutable.transforms.levels import is_mapped, transforming
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.device_of_value import elsewhere
from fgrad.mutable.write.inplace import check_captured
from fgrad.torch.autograd.backward import backward as run_backward
from fgrad.torch.ops.table.dispatch import METHOD_IN_PYTHON, as_method
from fgrad.torch.random.scalars import cpp_name

NON_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
    "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, "
    "use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the "
    "leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information."
)


NO_VOLATILE = "volatile was removed and now has no effect. Use `with torch.no_grad():` instead."

INFERENCE_LEAF = "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
TRANSFORMED_BACKWARD = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp "
    "instead or call backward() outside of functorch transforms."
)
TRANSFORMED_LEAF = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) "
    "inside of a "
    "function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch "
    "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
    "transformed instead."
)
TRANSFORMED_RETAIN = (
    "You are attempting to call Tensor.retain_grad() inside of a function being transformed by a functorch transform. "
    "This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or "
    "call retain_grad() outside of a function being transformed instead."
)


def method(function: Any) -> Any:
    """Make a function a method of tensors."""
    setattr(Tensor, function.__name__, function)
    return function


def attribute(function: Any) -> Any:
    """Make a function a read-only attribute of tensors."""
    setattr(Tensor, function.__name__, property(function))
    return function


@method
@as_method(METHOD_IN_PYTHON)
def backward(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradient of this tensor to the ``.grad`` of the leaves it was made from.

    Source: `torch.Tensor.backward <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html>`_.
    """
    if modes.transforms:
        raise RuntimeError(TRANSFORMED_BACKWARD)
    run_backward(self, gradient, retain_graph, create_graph, inputs=inputs)


# -- requires_grad ---------------------------------------------------------------------------------------------------


def _undeletable(message: str) -> Any:
    """What refuses to delete an attribute; a ``__delattr__`` of the class would make each write of a field slower."""

    def delete(self: Tensor) -> None:
        raise RuntimeError(message)

    return delete


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
    # the stored node: PyTorch does not check whether the base of a view was written since
    if self._node is not None:
        extra = (
            ""
            if value
            else " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach()."
        )
        raise RuntimeError(f"you can only change requires_grad flags of leaf variables.{extra}")
    if value and not self._type.inexact:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if self._inference and value and not modes.inference:
        raise RuntimeError(INFERENCE_LEAF)
    if modes.level:
        _note(self)
    now = object()
    self._requires_grad = value
    changes.fields = now


def _note(tensor: Tensor) -> None:
    """Tell a capture that a tensor's own fields are about to change."""
    if modes.capturing is not None:
        modes.capturing.lift_tensor(tensor)


Tensor.requires_grad = property(  # type: ignore[attr-defined]
    Tensor.requires_grad.fget, _set_requires_grad, _undeletable("requires_grad must be a bool")
)


@method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether gradients are recorded for this tensor; returns it."""
    if not isinstance(requires_grad, bool):
        raise TypeError(
            f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {type_name(requires_grad)}"
        )
    if transforming():
        raise RuntimeError(TRANSFORMED_LEAF)
    if requires_grad and not self._type.inexact:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if self._node is None or not requires_grad:
        _set_requires_grad(self, requires_grad)
    return self


# -- grad ------------------------------------------------------------------------------------------------------------


def _get_grad(self: Tensor) -> Tensor | None:
    """The gradient that backward has left here, or None."""
    # the stored node: reading .grad must not fail because a view could not regenerate its own
    grad = self._grad
    if grad is None and not self._retains_grad and self._node is not None:
        warn(explain.non_leaf(self, NON_LEAF), UserWarning)
    return grad


def _set_grad(self: Tensor, value: Any) -> None:
    if modes.level:
        _note(self)
    if self._owner is not None:
        self._owner.release()  # drops a pending gradient: see NOTE [Owned tensors]
    now = object()
    if value is None:
        self._grad = None
        changes.fields = now
        return
    if not isinstance(value, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if value is self:
        raise RuntimeError("can't assign Variable as its own grad")
    grad_dtype = _dtype_of_gradient(self)
    if grad_dtype is not None and value._type.dtype is not grad_dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{cpp_name(value._type.dtype.numpy)}' to a tensor with "
            f"grad_dtype '{grad_dtype.scalar_name}'. The gradient must match the tensor's grad_dtype (defaults to the "
            "tensor's dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to "
            "allow any "
            "dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break "
            "downstream "
            "systems that assume they match."
        )
    if value._type.shape != self._type.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value._type.shape)}' to a tensor of size "
            f"'{list(self._type.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )
    self._grad = value
    changes.fields = now


def _delete_grad(self: Tensor) -> None:
    _set_grad(self, None)


Tensor.grad = property(_get_grad, _set_grad, _delete_grad)  # type: ignore[attr-defined]


def _dtype_of_gradient(self: Tensor) -> Dtype | None:
    dtype = self._grad_dtype
    return self._type.dtype if dtype is ... else dtype


def _get_grad_dtype(self: Tensor) -> Dtype | None:
    """The element type that backward gives the gradient of this leaf, its own by default; None keeps what comes.

    Source: `torch.Tensor.grad_dtype
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.grad_dtype.html>`_.
    """
    if self._node is not None:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return _dtype_of_gradient(self)


def _set_grad_dtype(self: Tensor, dtype: Any) -> None:
    if dtype is not None and not isinstance(dtype, Dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type_name(dtype)}")
    if self._node is not None:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if dtype is not None and self._type.inexact and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"grad_dtype of a tensor of {self._type.dtype} cannot be {dtype}: it has no gradients")
    if dtype is not None and self._grad is not None and self._grad._type.dtype is not dtype:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{dtype.scalar_name}' because there is already a gradient with dtype "
            f"'{cpp_name(self._grad._type.dtype.numpy)}'. Please clear the gradient (.grad = None) before changing "
            "grad_dtype, or ensure the new grad_dtype matches the existing gradient's dtype."
        )
    if modes.level:
        _note(self)
    now = object()
    self._grad_dtype = dtype
    changes.fields = now
    node = None if self._accumulator is None else self._accumulator()
    if node is not None:
        node.out_types = (gradient_type(self),)


Tensor.grad_dtype = property(_get_grad_dtype, _set_grad_dtype)  # type: ignore[attr-defined]


def _store_grad(retaining: Tensor) -> Any:
    # the node must not keep its tensor alive: with what the tensor refers to, that would be a cycle
    reference = weakref.ref(retaining)

    def store(grad: Tensor | None) -> None:
        tensor = reference()
        if grad is None or tensor is None:
            return
        if tensor._grad is None:
            tensor._grad = grad.clone()
        else:
            tensor._grad = tensor._grad + grad

    return store


@method
def retain_grad(self: Tensor) -> None:
    """Have backward set the ``.grad`` of this tensor although it is not a leaf.

    Source: `torch.Tensor.retain_grad <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.retain_grad.html>`_.
    """
    if transforming():
        raise RuntimeError(TRANSFORMED_RETAIN)
    if not is_tracked(self):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    # as in PyTorch, which does not regenerate the node of a view to see whether there is one
    if self._node is None or self._retains_grad:
        return
    if modes.level:
        _note(self)
    node = gradient_function(self)
    assert node is not None
    attached = node._attach()
    if attached.retains is None:
        attached.retains = {}
    if modes.capturing is not None:
        modes.capturing.note_change(attached.retains)
    attached.retains[self._output_nr] = _store_grad(self)
    self._retains_grad = True


# -- hooks -----------------------------------------------------------------------------------------------------------


@method
@as_method(METHOD_IN_PYTHON)
def register_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """Call ``hook(grad)`` with this tensor's gradient in backward; what it returns replaces the gradient.

    Source: `torch.Tensor.register_hook
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html>`_.
    """
    if not is_tracked(self):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._tensor_hooks is None:
        self._tensor_hooks, changes.fields = OrderedDict(), object()
        node = gradient_function(self)
        if node is not None:
            node._register_hook_dict(self._tensor_hooks, self._output_nr)
    return register(self._tensor_hooks, hook)


@method
@as_method(METHOD_IN_PYTHON)
def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> RemovableHandle:
    """Call ``hook(tensor)`` after backward has added to this leaf's ``.grad``."""
    if not is_tracked(self):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if gradient_function(self) is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._post_accumulate_grad_hooks is None:
        self._post_accumulate_grad_hooks, changes.fields = OrderedDict(), object()
    return register(self._post_accumulate_grad_hooks, hook)


# -- detaching -------------------------------------------------------------------------------------------------------


@method
def detach(self: Tensor) -> Tensor:
    """The same elements without history, and with the same version counter: a write to one counts for both.

    Source: `torch.Tensor.detach <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html>`_.
    """
    return _without_history(cut(alias(self)), self, "detach")


def _without_history(result: Tensor, tensor: Tensor, how: str) -> Tensor:
    if tensor._origin is not None or is_tracked(tensor):
        note_origin(how, (tensor,), (result,), here(3), how if is_tracked(tensor) else "")
    return result


@method
def detach_(self: Tensor) -> Tensor:
    """Cut this tensor from the graph that made it, and make it a leaf; in inference mode it stays as it is."""
    if modes.inference:
        return self
    check_captured(self, "detach")
    # an example that vmap maps is a view, of its batch
    if self._view is not None or (_mapping() and _mapped(self)):
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    _without_history(cut(self), self, "detach")
    now = object()
    self._requires_grad = False
    self._node = None
    self._output_nr = 0
    self._tangents = None
    changes.fields = now
    return self


def _mapping() -> bool:
    """Whether the innermost transformation is ``vmap``."""
    return bool(modes.maps) and modes.transforms[-1] is modes.maps[-1]


def _mapped(tensor: Any) -> bool:
    """Whether a tensor is batched by the innermost ``vmap``."""
    return isinstance(tensor, Tensor) and is_mapped(tensor._value(), modes.maps[-1])


def _get_data(self: Tensor) -> Tensor:
    """The same elements without history, and with a version counter of its own: writes do not count for the tensor."""
    if _mapping() and _mapped(self):
        raise RuntimeError("accessing `data` under vmap transform is not allowed")
    return _without_history(cut(alias(self, VersionCounter())), self, "data")


def _set_data(self: Tensor, other: Any) -> None:
    if modes.transforms and not (_mapping() and not _mapped(self) and not _mapped(other)):
        where = "under vmap" if _mapping() else "inside functorch"
        raise RuntimeError(f"mutating directly with `.data` {where} transform is not allowed.")
    if not isinstance(other, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(other).__name__}")
    if elsewhere.exist and self.is_meta != other.is_meta:
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
        )
    if is_tracked(self) and not other._type.inexact:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    if modes.level:
        _note(self)
    geometry = other._geometry or other._storage.home
    if other._type.dtype is not self._type.dtype:
        self._accumulator = None
    before = self._value() if modes.capture else None
    now = object()
    self._storage = other._storage
    self._type = other._type
    self._geometry = geometry
    self._cache = None
    changes.fields = now
    if modes.capture:
        derive(cut(self), grafted(constant_of(self._value()), before))


Tensor.data = property(  # type: ignore[attr-defined]
    _get_data, _set_data, _undeletable("Deleting tensor data is not allowed. Delete tensor instead!")
)


def _cut_node(self: Tensor, value: None) -> None:
    if value is not None:
        raise RuntimeError("_grad_fn can be only set to None")
    self.detach_()


def _set_hooks(self: Tensor, value: "OrderedDict[int, Any] | None") -> None:
    self._tensor_hooks, changes.fields = value, object()


Tensor._grad_fn = property(  # type: ignore[attr-defined]
    lambda self: self.grad_fn, _cut_node, _undeletable("Deletion of _grad_fn not allowed. Detach tensor instead!")
)
Tensor._backward_hooks = property(  # type: ignore[attr-defined]
    lambda self: self._tensor_hooks, _set_hooks, _undeletable("Deletion of _backwards_hooks not allowed!")
)


def _get_volatile(self: Tensor) -> bool:
    warn("volatile was removed (Variable.volatile is always False)", UserWarning)
    return False


def _set_volatile(self: Tensor, value: Any) -> None:
    warn(NO_VOLATILE, UserWarning)


Tensor.volatile = property(_get_volatile, _set_volatile)  # type: ignore[attr-defined]


@attribute
def _version(self: Tensor) -> int:
    """How often the tensor, its views and its detached aliases were written."""
    if self._inference:
        raise RuntimeError("Inference tensors do not track version counter.")
    if modes.capturing is not None and self._level < modes.capturing.level:
        modes.capturing.note_side_effect("the version of a tensor from outside is read as a number")
    return self._counter.value


@attribute
def _base(self: Tensor) -> Tensor | None:
    """The tensor that this is a view of."""
    note_position()
    return None if self._view is None else self._view.base


@method
def _is_view(self: Tensor) -> bool:
    return self._view is not None


@attribute
def name(self: Tensor) -> None:
    return None


class ExecutionEngine:
    """What ``Variable._execution_engine`` is for: callbacks at the end of the backward that is running."""

    queue_callback: Any = staticmethod(queue_callback)


Tensor._execution_engine = ExecutionEngine()  # type: ignore[attr-defined]


def increment_version(tensor: Any) -> None:
    """Count a write on the version counter of each tensor, as ``torch.autograd.graph.increment_version`` does."""
    if not isinstance(tensor, Tensor | Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for written in (tensor,) if isinstance(tensor, Tensor) else tensor:
        written._bump("increment_version", here(2))
