"""Kullback-Leibler divergences: the table, with all its entries."""

from fgrad.torch.distributions import (
    kl_cross as kl_cross,
    kl_same as kl_same,
)
from fgrad.torch.distributions.kl_registry import (
    _REGISTRY as _KL_REGISTRY,  # noqa: F401  (by this name libraries look it up)
    kl_divergence,
    register_kl,
)

__all__ = ["kl_divergence", "register_kl"]
