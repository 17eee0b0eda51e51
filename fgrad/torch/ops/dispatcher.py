"""PyTorch's operators under the names of its dispatcher: ``torch.ops.aten.mm.default``.

Policies of selective checkpoints name operators in this way.  An operator can be called if ``torch`` has a function of
its name, whose arguments it takes; any other is only a name.

>>> import fgrad.torch as torch
>>> torch.ops.aten.relu.default(torch.tensor([-1., 2.]))
tensor([0., 2.])
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.ops.table.table import TABLE
from fgrad.torch.refused import refusal

#: prefixes of operators that Python has in a namespace of their own: ``aten.fft_rfft`` is ``torch.fft.rfft``
_NAMESPACES = ("fft", "linalg", "special")
#: functions of ``torch.nn.functional`` whose positional arguments are those of the operator
FUNCTIONAL = frozenset((
    "adaptive_avg_pool2d", "avg_pool2d", "avg_pool3d", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "linear", "max_pool2d", "mish", "one_hot", "pad", "scaled_dot_product_attention", "silu",
    "softplus", "softshrink",
))  # fmt: skip


def _function_named(name: str) -> Callable[..., Any] | None:
    """The function of ``torch``, or else of a namespace in it, that has an operator's name."""
    paths = [name, *([f"nn.functional.{name}"] if name in FUNCTIONAL else ())]
    paths += [name.replace("_", ".", 1) for each in _NAMESPACES if name.startswith(f"{each}_")]
    for path in paths:
        row = TABLE.get(path)
        if row is not None and (row.function or row.method is not None or "." in path):
            return row.call
    # the operators of views and the like are only methods in Python
    method = None if name.startswith("_") else getattr(Tensor, name, None)
    return method if callable(method) else None


class OpOverloadPacket:
    """An operator with all its overloads."""

    def __init__(self, namespace: str, name: str):
        self._namespace = namespace
        self.__name__ = name
        self._function = _function_named(name) if namespace == "aten" else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._called(str(self), args, kwargs)

    def _called(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._function is None:
            raise refusal(f"torch.ops.{name}")
        return self._function(*args, **kwargs)

    def overloads(self) -> list[str]:
        """The names of the overloads that are known: which of them runs is decided by the arguments."""
        return ["default"]

    def __getattr__(self, name: str) -> "OpOverload":
        if name.startswith("_"):
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{name}'")
        overload = (DefaultOverload if name == "default" else OpOverload)(self, name)
        setattr(self, name, overload)
        return overload

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


class OpOverload:
    """One overload of an operator."""

    def __init__(self, overloadpacket: OpOverloadPacket, overload: str):
        self.overloadpacket = overloadpacket
        self.namespace = overloadpacket._namespace
        self._overloadname = overload
        self.__name__ = f"{overloadpacket.__name__}.{overload}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket._called(str(self), args, kwargs)

    def name(self) -> str:
        """The name in PyTorch's dispatcher."""
        own = self.__name__.removesuffix(".default")
        return f"{self.namespace}::{own}"

    def __hash__(self) -> int:
        return hash(self.overloadpacket._function or str(self.overloadpacket))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DefaultOverload) and other == self)

    def __str__(self) -> str:
        return f"{self.overloadpacket}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket}', overload='{self._overloadname}')>"


class DefaultOverload(OpOverload):
    """The overload that a policy receives.  Which one runs is not known, so it equals the others and the function."""

    def __eq__(self, other: object) -> bool:
        packet = self.overloadpacket
        if isinstance(other, OpOverload):
            return other.overloadpacket is packet
        return packet._function is not None and other is packet._function

    __hash__ = OpOverload.__hash__


class HigherOrderOperator:
    """An operator that takes functions, for ``isinstance``: there are none."""


@lru_cache(1 << 12)
def packet(namespace: str, name: str) -> OpOverloadPacket:
    """The operator of a name."""
    return OpOverloadPacket(namespace, name)
