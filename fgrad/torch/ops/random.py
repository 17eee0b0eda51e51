"""Random tensors: ``fgrad.torch.random`` draws the numbers, the functions here make tensors of them.

NOTE [Order of drawing]
PyTorch draws in the order of memory: the transpose of a contiguous matrix gets the numbers that the matrix would.  So
numbers are drawn for the axes from the slowest to the fastest in memory, and then brought in the tensor's order.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.torch import dtypes
from fgrad.torch.core import placing
from fgrad.torch.core.evaluation import concrete
from fgrad.torch.core.geometry import Ints, memory_order, overlaps
from fgrad.torch.core.inplace import apply_inplace, check_inplace, write
from fgrad.torch.core.levels import drawn
from fgrad.torch.core.modes import modes
from fgrad.torch.core.operation import Operation
from fgrad.torch.core.overlap import OVERLAP
from fgrad.torch.core.tensor import Tensor, is_tracked, new_tensor
from fgrad.torch.core.types import tensor_type
from fgrad.torch.dtypes import get_default_dtype
from fgrad.torch.formats import preserve_format
from fgrad.torch.ops.copying import format_strides, laid_out, resized
from fgrad.torch.ops.creation import asked, one_value, placed, sizes_of
from fgrad.torch.ops.overloads import no_match
from fgrad.torch.ops.table import composite
from fgrad.torch.random import (
    integers,
    inversion,
    normal as normals,
    uniform as uniforms,
)
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.generator import Generator
from fgrad.torch.type_names import type_name

#: draws numbers for a shape, whose axes stand in the order of memory
Draw = Callable[[Ints], np.ndarray]

FACTORY = (
    "Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False"
)


def _factories(*arguments: str) -> list[str]:
    """PyTorch's lists of a factory's arguments, with a generator and without."""
    return [f"{each}, *, {more}{FACTORY}" for each in arguments for more in ("torch.Generator generator, ", "")]


def source_of(generator: Generator | None) -> Generator:
    return default_generator if generator is None else generator


def _ordered(sizes: Ints, strides: Ints | None, draw: Draw, batch: Ints = ()) -> np.ndarray:
    """Numbers for a tensor of these strides, drawn in the order of memory: see NOTE [Order of drawing].

    The axes ``batch`` stand before the tensor's.
    """
    if strides is None:
        return draw((*batch, *sizes))
    order = memory_order(sizes, strides)
    back = [*range(len(batch)), *(len(batch) + i for i in np.argsort(order))]
    return draw((*batch, *[sizes[i] for i in order])).transpose(back)


# -- new tensors -----------------------------------------------------------------------------------------------------


def new(
    name: str, fill: Callable[..., Tensor], size: tuple[Any, ...], factory: dict[str, Any], dtype: Any = None
) -> Tensor:
    """A new tensor, or the one given as ``out=``, filled with random numbers."""
    wanted = dtypes.argument(factory.pop("dtype", None) or dtype or get_default_dtype(), name)
    out, generator = factory.pop("out", None), factory.pop("generator", None)
    device, requires_grad = factory.pop("device", None), factory.pop("requires_grad", False)
    if "size" in factory:
        size = (factory.pop("size"),)
    for key in ("layout", "pin_memory", "names"):
        factory.pop(key, None)
    if factory:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(factory))}'")
    if generator is not None and not isinstance(generator, Generator):
        given = ", ".join([*map(type_name, size), f"generator={type_name(generator)}"])
        raise TypeError(no_match(name, given, _factories("tuple of ints size")))
    if not size:
        raise TypeError(no_match(name, "", _factories("tuple of ints size")))
    shape = sizes_of(size, name)
    if out is not None:
        return fill(resized(out, shape), generator=generator)
    return _filled(one_value(shape, 0, wanted, device), fill, generator, requires_grad)


def _filled(tensor: Tensor, fill: Callable[..., Tensor], generator: Generator | None, requires_grad: bool) -> Tensor:
    fill(tensor, generator=generator)
    tensor._counter.value = 0
    tensor._counter.writes = None
    if requires_grad:
        asked(tensor)
    return tensor


@composite(method=False)
def rand(*size: Any, **factory: Any) -> Tensor:
    """Numbers that are uniform in [0, 1).

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])

    Source: `torch.rand <https://docs.pytorch.org/docs/stable/generated/torch.rand.html>`_.
    """
    return new("rand", uniform_, size, factory)


@composite(method=False)
def randn(*size: Any, **factory: Any) -> Tensor:
    """Numbers of the standard normal distribution.

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randn(2, 2)
    tensor([[ 1.5410, -0.2934],
            [-2.1788,  0.5684]])

    Source: `torch.randn <https://docs.pytorch.org/docs/stable/generated/torch.randn.html>`_.
    """
    return new("randn", normal_, size, factory)


@composite(method=False)
def randint(*bounds: Any, **factory: Any) -> Tensor:
    """Integers from ``low``, or 0, to below ``high``: ``randint([low,] high, size)``.

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randint(3, 10, (2, 2))
    tensor([[7, 6],
            [3, 5]])

    Source: `torch.randint <https://docs.pytorch.org/docs/stable/generated/torch.randint.html>`_.
    """
    given = list(bounds)
    if "size" not in factory and given:
        factory["size"] = given.pop()
    low, high = factory.pop("low", 0), factory.pop("high", None)
    if high is None and given:
        high = given.pop()
    if given:
        low = given.pop()
    size = factory.get("size")
    if given or high is None or any(isinstance(x, float) for x in (low, high)) or not isinstance(size, tuple | list):
        if len(bounds) == 2 and isinstance(size, int):
            raise TypeError(f"randint(): argument 'size' (position 2) must be tuple of ints, not {type_name(size)}")
        given = ", ".join(map(type_name, bounds))
        both = _factories("int high, tuple of ints size", "int low, int high, tuple of ints size")
        raise TypeError(no_match("randint", given, both))
    low, high = int(low), int(high)
    return new(
        "randint", lambda tensor, generator: random_(tensor, low, high, generator=generator), (), factory, dtypes.int64
    )


@composite(method=False)
def randperm(
    n: Any,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = dtypes.int64,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The integers below ``n`` in random order.

    Source: `torch.randperm <https://docs.pytorch.org/docs/stable/generated/torch.randperm.html>`_.
    """
    wanted = dtypes.argument(dtype, "randperm") if out is None else out._type.dtype
    source = source_of(generator)

    def draw(batch: Ints) -> np.ndarray:
        each = [integers.randperm(int(n), wanted.numpy, source) for _ in range(math.prod(batch))]
        return np.reshape(each, (*batch, int(n))).astype(wanted.numpy, copy=False)

    value = drawn(draw)
    found = placed(new_tensor(value, tensor_type(wanted, tuple(value.shape))), device)
    if requires_grad:
        asked(found)
    return found if out is None else resized(out, found._type.shape).copy_(found)


