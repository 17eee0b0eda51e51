"""Jacobians for ``gradcheck``: numerical ones by central differences, analytical ones row by row or column by column.

A Jacobian here is a matrix with a row for each element of the input and a column for each of the output.

NOTE [Checking complex derivatives]
Only real perturbations are made.  For a complex input the derivative along the imaginary axis is taken too, and the two
make up PyTorch's gradient, which is that of a real output: complex outputs are checked by their parts, one at a time.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.run.policy import policy
from fgrad.torch import ops
from fgrad.torch.autograd.backward import grad
from fgrad.torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

#: a direction in the space of an input: a vector; for a complex input, its real and imaginary part
Direction = Any


class GradcheckError(RuntimeError):
    """A derivative is wrong."""


def tupled(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def tracked_positions(inputs: Sequence[Any]) -> list[int]:
    """The positions of the inputs that require grad."""
    return [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]


def is_inexact(x: Any) -> bool:
    return isinstance(x, Tensor) and x._type.inexact


# -- numerical -------------------------------------------------------------------------------------------------------


def numerical_jacobians(
    func: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Tensor], eps: float, forward: bool
) -> list[list[Tensor]]:
    """For each input that requires grad the Jacobian of each inexact output.

    Raises:
      ValueError: an output is complex, and reverse mode is to be checked.
    """
    if not forward and any(x.is_complex() for x in outputs):
        raise ValueError(
            "Expected output to be non-complex. get_numerical_jacobian no longer supports functions that return "
            "complex outputs."
        )
    return [_numerical_jacobian(func, inputs, i, outputs, eps, forward) for i in tracked_positions(inputs)]


def _numerical_jacobian(
    func: Callable[..., Any], inputs: Sequence[Any], position: int, outputs: Sequence[Tensor], eps: float, forward: bool
) -> list[Tensor]:
    x = inputs[position]
    jacobians = [
        out.new_zeros((x.numel(), out.numel()), dtype=x.dtype if x.is_complex() else out.dtype)
        for out in outputs
        if is_inexact(out)
    ]
    data = x.data
    for row, index in enumerate(product(*map(range, x.shape))):
        derivatives = _derivatives(func, inputs, data[index], eps, eps, x.is_complex(), f"on index {index} ")
        for k, jacobian in enumerate(jacobians):
            jacobian[row] = derivatives[k]
    return jacobians


def numerical_derivatives(
    func: Callable[..., Any], inputs: Sequence[Any], position: int, direction: Direction, eps: float
) -> list[Tensor]:
    """The derivative of each output along a direction in the space of an input."""
    x = inputs[position]
    if isinstance(direction, tuple):
        step = tuple([part.reshape(x.shape) * eps for part in direction])
    else:
        step = direction.reshape(x.shape) * eps
    return _derivatives(func, inputs, x.data, step, eps, x.is_complex(), "")


def _derivatives(
    func: Callable[..., Any], inputs: Sequence[Any], data: Tensor, step: Any, eps: float, is_complex: bool, where: str
) -> list[Tensor]:
    parts = step if isinstance(step, tuple) else (step, step)
    along_real = _difference(func, inputs, data, parts[0], eps, where)
    if not is_complex:
        return along_real
    along_imaginary = _difference(func, inputs, data, parts[1] * 1j, eps, where)
    return [a + b * 1j for a, b in zip(along_real, along_imaginary, strict=True)]


def _difference(
    func: Callable[..., Any], inputs: Sequence[Any], data: Tensor, step: Any, eps: float, where: str
) -> list[Tensor]:
    """The central difference of the outputs for a step of ``data``, a view of elements of an input."""
    before = data.clone()
    data.copy_(before - step)
    lower = [x.clone() for x in tupled(func(*inputs))]
    data.copy_(before + step)
    upper = [x.clone() for x in tupled(func(*inputs))]
    data.copy_(before)
    for a, b in zip(lower, upper, strict=True):
        for name, one, other in (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype)):
            if one != other:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {name} when inputs are perturbed {where}by "
                    f"{eps}, but got: {name}s {one} and {other}."
                )
    return [((b - a) / (2 * eps)).detach().reshape(-1) for a, b in zip(lower, upper, strict=True)]


# -- analytical ------------------------------------------------------------------------------------------------------


def reverse_jacobians(
    inputs: Sequence[Any], output: Tensor, tolerance: float, check_dtypes: bool, advice: str
) -> list[Tensor]:
    """The Jacobian of an output with respect to each input that requires grad, by backward from each element.

    Raises:
      GradcheckError: a gradient has the wrong dtype or size, or differs the second time.
    """
    basis = []
    for j in range(output.numel()):
        one = output.new_zeros(output.shape)
        one.view(-1)[j] = 1.0
        basis.append(one)
    return checked_rows(inputs, output, basis, tolerance, check_dtypes, advice)


def checked_rows(
    inputs: Sequence[Any],
    output: Tensor,
    cotangents: Sequence[Tensor],
    tolerance: float,
    check_dtypes: bool,
    advice: str,
) -> list[Tensor]:
    """For each input that requires grad the gradients for some cotangents, as columns."""
    sources = [inputs[i] for i in tracked_positions(inputs)]

    def rows() -> list[tuple[Any, ...]]:
        copy = output.clone()
        return [
            grad(copy, sources, ct.reshape(output.shape), retain_graph=True, allow_unused=True) for ct in cotangents
        ]

    first, second = rows(), rows()
    if _differ(_side_by_side(first, sources), _side_by_side(second, sources), tolerance):
        with policy("reproducible"):  # a graph that changes its back end in between rounds differently
            first, second = rows(), rows()
    pairs = [(g, x) for row in first for g, x in zip(row, sources, strict=True) if g is not None]
    if check_dtypes and any(g.shape == x.shape and g.dtype != x.dtype for g, x in pairs):
        raise GradcheckError("Gradient has dtype mismatch")
    if any(g.shape != x.shape for g, x in pairs):
        raise GradcheckError("Analytical gradient has incorrect size")
    jacobians, again = _side_by_side(first, sources), _side_by_side(second, sources)
    if _differ(jacobians, again, tolerance):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different values, although analytical gradient matches numerical gradient.The tolerance for "
            f"nondeterminism was {tolerance}." + advice
        )
    return jacobians


def _differ(first: Sequence[Tensor], second: Sequence[Tensor], tolerance: float) -> bool:
    return any(a.numel() and bool((a - b).abs().max() > tolerance) for a, b in zip(first, second, strict=True))


def _side_by_side(rows: Sequence[Sequence[Any]], sources: Sequence[Tensor]) -> list[Tensor]:
    matrices = []
    for i, x in enumerate(sources):
        matrix = x.new_zeros((x.numel(), len(rows)))
        for j, row in enumerate(rows):
            if row[i] is not None:
                matrix[:, j] = row[i].reshape(-1)
        matrices.append(matrix)
    return matrices


def forward_jacobians(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Tensor],
    check_dtypes: bool,
    directions: Sequence[Direction] | None = None,
) -> list[list[Tensor]]:
    """For each input that requires grad the Jacobian of each inexact output, by forward mode.

    With ``directions``, one for each such input, the derivative along that direction as a vector instead.

    Raises:
      GradcheckError: a tangent is complex where its output is not, or vice versa.
    """
    jacobians = []
    for k, position in enumerate(tracked_positions(inputs)):
        x = inputs[position]
        if directions is not None:
            tangents = [directions[k].reshape(x.shape)]
        else:
            tangents = []
            for index in product(*map(range, x.shape)):
                one = ops.zeros_like(x.detach())
                one[index] = 1.0
                tangents.append(one)
        shapes = [out for out in outputs if is_inexact(out)]
        matrices = [out.new_zeros((len(tangents), out.numel())) for out in shapes]
        for row, tangent in enumerate(tangents):
            for out, value in zip(matrices, _pushed(func, inputs, position, tangent, check_dtypes), strict=True):
                if value is not None:
                    out[row] = value.reshape(-1)
        jacobians.append([m[0] for m in matrices] if directions is not None else matrices)
    return jacobians


def _pushed(
    func: Callable[..., Any], inputs: Sequence[Any], position: int, tangent: Tensor, check_dtypes: bool
) -> list[Tensor | None]:
    with dual_level():
        needed = set(tracked_positions(inputs))
        duals = [
            make_dual(x.detach(), tangent if i == position else ops.zeros_like(x.detach())) if i in needed else x
            for i, x in enumerate(inputs)
        ]
        tangents: list[Tensor | None] = []
        for out in tupled(func(*duals)):
            if is_inexact(out):
                primal, pushed = unpack_dual(out)
                if check_dtypes and pushed is not None and primal.is_complex() != pushed.is_complex():
                    raise GradcheckError("Forward AD gradient has dtype mismatch.")
                tangents.append(pushed)
        return tangents
