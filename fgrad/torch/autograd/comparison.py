"""Analytical derivatives compared with numerical ones, element by element or along random vectors.

NOTE [Fast mode]
The slow mode compares Jacobians element by element.  The fast mode compares one number for each pair of input and
output: the Jacobian between two random vectors, by one difference and one backward (PyTorch: issue 53876).
"""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve, frozen

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import complex64, complex128, float32, float64
from fgrad.mutable.types.promotion import promote_types
from fgrad.torch import ops
from fgrad.torch.autograd.finite_differences import (
    Direction,
    GradcheckError,
    checked_rows,
    forward_jacobians,
    is_inexact,
    numerical_derivatives,
    numerical_jacobians,
    reverse_jacobians,
    tracked_positions,
)
from fgrad.torch.autograd.gradcheck_advice import NOT_REENTRANT_HINT, SLOW_WOULD_PASS
from fgrad.torch.random.public import Generator

_REAL = {complex128: float64, complex64: float32}


@frozen
class Comparison:
    """A comparison of derivatives, with its tolerances.

    Attributes:
      forward: whether forward mode is checked, not reverse mode.
      complex_positions: the inputs (forward) or outputs (reverse) that are compared by one part only.
      imaginary: whether this is the imaginary part.
    """

    eps: float
    rtol: float
    atol: float
    check_dtypes: bool
    nondet_tol: float
    fast: bool
    forward: bool = False
    complex_positions: tuple[int, ...] = ()
    imaginary: bool = False

    def as_part(self, positions: Sequence[int], imaginary: bool) -> "Comparison":
        return evolve(self, complex_positions=tuple(positions), imaginary=imaginary)

    def run(self, func: Callable[..., Any], inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Compare the derivatives of the function.

        Raises:
          GradcheckError: they differ.
        """
        outputs = [x for x in results if x.requires_grad]
        if self.fast:
            self._run_fast(func, inputs, results, outputs)
        else:
            self._run_slow(func, inputs, results, outputs)

    def _run_slow(
        self, func: Callable[..., Any], inputs: Sequence[Any], results: Sequence[Any], outputs: Sequence[Tensor]
    ) -> None:
        numerical = numerical_jacobians(func, inputs, results, self.eps, self.forward)
        if not outputs:
            if any(bool(ops.ne(j, 0).any()) for jacobians in numerical for j in jacobians):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            return
        inexact = [x for x in results if is_inexact(x)]
        differentiable = [k for k, x in enumerate(inexact) if x.requires_grad]
        if self.forward:
            analytical = forward_jacobians(func, inputs, results, self.check_dtypes)
            analytical = [[row[k] for k in differentiable] for row in analytical]
        else:
            by_output = [
                reverse_jacobians(inputs, x, self.nondet_tol, self.check_dtypes, NOT_REENTRANT_HINT) for x in outputs
            ]
            analytical = [list(row) for row in zip(*by_output, strict=True)]
        for j in range(len(outputs)):
            for i in range(len(numerical)):
                a, n = analytical[i][j], numerical[i][differentiable[j]]
                if not _close(a, n, self.rtol, self.atol):
                    raise GradcheckError(self._mismatch(a, n, j, i))

    def _run_fast(
        self, func: Callable[..., Any], inputs: Sequence[Any], results: Sequence[Any], outputs: Sequence[Tensor]
    ) -> None:
        checked = tracked_positions(inputs)
        directions, weights = random_vectors([inputs[i] for i in checked], () if self.forward else outputs)
        derivatives = [
            numerical_derivatives(func, inputs, i, u, self.eps) for i, u in zip(checked, directions, strict=True)
        ]
        if not outputs and not self.forward:
            if any(x.numel() and bool(x.abs().max() > self.nondet_tol) for row in derivatives for x in row):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            return
        inexact = [k for k, x in enumerate(results) if is_inexact(x)]
        numerical = [[row[k] for k in inexact] for row in derivatives]
        if self.forward:
            analytical = forward_jacobians(func, inputs, results, self.check_dtypes, directions)
        else:
            numerical = [[(v * x).sum() for v, x in zip(weights, row, strict=False)] for row in numerical]
            analytical = self._pulled_back(inputs, outputs, directions, weights)
        for i, row in enumerate(numerical):
            for j, n in enumerate(row):
                a = analytical[i][j]
                scale = _total(directions[i]) * (1.0 if self.forward else float(weights[j].sum()))
                if not _close(a, n, self.rtol, self.atol * scale):
                    slow = self._in_slow_mode(func, inputs, results, outputs, i, j)
                    raise GradcheckError(self._mismatch(a, n, j, i) + slow)

    def _pulled_back(
        self, inputs: Sequence[Any], outputs: Sequence[Tensor], directions: Sequence[Direction], weights: Sequence[Any]
    ) -> list[list[Tensor]]:
        """For each input and output the Jacobian between two vectors, by backward."""
        by_output = []
        for x, v in zip(outputs, weights, strict=True):
            columns = checked_rows(inputs, x, [v], self.nondet_tol, self.check_dtypes, NOT_REENTRANT_HINT)
            by_output.append([_along(c[:, 0], u) for c, u in zip(columns, directions, strict=True)])
        return [list(row) for row in zip(*by_output, strict=True)]

    def _in_slow_mode(
        self,
        func: Callable[..., Any],
        inputs: Sequence[Any],
        results: Sequence[Any],
        outputs: Sequence[Tensor],
        i: int,
        j: int,
    ) -> str:
        numerical = numerical_jacobians(func, inputs, outputs, self.eps, self.forward)[i][j]
        if self.forward:
            analytical = forward_jacobians(func, inputs, results, False)[i][j]
        else:
            analytical = reverse_jacobians(inputs, outputs[j], float("inf"), False, "")[i]
        text = (
            "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
            "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we "
            f"recompute numerical and analytical jacobians in slow mode:\n\n"
            f"Numerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
            f"The max per-element difference (slow mode) is: {(numerical - analytical).abs().max()}.\n"
        )
        return text + (SLOW_WOULD_PASS if _close(analytical, numerical, self.rtol, self.atol) else "")

    def _mismatch(self, analytical: Tensor, numerical: Tensor, output: int, input: int) -> str:
        prefix = ""
        if (input if self.forward else output) in self.complex_positions:
            part, side = "imaginary" if self.imaginary else "real", "inputs" if self.forward else "outputs"
            prefix = f"While considering the {part} part of complex {side} only, "
        mode = "computed with forward mode " if self.forward else ""
        return (
            f"{prefix}Jacobian {mode}mismatch for output {output} with respect to input {input},\n"
            f"numerical:{numerical}\nanalytical:{analytical}\n"
        )


def _close(a: Tensor, b: Tensor, rtol: float, atol: float) -> bool:
    common = promote_types(a.dtype, b.dtype)
    return bool(ops.allclose(a.to(common), b.to(common), rtol, atol))


def random_vectors(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[list[Direction], list[Tensor]]:
    """A direction in the space of each input and a vector for each output, from a separate generator."""
    generator = Generator()

    def vector(x: Tensor, dtype: Any) -> Tensor:
        drawn = ops.rand(x.numel(), generator=generator).to(dtype)
        return drawn / drawn.norm()

    directions: list[Direction] = []
    for x in inputs:
        real = _REAL.get(x.dtype, x.dtype)
        directions.append((vector(x, real), vector(x, real)) if x.is_complex() else vector(x, real))
    return directions, [vector(x, x.dtype) for x in outputs]


def _along(gradient: Tensor, direction: Direction) -> Tensor:
    if isinstance(direction, tuple):
        return gradient.real.dot(direction[0]) + 1j * gradient.imag.dot(direction[1])
    return gradient.dot(direction)


def _total(direction: Direction) -> float:
    return sum([float(x.sum()) for x in (direction if isinstance(direction, tuple) else (direction,))])
