"""Random numbers whose parameters are tensors: ``normal``, ``bernoulli``, ``multinomial``, ``poisson`` and others."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from fgrad.api.rules import define_rule
from fgrad.mutable.operation.capture import expect
from fgrad.mutable.operation.operands import counts_as_number, numbers_in
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.operation_node import NOT_IMPLEMENTED
from fgrad.mutable.tensor.tensor import Tensor, is_tracked, new_tensor, to_device_of
from fgrad.mutable.tensor.tensor_type import tensor_type
from fgrad.mutable.transforms.levels import drawn_for, drawn_like
from fgrad.mutable.types import dtypes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import constant, elements
from fgrad.mutable.write.copying import resized, warn_if_resized
from fgrad.torch.ops.random.random import FACTORY, NORMAL, new, numbers_for, source_of
from fgrad.torch.ops.table.broadcasting import check_broadcast
from fgrad.torch.ops.table.dispatch import UNLISTED
from fgrad.torch.ops.table.outputs import ONTO_ITSELF, exact
from fgrad.torch.ops.table.overloads import no_match, types_of
from fgrad.torch.ops.table.table import SymInt, composite, write_outputs
from fgrad.torch.random import binomial as binomials, normal as normals, poisson as poissons, uniform as uniforms
from fgrad.torch.random.gamma import dirichlet, standard_gamma
from fgrad.torch.random.multinomial import multinomial as categories
from fgrad.torch.random.scalars import not_implemented

_NORMAL_SIGNATURES = (
    "Tensor mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
    "Tensor mean, float std = 1, *, torch.Generator generator = None, Tensor out = None",
    "float mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
    f"float mean, float std, tuple of ints size, *, torch.Generator generator = None, {FACTORY}",
)

_BERNOULLI_SIGNATURES = (
    "Tensor input, *, torch.Generator generator = None, Tensor out = None",
    "Tensor input, float p, *, torch.Generator generator = None",
)


def _last(*arrays: Any) -> Any:
    return arrays[-1]


def _sampler(
    name: str, node: str, *operands: str, of: Callable[..., Any] = _last, numbers: Sequence[str] = ("values",)
) -> Operation:
    """An operation whose result is made of its last operands, random numbers; the gradients of the others are zero."""
    undifferentiated = frozenset(range(len(operands), len(operands) + len(numbers)))
    return Operation(name, of, node, (*operands, *numbers), (), undifferentiated, outputs=())


def _scaled(values: Any, std: Any) -> Any:
    return (values * lax.stop_gradient(std)).astype(values.dtype)


def _moved(values: Any, mean: Any) -> Any:
    return (values + lax.stop_gradient(mean)).astype(values.dtype)


# of standard normal numbers, which are drawn whatever the mean and the deviation
_NORMAL_MEAN = _sampler("normal", "NormalBackward1", "mean", of=lambda mean, values: _moved(values, mean))
_NORMAL_STD = _sampler(
    *("normal", "NormalBackward2", "std"),
    of=lambda std, values, mean: _moved(_scaled(values, std), mean),
    numbers=("values", "mean"),
)
_NORMAL_BOTH = _sampler(
    *("normal", "NormalBackward3", "mean", "std"),
    of=lambda mean, std, values: _moved(_scaled(values, std), mean),
)
_BERNOULLI_OF = _sampler("bernoulli", "BernoulliBackward0", "self")
_BERNOULLI_LIKE = _sampler("bernoulli", NOT_IMPLEMENTED, "self")
_POISSON = _sampler("poisson", "PoissonBackward0", "self")
_BINOMIAL = _sampler("binomial", NOT_IMPLEMENTED, "count", "prob")
_DIRICHLET = _sampler("_sample_dirichlet", NOT_IMPLEMENTED, "self")


def _sampled(operation: Operation, operands: tuple[Tensor, ...], value: Any) -> Tensor:
    return apply(operation, (*operands, _tensor(value)))


def _tensor(value: Any) -> Tensor:
    return new_tensor(value, tensor_type(dtypes.from_numpy(value.dtype), tuple(value.shape)))


@composite(method=False, dispatch=UNLISTED, out=ONTO_ITSELF)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, **factory: Any
) -> Tensor:
    """Normal numbers, with a mean and a standard deviation for each element or for all.

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([0., 10.]), torch.tensor([1., 100.]))
    tensor([  1.5410, -19.3429])

    Source: `torch.normal <https://docs.pytorch.org/docs/stable/generated/torch.normal.html>`_.
    """
    source = source_of(generator)
    of_tensors = isinstance(mean, Tensor) or isinstance(std, Tensor)
    if size is not None or factory or not of_tensors:  # numbers, which may stand in tensors
        given = (mean, std) if size is None else (mean, std, size)
        if size is None or not all(counts_as_number(x) for x in (mean, std) if isinstance(x, Tensor)):
            raise TypeError(no_match("normal", types_of(given), _NORMAL_SIGNATURES))
        numbers = numbers_in("normal", {"mean": mean, "std": std})
        factory.update(generator=generator, out=out)
        return new("normal", NORMAL, tuple(map(float, numbers)), (size,), factory)
    if out is not None and not (out._type.dtype.is_floating_point or out._type.dtype.is_complex):
        raise not_implemented("normal_kernel_cpu", out._type.dtype.numpy)
    template = mean if isinstance(mean, Tensor) else std
    dtype = template._type.dtype.numpy
    if not isinstance(std, Tensor):
        operation, operands = _NORMAL_MEAN, (mean,)
    else:
        if std._type.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        operation, operands = (_NORMAL_BOTH, (mean, std)) if template is mean else (_NORMAL_STD, (std,))
        check_broadcast(*[x._type for x in operands])

    if out is not None:
        return _normal_written(out, mean, std, generator)

    if isinstance(std, Tensor):
        known = elements(std._value())
        if known is not None and not (known >= 0).all():
            raise RuntimeError("normal expects all elements of std >= 0.0")
        expect(lambda: std >= 0)
    shape = np.broadcast_shapes(*[x._type.shape for x in operands])
    scale = 1.0 if isinstance(std, Tensor) else float(std)
    drawn = drawn_like(lambda batch: normals.normal((*batch, *shape), dtype, source, 0.0, scale), operands)
    values = to_device_of(template, new_tensor(drawn, tensor_type(template._type.dtype, shape)))
    moved = () if isinstance(mean, Tensor) else (_tensor(constant(np.asarray(mean, dtype))),)
    return apply(operation, (*operands, values, *moved))


def _normal_written(out: Tensor, mean: Any, std: Any, generator: Any) -> Tensor:
    """Write normal numbers of the type of ``out``, drawn in the order of its memory."""
    if isinstance(std, Tensor):
        if std._type.numel and not std.min() >= 0:
            raise RuntimeError("normal expects all elements of std >= 0.0")
        shape = np.broadcast_shapes(*[x._type.shape for x in (mean, std) if isinstance(x, Tensor)])
        warn_if_resized(out, shape)
        out = resized(out, shape)
    scale = 1.0 if isinstance(std, Tensor) else float(std)
    numbers = new_tensor(numbers_for(out, NORMAL, (0.0, scale), generator), out._type)
    if isinstance(std, Tensor):
        numbers.mul_(std)
    return out.copy_(numbers.add_(mean))


@composite(out=ONTO_ITSELF)
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probabilities in the input, or all with probability ``p``, and zeros otherwise.

    Source: `torch.bernoulli <https://docs.pytorch.org/docs/stable/generated/torch.bernoulli.html>`_.
    """
    source, type = source_of(generator), input._type
    dtype = type.dtype.numpy
    if out is not None:
        if p is not None:
            types = f"{type_name(input)}, {type_name(p)}, out={type_name(out)}"
            raise TypeError(no_match("bernoulli", types, _BERNOULLI_SIGNATURES))
        return resized(out, type.shape).bernoulli_(input, generator=generator)
    if p is None:
        value = drawn_for(lambda chances: uniforms.bernoulli(chances.shape, dtype, source, chances), input._value())
        expect(lambda: (input >= 0) & (input <= 1))
        return _sampled(_BERNOULLI_OF, (input,), value)
    if isinstance(p, Tensor):
        if p._type.shape or is_tracked(p):
            raise TypeError(no_match("bernoulli", "Tensor, Tensor", _BERNOULLI_SIGNATURES))
        p = p.item()
    chance = float(p)
    value = drawn_for(lambda like: uniforms.bernoulli(like.shape, dtype, source, chance), input._value())
    return _sampled(_BERNOULLI_LIKE, (input,), value)


