"""``jax.scipy`` with fgrad's fast lane; see the submodules."""

from typing import TYPE_CHECKING

from fgrad.deferred import deferred

if TYPE_CHECKING:
    from fgrad.scipy import special as special
else:
    __getattr__, __dir__ = deferred(__name__, {__name__: "special"})

__all__ = ["special"]
