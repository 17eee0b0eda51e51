"""Random tensors: ``fgrad.torch.random`` draws the numbers, the functions here make tensors of them.

NOTE [Order of drawing]
PyTorch draws in the order of memory: the transpose of a contiguous matrix gets the numbers that the matrix would.  So
numbers are drawn for the axes from the slowest to the fastest in memory, and then brought in the tensor's order.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints, is_contiguous, memory_order, overlaps
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.overlap import OVERLAP
from fgrad.mutable.tensor.tensor import Tensor, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.transforms.levels import drawn
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.mutable.types.formats import preserve_format
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values import device_of_value as placing
from fgrad.mutable.values.capacity import check_room, check_storage, storage_size
from fgrad.mutable.values.device_of_value import Absent
from fgrad.mutable.values.evaluation import concrete
from fgrad.mutable.write.copying import resized
from fgrad.mutable.write.inplace import apply_inplace, check_inplace, write
from fgrad.torch.ops.creation.copying import format_strides, laid_out
from fgrad.torch.ops.creation.creation import asked, place, placed, sizes_of
from fgrad.torch.ops.table.dispatch import UNLISTED
from fgrad.torch.ops.table.overloads import no_match
from fgrad.torch.ops.table.signature import check_unexpected
from fgrad.torch.ops.table.table import composite
from fgrad.torch.random import (
    integers,
    inversion,
    normal as normals,
    uniform as uniforms,
)
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.generator import Generator

FACTORY = (
    "Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False"
)


def _factories(*arguments: str) -> list[str]:
    """PyTorch's lists of a factory's arguments, with a generator and without."""
    return [f"{each}, *, {more}{FACTORY}" for each in arguments for more in ("torch.Generator generator, ", "")]


def source_of(generator: Generator | None) -> Generator:
    return default_generator if generator is None else generator


# -- distributions ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Distribution:
    """Random numbers that tensors are filled with."""

    #: the operation that writes them: nothing of what was there goes on, so its gradient is zero
    written: Operation
    #: of a shape whose axes stand in the order of memory, a type, a generator and the distribution's parameters
    draw: Callable[..., np.ndarray]


def _written(name: str, node: str, *more: str) -> Operation:
    return Operation(
        name, lambda array, values, *_: values, node, ("self", "values", *more), (), frozenset((1,)), outputs=()
    )


_UNIFORM = Distribution(_written("uniform", "UniformBackward0"), uniforms.uniform)
NORMAL = Distribution(_written("normal", "NormalBackward0"), normals.normal)
#: PyTorch fills what is not contiguous one by one
_NORMAL_SCATTERED = Distribution(NORMAL.written, partial(normals.normal, contiguous=False))
_LOG_NORMAL = Distribution(_written("log_normal", "LogNormalBackward0"), normals.log_normal)
_EXPONENTIAL = Distribution(_written("exponential", "ExponentialBackward0"), inversion.exponential)
_CAUCHY = Distribution(_written("cauchy", "CauchyBackward0"), inversion.cauchy)
_GEOMETRIC = Distribution(_written("geometric", "GeometricBackward0"), inversion.geometric)
# PyTorch numbers the overloads: both bounds, the upper one, none; probabilities, one probability
_RANDOM_BETWEEN = Distribution(_written("random", "RandomBackward0"), integers.random_range)
_RANDOM_BELOW = Distribution(_written("random", "RandomBackward1"), integers.random_range)
_RANDOM = Distribution(_written("random", "RandomBackward2"), integers.random)
_BERNOULLI_EACH = Distribution(_written("bernoulli", "BernoulliBackward1", "p"), uniforms.bernoulli)
_BERNOULLI = Distribution(_written("bernoulli", "BernoulliBackward2"), uniforms.bernoulli)


def _numbers(
    distribution: Distribution,
    parameters: tuple[Any, ...],
    type: TensorType,
    strides: Ints | None,
    device: Device,
    generator: Generator | None,
) -> Any:
    """The value of random numbers for a tensor of these strides, or in rows: see NOTE [Order of drawing]."""
    dtype, sizes = type.dtype.numpy, type.shape
    if device.type == "meta":
        return Absent(sizes, dtype)
    source = source_of(generator)

    def draw(batch: Ints) -> np.ndarray:
        if strides is None:
            return distribution.draw((*batch, *sizes), dtype, source, *parameters)
        order = memory_order(sizes, strides)
        back = [*range(len(batch)), *(len(batch) + i for i in np.argsort(order))]
        shape = (*batch, *[sizes[i] for i in order])
        return distribution.draw(shape, dtype, source, *parameters).transpose(back)

    return placing.placed(drawn(draw), device)


# -- new tensors -----------------------------------------------------------------------------------------------------


def new(
    name: str,
    distribution: Distribution,
    parameters: tuple[Any, ...],
    size: tuple[Any, ...],
    factory: dict[str, Any],
    dtype: Any = None,
) -> Tensor:
    """A new tensor, or the one given as ``out=``, filled with random numbers."""
    wanted = dtypes.argument(factory.pop("dtype", None) or dtype or get_default_dtype(), name)
    out, generator = factory.pop("out", None), factory.pop("generator", None)
    device, requires_grad = factory.pop("device", None), factory.pop("requires_grad", False)
    if "size" in factory:
        size = (factory.pop("size"),)
    for key in ("layout", "pin_memory", "names"):
        factory.pop(key, None)
    check_unexpected(name, factory)
    if generator is not None and not isinstance(generator, Generator):
        given = ", ".join([*map(type_name, size), f"generator={type_name(generator)}"])
        raise TypeError(no_match(name, given, _factories("tuple of ints size")))
    if not size:
        raise TypeError(no_match(name, "", _factories("tuple of ints size")))
    shape = sizes_of(size, name)
    need = storage_size(shape, None, 0, wanted.itemsize)
    if place(device).type != "meta":
        check_room(need)
    if out is not None:
        return _write(resized(out, shape), distribution, parameters, generator)
    type = tensor_type(wanted, shape)
    tensor = new_tensor(_numbers(distribution, parameters, type, None, place(device), generator), type)
    return asked(tensor) if requires_grad else tensor


@composite(method=False, dispatch=UNLISTED)
def rand(*size: Any, **factory: Any) -> Tensor:
    """Numbers that are uniform in [0, 1).

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])

    Source: `torch.rand <https://docs.pytorch.org/docs/stable/generated/torch.rand.html>`_.
    """
    return new("rand", _UNIFORM, (), size, factory)


@composite(method=False, dispatch=UNLISTED)
def randn(*size: Any, **factory: Any) -> Tensor:
    """Numbers of the standard normal distribution.

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.randn(2, 2)
    tensor([[ 1.5410, -0.2934],
            [-2.1788,  0.5684]])

    Source: `torch.randn <https://docs.pytorch.org/docs/stable/generated/torch.randn.html>`_.
    """
    return new("randn", NORMAL, (), size, factory)


@composite(method=False, dispatch=UNLISTED)
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
    return new("randint", _RANDOM_BETWEEN, (int(low), int(high)), (), factory, dtypes.int64)


@composite(method=False, dispatch=UNLISTED)
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
    check_storage((max(int(n), 0),), wanted.itemsize)
    source = source_of(generator)

    def draw(batch: Ints) -> np.ndarray:
        orders = [integers.randperm(int(n), wanted.numpy, source) for _ in range(math.prod(batch))]
        return np.concatenate([np.empty(0, wanted.numpy), *orders]).reshape(*batch, int(n))

    value = drawn(draw)
    found = placed(new_tensor(value, tensor_type(wanted, tuple(value.shape))), device)
    if requires_grad:
        asked(found)
    return found if out is None else resized(out, found._type.shape).copy_(found)


def _like(
    name: str,
    input: Tensor,
    distribution: Distribution,
    parameters: tuple[Any, ...] = (),
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = preserve_format,
    pin_memory: bool = False,
) -> Tensor:
    wanted = input._type.dtype if dtype is None else dtypes.argument(dtype, name)
    type, strides = tensor_type(wanted, input._type.shape), format_strides(input, memory_format)
    scattered = strides if strides is not None and not is_contiguous(type.shape, strides) else None
    if distribution is NORMAL and scattered is not None:
        distribution = _NORMAL_SCATTERED
    value = _numbers(distribution, parameters, type, scattered, place(device or input.device), generator)
    tensor = laid_out(new_tensor(value, type), strides)
    return asked(tensor) if requires_grad else tensor


@composite(method=False, dispatch=UNLISTED)
def rand_like(input: Any, **factory: Any) -> Tensor:
    """Numbers that are uniform in [0, 1), in the shape and type of another tensor.

    Source: `torch.rand_like <https://docs.pytorch.org/docs/stable/generated/torch.rand_like.html>`_.
    """
    return _like("rand_like", input, _UNIFORM, **factory)


@composite(method=False, dispatch=UNLISTED)
def randn_like(input: Any, **factory: Any) -> Tensor:
    """Numbers of the standard normal distribution, in the shape and type of another tensor.

    Source: `torch.randn_like <https://docs.pytorch.org/docs/stable/generated/torch.randn_like.html>`_.
    """
    return _like("randn_like", input, NORMAL, **factory)


@composite(method=False, dispatch=UNLISTED)
def randint_like(input: Any, *bounds: Any, low: Any = 0, high: Any = None, **factory: Any) -> Tensor:
    """Integers from ``low``, or 0, to below ``high``, in the shape and type of another tensor.

    Source: `torch.randint_like <https://docs.pytorch.org/docs/stable/generated/torch.randint_like.html>`_.
    """
    if bounds:
        *lower, high = bounds if high is None else (*bounds, high)
        low = lower[0] if lower else low
    return _like("randint_like", input, _RANDOM_BETWEEN, (int(low), int(high)), **factory)


# -- in place --------------------------------------------------------------------------------------------------------


def _write(
    tensor: Tensor, distribution: Distribution, parameters: tuple[Any, ...], generator: Generator | None, *more: Tensor
) -> Tensor:
    """Write random numbers to a tensor, which is returned."""
    operation = distribution.written
    recorded = modes.grad and any(is_tracked(x) for x in (tensor, *more))
    check_inplace(tensor, recorded)
    strides = None
    if tensor._geometry is not None or tensor._storage.strides is not None or tensor._storage.home is not None:
        g = tensor._geometry_of()
        if overlaps(g.sizes, g.strides):
            raise RuntimeError(OVERLAP)
        strides = None if g.contiguous else g.strides
    value = _numbers(distribution, parameters, tensor._type, strides, tensor.device, generator)
    if recorded or modes.dual_level >= 0:
        return apply_inplace(operation, (tensor, new_tensor(value, tensor._type), *more))
    write(tensor, value, operation.name, None)
    return tensor


@composite(function=False)
def uniform_(self: Tensor, low: float = 0.0, to: float = 1.0, *, generator: Any = None, **named: Any) -> Tensor:
    """Write numbers that are uniform from ``from`` to below ``to``.

    Source: `torch.Tensor.uniform_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.uniform_.html>`_.
    """
    low = float(named.pop("from", low))
    check_unexpected("uniform_", named)
    return _write(self, _UNIFORM, (low, float(to)), generator)


@composite(function=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write normal numbers of a mean and a standard deviation.

    Source: `torch.Tensor.normal_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.normal_.html>`_.
    """
    distribution = NORMAL if self._geometry_of().contiguous else _NORMAL_SCATTERED
    return _write(self, distribution, (float(mean), float(std)), generator)