@composite(method=False)
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Poisson numbers with the rates in the input.

    Source: `torch.poisson <https://docs.pytorch.org/docs/stable/generated/torch.poisson.html>`_.
    """
    source = source_of(generator)
    return _sampled(_POISSON, (input,), drawn_for(lambda rates: poissons.poisson(rates, source), input._value()))


@composite(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """Binomial numbers: the successes in ``count`` trials with a probability.

    Source: `torch.Tensor binomial <https://docs.pytorch.org/docs/stable/generated/torch.binomial.html>`_.
    """
    source = source_of(generator)
    value = drawn_for(lambda n, p: binomials.binomial(n, p, source), count._value(), prob._value())
    return _sampled(_BINOMIAL, (count, prob), value)


@composite(out=exact("multinomial expects {want} tensor out, got: {got}"))
def multinomial(
    input: Any, num_samples: SymInt, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """Categories drawn with the weights in each row of the input.

    Source: `torch.multinomial <https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html>`_.
    """
    source, rank = source_of(generator), len(input._type.shape)

    def draw(weights: np.ndarray) -> np.ndarray:
        rows = weights.reshape((-1, weights.shape[-1])) if rank in (1, 2) and weights.ndim > 2 else weights
        values = categories(rows, int(num_samples), bool(replacement), source)
        return values.reshape((*weights.shape[:-1], int(num_samples)))

    samples = _tensor(drawn_for(draw, input._value()))
    return samples if out is None else write_outputs("multinomial", None, (input,), samples, out)


def _gamma_gradient(ct: Any, out: Any, shapes: Any, values: Any) -> tuple[Any, Any]:
    # in single precision large shapes would lose half of the digits
    wide = (lax.convert_element_type(x, np.float64) for x in (shapes, out))
    movement = lax.convert_element_type(lax.random_gamma_grad(*wide), out.dtype)  # type: ignore[call-arg]
    return ct * movement, lax.full_like(values, 0)


_STANDARD_GAMMA = Operation(
    "_standard_gamma",
    define_rule(lambda shapes, values: values, vjp=_gamma_gradient),
    "StandardGammaBackward0",
    ("self", "values"),
    (),
    frozenset((1,)),
)


@composite(method=False)
def _standard_gamma(input: Any, generator: Any = None) -> Tensor:
    """Gamma numbers with unit scale, with the implicit gradient through their distribution function."""
    source = source_of(generator)
    value = drawn_for(lambda shapes: standard_gamma(shapes, source), input._value())
    return _sampled(_STANDARD_GAMMA, (input,), value)


@composite(method=False)
def _sample_dirichlet(input: Any, generator: Any = None) -> Tensor:
    """A point of the simplex for each row of concentrations; ``Dirichlet.rsample`` has the gradient."""
    source = source_of(generator)
    value = drawn_for(lambda concentration: dirichlet(concentration, source), input._value())
    return _sampled(_DIRICHLET, (input,), value)
