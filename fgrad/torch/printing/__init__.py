"""The ``repr`` of a tensor: its elements, then its attributes.

>>> print(tensor_text(np.arange(3), shape=(3,), dtype=dtypes.int32, requires_grad=False))
tensor([0, 1, 2], dtype=torch.int32)
"""

import textwrap
from collections.abc import Iterable

import numpy as np

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.dtypes import dtype
from fgrad.torch.printing.elements import array_text
from fgrad.torch.printing.options import current, get_printoptions, printoptions, set_printoptions

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_text", "wrapped_text"]

_CPU = device("cpu")


def tensor_text(
    values: np.ndarray | None,
    *,
    shape: tuple[int, ...],
    dtype: dtype,
    device: device = _CPU,
    requires_grad: bool = False,
    grad_fn: str | None = None,
    tangent: str | None = None,
    class_name: str = "tensor",
    contents: str | None = None,
) -> str:
    """A tensor as PyTorch prints it.

    Arguments:
      values: the elements; ``None`` if there are none to show, as on the device ``"meta"``.
      shape, dtype, device: of the tensor.
      requires_grad: whether it is a leaf that requires grad.
      grad_fn: the name of its node (``"MulBackward0"``), or ``"Invalid"``.
      tangent: how the tangent of a dual tensor prints.
      class_name: the text before the parenthesis: ``"tensor"``, or the name of a subclass.
      contents: a text in place of the elements.

    >>> print(tensor_text(np.ones(2, 'float32'), shape=(2,), dtype=dtypes.float32, grad_fn='MulBackward0'))
    tensor([1., 1.], grad_fn=<MulBackward0>)
    >>> print(tensor_text(np.ones((0, 2)), shape=(0, 2), dtype=dtypes.float64))
    tensor([], size=(0, 2), dtype=torch.float64)

    Source: `torch.set_printoptions <https://docs.pytorch.org/docs/2.13/generated/torch.set_printoptions.html>`_.
    """
    start = f"{class_name}("
    if contents is None:
        contents = "..." if values is None else array_text(values, len(start), current())
    suffixes = [*_type_suffixes(values, shape, dtype, device)]
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return _with_suffixes(start + contents, suffixes, len(start))


def _type_suffixes(values: np.ndarray | None, shape: tuple[int, ...], dtype: dtype, device: device) -> Iterable[str]:
    """Device, size and dtype, where the elements do not imply them."""
    default = dtypes.get_default_dtype()
    if device.type != "cpu":
        yield f"device='{device}'"
    if values is None or values.size == 0:
        if values is None or len(shape) != 1:
            yield f"size={tuple(shape)}"
        is_default = dtype is default
    else:
        if not current().edgeitems:
            yield f"size={tuple(shape)}"
        complex_default = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
        is_default = dtype in (default, complex_default, dtypes.int64, dtypes.bool_)
    if not is_default:
        yield f"dtype={dtype}"


def _with_suffixes(text: str, suffixes: Iterable[str], indent: int) -> str:
    """The suffixes after commas, each on a new line if it does not fit on the last one."""
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > current().linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def wrapped_text(class_name: str, value: str, **attributes: int) -> str:
    """A tensor inside a transformation of ``torch.func``, printed as a wrapper of another.

    Arguments:
      class_name: ``"GradTrackingTensor"`` or ``"BatchedTensor"``.
      value: how the tensor inside prints.
      attributes: the attributes before it, such as the level.

    >>> print(wrapped_text('BatchedTensor', 'tensor([1., 2.])', lvl=1, bdim=0))
    BatchedTensor(lvl=1, bdim=0, value=
        tensor([1., 2.])
    )
    """
    head = "".join(f"{name}={number}, " for name, number in attributes.items())
    return f"{class_name}({head}value=\n{textwrap.indent(value, ' ' * 4)}\n)"
