"""Kernels of convolutions.

Of a phase (NOTE [Phases]) a matrix product with columns gives the results (NOTE [Columns]).  If there are fewer output
features than input features, it is cheaper to multiply first and add the columns of the product at their positions in
the result, as in the derivative of a network's first layer with respect to the image.  A depthwise convolution, in
which each feature is read alone, and its derivative with respect to the kernel, which has few results for each feature,
are sums of products with the features as the last axis.  Of few features, the one is a loop over the taps, and the
other one over the results.  Where BLAS multiplies, its threads serve a large convolution (NOTE [Threads of BLAS]);
others are cut into parts of the results, and helpers compute these: NOTE [Helpers].
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from fgrad.graph.op import Op
from fgrad.run.kernels.blas_threads import THREADS, on_threads_for
from fgrad.run.kernels.columns import BLOCK, Convolve, block_of, by_columns, in_order, reading, windows_in
from fgrad.run.kernels.helpers import PART, Parts, slices_of
from fgrad.run.kernels.kernel import FLOATS, MOVED, SUPPORTED, TABLE, Entry, Kernel, flushing, same
from fgrad.run.kernels.phases import Along, Axis

#: a depthwise convolution is a loop over taps up to this many taps, and this many output features per input feature
TAPS, MULTIPLE = 64, 4
#: and for dtypes that BLAS multiplies, up to this many results: for more, BLAS takes less time
FEW = 256
#: nanoseconds per multiplication in dtypes that BLAS lacks, per element of the columns, and per phase
MULTIPLICATION, COLUMN, PHASE = 1.0, 0.25, 20_000.0
#: extra nanoseconds per element and tap of a loop over taps, which a compiled program fuses
TAP = 0.5
#: a multiplication in a loop over taps takes as long as so many of BLAS
LOOPED = 8
#: a grouped convolution is a loop over its results if each group has at most so many
RESULTS = 32
#: from this many groups on, they are the last axis of a sum of products
GROUPS = 16
#: so many indices per part may be cut unevenly
UNEVEN = 4


@frozen
class Sizes:
    """What a convolution computes, or a part of it."""

    #: examples, groups, and the input and output features of each group
    n: int
    groups: int
    features: int
    outputs: int
    #: along the dimensions
    sizes: tuple[int, ...]
    dtype: np.dtype


#: computes a phase
ForPhase = Callable[[Sizes, Along], Convolve]


def _columns(sizes: Sizes, along: Along) -> Convolve:
    convolve = by_columns((sizes.n, sizes.groups, sizes.features), sizes.outputs, sizes.sizes, along, sizes.dtype)
    width, results = sizes.features * math.prod([p.taps for p in along]), math.prod([p.count for p in along])
    examples = block_of(sizes.n, sizes.n * width * results, BLOCK)
    return on_threads_for(sizes.outputs, width, examples * results, convolve)


def _by_adding(sizes: Sizes, axes: Sequence[Axis]) -> Convolve:
    """Multiply first and add afterwards, to zeros, without stride."""
    dims, targets = len(axes), [axis.targets() for axis in axes]
    rows, columns = sizes.outputs * math.prod([axis.taps for axis in axes]), math.prod(sizes.sizes)
    block = block_of(sizes.n, sizes.n * sizes.groups * rows * columns, BLOCK)

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        n, (groups, outputs) = x.shape[0], w.shape[:2]
        # a reversed kernel, as in derivatives, is read in memory order to avoid a copy
        backwards = [step < 0 for step in w.strides[3:]]
        w = w[(..., *[slice(None, None, -1) if back else slice(None) for back in backwards])]
        in_order = [steps[::-1] if back else steps for steps, back in zip(targets, backwards, strict=True)]
        matrix = np.moveaxis(w, 2, -1).reshape(groups, -1, w.shape[2])
        sums = out.transpose(1, 2, 0, *range(3, 3 + dims))
        for first in range(0, n, block):
            some = slice(first, first + block)
            part = x[some].transpose(1, 2, 0, *range(3, 3 + dims))
            product = matrix @ part.reshape(groups, x.shape[2], -1)
            product = product.reshape(groups, outputs, *w.shape[3:], *part.shape[2:])
            for offset in itertools.product(*map(range, w.shape[3:])):
                read, into = zip(*[steps[i] for steps, i in zip(in_order, offset, strict=True)], strict=True)
                every = slice(None)
                sums[(every, every, some, *into)] += product[(every, every, *offset, every, *read)]

    return on_threads_for(rows, sizes.features, block * columns, convolve)


def _taps(sizes: Sizes, along: Along) -> Convolve:
    """A loop over the taps, for one feature per group."""
    read_of, dims = reading((sizes.n, sizes.groups), sizes.sizes, along, sizes.dtype), len(along)
    offsets = [
        (offset, [p.read_at(tap) for tap, p in zip(offset, along, strict=True)])
        for offset in itertools.product(*[range(p.taps) for p in along])
    ]

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        read, term = read_of(x[:, :, 0])[:, :, None], None
        for offset, position in offsets:
            part, factor = read[(..., *position)], w[(slice(None), slice(None), 0, *offset)]
            factor = factor.reshape(*factor.shape, *[1] * dims)
            if term is None:
                np.multiply(part, factor, out=out)
                term = np.empty_like(out)
            else:
                out += np.multiply(part, factor, out=term)

    return convolve


def _results(sizes: Sizes, along: Along) -> Convolve:
    """A loop over the results, for few of them in each group."""
    read_of = reading((sizes.n, sizes.groups, sizes.features), sizes.sizes, along, sizes.dtype)
    inner = "xyzuvw"[: len(along)]
    subscripts = f"ngc{inner},goc{inner}->ngo"
    windows = [
        (position, [p.read_for(result) for result, p in zip(position, along, strict=True)])
        for position in itertools.product(*[range(p.count) for p in along])
    ]

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        read = read_of(x)
        for position, window in windows:
            np.einsum(subscripts, read[(..., *window)], w, out=out[(..., *position)])

    return convolve


def _groups_last(sizes: Sizes, along: Along) -> Convolve:
    """A sum of products in which the groups are the last axis, for many groups of few features or few results."""
    count, axes = len(along), "stuvwxyzpqr"
    results, taps = axes[:count], axes[count : 2 * count]
    subscripts = f"nc{results}{taps}g,oc{taps}g->no{results}g"
    windows_of = windows_in((sizes.n, sizes.features), sizes.sizes, (sizes.groups,), along, sizes.dtype)

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        windows, kernel = windows_of(np.moveaxis(x, 1, -1)), in_order(np.moveaxis(w, 0, -1))
        out[...] = np.moveaxis(np.einsum(subscripts, windows, kernel), -1, 1)

    return convolve


def _in_phases(of: ForPhase, sizes: Sizes, phases: Sequence[Along], whole: bool) -> Convolve:
    """Phase by phase; ``whole`` if the only one gives all results."""
    if whole:
        return of(sizes, phases[0])
    steps = [
        (of(sizes, p), (..., *[axis.tap_slice for axis in p]), (..., *[axis.results for axis in p])) for p in phases
    ]

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        for step, taps, results in steps:
            step(x, w[taps], out[results])

    return convolve


_EVERY = slice(None)


def _in_parts(sizes: Sizes, most: int, of: ForPhase, phases: Sequence[Along], whole: bool) -> Convolve:
    """Cut a convolution in at most so many parts: along the axis that gives the most of them.

    Parts of examples or of groups read different elements; of parts of the features, each reads all elements.
    """
    ways = [_ways(sizes.n, most), _ways(sizes.groups, most), _ways(sizes.outputs, most)]
    count = max(ways)
    if count < 2:
        return _in_phases(of, sizes, phases, whole)
    axis = ways.index(count)
    name = ("n", "groups", "outputs")[axis]
    slices = slices_of(getattr(sizes, name), count)
    parts = [_in_phases(of, evolve(sizes, **{name: s.stop - s.start}), phases, whole) for s in slices]
    if axis == 0:
        return _parts([((s, _EVERY), _EVERY, (s, _EVERY), part) for s, part in zip(slices, parts, strict=True)])
    if axis == 1:
        return _parts([((_EVERY, s), s, (_EVERY, s), part) for s, part in zip(slices, parts, strict=True)])
    return _parts([(_EVERY, (_EVERY, s), (_EVERY, _EVERY, s), part) for s, part in zip(slices, parts, strict=True)])


def _ways(length: int, most: int) -> int:
    """In how many parts of about the same length an axis can be cut."""
    return next((k for k in range(most, 1, -1) if length % k == 0 or length >= UNEVEN * k), 1)


def _parts(parts: Sequence[tuple[Any, Any, Any, Convolve]]) -> Convolve:
    """Computations of parts, each with what it reads of the elements and of the kernel, and what it writes."""

    run = Parts()

    def convolve(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        run([partial(part, x[of_x], w[of_w], out[of_out]) for of_x, of_w, of_out, part in parts])

    return convolve


def _convolution(op: Op) -> Kernel | None:
    params, (x_type, w_type), out_type = op.params, op.in_types, op.out_types[0]
    dtype = out_type.dtype
    if not x_type.dtype == w_type.dtype == dtype or dtype not in SUPPORTED or out_type.ndim == 2:
        return None
    if 0 in (x_type.size, w_type.size, out_type.size):
        return same(lambda x, w: np.zeros(out_type.shape, dtype), MOVED)
    x_spec, w_spec, out_spec = params["dimension_numbers"]
    batches, groups = params["batch_group_count"], params["feature_group_count"] * params["batch_group_count"]
    shape = [out_type.shape[axis] for axis in out_spec]
    n, _, *sizes = [x_type.shape[axis] for axis in x_spec]
    outputs, width, *taps = [w_type.shape[axis] for axis in w_spec]
    x_shape = (batches, n // batches, width, *sizes) if batches > 1 else (n, groups, width, *sizes)
    w_shape = (groups, outputs // groups, width, *taps)
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    strides, pads, input_dilations, dilations = (params[name] for name in names)
    lows = [low for low, _ in pads]
    axes = [Axis(*a) for a in zip(sizes, taps, shape[2:], strides, lows, input_dilations, dilations, strict=True)]
    phases = list(itertools.product(*[axis.phases() for axis in axes]))
    # compare the elements copied: the columns, and the kernel if its layout requires a copy
    transposed = w_spec[0] > w_spec[1]
    read = sum([math.prod([p.taps * p.count for p in along]) for along in phases]) * width * groups * n // batches
    added = math.prod(taps + sizes) * outputs * n // batches
    cost = COLUMN * read + PHASE * (len(phases) - 1)
    depthwise = width == 1 and outputs <= MULTIPLE * groups and math.prod(taps) <= TAPS
    few = groups > 1 and not depthwise and n // batches * (outputs // groups) * math.prod(shape[2:]) <= RESULTS
    by_taps = depthwise and (dtype not in FLOATS or math.prod(shape[2:]) <= FEW)
    dims = len(axes)
    multiplications = read * outputs // groups
    whole = all(axis.input_dilation == 1 for axis in axes)
    complete = whole or sum([math.prod([p.count for p in along]) for along in phases]) == math.prod(shape[2:])
    part = Sizes(n // batches, groups, width, outputs // groups, tuple(sizes), dtype)
    # the order in memory of ``out[n, g, o, ...]``
    memory = (1, 2, 0, *range(3, 3 + dims))
    most = min(THREADS, LOOPED * multiplications // PART)
    if groups >= GROUPS and (depthwise or few):
        convolve, cost = _in_parts(part, most, _groups_last, phases, whole), TAP * multiplications
    elif by_taps:
        convolve, cost = _in_parts(part, most, _taps, phases, whole), TAP * multiplications
        memory = tuple(range(3 + dims))
    elif few:
        convolve = _in_parts(part, most, _results, phases, whole)
    elif (
        not depthwise
        and set(strides) == {1}
        and added + w_type.size * (not transposed) < read + w_type.size * transposed
    ):
        convolve, complete, cost = _by_adding(part, axes), False, COLUMN * added
    else:
        convolve = _in_phases(_columns, part, phases, whole)
    out_shape = (n // batches, *w_shape[:2], *shape[2:])
    new = np.empty if complete else np.zeros
    in_memory, back = [out_shape[axis] for axis in memory], np.argsort(memory)
    order = np.argsort(out_spec)

    def compute(x: Any, w: Any) -> Any:
        x = x.transpose(x_spec).reshape(x_shape)
        if batches > 1:
            x = x.swapaxes(0, 1)
        out = new(in_memory, dtype).transpose(back)
        convolve(x, w.transpose(w_spec).reshape(w_shape), out)
        return out.reshape(shape).transpose(order)

    if dtype not in FLOATS and dtype.kind != "c":
        cost = MULTIPLICATION * multiplications
    elif groups > 1 and not by_taps:
        cost = 0  # XLA copies the columns too
    return Kernel(compute, flushing(compute), cost / max([t.size for t in (x_type, w_type, out_type)]), exact=False)


CONVOLUTION: dict[str, Entry] = {"conv_general_dilated": _convolution}
TABLE.update(CONVOLUTION)
