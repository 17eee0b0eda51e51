"""``jax.scipy`` with fgrad's fast lane; see the submodules."""

from fgrad.scipy import special as special

__all__ = ["special"]
