"""``torch.quasirandom``: points that fill a cube more evenly than random ones.

Source: `torch.quasirandom.SobolEngine
<https://docs.pytorch.org/docs/stable/generated/torch.quasirandom.SobolEngine.html>`_.
"""

from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import dtype as Dtype, get_default_dtype, int64
from fgrad.mutable.values.evaluation import concrete
from fgrad.torch import ops
from fgrad.torch.ops.creation.making import tensor_from_array
from fgrad.torch.random.public import Generator

_BITS = 30


@cache
def _directions() -> tuple[np.ndarray, np.ndarray]:
    """A primitive polynomial for each axis, and the first direction numbers (S. Joe and F. Y. Kuo).

    SciPy, a dependency of JAX, has their table.
    """
    with resources.files("scipy.stats").joinpath("_sobol_direction_numbers.npz").open("rb") as file:
        table = np.load(file)
        return table["poly"], table["vinit"]


def _direction_numbers(dimension: int) -> np.ndarray:
    """For each axis and bit of a point's index the direction number, by the recurrence of its polynomial."""
    polynomials, first = _directions()
    numbers = np.ones((dimension, _BITS), np.int64)
    for axis in range(1, dimension):
        polynomial = int(polynomials[axis])
        degree = polynomial.bit_length() - 1
        row = [int(n) for n in first[axis, :degree]]
        for j in range(degree, _BITS):
            new = row[j - degree]
            for k in range(degree):
                if polynomial >> (degree - 1 - k) & 1:
                    new ^= row[j - k - 1] << (k + 1)
            row.append(new)
        numbers[axis] = row
    return numbers << np.arange(_BITS - 1, -1, -1)


def _mixed(directions: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Direction numbers, their bits multiplied by lower triangular matrices over the field of two elements."""
    matrices = matrices.copy()
    at = np.arange(_BITS)
    matrices[:, at, at] = 1
    # a row's first element belongs to the highest bit
    bits = directions[:, :, None] >> at[::-1] & 1
    return (np.einsum("dpk,djk->djp", matrices, bits) % 2) @ (1 << at[::-1])


class SobolEngine:
    """Draws the points of a Sobol sequence.

    Arguments:
      dimension: the dimension of the cube, at most 21201.
      scramble: whether the sequence is randomly scrambled, which keeps it even.
      seed: of the scrambling.

    Raises:
      ValueError: ``dimension`` is out of range.

    >>> import fgrad.torch as torch
    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None):
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate: Tensor = tensor_from_array(_direction_numbers(dimension), int64)
        self.shift = ops.zeros(dimension, dtype=int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        shifts = ops.randint(2, (self.dimension, _BITS), generator=generator)
        self.shift: Any = ops.mv(shifts, ops.pow(2, ops.arange(0, _BITS)))
        matrices = ops.randint(2, (self.dimension, _BITS, _BITS), generator=generator).tril()
        self.sobolstate.copy_(tensor_from_array(_mixed(_elements(self.sobolstate), _elements(matrices)), int64))

    def _advanced(self, count: int) -> np.ndarray:
        """The next points as integers."""
        last = _elements(self.quasi)
        # the bit that the Gray code of each point's index flips: its lowest zero
        numbers = np.arange(max(self.num_generated - 1, 0), self.num_generated + count - 1)
        changed = [(~int(n) & int(n) + 1).bit_length() - 1 for n in numbers]
        steps = _elements(self.sobolstate).T[changed]
        if not self.num_generated:
            steps = np.concatenate([np.zeros_like(last)[None], steps])
        points = np.bitwise_xor.accumulate(np.concatenate([last[None], steps]), 0)[1:]
        self.num_generated += count
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Dtype | None = None) -> Tensor:
        """The next ``n`` points, as rows.

        Arguments:
          n: how many.
          out: a tensor to write them to.
          dtype: their dtype; the default one if None.

        >>> import fgrad.torch as torch
        >>> engine = torch.quasirandom.SobolEngine(1)
        >>> engine.draw(), engine.draw()
        (tensor([[0.]]), tensor([[0.5000]]))
        """
        wanted = dtype or get_default_dtype()
        points = self._advanced(n)
        self.quasi: Any = tensor_from_array(points[-1], int64)
        result = tensor_from_array(points, wanted).mul_(2.0**-_BITS)
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Dtype | None = None) -> Tensor:
        """The next ``2**m`` points, after which the number of points drawn must be a power of two.

        Raises:
          ValueError: it is not.

        >>> import fgrad.torch as torch
        >>> torch.quasirandom.SobolEngine(1).draw_base2(1)
        tensor([[0.0000],
                [0.5000]])
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> "SobolEngine":
        """Restart the sequence.

        >>> import fgrad.torch as torch
        >>> torch.quasirandom.SobolEngine(1).fast_forward(3).reset().draw()
        tensor([[0.]])
        """
        self.quasi.copy_(self.shift)
        self.num_generated: int = 0
        return self

    def fast_forward(self, n: int) -> "SobolEngine":
        """Skip ``n`` points.

        >>> import fgrad.torch as torch
        >>> torch.quasirandom.SobolEngine(1).fast_forward(1).draw()
        tensor([[0.5000]])
        """
        self.quasi.copy_(tensor_from_array(self._advanced(n)[-1], int64))
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _elements(tensor: Tensor) -> Any:
    return concrete(tensor._value())
