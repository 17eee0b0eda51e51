"""The elements of an array as text: numbers of one format and width, in rows, lines and blocks.

NOTE [Forms of numbers]: All numbers of a tensor are printed in one form, determined by those that are finite and not
zero.  They have an exponent if the largest is more than a thousand times the smallest, or more than 1e8, or the
smallest is below 1e-4; otherwise only a trailing point if they are all integral; otherwise ``precision`` digits.  A
summary considers only the numbers that it shows.  The real and imaginary parts of complex numbers each have their own
form.
"""

import math
from typing import Protocol

import numpy as np
from attrs import frozen

from fgrad.torch.printing.options import PrintOptions


class _Form(Protocol):
    @property
    def width(self) -> int: ...

    def text(self, number: complex, /) -> str: ...


@frozen
class _Discrete:
    """The form of integers and booleans."""

    width: int

    def text(self, number: complex) -> str:
        return str(number).rjust(self.width)


@frozen
class _Real:
    """The form of floating point numbers: a specification for ``format``, and a trailing point if ``integral``."""

    width: int
    specification: str
    integral: bool = False

    def text(self, number: complex) -> str:
        point = "." if self.integral and math.isfinite(number.real) else ""
        return (format(number.real, self.specification) + point).rjust(self.width)


@frozen
class _Complex:
    """The form of complex numbers."""

    real: _Form
    imag: _Form

    @property
    def width(self) -> int:
        return self.real.width + self.imag.width + 1

    def text(self, number: complex) -> str:
        imag = self.imag.text(number.imag).lstrip() + "j"
        sign = "" if imag.startswith(("+", "-")) else "+"
        return self.real.text(number.real) + sign + imag


def _form(values: np.ndarray, options: PrintOptions) -> _Form:
    """The form that fits the numbers of an array; see NOTE [Forms of numbers]."""
    if values.dtype.kind == "c":
        return _Complex(_form(np.real(values), options), _form(np.imag(values), options))
    numbers = values.reshape(-1).tolist()
    if values.dtype.kind in "bui":
        return _Discrete(max(map(len, map(str, numbers)), default=1))
    significant = [number for number in numbers if number != 0 and math.isfinite(number)]
    if not significant:
        return _Real(width=1, specification=".0f", integral=True)
    scientific = options.sci_mode
    if scientific is None:
        sizes = [abs(number) for number in significant]
        largest, smallest = max(sizes), min(sizes)
        scientific = largest / smallest > 1000 or largest > 1e8 or smallest < 1e-4
    integral = not scientific and all(number.is_integer() for number in significant)
    specification = f".{options.precision}e" if scientific else ".0f" if integral else f".{options.precision}f"
    width = max(len(format(number, specification)) for number in significant)
    return _Real(width + integral, specification, integral)


def _shown(length: int, options: PrintOptions) -> np.ndarray | None:
    """The positions that a summary of a dimension shows; ``None`` where it shows all."""
    edge = options.edgeitems
    return np.r_[:edge, length - edge : length] if length > 2 * edge else None


def _summary(values: np.ndarray, options: PrintOptions) -> np.ndarray:
    """The elements that a summary shows."""
    for axis, length in enumerate(values.shape):
        shown = _shown(length, options)
        if shown is not None:
            values = np.take(values, shown, axis)
    return values


@frozen
class _Layout:
    """The layout of the numbers of one tensor."""

    form: _Form
    summarised: bool
    options: PrintOptions

    def text(self, values: np.ndarray, indent: int) -> str:
        if values.ndim == 0:
            return self.form.text(values.item())
        return self._row(values, indent) if values.ndim == 1 else self._block(values, indent)

    def _row(self, values: np.ndarray, indent: int) -> str:
        shown = _shown(len(values), self.options) if self.summarised else None
        cells = [self.form.text(number) for number in (values if shown is None else values[shown]).tolist()]
        if shown is not None:
            cells.insert(len(cells) // 2, " ..." if cells else "...")
        per_line = max(1, int((self.options.linewidth - indent) // (self.form.width + len(", "))))
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

    def _block(self, values: np.ndarray, indent: int) -> str:
        shown = _shown(len(values), self.options) if self.summarised else None
        parts = [self.text(part, indent + 1) for part in (values if shown is None else values[shown])]
        if shown is not None:
            parts.insert(len(parts) // 2, "...")
        return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def array_text(values: np.ndarray, indent: int, options: PrintOptions) -> str:
    """The elements of an array as PyTorch prints them between the parentheses of ``tensor(...)``.

    Arguments:
      values: the array.
      indent: the indentation of the lines after the first.
      options: as set by `set_printoptions`.

    >>> print(array_text(np.array([[1.0, 20.0], [0.5, -3.0]]), 4, PrintOptions()))
    [[ 1.0000, 20.0000],
         [ 0.5000, -3.0000]]
    """
    if values.size == 0:
        return "[]"
    summarised = values.size > options.threshold
    form = _form(_summary(values, options) if summarised else values, options)
    return _Layout(form, summarised, options).text(values, indent)
