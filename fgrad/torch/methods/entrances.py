"""How methods, operators and attributes of tensors are entered for ``__torch_function__``: see NOTE [Overriding].

This is done all at once, when the last method is there, so that none can be forgotten.  PyTorch's own choices stand
here: which operators are handed over as methods (``x * 2`` is a call of ``Tensor.mul``), and what is never handed over.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.protocol import ALL, Rule, overrides
from fgrad.mutable.context.torch_function.wrap import Attribute, operator, overridable, raw
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.answers import names

#: what is no call of the user's on a tensor, or asks by the calls that it makes
CLOSED = names("__new__ __init__ __init_subclass__ __hash__ __iter__ __delattr__ __torch_function__ as_subclass")

#: PyTorch's names that begin with an underscore; the others are fgrad's own
_PRIVATE = names("_base _cdata _version _is_view _conj _neg_view")

#: operators of one operand, and second names, that are handed over as another method
_SAME_AS = {"__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "ndimension": "dim", "nelement": "numel"}

#: operators of two operands, by the name of what is handed over
_OPERATORS = {
    **{f"__{prefix}{name}__": name for name in ("add", "mul") for prefix in ("", "r")},
    **{f"__{name}__": name for name in ("sub", "ne", "lt", "le", "gt", "ge", "matmul")},
    **{f"__i{name}__": f"{name}_" for name in ("add", "sub", "mul")},
    **{f"__r{name}__": f"bitwise_{name}" for name in ("and", "or", "xor")},
    **dict.fromkeys(("__truediv__", "__div__"), "div"),
    **dict.fromkeys(("__itruediv__", "__idiv__"), "div_"),
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__ifloordiv__": "floor_divide_",
    "__eq__": "eq",
    **{
        f"__{name}__": f"__{name}__"
        for name in (
            *("and", "or", "xor", "lshift", "rshift", "iand", "ior", "ixor", "ilshift", "irshift"),
            *("rsub", "rdiv", "floordiv", "rfloordiv", "rmod", "pow", "ipow", "rpow", "rlshift", "rrshift", "rmatmul"),
        )
    },
}

#: methods that PyTorch has written in Python
_WRITTEN = names(
    "__array__ __array_wrap__ __contains__ __deepcopy__ __dlpack__ __dlpack_device__ __floordiv__ __format__ __ipow__ "
    "__len__ __pow__ __rdiv__ __reduce_ex__ __repr__ __reversed__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ "
    "__rpow__ __rrshift__ __rsub__ __setstate__ backward dim_order index is_shared istft lu module_load norm "
    "register_hook register_post_accumulate_grad_hook resize resize_as share_memory_ split stft storage storage_type "
    "unflatten unique unique_consecutive"
)
#: those of which all arguments are asked
_WRITTEN_OF_ALL = frozenset(("module_load", "resize_as"))
_OTHER_NAMES = {"__pow__": "pow", "__ipow__": "pow_"}


def enter_methods() -> None:
    """Enter what tensors have so far."""
    for name, value in list(vars(Tensor).items()):
        if name in CLOSED or (name.startswith("_") and not name.startswith("__") and name not in _PRIVATE):
            continue
        if isinstance(value, property):
            setattr(Tensor, name, Attribute.of(name, value))
        elif isinstance(value, FunctionType):
            setattr(Tensor, name, _entered(name, raw(value)))
    setattr(Tensor, "__rtruediv__", getattr(Tensor, "__rdiv__"))  # noqa: B009, B010  (one object, as in PyTorch)


def _entered(name: str, function: Callable[..., Any]) -> Any:
    full = f"torch.Tensor.{_OTHER_NAMES.get(name, name)}"
    if name in _OPERATORS:
        rule = Rule.WRITTEN if name in _WRITTEN else Rule.PARSED
        return operator(function, full, rule, _given(name, _OPERATORS[name]))
    alone = len(inspect.signature(function).parameters) == 1
    if name in _WRITTEN:
        rule = Rule.WRITTEN if name in _WRITTEN_OF_ALL else Rule.METHOD
    else:
        rule = Rule.OWN if alone else Rule.PARSED
    other = _SAME_AS.get(name)
    called = None if other is None else lambda: getattr(Tensor, other)
    return overridable(function, full, rule, called, _LIKE.get(name))


#: methods whose parameters are not quite PyTorch's
_LIKE: dict[str, Callable[..., Any]] = {
    "__array__": lambda self, dtype=None: None,
    "__dlpack__": lambda self, *, stream=-1, max_version=None, dl_device=None, copy=None: None,
    "dim_order": lambda self, **named: None,
    "split": lambda self, split_size, dim=0: None,
}


def _given(name: str, called: str) -> Callable[[Any], Any]:
    if name == called:
        return lambda self: None
    if name == "__eq__":
        # PyTorch looks at the left operand first, and hands over the operator if that one's class is asked
        return lambda self: (
            None if modes.handlers or (modes.overriding == ALL and overrides(self)) else getattr(Tensor, called)
        )
    return lambda self: getattr(Tensor, called)