@composite(function=False)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Write numbers whose logarithms are normal.

    Source: `torch.Tensor.log_normal_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.log_normal_.html>`_.
    """
    return _write(self, _LOG_NORMAL, (float(mean), float(std)), generator)


@composite(function=False)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write exponential numbers of a rate.

    Source: `torch.Tensor.exponential_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.exponential_.html>`_.
    """
    return _write(self, _EXPONENTIAL, (float(lambd),), generator)


@composite(function=False)
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write Cauchy numbers of a median and a half width.

    Source: `torch.Tensor.cauchy_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.cauchy_.html>`_.
    """
    return _write(self, _CAUCHY, (float(median), float(sigma)), generator)


@composite(function=False)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Write numbers of trials until the first success.

    Source: `torch.Tensor.geometric_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.geometric_.html>`_.
    """
    return _write(self, _GEOMETRIC, (float(p),), generator)


@composite(function=False)
def random_(self: Tensor, *bounds: Any, generator: Any = None, to: Any = None, **named: Any) -> Tensor:
    """Write integers: ``random_()`` all that the type has, ``random_(to)``, ``random_(from, to)``.

    Source: `torch.Tensor.random_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.random_.html>`_.
    """
    given = [*([named["from"]] if "from" in named else []), *bounds, *([] if to is None else [to])]
    check_unexpected("random_", {key: value for key, value in named.items() if key != "from"})
    if not given:
        return _write(self, _RANDOM, (), generator)
    low, high = (0, given[0]) if len(given) == 1 and "from" not in named else (given + [None])[:2]
    distribution = _RANDOM_BELOW if len(given) == 1 else _RANDOM_BETWEEN
    return _write(self, distribution, (int(low), None if high is None else int(high)), generator)


@composite(function=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Write ones with a probability, which is a number or a tensor of one for each element, and zeros.

    Source: `torch.Tensor.bernoulli_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.bernoulli_.html>`_.
    """
    if not isinstance(p, Tensor):
        return _write(self, _BERNOULLI, (float(p),), generator)
    g = self._geometry_of()
    chances = np.broadcast_to(concrete(p._value()), g.sizes)
    if not g.contiguous:
        chances = chances.transpose(memory_order(g.sizes, g.strides))
    return _write(self, _BERNOULLI_EACH, (chances,), generator, p)
