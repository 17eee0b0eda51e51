"""``torch.autograd.forward_ad``: dual tensors, which have a tangent.

Source: `Forward-mode AD <https://docs.pytorch.org/docs/stable/autograd.html#forward-mode-automatic-differentiation>`_.
"""

from typing import Any, NamedTuple

from fgrad.mutable.context.modes import Mode, modes, unusual
from fgrad.mutable.layout.geometry import overlaps
from fgrad.mutable.tensor.tensor import OwnTangent, Tensor
from fgrad.mutable.transforms import forward
from fgrad.mutable.transforms.forward import set_tangent, tangent_of
from fgrad.mutable.transforms.levels import brought_to_write
from fgrad.torch.ops.views.views import forward_primal, view_sizes


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, None where it has none."""

    primal: Tensor
    tangent: Tensor | None


NESTED = "Nested forward mode AD is not supported at the moment"


def enter_dual_level() -> int:
    """Open the level of forward mode, and return its number.

    Raises:
      RuntimeError: it is already open.
    """
    if modes.dual_level >= 0:
        raise RuntimeError(NESTED)
    opened = forward.level_opened()
    state = vars(modes)
    unusual.enter()
    state |= opened
    return modes.dual_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level; the tensors that had tangents lose them."""
    if modes.dual_level < 0:
        raise RuntimeError(
            "Trying to exit a forward AD level but no level is currently active."
            if level is not None
            else "Dual level must be a positive number."
        )
    if level not in (None, modes.dual_level):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    state = vars(modes)
    state |= forward.level_closed()


def __getattr__(name: str) -> Any:
    if name == "_current_level":
        return modes.dual_level
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_fwd_grad_enabled() -> bool:
    """Whether operations propagate tangents."""
    return modes.forward_grad


class _set_fwd_grad_enabled(Mode):
    """Sets whether operations propagate tangents, for a block."""

    def __init__(self, mode: bool):
        self.mode = mode

    def values(self) -> dict[str, Any]:
        return {"forward_grad": self.mode}

    def clone(self) -> "_set_fwd_grad_enabled":
        return _set_fwd_grad_enabled(self.mode)


class dual_level(Mode):
    """Opens the level of forward mode for a block.

    >>> import fgrad.torch as torch
    >>> import fgrad.torch.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.), torch.tensor(1.))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    as_value = 0

    def values(self) -> dict[str, Any]:
        if modes.dual_level >= 0:
            raise RuntimeError(NESTED)
        return forward.level_opened()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of a tensor that has a tangent.

    Raises:
      RuntimeError: no level is open, or the shapes differ.
      ValueError: the tensor or the tangent is not of an inexact type, or only the tangent is complex.
    """
    if modes.dual_level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for x, name in ((tensor, "primal"), (tangent, "tangent")):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    if tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
            f"{modes.dual_level} is not supported."
        )
    if tangent_of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level"
            f"{modes.dual_level} is not supported."
        )
    if tangent._type.shape != tensor._type.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor._type.shape)} while the given forward gradient is of size "
            f"{list(tangent._type.shape)}."
        )
    tangent = _in_dtype_of(tangent, tensor)
    tensor = brought_to_write(tensor)
    g = tensor._geometry_of()
    dual = tensor.clone() if overlaps(g.sizes, g.strides) else view_sizes(tensor, tensor._type.shape)
    if dual._view is not None:
        dual._view.dual = OwnTangent.ITSELF
    # its tangent is of this level, and so are its gradients
    dual._level = modes.level
    for outer in range(modes.dual_level):
        forward.carry(tensor, dual, outer, lambda above: above)
    forward.enter_tangent(dual, forward.with_layout_of(tangent, dual), modes.dual_level)
    return dual


def _in_dtype_of(tangent: Tensor, tensor: Tensor) -> Tensor:
    """A tangent, converted to the tensor's dtype."""
    target_dtype, dtype = tensor._type.dtype, tangent._type.dtype
    if dtype is target_dtype:
        return tangent
    if dtype.is_complex and not target_dtype.is_complex:
        raise ValueError(f"Expected the tangent of a {target_dtype} tensor to be real, but got: {dtype}")
    return tangent.to(target_dtype)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A view of a tensor without tangent, and the tangent or None."""
    if modes.dual_level < 0:
        return UnpackedDualTensor(tensor, None)
    tangent = tangent_of(tensor)
    primal = forward_primal(tensor)
    if primal._view is not None:
        primal._view.dual = OwnTangent.ITSELF
    for outer in range(modes.dual_level):
        forward.carry(tensor, primal, outer, lambda above: above)
    return UnpackedDualTensor(primal, tangent)


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "set_tangent",
    "unpack_dual",
]
