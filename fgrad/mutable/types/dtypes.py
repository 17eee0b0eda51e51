"""The element types of tensors, as PyTorch names them; each is one object, so ``is`` and ``==`` are the same."""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, final
from weakref import WeakValueDictionary

import jax.numpy as jnp
import numpy as np
from attrs import frozen

from fgrad.mutable.types.type_names import type_name

K = TypeVar("K")
V = TypeVar("V")


@final
@frozen(eq=False, repr=False, init=False)
class dtype:
    """The type of a tensor's elements, such as ``torch.float32``.

    Attributes:
      name: ``"float32"``.
      scalar_name: the name in PyTorch's errors and legacy tensor types: ``"Float"``.
      is_floating_point, is_complex, is_signed: what numbers it holds; integers are neither floating point nor complex.
      itemsize: bytes per element.

    Raises:
      TypeError: when called; the dtypes there are have names.

    >>> import fgrad.torch as torch
    >>> torch.float, torch.float is torch.float32, torch.float32.itemsize, torch.complex64.is_floating_point
    (torch.float32, True, 4, False)

    Source: `torch.dtype <https://docs.pytorch.org/docs/2.13/tensor_attributes.html#torch.dtype>`_.
    """

    __torch_name__: ClassVar[str] = "torch.dtype"

    name: str
    scalar_name: str
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    itemsize: int
    _numpy: np.dtype | None

    def __init__(self) -> None:
        raise TypeError("cannot create 'torch.dtype' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy type of arrays that hold such elements (``bfloat16`` is an extension type of NumPy's).

        Raises:
          TypeError: for ``torch.complex32``, which neither NumPy nor JAX can hold, and for types of 8 bits.

        >>> import fgrad.torch as torch
        >>> torch.int16.numpy, torch.bfloat16.numpy
        (dtype('int16'), dtype(bfloat16))
        """
        if self in FLOAT8:
            raise TypeError(
                f"A tensor of {self} cannot be made here: the types of 8 bits are there by name and have limits, but "
                "PyTorch's conversions to them are not implemented.\nWay out: use torch.bfloat16 or torch.float16."
            )
        if self._numpy is None:
            raise TypeError(
                f"A tensor of {self} cannot be made here: JAX has no arrays of half-precision complex numbers.\n"
                "Way out: use torch.complex64; if the default dtype is torch.float16, give the dtype explicitly."
            )
        return self._numpy

    @property
    def abbr(self) -> str:
        """A short name: one letter for the kind of number, and the bits.

        >>> import fgrad.torch as torch
        >>> torch.bfloat16.abbr, torch.bool.abbr
        ('bf16', 'b8')
        """
        kind = "bf" if self.name == "bfloat16" else self.name[0]
        return f"{kind}{8 * self.itemsize}{self.name.partition('_')[2]}"

    def to_real(self) -> "dtype":
        """The type of the real and imaginary parts; a type that is not complex is returned as it is.

        >>> import fgrad.torch as torch
        >>> torch.complex128.to_real(), torch.int8.to_real()
        (torch.float64, torch.int8)
        """
        return _REAL.get(self, self)

    def to_complex(self) -> "dtype":
        """The complex type whose parts have this type, or the next larger one.

        Raises:
          RuntimeError: for integers and booleans.

        >>> import fgrad.torch as torch
        >>> torch.float64.to_complex(), torch.bfloat16.to_complex()
        (torch.complex128, torch.complex64)
        """
        if self.is_complex:
            return self
        if self not in _COMPLEX:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return _COMPLEX[self]


def _define(name: str, scalar_name: str, held_as: Any, itemsize: int = 0) -> dtype:
    array_type = None if held_as is None else np.dtype(held_as)
    is_complex = name.startswith("complex")
    new = object.__new__(dtype)
    new.__attrs_init__(  # type: ignore[attr-defined]
        name=name,
        scalar_name=scalar_name,
        is_floating_point="float" in name,
        is_complex=is_complex,
        is_signed=not name.startswith(("uint", "bool", "float8_e8m0fnu")),
        itemsize=itemsize if array_type is None else array_type.itemsize,
        numpy=array_type,
    )
    return new


bool_: dtype = _define("bool", "Bool", np.bool_)
uint8: dtype = _define("uint8", "Byte", np.uint8)
int8: dtype = _define("int8", "Char", np.int8)
int16: dtype = _define("int16", "Short", np.int16)
int32: dtype = _define("int32", "Int", np.int32)
int64: dtype = _define("int64", "Long", np.int64)
uint16: dtype = _define("uint16", "UInt16", np.uint16)
uint32: dtype = _define("uint32", "UInt32", np.uint32)
uint64: dtype = _define("uint64", "UInt64", np.uint64)
float16: dtype = _define("float16", "Half", np.float16)
bfloat16: dtype = _define("bfloat16", "BFloat16", jnp.bfloat16)
float32: dtype = _define("float32", "Float", np.float32)
float64: dtype = _define("float64", "Double", np.float64)
#: exists by name, since promotion can lead to it, but no tensor can have it
complex32: dtype = _define("complex32", "ComplexHalf", None, itemsize=4)
complex64: dtype = _define("complex64", "ComplexFloat", np.complex64)
complex128: dtype = _define("complex128", "ComplexDouble", np.complex128)

ALL = (
    *(bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64),
    *(float16, bfloat16, float32, float64, complex32, complex64, complex128),
)

#: known by name, since libraries compare with them and ask for their limits, but no tensor can have them
FLOAT8 = tuple(
    _define(f"float8_{kind}", f"Float8_{kind}", None, itemsize=1)
    for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
)

#: every name under which ``torch`` has a dtype
NAMES: Mapping[str, dtype] = MappingProxyType(
    {each.name: each for each in (*ALL, *FLOAT8)}
    | {"half": float16, "float": float32, "double": float64, "chalf": complex32, "cfloat": complex64}
    | {"cdouble": complex128, "short": int16, "int": int32, "long": int64}
)

_REAL = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX = {real: each for each, real in _REAL.items()} | {bfloat16: complex64}

#: the dtypes that ``dtype=float`` and the like mean
PYTHON_TYPES: dict[type, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}
_OF_NUMPY = {each._numpy: each for each in ALL if each._numpy is not None}


def named(name: str) -> dtype:
    """The dtype with a name in ``torch``; ``KeyError`` if there is none.

    >>> named('long')
    torch.int64
    """
    return NAMES[name]


def from_numpy(array_type: np.dtype) -> dtype:
    """The dtype of tensors that hold the elements of NumPy or JAX arrays of a type.

    Raises:
      ValueError: the byte order is not this machine's.
      TypeError: tensors cannot hold such elements.

    >>> from_numpy(np.dtype('uint8'))
    torch.uint8

    Source: `torch.from_numpy <https://docs.pytorch.org/docs/2.13/generated/torch.from_numpy.html>`_.
    """
    cached = _OF_NUMPY.get(array_type)
    if cached is not None:
        return cached
    if not isinstance(array_type, np.dtype):
        raise TypeError(f"tensors cannot hold elements of type {array_type}")
    if not array_type.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported."
        )
    raise TypeError(
        f"can't convert np.ndarray of type {array_type.type.__module__}.{array_type.type.__name__}. The only supported "
        "types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, "
        "uint16, uint8, and bool."
    )


def is_half(dtype: np.dtype) -> bool:
    """Whether a type is floating-point with 16 bits."""
    return dtype.itemsize == 2 and from_numpy(dtype).is_floating_point


def argument(value: Any, function: str, name: str = "dtype", position: int | None = None) -> dtype:
    """An argument as a dtype: a dtype, or one of the Python types ``bool``, ``int``, ``float`` and ``complex``.

    Arguments:
      value: the argument.
      function: the name of the called function, for the error.
      name, position: of the parameter; a keyword parameter has no position.

    Raises:
      TypeError: it is neither; PyTorch's error.

    >>> argument(float, 'zeros')
    torch.float64
    >>> argument('float32', 'zeros')
    Traceback (most recent call last):
    TypeError: zeros(): argument 'dtype' must be torch.dtype, not str
    """
    if type(value) is dtype:
        return value
    if isinstance(value, type) and value in PYTHON_TYPES:
        return PYTHON_TYPES[value]
    where = "" if position is None else f" (position {position})"
    raise TypeError(f"{function}(): argument '{name}'{where} must be torch.dtype, not {type_name(value)}")


# The default dtype belongs to the process, not to a thread, as in PyTorch.
_default = float32


def get_default_dtype() -> dtype:
    """The floating-point type of tensors made from Python floats, or without a dtype.

    >>> import fgrad.torch as torch
    >>> torch.get_default_dtype()
    torch.float32

    Source: `torch.get_default_dtype <https://docs.pytorch.org/docs/2.13/generated/torch.get_default_dtype.html>`_.
    """
    return _default


def set_default_dtype(d: dtype, /) -> None:
    """Set the default floating point dtype, for all threads.

    Raises:
      TypeError: it is not a floating point dtype.

    >>> import fgrad.torch as torch
    >>> torch.set_default_dtype(torch.float64)
    >>> torch.get_default_dtype()
    torch.float64
    >>> torch.set_default_dtype(torch.float32)

    Source: `torch.set_default_dtype <https://docs.pytorch.org/docs/2.13/generated/torch.set_default_dtype.html>`_.
    """
    global _default
    if type(d) is not dtype:
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d is not _default:
        _switch(_default, d)
        _default = d


class ByDefaultDtype(dict[K, V]):
    """What holds under one default dtype, as the plans of operations do, which promote integers to it.

    The dict shows the entries made under the present default dtype.  Those made under another are set aside, and come
    back with it: a program may change it back and forth.
    """

    __slots__ = ("__weakref__", "aside")

    def __init__(self) -> None:
        super().__init__()
        self.aside: dict[dtype, dict[K, V]] = {}
        _ALL[id(self)] = self


#: all of them, by their identity
_ALL: WeakValueDictionary[int, ByDefaultDtype] = WeakValueDictionary()


def _switch(before: dtype, after: dtype) -> None:
    """Set aside the entries of one default dtype, and show those of another."""
    for entries in list(_ALL.values()):
        entries.aside[before] = dict(entries)
        entries.clear()
        entries.update(entries.aside.pop(after, {}))


def default_complex_dtype() -> dtype:
    """The complex dtype that goes with the default dtype.

    >>> default_complex_dtype()
    torch.complex64
    """
    return _default.to_complex()


# Early versions of PyTorch had a class of tensors for each dtype and device. Their names survive in Tensor.type() and
# in errors; cuda.FloatTensor is a class of the module cuda.


def tensor_type(element: dtype, device_type: str = "cpu") -> str:
    """The legacy name of tensors of a dtype on a type of device, as ``Tensor.type()`` gives it.

    >>> tensor_type(float32), tensor_type(int64, 'cuda')
    ('torch.FloatTensor', 'torch.cuda.LongTensor')

    Source: `torch.Tensor.type <https://docs.pytorch.org/docs/2.13/generated/torch.Tensor.type.html>`_.
    """
    module = "torch" if device_type == "cpu" else f"torch.{device_type}"
    return f"{module}.{element.scalar_name}Tensor"


def native_name(element: dtype) -> str:
    """The name of tensors of a dtype in errors; later dtypes have no class of tensors.

    >>> native_name(float32), native_name(bool_)
    ('torch.FloatTensor', 'CPUBoolType')
    """
    late = element in (bool_, bfloat16) or element.is_complex
    return f"CPU{element.scalar_name}Type" if late else tensor_type(element)


@functools.cache
def _tensor_types() -> dict[str, tuple[dtype, str]]:
    return {tensor_type(each, device): (each, device) for each in ALL for device in ("cpu", "cuda", "meta")}


def parse_tensor_type(name: str) -> tuple[dtype, str]:
    """The dtype and the type of device of a legacy tensor type; ``torch.Tensor`` is that of the default dtype.

    Raises:
      ValueError: there is no such type.

    >>> parse_tensor_type('torch.cuda.HalfTensor')
    (torch.float16, 'cuda')
    """
    if name == "torch.Tensor":
        return _default, "cpu"
    parsed = _tensor_types().get(name)
    if parsed is None:
        raise ValueError(f"invalid type: '{name}'")
    return parsed
