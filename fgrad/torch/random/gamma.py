"""Gamma and Dirichlet numbers, drawn one by one: how many uniform draws each takes depends on their values."""

import math
from typing import Any

import numpy as np

from fgrad.torch.random.generator import Draw, Generator
from fgrad.torch.random.libm import scalar_power
from fgrad.torch.random.scalars import FLOAT32, FLOAT64, Array, not_implemented, rounded


def _standard_normals(generator: Generator, draw: Draw) -> Draw:
    """Standard normal numbers, two from a pair of draws; the generator keeps the second."""

    def normal() -> float:
        waiting = generator.next_double_normal_sample
        if waiting is not None:
            generator.next_double_normal_sample = None
            return waiting
        angle = 2 * math.pi * draw()
        radius = math.sqrt(-2.0 * math.log1p(-draw()))
        generator.next_double_normal_sample = radius * math.sin(angle)
        return radius * math.cos(angle)

    return normal


def _gamma(shape: Any, uniform: Draw, normal: Draw) -> float:
    """Marsaglia and Tsang's method (2000); ``shape`` is a NumPy scalar of the type that is computed in."""
    real = type(shape)
    scale = 1.0
    if shape < 1:
        if shape == 0:
            return 0.0
        scale = scalar_power(1 - uniform(), float(real(1) / shape))
        shape = shape + real(1)
    d = float(shape - real(np.float32(1.0) / np.float32(3.0)))
    # NaN for a negative shape
    c = float(1.0 / np.sqrt(np.float64(9.0 * d)))
    while True:
        x = normal()
        y = 1.0 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1 - uniform()
        square = x * x
        if u < 1.0 - float(np.float32(0.0331)) * square * square:
            return scale * d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v


def _gammas(shapes: Array, generator: Generator) -> Array:
    with generator.one_by_one() as draw, np.errstate(all="ignore"):
        normal = _standard_normals(generator, draw)
        return np.array([_gamma(shape, draw, normal) for shape in shapes.flat], np.float64).reshape(shapes.shape)


def _at_least(lowest: Any, values: Array) -> Array:
    # replaces NaN too
    return np.where(values > lowest, values, lowest)


def standard_gamma(shapes: Array, generator: Generator) -> Array:
    """Gamma numbers of unit scale, one for each shape parameter, of their type.

    Raises ``NotImplementedError`` for a type that has no kernel.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> standard_gamma(np.array([0.5, 3.0], np.float32), Generator().manual_seed(0))
    array([7.8935816e-04, 1.2728435e+00], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#gamma
    """
    if shapes.dtype not in (FLOAT32, FLOAT64):
        raise not_implemented("gamma_cpu", shapes.dtype)
    return _at_least(np.finfo(shapes.dtype).tiny, rounded(_gammas(shapes, generator), shapes.dtype))


def dirichlet(concentrations: Array, generator: Generator) -> Array:
    """Points of the simplex, one for each row of concentrations, of their type.

    Long rows are summed in another order than PyTorch's, so the last bit can differ.

    Raises ``NotImplementedError`` for a type that has no kernel.

    >>> import numpy as np
    >>> from fgrad.torch.random.generator import Generator
    >>> dirichlet(np.array([1.0, 2.0], np.float32), Generator().manual_seed(0))
    array([0.686578, 0.313422], dtype=float32)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#dirichlet
    """
    generator.check_on_host()
    real = concentrations.dtype
    if real not in (FLOAT32, FLOAT64):
        raise not_implemented("dirichlet", real)
    rows = np.atleast_1d(concentrations).astype(np.float64)
    gammas = _at_least(np.finfo(np.float64).tiny, _gammas(rows, generator))
    with np.errstate(invalid="ignore"):
        points = rounded(gammas / gammas.sum(axis=-1, keepdims=True), real)
    below_one = np.nextafter(real.type(1), real.type(0))
    return np.minimum(_at_least(np.finfo(real).tiny, points), below_one).reshape(concentrations.shape)
