"""The names and callables that a file may use when only data is loaded.

NOTE [Only data]
A pickle is a program for a stack machine.  It can push names, call their values, and set the state of the results.
When only data is loaded, names mean what the table below says and nothing else.  What may be called is a function of
ours that checks its arguments: it creates nothing larger than the file.  Classes that the user has added are called
directly.
"""

import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.size import Size
from fgrad.torch import _utils
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.pickle_names import public_name
from fgrad.torch.serialization.layouts import _get_layout
from fgrad.torch.storage import FORMER, UntypedStorage

Global = Callable[..., Any]

#: what the user has added, by its name in files
_added: dict[str, Any] = {}
#: modules from which nothing may be added
BLOCKED = ("sys", "os", "posix", "nt")
#: the greatest number of dimensions
_MOST_DIMENSIONS = 64


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let files name these classes and functions when only data is loaded.

    Arguments:
      safe_globals: each a class or function, or a pair of it and of the name that files have for it.

    >>> import fgrad.torch as torch
    >>> class Point: ...
    >>> torch.serialization.add_safe_globals([(Point, 'geometry.Point')])
    >>> torch.serialization.get_safe_globals()
    [(<class 'fgrad.torch.serialization.allowed.Point'>, 'geometry.Point')]
    >>> torch.serialization.clear_safe_globals()

    Source: `torch.serialization.add_safe_globals
    <https://docs.pytorch.org/docs/2.13/notes/serialization.html#torch.serialization.add_safe_globals>`_.
    """
    _added.update({_name(each): each for each in safe_globals})


def get_safe_globals() -> list[Any]:
    """Everything that ``add_safe_globals`` has added."""
    return list(_added.values())


def clear_safe_globals() -> None:
    """Remove everything that ``add_safe_globals`` has added."""
    _added.clear()


class safe_globals:
    """``add_safe_globals`` for a block.

    Source: `torch.serialization.safe_globals
    <https://docs.pytorch.org/docs/2.13/notes/serialization.html#torch.serialization.safe_globals>`_.
    """

    def __init__(self, safe_globals: list[Any]):
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exception: object) -> None:
        for each in self.safe_globals:
            _added.pop(_name(each), None)


def _name(each: Any) -> str:
    if not isinstance(each, tuple):
        return ".".join(public_name(each, each.__qualname__) or (each.__module__, each.__qualname__))
    if len(each) != 2:
        raise ValueError(
            f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(each)}"
        )
    if type(each[1]) is not str:
        raise TypeError(f"Expected second item in tuple to be str of callable full path, but got: {type(each[1])}")
    return each[1]


def added(name: str) -> Any:
    """What the user has added under a name; ``KeyError`` if nothing."""
    entry = _added[name]
    return entry[0] if isinstance(entry, tuple) else entry


def is_added(value: Any) -> bool:
    """Whether the user has added a class or function."""
    return any(value is (each[0] if isinstance(each, tuple) else each) for each in _added.values())


def _encode(text: str, encoding: str) -> bytes:
    # protocol 2 has bytes in this form
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes are written as text in latin1, not in {encoding!r}")
    return text.encode("latin1")


def _bytearray(*given: Any) -> bytearray:
    if given and type(given[0]) is str:
        return bytearray(_encode(*given))
    if given and type(given[0]) not in (bytes, list):
        raise pickle.UnpicklingError(f"a bytearray is made of bytes, not of {type(given[0]).__name__}")
    return bytearray(*given)


def _made_of(make: type, *kinds: type) -> Global:
    def construct(*args: Any) -> Any:
        if len(args) > 1 or any(type(each) not in kinds for each in args):
            shown = ", ".join(type(each).__name__ for each in args)
            raise pickle.UnpicklingError(f"a file makes {make.__name__} of one container, not of ({shown})")
        return make(*args)

    return construct


def _size(sizes: Any = ()) -> Size:
    if type(sizes) is not tuple or len(sizes) > _MOST_DIMENSIONS:
        raise pickle.UnpicklingError(f"a torch.Size is made of a tuple, not of {type(sizes).__name__}")
    return Size(sizes)


def _complex(real: Any = 0.0, imag: Any = 0.0) -> complex:
    if type(real) is not float or type(imag) is not float:
        raise pickle.UnpicklingError("a complex number is made of two floats")
    return complex(real, imag)


def _parameter(data: Any, requires_grad: Any = True) -> Any:
    if type(data) is not Tensor:
        raise pickle.UnpicklingError(f"a Parameter is made of a tensor, not of {type(data).__name__}")
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any, *state: Any) -> Any:
    parameter = _parameter(data, requires_grad)
    return _utils._set_obj_state(parameter, *state) if state else parameter


def _rebuild_from_type(rebuild: Any, new_type: Any, args: Any, state: Any) -> Any:
    if rebuild not in _REBUILD.values() or type(args) is not tuple:
        raise pickle.UnpicklingError(f"Trying to call reduce for unrecognized function {rebuild}")
    if new_type is TENSOR:
        return _utils._set_obj_state(rebuild(*args), state)
    if not is_added(new_type):
        raise pickle.UnpicklingError(f"a tensor is said to be of the class {new_type!r}, which was not allowed")
    return _utils._rebuild_from_type_v2(rebuild, new_type, args, state)


def _refused(name: str) -> Global:
    def refuse(*args: Any) -> Any:
        raise pickle.UnpicklingError(f"fgrad.torch has no {name}, and the file holds one.")

    return refuse


class _Named:
    """A class that files may name, but not call, such as the type of a tensor."""

    def __repr__(self) -> str:
        return "<class 'torch.Tensor'>"


TENSOR = _Named()

_REBUILD: dict[str, Global] = {
    "torch._utils._rebuild_tensor": _utils._rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _utils._rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _utils._rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._utils._rebuild_meta_tensor_no_storage": _utils._rebuild_meta_tensor_no_storage,
}

#: what may be called, by its name
CALLABLE: dict[str, Global] = {
    **_REBUILD,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch._utils._rebuild_qtensor": _refused("quantized tensors"),
    "torch._utils._rebuild_sparse_tensor": _refused("sparse tensors"),
    "torch._utils._rebuild_nested_tensor": _refused("nested tensors"),
    "torch.nn.parameter.Parameter": _parameter,
    "torch.serialization._get_layout": _get_layout,
    "torch.Size": _size,
    "torch.device": device,
    "collections.OrderedDict": _made_of(OrderedDict, list, dict),
    "collections.Counter": _made_of(Counter, dict, list),
    "builtins.set": _made_of(set, list),
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "_codecs.encode": _encode,
}


@cache
def table() -> dict[str, Any]:
    """Everything that files may name."""
    named = {f"torch.{each.name}": each for each in dtypes.ALL}
    storages = {f"torch.{name}": each for name, each in FORMER.items()}
    return {
        **named,
        **storages,
        "torch.storage.UntypedStorage": UntypedStorage,
        "torch.Tensor": TENSOR,
        **CALLABLE,
    }
