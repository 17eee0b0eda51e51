"""Conversions of tensors to Python, NumPy and JAX, and to other types and devices."""

import operator
import weakref
from typing import Any

import numpy as np
from attrs import evolve

from fgrad.graph.source import here
from fgrad.mutable.context.modes import modes, unusual
from fgrad.mutable.context.torch_function.protocol import Rule
from fgrad.mutable.context.warning import first_time, warn
from fgrad.mutable.tensor.exported import Shared, window
from fgrad.mutable.tensor.origin import Read, left
from fgrad.mutable.tensor.tensor import Tensor, gradient_function, is_tracked
from fgrad.mutable.transforms.forward import tangent_of
from fgrad.mutable.types import devices, dtypes
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.mutable.types.formats import preserve_format
from fgrad.mutable.values.batched import Batched
from fgrad.mutable.values.device_of_value import Absent, elsewhere
from fgrad.mutable.values.evaluation import concrete, is_abstract
from fgrad.mutable.write.copying import kept_strides
from fgrad.torch.methods.autograd import method
from fgrad.torch.methods.to_arguments import to_arguments
from fgrad.torch.ops.creation.copying import converted, format_strides, suggested_format
from fgrad.torch.ops.creation.data import from_numpy
from fgrad.torch.ops.creation.moving import moved
from fgrad.torch.ops.table.dispatch import METHOD_IN_PYTHON, Dispatch, as_method
from fgrad.torch.ops.table.numbers import check_number
from fgrad.torch.printing import tensor_text
from fgrad.torch.printing.levels import text as text_within


def _note_read(tensor: Tensor, how: str) -> None:
    """Remember that the elements of a tensor with history, or made from one, were read into Python."""
    if is_tracked(tensor):
        left.append(Read(how, here(3), weakref.ref(tensor._node or tensor)))
    elif tensor._origin is not None:
        left.append(Read(how, here(3), tensor._origin))


def _kind_of_number(dtype: Dtype) -> type | None:
    """The class of the elements as Python numbers, if these can be symbolic."""
    if dtype.is_floating_point:
        return float
    return None if dtype.is_complex or dtype is dtypes.bool_ else int


@method
def item(self: Tensor) -> Any:
    """The one element as a Python number.

    Raises:
      RuntimeError: there is not exactly one element.
    """
    if self._type.numel != 1:
        raise RuntimeError(f"a Tensor with {self._type.numel} elements cannot be converted to Scalar")
    _note_read(self, "item()")
    value = self._value()
    if value.__class__ is Absent:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    if modes.capturing is not None and (kind := _kind_of_number(self._type.dtype)) is not None:
        number = modes.capturing.late_number(value, kind)
        if number is not None:
            return number
    element = concrete(value)
    return float(element.reshape(())) if self._type.dtype is dtypes.bfloat16 else element.item()


@method
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers."""
    _note_read(self, "tolist()")
    values = concrete(self._value())
    return (values.astype(np.float32) if self._type.dtype is dtypes.bfloat16 else values).tolist()


@method
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The elements as a NumPy array that shares the tensor's memory: each sees what is written to the other.

    With ``force``, the array is a copy where memory cannot be shared.

    Raises:
      RuntimeError: the tensor requires grad, gradients are recorded, and ``force`` is not given.
      TypeError: the tensor is not on the CPU, or NumPy does not have its element type.
    """
    if modes.grad and is_tracked(self) and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    _note_read(self, "numpy()")
    if elsewhere.exist and not force and self.device.type != "cpu":  # type: ignore[attr-defined]
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "  # type: ignore[attr-defined]
            "memory first."
        )
    geometry = self._geometry_of()
    for flag, name, resolve in ((geometry.conj, "conjugate", "conj"), (geometry.neg, "negative", "neg")):
        if flag and not force:
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {name} bit set. Use tensor.resolve_{resolve}().numpy() instead."
            )
    if self._type.dtype is dtypes.bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    if self._storage.__class__ is Shared and self._type.numel and not (geometry.conj or geometry.neg or unusual.on):
        # the array that the storage holds need not be compared with the memory: nobody reads it here
        return window(self._storage, geometry)
    value = self._value()
    if is_abstract(value):
        elements = concrete(value)
        value = self._value()  # an array by now, if the compiled call runs in pieces
        if is_abstract(value):
            return np.array(elements)
    if geometry.conj or geometry.neg or not value.size or (elsewhere.exist and self.device.type != "cpu"):  # type: ignore[attr-defined]
        return np.array(concrete(value))
    return window(self._storage, geometry)


@method
@as_method(evolve(METHOD_IN_PYTHON, like=lambda self, dtype=None: None))
def __array__(self: Tensor, dtype: Any = None, copy: Any = None) -> np.ndarray:
    array = numpy(self)
    return array if dtype is None and not copy else array.astype(dtype or array.dtype, copy=bool(copy))


@method
@as_method(METHOD_IN_PYTHON)
def __array_wrap__(self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
    """The result of a NumPy function as a tensor; booleans become uint8, as in PyTorch."""
    return from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)


@method
def __bool__(self: Tensor) -> bool:
    if self._type.numel != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if not self._type.numel
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    if self._value().__class__ is Batched:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
            "support "
            "that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
        )
    return bool(item(self))


def _scalar(self: Tensor) -> Any:
    if self._type.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if modes.grad and is_tracked(self) and first_time("a scalar that requires grad"):
        warn(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using "
            "tensor.detach() first.",
            UserWarning,
        )
    return item(self)


def _real_scalar(self: Tensor, dtype: Dtype) -> Any:
    scalar = _scalar(self)
    if not isinstance(scalar, complex):
        return scalar
    check_number(scalar, dtype)
    return scalar.real


