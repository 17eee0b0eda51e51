"""Random tensors: ``fgrad.torch.random`` draws the numbers, the functions here make tensors of them.

NOTE [Order of drawing]
PyTorch draws in memory order: the transpose of a contiguous matrix gets the same numbers as the matrix.  So numbers are
drawn with the axes from the slowest- to the fastest-varying in memory, and then transposed to the tensor's order.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np

from fgrad.mutable.context.modes import modes
from fgrad.mutable.layout.geometry import Ints, is_contiguous, memory_order, overlaps
from fgrad.mutable.operation.capture import expect
from fgrad.mutable.operation.operands import numbers_in
from fgrad.mutable.operation.operation import Operation
from fgrad.mutable.operation.overlap import OVERLAP
from fgrad.mutable.tensor.tensor import Tensor, is_tracked, new_tensor
from fgrad.mutable.tensor.tensor_type import TensorType, tensor_type
from fgrad.mutable.transforms.levels import INPLACE, drawn, drawn_for, is_mapped, outgrows
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device as Device
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.mutable.types.formats import preserve_format
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values import device_of_value as placing
from fgrad.mutable.values.capacity import check_room, check_storage, storage_size
from fgrad.mutable.values.device_of_value import Absent
from fgrad.mutable.write.copying import resized
from fgrad.mutable.write.inplace import apply_inplace, check_inplace, write
from fgrad.torch.ops.creation.copying import format_strides, laid_out
from fgrad.torch.ops.creation.making import (
    device_or_default,
    placed,
    requiring_grad,
    resized_out,
    sizes_of,
    wants_grad,
)
from fgrad.torch.ops.table.dispatch import UNLISTED
from fgrad.torch.ops.table.overloads import no_match, types_of
from fgrad.torch.ops.table.signature import check_unexpected, checked_int, is_index
from fgrad.torch.ops.table.table import SymInt, composite
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
    """PyTorch's signatures of a factory, with and without a generator."""
    return [
        f"{leading}, *, {generator}{FACTORY}"
        for leading in arguments
        for generator in ("torch.Generator generator, ", "")
    ]


def source_of(generator: Generator | None) -> Generator:
    return default_generator if generator is None else generator


# -- distributions ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Distribution:
    """A distribution of random numbers that fill tensors."""

    #: writes the numbers; the elements before are lost, so their gradient is zero
    writer: Operation
    #: from a shape in memory order, a type, a generator and the distribution's parameters to the numbers
    draw: Callable[..., np.ndarray]
    #: the same for a tensor that is not contiguous, where PyTorch draws otherwise
    draw_scattered: Callable[..., np.ndarray] | None = None


def _writer(name: str, node: str, *operands: str) -> Operation:
    return Operation(
        name, lambda array, values, *_: values, node, ("self", "values", *operands), (), frozenset((1,)), outputs=()
    )


_UNIFORM = Distribution(_writer("uniform", "UniformBackward0"), uniforms.uniform)
NORMAL = Distribution(_writer("normal", "NormalBackward0"), normals.normal, partial(normals.normal, contiguous=False))
_LOG_NORMAL = Distribution(_writer("log_normal", "LogNormalBackward0"), normals.log_normal)
_EXPONENTIAL = Distribution(_writer("exponential", "ExponentialBackward0"), inversion.exponential)
_CAUCHY = Distribution(_writer("cauchy", "CauchyBackward0"), inversion.cauchy)
_GEOMETRIC = Distribution(_writer("geometric", "GeometricBackward0"), inversion.geometric)
# PyTorch numbers the overloads: both bounds, the upper one, none; probabilities, one probability
_RANDOM_BETWEEN = Distribution(_writer("random", "RandomBackward0"), integers.random_range)
_RANDOM_BELOW = Distribution(_writer("random", "RandomBackward1"), integers.random_range)
_RANDOM = Distribution(_writer("random", "RandomBackward2"), integers.random)
_BERNOULLI_EACH = _writer("bernoulli", "BernoulliBackward1", "p")
_BERNOULLI = Distribution(_writer("bernoulli", "BernoulliBackward2"), uniforms.bernoulli)


