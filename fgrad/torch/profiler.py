"""``torch.profiler``: named regions, shown by JAX's profiler.

Source: `torch.profiler.record_function <https://docs.pytorch.org/docs/2.13/profiler.html>`_.
"""

import contextlib
from typing import Any

import jax

from fgrad.torch.stand_ins import names

globals().update(names("profiler"))


class record_function(contextlib.ContextDecorator):
    """Name a block, or a decorated function, in traces of ``jax.profiler``.

    >>> import fgrad.torch as torch
    >>> with torch.profiler.record_function("forward"):
    ...     y = torch.ones(2).exp()
    """

    def __init__(self, name: str, args: str | None = None):
        self.name = name
        self.args = args
        self._entered: list[Any] = []

    def __enter__(self) -> "record_function":
        annotation = jax.profiler.TraceAnnotation(self.name)
        annotation.__enter__()
        self._entered.append(annotation)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._entered.pop().__exit__(*exception)
