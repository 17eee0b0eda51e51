"""Functions that ask what a tensor is: its element type, size and kind."""

from typing import Any

from fgrad.mutable.operation.operands import promoted
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype
from fgrad.torch.ops.table.dispatch import CLOSED, UNLISTED
from fgrad.torch.ops.table.overloads import no_match, types_of
from fgrad.torch.ops.table.table import NUMBERS, Array, composite

_PAIRS = (
    "Tensor tensor, Tensor other",
    "Number scalar, Tensor tensor",
    "Tensor tensor, Number other",
    "Number scalar1, Number scalar2",
)

_NAMES = (("tensor", "other"), ("scalar", "tensor"), ("scalar1", "scalar2"))


@composite(method=False, dispatch=UNLISTED)
def result_type(*operands: Any, **named: Any) -> Dtype:
    """The type of the result of arithmetic between two tensors or numbers.

    >>> import fgrad.torch as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.5)
    torch.float32

    Source: `torch.result_type <https://docs.pytorch.org/docs/stable/generated/torch.result_type.html>`_.
    """
    pair = (*operands, *named.values())
    known = any(named.keys() == {*names[len(operands) :]} for names in _NAMES)
    if len(pair) != 2 or not known or not all(isinstance(x, (Tensor, *NUMBERS)) for x in pair):
        raise TypeError(no_match("result_type", types_of(pair), _PAIRS))
    return promoted([x._type if isinstance(x, Tensor) else next(t for t in NUMBERS if isinstance(x, t)) for x in pair])


@composite()
def is_inference(input: Array) -> bool:
    """Whether a tensor was made in inference mode.

    Source: `torch.is_inference <https://docs.pytorch.org/docs/stable/generated/torch.is_inference.html>`_.
    """
    return input._inference


@composite()
def is_same_size(input: Array, other: Array) -> bool:
    """Whether two tensors have the same shape."""
    return input._type.shape == other._type.shape


@composite(method=False)
def numel(input: Array) -> int:
    """How many elements a tensor has.

    Source: `torch.numel <https://docs.pytorch.org/docs/stable/generated/torch.numel.html>`_.
    """
    return input._type.numel


@composite(method=False)
def is_floating_point(input: Array) -> bool:
    """Whether the elements are floating-point numbers.

    Source: `torch.is_floating_point <https://docs.pytorch.org/docs/stable/generated/torch.is_floating_point.html>`_.
    """
    return input._type.dtype.is_floating_point


@composite(method=False)
def is_complex(input: Array) -> bool:
    """Whether the elements are complex numbers.

    Source: `torch.is_complex <https://docs.pytorch.org/docs/stable/generated/torch.is_complex.html>`_.
    """
    return input._type.dtype.is_complex


@composite(method=False)
def is_signed(input: Array) -> bool:
    """Whether the elements can be negative."""
    return input._type.dtype.is_signed


@composite(method=False)
def is_conj(input: Array) -> bool:
    """Whether the tensor is read as the conjugate of its memory.

    Source: `torch.is_conj <https://docs.pytorch.org/docs/stable/generated/torch.is_conj.html>`_.
    """
    return input._geometry_of().conj


@composite(method=False)
def is_neg(input: Array) -> bool:
    """Whether the tensor is read as the negative of its memory."""
    return input._geometry_of().neg


@composite(method=False, dispatch=CLOSED)
def typename(obj: Any, /) -> str:
    """The name of an object's class; of a tensor, the name of the class for its element type.

    >>> import fgrad.torch as torch
    >>> torch.typename(torch.ones(2)), torch.typename(3)
    ('torch.FloatTensor', 'int')

    Source: `torch.typename <https://docs.pytorch.org/docs/2.13/generated/torch.typename.html>`_.
    """
    if isinstance(obj, Tensor):
        return f"torch.{obj._type.dtype.scalar_name}Tensor"
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    torch_name = named.__dict__.get("__torch_name__") if isinstance(named, type) else None
    if torch_name is not None:
        return torch_name
    if named.__module__ in ("builtins", "__main__"):
        return named.__qualname__
    return f"{named.__module__.replace('fgrad.torch', 'torch')}.{named.__qualname__}"