def _numbers(
    distribution: Distribution,
    parameters: tuple[Any, ...],
    type: TensorType,
    strides: Ints | None,
    device: Device,
    generator: Generator | None,
) -> Any:
    """Random numbers for a tensor of these strides, None for row-major: see NOTE [Order of drawing].

    The strides of examples may be those of their batch, too.
    """
    dtype, sizes = type.dtype.numpy, type.shape
    if device.type == "meta":
        return Absent(sizes, dtype)
    source = source_of(generator)

    def draw(batch: Ints) -> np.ndarray:
        shape = (*batch, *sizes)
        if strides is None:
            return distribution.draw(shape, dtype, source, *parameters)
        scattered = distribution.draw_scattered or distribution.draw
        order = _drawing_order(shape, strides)
        return scattered(tuple([shape[i] for i in order]), dtype, source, *parameters).transpose(np.argsort(order))

    return placing.placed(drawn(draw), device)


def _drawing_order(shape: Ints, strides: Ints) -> Ints:
    """The axes from the slowest to the fastest in memory; those of a batch that have no strides are the slowest."""
    batch = len(shape) - len(strides)
    return (*range(batch), *[batch + i for i in memory_order(shape[batch:], strides)])


def _batch_strides(tensor: Tensor) -> Ints | None:
    """The strides of the batch behind an argument of ``vmap`` if its examples get different numbers; else None."""
    level = modes.maps[0]
    argument = level.argument_of(tensor) if len(modes.maps) == 1 and level.randomness == "different" else None
    if argument is None:
        return None
    geometry = argument.batch._geometry_of()
    return None if geometry.contiguous else geometry.strides


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
    asked = out = generator = device = None
    requires_grad = False
    if factory:  # else not looked through: that takes as long as to draw the numbers of a small tensor
        asked, out, generator = factory.pop("dtype", None), factory.pop("out", None), factory.pop("generator", None)
        device, requires_grad = factory.pop("device", None), wants_grad(factory.pop("requires_grad", False), name)
        if "size" in factory:
            size = (factory.pop("size"),)
        for key in ("layout", "pin_memory", "names"):
            factory.pop(key, None)
        check_unexpected(name, factory)
    element_type = dtypes.argument(asked or dtype or get_default_dtype(), name)
    if generator is not None and not isinstance(generator, Generator):
        types = ", ".join([*map(type_name, size), f"generator={type_name(generator)}"])
        raise TypeError(no_match(name, types, _factories("tuple of ints size")))
    if not size:
        raise TypeError(no_match(name, "", _factories("tuple of ints size")))
    shape = sizes_of(size, name)
    nbytes = storage_size(shape, None, 0, element_type.itemsize)
    place = device_or_default(device)
    if place.type != "meta":
        check_room(nbytes)
    if out is not None:
        return _write(resized_out(out, shape, asked), distribution, parameters, generator)
    type = tensor_type(element_type, shape)
    tensor = new_tensor(_numbers(distribution, parameters, type, None, place, generator), type)
    return requiring_grad(tensor) if requires_grad else tensor


@composite(method=False, dispatch=UNLISTED)
def rand(*size: Any, **factory: Any) -> Tensor:
    """Uniform numbers in [0, 1).

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])

    Source: `torch.rand <https://docs.pytorch.org/docs/stable/generated/torch.rand.html>`_.
    """
    return new("rand", _UNIFORM, (), size, factory)


