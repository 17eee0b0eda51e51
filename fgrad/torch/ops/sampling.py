"""Random numbers whose parameters are tensors: ``normal``, ``bernoulli``, ``multinomial``, ``poisson`` and others."""

from typing import Any

import numpy as np
from jax import lax

from fgrad.api.rules import define_rule
from fgrad.torch import dtypes
from fgrad.torch.core.evaluation import concrete
from fgrad.torch.core.operation import NOT_IMPLEMENTED, Operation, apply
from fgrad.torch.core.tensor import Tensor
from fgrad.torch.ops.broadcasting import check_broadcast
from fgrad.torch.ops.copying import resized
from fgrad.torch.ops.creation import made
from fgrad.torch.ops.overloads import no_match
from fgrad.torch.ops.random import FACTORY, new, normal_, source_of
from fgrad.torch.ops.table import composite, write_all
from fgrad.torch.random import binomial as binomials, normal as normals, poisson as poissons, uniform as uniforms
from fgrad.torch.random.gamma import standard_gamma
from fgrad.torch.random.multinomial import multinomial as drawn_categories
from fgrad.torch.type_names import type_name

_NORMAL_SIGNATURES = (
    "Tensor mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
    "Tensor mean, float std = 1, *, torch.Generator generator = None, Tensor out = None",
    "float mean, Tensor std, *, torch.Generator generator = None, Tensor out = None",
    f"float mean, float std, tuple of ints size, *, torch.Generator generator = None, {FACTORY}",
)


def _sampler(name: str, node: str, *operands: str) -> Operation:
    """The operation whose result is random numbers, the last operand: the gradients of the others are zero."""
    count = len(operands)
    return Operation(name, lambda *arrays: arrays[-1], node, (*operands, "values"), (), frozenset((count,)), outputs=())


_NORMAL_MEAN = _sampler("normal", "NormalBackward1", "mean")
_NORMAL_STD = _sampler("normal", "NormalBackward2", "std")
_NORMAL_BOTH = _sampler("normal", "NormalBackward3", "mean", "std")
_BERNOULLI_OF = _sampler("bernoulli", "BernoulliBackward0", "self")
_BERNOULLI_LIKE = _sampler("bernoulli", NOT_IMPLEMENTED, "self")
_POISSON = _sampler("poisson", "PoissonBackward0", "self")
_BINOMIAL = _sampler("binomial", NOT_IMPLEMENTED, "count", "prob")


def _sampled(operation: Operation, operands: tuple[Tensor, ...], values: np.ndarray) -> Tensor:
    return apply(operation, (*operands, made(values, dtypes.from_numpy(values.dtype))))


def _numbers(tensor: Tensor) -> np.ndarray:
    return concrete(tensor._value())


@composite(method=False)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, **factory: Any
) -> Tensor:
    """Normal numbers, of a mean and a standard deviation for each or for all.

    >>> import fgrad.torch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.normal(torch.tensor([0., 10.]), torch.tensor([1., 100.]))
    tensor([  1.5410, -19.3429])

    Source: `torch.normal <https://docs.pytorch.org/docs/stable/generated/torch.normal.html>`_.
    """
    source = source_of(generator)
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise TypeError(no_match("normal", f"{type_name(mean)}, {type_name(std)}", _NORMAL_SIGNATURES))
        factory.update(generator=generator, out=out)
        return new(
            "normal", lambda tensor, generator: normal_(tensor, mean, std, generator=generator), (size,), factory
        )
    shaped = mean if isinstance(mean, Tensor) else std
    dtype = shaped._type.dtype.numpy
    if not isinstance(std, Tensor):
        values = normals.normal(mean._type.shape, dtype, source, 0.0, float(std)) + _numbers(mean)
        operation, operands = _NORMAL_MEAN, (mean,)
    else:
        deviations = _numbers(std)
        if std._type.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if (deviations < 0).any():
            raise RuntimeError("normal expects all elements of std >= 0.0")
        operation, operands = (_NORMAL_BOTH, (mean, std)) if shaped is mean else (_NORMAL_STD, (std,))
        check_broadcast(*[x._type for x in operands])
        shape = np.broadcast_shapes(*[x._type.shape for x in operands])
        values = (normals.normal(shape, dtype, source) * deviations).astype(dtype)
        values = values + (_numbers(mean) if shaped is mean else np.asarray(mean, dtype))
    found = _sampled(operation, operands, values.astype(dtype))
    return found if out is None else resized(out, found._type.shape).copy_(found)


@composite()
def bernoulli(input: Any, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probabilities that the input has, or all with probability ``p``, and zeros.

    Source: `torch.bernoulli <https://docs.pytorch.org/docs/stable/generated/torch.bernoulli.html>`_.
    """
    source, type = source_of(generator), input._type
    if p is None:
        values = uniforms.bernoulli(type.shape, type.dtype.numpy, source, _numbers(input))
        found = _sampled(_BERNOULLI_OF, (input,), values)
    else:
        chances = np.asarray(_numbers(p)) if isinstance(p, Tensor) else float(p)
        found = _sampled(_BERNOULLI_LIKE, (input,), uniforms.bernoulli(type.shape, type.dtype.numpy, source, chances))
    return found if out is None else resized(out, type.shape).copy_(found)


@composite(method=False)
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Poisson numbers of the rates that the input has.

    Source: `torch.poisson <https://docs.pytorch.org/docs/stable/generated/torch.poisson.html>`_.
    """
    return _sampled(_POISSON, (input,), poissons.poisson(_numbers(input), source_of(generator)))


@composite(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """Numbers of successes in ``count`` trials of a probability.

    Source: `torch.Tensor binomial <https://docs.pytorch.org/docs/stable/generated/torch.binomial.html>`_.
    """
    values = binomials.binomial(_numbers(count), _numbers(prob), source_of(generator))
    return _sampled(_BINOMIAL, (count, prob), values)


@composite()
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """Categories drawn by the weights that each row of the input has.

    Source: `torch.multinomial <https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html>`_.
    """
    values = drawn_categories(_numbers(input), int(num_samples), bool(replacement), source_of(generator))
    found = made(values, dtypes.int64)
    return found if out is None else write_all("multinomial", None, (input,), found, out)


def _gamma_gradient(ct: Any, out: Any, shapes: Any, values: Any) -> tuple[Any, Any]:
    return ct * lax.random_gamma_grad(shapes, out), lax.full_like(values, 0)  # type: ignore[call-arg]


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
    """Gamma numbers of unit scale, with the gradient that moves them along their distribution function."""
    return _sampled(_STANDARD_GAMMA, (input,), standard_gamma(_numbers(input), source_of(generator)))
