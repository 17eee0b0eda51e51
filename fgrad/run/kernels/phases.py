"""Which elements meet which taps of a kernel, in a convolution along one dimension.

Along one spatial dimension, with stride ``s``, input dilation ``d``, kernel dilation ``r`` and low padding ``p``, the
product ``x[j] w[k]`` is added to ``out[i]`` where ``i s + k r - p = j d`` (see ``rules/convolution.py``).

NOTE [Phases]
Input dilation puts zeros between the elements; multiplying these would take ``d`` times the work in each dimension.
Instead the results are split into phases, ``i = a + q t`` with ``t = d / gcd(s, d)``: for all results of one phase the
same taps of the kernel, ``k = b + l u`` with ``u = d / gcd(r, d)``, meet elements and not zeros.  Then

    j = (a s + b r - p) / d  +  q (s t / d)  +  l (r u / d) ,

which is a convolution of part of the kernel, without input dilation.  Transposed convolutions are computed like this,
and so is the derivative of a strided convolution with respect to its input.
"""

import itertools
import math
from collections.abc import Sequence

from attrs import frozen


@frozen
class Axis:
    """A convolution along one dimension."""

    size: int
    taps: int
    #: how many results there are
    count: int
    stride: int
    low: int
    input_dilation: int
    dilation: int

    def phases(self) -> "list[Phase]":
        """The phases that read any elements."""
        dilation = self.input_dilation
        period, step = dilation // math.gcd(self.stride, dilation), dilation // math.gcd(self.dilation, dilation)
        phases = []
        for first, tap in itertools.product(range(min(period, self.count)), range(min(step, self.taps))):
            start = first * self.stride + tap * self.dilation - self.low
            if start % dilation == 0:
                results, taps = slice(first, self.count, period), slice(tap, self.taps, step)
                steps = self.stride * period // dilation, self.dilation * step // dilation
                phases.append(Phase(results, taps, start // dilation, *steps))
        return phases

    def targets(self) -> list[tuple[slice, slice]]:
        """For each tap of a convolution without stride, the elements it reads and the results it adds to."""
        targets = []
        dilation = self.input_dilation
        for tap in range(self.taps):
            shift = self.low - tap * self.dilation  # element j goes to result j * dilation + shift
            first = max(0, -(shift // dilation))
            last = max(first, min(self.size, -((shift - self.count) // dilation)))
            start, end = first * dilation + shift, last * dilation + shift
            targets.append((slice(first, last), slice(start, max(end, start), dilation)))
        return targets


@frozen
class Phase:
    """The results of one phase along one dimension, and their taps: see NOTE [Phases].

    The first result reads the element ``start`` at the first tap.  Neighbouring results read elements ``stride`` apart,
    and neighbouring taps elements ``dilation`` apart.
    """

    results: slice
    tap_slice: slice
    start: int
    stride: int
    dilation: int

    @property
    def count(self) -> int:
        return len(range(self.results.start, self.results.stop, self.results.step))

    @property
    def taps(self) -> int:
        return len(range(self.tap_slice.start, self.tap_slice.stop, self.tap_slice.step))

    @property
    def end(self) -> int:
        """One beyond the last element that is read."""
        return self.start + (self.count - 1) * self.stride + (self.taps - 1) * self.dilation + 1

    def read_at(self, tap: int) -> slice:
        """Where a tap meets what is read, for all results."""
        start = tap * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)

    def read_for(self, result: int) -> slice:
        """Where a result meets what is read, for all taps."""
        start = result * self.stride
        return slice(start, start + (self.taps - 1) * self.dilation + 1, self.dilation)


#: one phase along each dimension
Along = Sequence[Phase]