@composite(method=False, dispatch=UNLISTED)
def randn(*size: Any, **factory: Any) -> Tensor:
    """Standard normal numbers.

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
    positional = list(bounds)
    if "size" not in factory and positional:
        factory["size"] = positional.pop()
    lower, upper = ([factory.pop(name)] if name in factory else [] for name in ("low", "high"))
    limits = [*lower, *positional, *upper]
    size = factory.get("size")
    is_sized = isinstance(size, tuple | list)
    if len(limits) == 1 and not lower and is_sized:
        limits = [0, checked_int(limits[0], "randint", "high", 1)]
    if len(limits) != 2 or not all(is_index(limit, True) for limit in limits) or not is_sized:
        if len(bounds) == 2 and isinstance(size, int):
            raise TypeError(f"randint(): argument 'size' (position 2) must be tuple of ints, not {type_name(size)}")
        signatures = _factories("int high, tuple of ints size", "int low, int high, tuple of ints size")
        raise TypeError(no_match("randint", types_of(bounds), signatures))
    return new("randint", _RANDOM_BETWEEN, tuple(map(int, limits)), (), factory, dtypes.int64)


@composite(method=False, dispatch=UNLISTED)
def randperm(
    n: SymInt,
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
    element_type = dtypes.argument(dtype, "randperm") if out is None else out._type.dtype
    check_storage((max(n, 0),), element_type.itemsize)
    source = source_of(generator)

    def draw(batch: Ints) -> np.ndarray:
        permutations = [integers.randperm(n, element_type.numpy, source) for _ in range(math.prod(batch))]
        return np.concatenate([np.empty(0, element_type.numpy), *permutations]).reshape(*batch, n)

    value = drawn(draw)
    permutation = placed(new_tensor(value, tensor_type(element_type, tuple(value.shape))), device)
    if requires_grad:
        requiring_grad(permutation)
    return permutation if out is None else resized(out, permutation._type.shape).copy_(permutation)


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
    requires_grad = wants_grad(requires_grad, name)
    element_type = input._type.dtype if dtype is None else dtypes.argument(dtype, name)
    type, strides = tensor_type(element_type, input._type.shape), format_strides(input, memory_format)
    memory_strides = strides if strides is not None and not is_contiguous(type.shape, strides) else None
    if modes.maps and memory_format is preserve_format:
        memory_strides = _batch_strides(input) or memory_strides
    value = _numbers(
        distribution, parameters, type, memory_strides, device_or_default(device or input.device), generator
    )
    tensor = laid_out(new_tensor(value, type), strides)
    return requiring_grad(tensor) if requires_grad else tensor


@composite(method=False, dispatch=UNLISTED)
def rand_like(input: Any, **factory: Any) -> Tensor:
    """Uniform numbers in [0, 1), in the shape and type of another tensor.

    Source: `torch.rand_like <https://docs.pytorch.org/docs/stable/generated/torch.rand_like.html>`_.
    """
    return _like("rand_like", input, _UNIFORM, **factory)


@composite(method=False, dispatch=UNLISTED)
def randn_like(input: Any, **factory: Any) -> Tensor:
    """Standard normal numbers, in the shape and type of another tensor.

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


def numbers_for(
    tensor: Tensor, distribution: Distribution, parameters: tuple[Any, ...], generator: Generator | None
) -> Any:
    """Random numbers to be written to a tensor, drawn in the order of its memory."""
    return _numbers(distribution, parameters, tensor._type, _strides_of(tensor), tensor.device, generator)


def _strides_of(tensor: Tensor) -> Ints | None:
    """The strides of a tensor that is to be written, None for row-major: what is drawn once for all examples is."""
    if modes.maps and (strides := _batch_strides(tensor)) is not None:
        return strides
    if tensor._geometry is None and tensor._storage.strides is None and tensor._storage.home is None:
        return None
    geometry = tensor._geometry_of()
    if overlaps(geometry.sizes, geometry.strides):
        raise RuntimeError(OVERLAP)
    shared = any(level.randomness == "same" and is_mapped(tensor._storage.array, level) for level in modes.maps)
    return None if geometry.contiguous or shared else geometry.strides


def _write(
    tensor: Tensor,
    distribution: Distribution,
    parameters: tuple[Any, ...],
    generator: Generator | None,
    *operands: Tensor,
) -> Tensor:
    """Write random numbers to a tensor, and return it."""
    return _written(
        tensor, distribution.writer, lambda: numbers_for(tensor, distribution, parameters, generator), *operands
    )


_SHARED = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. "
    "If this is necessary for your usage, please file an issue with functorch."
)


def _written(tensor: Tensor, operation: Operation, draw: Callable[[], Any], *operands: Tensor) -> Tensor:
    """Write to a tensor what is drawn after the checks, and return it."""
    tracked = modes.grad and any(is_tracked(x) for x in (tensor, *operands))
    check_inplace(tensor, tracked)
    value = draw()
    if modes.maps and any(outgrows(tensor, x._value()) for x in operands):
        raise RuntimeError(INPLACE.format(operation.name))
    if modes.maps and outgrows(tensor, value):
        raise RuntimeError(_SHARED)
    if tracked or modes.dual_level >= 0:
        return apply_inplace(operation, (tensor, new_tensor(value, tensor._type), *operands))
    write(tensor, value, operation.name, None)
    return tensor