def _like(
    name: str,
    input: Tensor,
    fill: Callable[..., Tensor],
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = preserve_format,
    pin_memory: bool = False,
) -> Tensor:
    wanted = input._type.dtype if dtype is None else dtypes.argument(dtype, name)
    tensor = one_value(input._type.shape, 0, wanted, device or input.device)
    laid_out(tensor, format_strides(input, memory_format))
    return _filled(tensor, fill, generator, requires_grad)


@composite(method=False)
def rand_like(input: Any, **factory: Any) -> Tensor:
    """Numbers that are uniform in [0, 1), in the shape and type of another tensor.

    Source: `torch.rand_like <https://docs.pytorch.org/docs/stable/generated/torch.rand_like.html>`_.
    """
    return _like("rand_like", input, uniform_, **factory)


@composite(method=False)
def randn_like(input: Any, **factory: Any) -> Tensor:
    """Numbers of the standard normal distribution, in the shape and type of another tensor.

    Source: `torch.randn_like <https://docs.pytorch.org/docs/stable/generated/torch.randn_like.html>`_.
    """
    return _like("randn_like", input, normal_, **factory)


@composite(method=False)
def randint_like(input: Any, *bounds: Any, low: Any = 0, high: Any = None, **factory: Any) -> Tensor:
    """Integers from ``low``, or 0, to below ``high``, in the shape and type of another tensor.

    Source: `torch.randint_like <https://docs.pytorch.org/docs/stable/generated/torch.randint_like.html>`_.
    """
    if bounds:
        *lower, high = bounds if high is None else (*bounds, high)
        low = lower[0] if lower else low
    low, high = int(low), int(high)
    return _like(
        "randint_like", input, lambda tensor, generator: random_(tensor, low, high, generator=generator), **factory
    )


# -- in place --------------------------------------------------------------------------------------------------------


def _writer(name: str, node: str, *more: str) -> Operation:
    """The operation that writes random numbers: nothing of what was there goes on, so its gradient is zero."""
    return Operation(
        name, lambda array, values, *_: values, node, ("self", "values", *more), (), frozenset((1,)), outputs=()
    )


_UNIFORM = _writer("uniform", "UniformBackward0")
_NORMAL = _writer("normal", "NormalBackward0")
_LOG_NORMAL = _writer("log_normal", "LogNormalBackward0")
_EXPONENTIAL = _writer("exponential", "ExponentialBackward0")
_CAUCHY = _writer("cauchy", "CauchyBackward0")
_GEOMETRIC = _writer("geometric", "GeometricBackward0")
# PyTorch numbers the overloads: both bounds, the upper one, none; probabilities, one probability
_RANDOM = [_writer("random", f"RandomBackward{i}") for i in range(3)]
_BERNOULLI_EACH = _writer("bernoulli", "BernoulliBackward1", "p")
_BERNOULLI = _writer("bernoulli", "BernoulliBackward2")


