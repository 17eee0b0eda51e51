"""The table of Kullback-Leibler divergences: of several matching entries that of the closest classes applies."""

import functools
from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.distributions.distribution import Distribution

Divergence = Callable[[Any, Any], Tensor]

_REGISTRY: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable[[Divergence], Divergence]:
    """A decorator that registers the divergence of two classes of distributions.

    Raises:
      TypeError: a class is not a distribution.

    >>> class Mine(Distribution):
    ...     pass
    >>> @register_kl(Mine, Mine)
    ... def kl_of_mine(p, q):
    ...     return 0.0
    >>> kl_divergence(Mine(validate_args=False), Mine(validate_args=False))
    0.0

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.kl.register_kl
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type) and issubclass(cls, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def enter(function: Divergence) -> Divergence:
        _REGISTRY[type_p, type_q] = function
        _closest_entry.cache_clear()
        return function

    return enter


@functools.cache
def _closest_entry(type_p: type, type_q: type) -> Divergence | None:
    """The entry whose classes are closest: by the first class, or by the second, and a warning if they differ."""
    matches = [(p, q) for p, q in _REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return None

    def nearness(p: type, q: type) -> tuple[int, int]:
        return type_p.__mro__.index(p), type_q.__mro__.index(q)

    by_p = min(matches, key=lambda pair: nearness(*pair))
    by_q = min(matches, key=lambda pair: nearness(*pair)[::-1])
    if _REGISTRY[by_p] is not _REGISTRY[by_q]:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({by_p[0].__name__}, "
            f"{by_q[1].__name__})",
            RuntimeWarning,
        )
    return _REGISTRY[by_p]


def kl_divergence(p: Any, q: Any) -> Tensor:
    """The Kullback-Leibler divergence of ``q`` from ``p``: the mean of ``log(p / q)`` over draws of ``p``.

    Raises:
      NotImplementedError: there is no formula for these classes.

    >>> import fgrad.torch as torch
    >>> N = torch.distributions.Normal
    >>> torch.distributions.kl_divergence(N(0.0, 1.0), N(2.0, 1.0))
    tensor(2.)

    Source: https://docs.pytorch.org/docs/2.13/distributions.html#torch.distributions.kl.kl_divergence
    """
    function = _closest_entry(type(p), type(q))
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)