@composite(function=False)
def uniform_(self: Tensor, low: float = 0.0, to: float = 1.0, *, generator: Any = None, **named: Any) -> Tensor:
    """Write uniform numbers from ``from`` to below ``to``.

    Source: `torch.Tensor.uniform_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.uniform_.html>`_.
    """
    low, to = map(float, numbers_in("uniform_", {"from": named.pop("from", low), "to": to}))
    check_unexpected("uniform_", named)
    return _write(self, _UNIFORM, (low, to), generator)


@composite(function=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write normal numbers with a mean and a standard deviation.

    Source: `torch.Tensor.normal_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.normal_.html>`_.
    """
    return _write(self, NORMAL, (float(mean), float(std)), generator)


@composite(function=False)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Write numbers whose logarithms are normal.

    Source: `torch.Tensor.log_normal_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.log_normal_.html>`_.
    """
    return _write(self, _LOG_NORMAL, (float(mean), float(std)), generator)


@composite(function=False)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write exponential numbers with a rate.

    Source: `torch.Tensor.exponential_
    <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.exponential_.html>`_.
    """
    return _write(self, _EXPONENTIAL, (float(lambd),), generator)


@composite(function=False)
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write Cauchy numbers with a median and a scale.

    Source: `torch.Tensor.cauchy_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.cauchy_.html>`_.
    """
    return _write(self, _CAUCHY, (float(median), float(sigma)), generator)


@composite(function=False)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Write geometric numbers: the number of trials until the first success.

    Source: `torch.Tensor.geometric_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.geometric_.html>`_.
    """
    return _write(self, _GEOMETRIC, (float(p),), generator)


_ORDERS = [f"{limits}*, torch.Generator generator = None" for limits in ("", "int from, int to, ", "int to, ")]


@composite(function=False)
def random_(self: Tensor, *bounds: Any, generator: Any = None, to: Any = None, **named: Any) -> Tensor:
    """Write uniform integers: ``random_()`` over the range of the type, ``random_(to)``, ``random_(from, to)``.

    Source: `torch.Tensor.random_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.random_.html>`_.
    """
    limits = [*([named["from"]] if "from" in named else []), *bounds, *([] if to is None else [to])]
    check_unexpected("random_", {key: value for key, value in named.items() if key != "from"})
    if not limits:
        return _write(self, _RANDOM, (), generator)
    if not all(is_index(limit, False) or (limit is None and i) for i, limit in enumerate(limits)):
        raise TypeError(no_match("random_", types_of(limits), _ORDERS))
    low, high = (0, limits[0]) if len(limits) == 1 and "from" not in named else (limits + [None])[:2]
    distribution = _RANDOM_BELOW if len(limits) == 1 else _RANDOM_BETWEEN
    return _write(self, distribution, (int(low), None if high is None else int(high)), generator)


@composite(function=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Write ones with probability ``p``, a number or a tensor with one for each element, and zeros otherwise.

    Source: `torch.Tensor.bernoulli_ <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.bernoulli_.html>`_.
    """
    if not isinstance(p, Tensor):
        return _write(self, _BERNOULLI, (float(p),), generator)
    return _written(self, _BERNOULLI_EACH, lambda: _chosen(self, p, generator), p)


def _chosen(tensor: Tensor, p: Tensor, generator: Generator | None) -> Any:
    """Ones with the probability of each element of a tensor, drawn in the order of its memory."""
    sizes, dtype, source = tensor._type.shape, tensor._type.dtype.numpy, source_of(generator)
    strides = _strides_of(tensor)
    chances = p.detach().expand(sizes)

    def draw(chances: np.ndarray) -> np.ndarray:
        order = range(chances.ndim) if strides is None else _drawing_order(chances.shape, strides)
        return uniforms.bernoulli(
            tuple([chances.shape[i] for i in order]), dtype, source, chances.transpose(order)
        ).transpose(np.argsort(order))

    drawn = drawn_for(draw, chances._value())
    expect(lambda: (p >= 0) & (p <= 1))
    return placing.placed(drawn, tensor.device)