def _write(tensor: Tensor, operation: Operation, draw: Draw, *more: Tensor) -> Tensor:
    """Write random numbers to a tensor, which is returned."""
    recorded = modes.grad and any(is_tracked(x) for x in (tensor, *more))
    check_inplace(tensor, recorded)
    sizes, strides = tensor._type.shape, None
    if tensor._geometry is not None or tensor._storage.strides is not None or tensor._storage.home is not None:
        g = tensor._geometry_of()
        if overlaps(g.sizes, g.strides):
            raise RuntimeError(OVERLAP)
        strides = None if g.contiguous else g.strides
    if tensor.device.type == "meta":
        value = tensor._value()
    else:
        value = placing.placed(drawn(lambda batch: _ordered(sizes, strides, draw, batch)), tensor.device)
    if recorded or modes.dual_level >= 0:
        return apply_inplace(operation, (tensor, new_tensor(value, tensor._type), *more))
    write(tensor, value, operation.name, None)
    return tensor


@composite(function=False)
def uniform_(self: Tensor, low: float = 0.0, to: float = 1.0, *, generator: Any = None, **named: Any) -> Tensor:
    """Write numbers that are uniform from ``from`` to below ``to``.

    Source: `torch.Tensor.uniform_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.uniform_.html>`_.
    """
    low = float(named.get("from", low))
    return _write(
        self,
        _UNIFORM,
        lambda shape: uniforms.uniform(shape, self._type.dtype.numpy, source_of(generator), low, float(to)),
    )


@composite(function=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write normal numbers of a mean and a standard deviation.

    Source: `torch.Tensor.normal_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.normal_.html>`_.
    """
    source, dtype, in_order = source_of(generator), self._type.dtype.numpy, self._geometry_of().contiguous
    return _write(self, _NORMAL, lambda shape: normals.normal(shape, dtype, source, float(mean), float(std), in_order))


@composite(function=False)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Write numbers whose logarithms are normal.

    Source: `torch.Tensor.log_normal_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.log_normal_.html>`_.
    """
    return _write(
        self,
        _LOG_NORMAL,
        lambda shape: normals.log_normal(shape, self._type.dtype.numpy, source_of(generator), float(mean), float(std)),
    )


@composite(function=False)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write exponential numbers of a rate.

    Source: `torch.Tensor.exponential_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.exponential_.html>`_.
    """
    return _write(
        self,
        _EXPONENTIAL,
        lambda shape: inversion.exponential(shape, self._type.dtype.numpy, source_of(generator), float(lambd)),
    )


@composite(function=False)
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write Cauchy numbers of a median and a half width.

    Source: `torch.Tensor.cauchy_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.cauchy_.html>`_.
    """
    return _write(
        self,
        _CAUCHY,
        lambda shape: inversion.cauchy(
            shape, self._type.dtype.numpy, source_of(generator), float(median), float(sigma)
        ),
    )


@composite(function=False)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Write numbers of trials until the first success.

    Source: `torch.Tensor.geometric_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.geometric_.html>`_.
    """
    return _write(
        self,
        _GEOMETRIC,
        lambda shape: inversion.geometric(shape, self._type.dtype.numpy, source_of(generator), float(p)),
    )


@composite(function=False)
def random_(self: Tensor, *bounds: Any, generator: Any = None, to: Any = None, **named: Any) -> Tensor:
    """Write integers: ``random_()`` all that the type has, ``random_(to)``, ``random_(from, to)``.

    Source: `torch.Tensor.random_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.random_.html>`_.
    """
    given = [*([named["from"]] if "from" in named else []), *bounds, *([] if to is None else [to])]
    source, dtype = source_of(generator), self._type.dtype.numpy
    if not given:
        return _write(self, _RANDOM[2], lambda shape: integers.random(shape, dtype, source))
    low, high = (0, given[0]) if len(given) == 1 and "from" not in named else (given + [None])[:2]
    low, high = int(low), None if high is None else int(high)
    return _write(
        self,
        _RANDOM[1 if len(given) == 1 else 0],
        lambda shape: integers.random_range(shape, dtype, source, low, high),
    )


@composite(function=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Write ones with a probability, which is a number or a tensor of one for each element, and zeros.

    Source: `torch.Tensor.bernoulli_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.bernoulli_.html>`_.
    """
    source, dtype = source_of(generator), self._type.dtype.numpy
    if not isinstance(p, Tensor):
        return _write(self, _BERNOULLI, lambda shape: uniforms.bernoulli(shape, dtype, source, float(p)))
    g = self._geometry_of()
    chances = np.broadcast_to(concrete(p._value()), g.sizes)
    if not g.contiguous:
        chances = chances.transpose(memory_order(g.sizes, g.strides))
    return _write(self, _BERNOULLI_EACH, lambda shape: uniforms.bernoulli(shape, dtype, source, chances), p)