@method
def __int__(self: Tensor) -> int:
    return int(_real_scalar(self, dtypes.int64))


@method
def __float__(self: Tensor) -> float:
    return float(_real_scalar(self, dtypes.float64))


@method
def __complex__(self: Tensor) -> complex:
    return complex(_scalar(self))


@method
def __index__(self: Tensor) -> int:
    if self._type.numel != 1 or self._type.inexact:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return operator.index(item(self))


@method
@as_method(METHOD_IN_PYTHON)
def __len__(self: Tensor) -> int:
    if not self._type.shape:
        raise TypeError("len() of a 0-d tensor")
    return self._type.shape[0]


@method
def __iter__(self: Tensor) -> Any:
    if not self.dim():  # handlers of ``__torch_function__`` see this call, as that of unbind
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@method
@as_method(METHOD_IN_PYTHON)
def __reversed__(self: Tensor) -> Tensor:
    """The tensor with its first axis in reverse order; itself where it has none."""
    return self.flip(0) if self._type.shape else self


@method
@as_method(METHOD_IN_PYTHON)
def __contains__(self: Tensor, element: Any) -> bool:
    if isinstance(element, Tensor | bool | int | float | complex):
        matches: Any = self == element
        return bool(matches.any())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@method
@as_method(METHOD_IN_PYTHON)
def __repr__(self: Tensor, *, tensor_contents: Any = None) -> str:
    return text_within(self) if modes.transforms and tensor_contents is None else _text(self, tensor_contents)


def _is_unknown(value: Any) -> bool:
    """Whether the elements of a value are unknown."""
    return is_abstract(value) and value.__class__ is not Absent


def _text(self: Tensor, tensor_contents: Any = None) -> str:
    try:
        node = gradient_function(self)
        grad_fn = None if node is None else type(node).__name__
    except RuntimeError:
        grad_fn = "Invalid"  # a view that may not be written, and whose base was
    tangent = tangent_of(self) if modes.dual_level >= 0 else None
    value = self._value()
    elements = None if value.__class__ is Absent else concrete(value)
    value = self._value()  # an array by now, if the compiled call runs in pieces
    text = tensor_text(
        elements,
        shape=self._type.shape,
        dtype=self._type.dtype,
        device=self.device,
        requires_grad=self._requires_grad,
        grad_fn=grad_fn,
        tangent=None if tangent is None else repr(tangent),
        class_name="tensor" if type(self) in (Tensor, *plain_classes) else type(self).__name__,
        contents=str(value) if tensor_contents is None and _is_unknown(value) else tensor_contents,
    )
    if type(self) not in (Tensor, *plain_classes) and isinstance(self, tuple(plain_classes)):
        return f"Parameter({text})"
    return text


#: subclasses that print as tensors; ``nn.Parameter`` adds itself
plain_classes: list[type] = []


@method
@as_method(METHOD_IN_PYTHON)
def __format__(self: Tensor, spec: str) -> str:
    if not self._type.shape and type(self) is Tensor and not self.is_meta:
        return format(item(self), spec)
    return object.__format__(self, spec)


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """This tensor with another element type or on another device; itself if nothing changes.

    Source: `torch.Tensor.to <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html>`_.
    """
    device, dtype, _, copy, memory_format = to_arguments(args, kwargs)
    element_type = self._type.dtype if dtype is None else dtype
    if device is not None:
        target = devices.device(device)
        if target.type != "meta":
            devices.jax_device(target)
        if devices.settled(target) != self.device:
            return moved(self, target, element_type, format_strides(self, memory_format or preserve_format))
    return _of_type(self, element_type, memory_format, bool(copy))


def _of_type(self: Tensor, dtype: Dtype, memory_format: Any = None, copy: bool = False) -> Tensor:
    """This tensor with an element type and memory format; itself if it has both and no copy is asked for."""
    if memory_format is None or memory_format is preserve_format:
        same, strides = True, kept_strides(self)
    else:
        same, strides = memory_format is suggested_format(self), format_strides(self, memory_format)
    return self if same and dtype is self._type.dtype and not copy else converted(self, dtype, strides)


def _converter(dtype: Dtype) -> Any:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        return _of_type(self, dtype, memory_format)

    return convert


for _name in (
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "chalf",
    "cfloat",
    "cdouble",
):
    _dtype = {"char": dtypes.int8, "byte": dtypes.uint8}.get(_name) or dtypes.named(_name)
    setattr(Tensor, _name, _converter(_dtype))


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor with the element type of another."""
    return to(self, other._type.dtype)


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The legacy name of its type; with ``dtype``, the tensor converted."""
    if dtype is None:
        return dtypes.tensor_type(self._type.dtype, self.device.type)
    if dtype is Tensor:
        dtype = "torch.Tensor"
    # a legacy class such as ``torch.FloatTensor`` has a dtype
    element_type = dtypes.parse_tensor_type(dtype)[0] if isinstance(dtype, str) else getattr(dtype, "dtype", dtype)
    if isinstance(dtype, type) and not isinstance(element_type, Dtype):
        raise ValueError(f"invalid type: '{dtype.__name__}'")
    if not isinstance(element_type, Dtype):
        raise TypeError("dtype must be a type, str, or dtype object")
    return to(self, element_type)


Tensor.type = _type  # type: ignore[attr-defined]


@method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """This tensor on the CPU."""
    return to(self, "cpu", memory_format=memory_format)


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """This tensor on a GPU."""
    return to(self, "cuda" if device is None else device, memory_format=memory_format)


@method
@as_method(Dispatch(Rule.WRITTEN))
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What ``load_state_dict`` swaps this parameter or buffer with, under ``set_swap_module_params_on_conversion``."""
    return other.detach() if assign else self.copy_(other).detach()
