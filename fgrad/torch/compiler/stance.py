"""``torch.compiler.set_stance``: what all compiled functions do, for a while."""

import functools
from collections.abc import Callable
from typing import Any

from fgrad.torch.compiler.backends import check_backend
from fgrad.torch.compiler.running import leave_graph

STANCES = (
    "default",
    "eager_then_compile",
    "aot_eager_then_compile",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
)


class Stance:
    """The stance that is in force, on all threads as in PyTorch.

    Attributes:
      name: ``"force_eager"`` runs all calls uncompiled, ``"eager_on_recompile"`` those that no program applies to;
        ``"fail_on_recompile"`` raises an error for these.  Others compile.
    """

    name: str = "default"


stance: Stance = Stance()


class set_stance:
    """Set what compiled functions do from now on; as a context or a decorator, only within it.

    Arguments:
      stance: ``"default"``, ``"force_eager"``, ``"eager_on_recompile"`` or ``"fail_on_recompile"``.  Calls under
        ``"eager_then_compile"`` and ``"aot_eager_then_compile"`` compile at once.
      skip_guard_eval_unsafe, force_backend: accepted as in PyTorch; guards are always checked.

    Raises:
      RuntimeError: there is no such stance or back end, or a back end is given for another stance than ``"default"``.

    >>> import fgrad.torch as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     double(torch.ones(1))
    tensor([2.])

    Source: `torch.compiler.set_stance
    <https://docs.pytorch.org/docs/2.13/generated/torch.compiler.set_stance.html>`_.
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None):
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'; there are {', '.join(STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        check_backend(force_backend)
        leave_graph("The function sets the stance of torch.compile.")
        self.name: str = stance
        self.before: str = _set(stance)

    def __enter__(self) -> "set_stance":
        _set(self.name)
        return self

    def __exit__(self, *error: object) -> None:
        _set(self.before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _set(self.before)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.name):
                return function(*args, **kwargs)

        return call


def _set(name: str) -> str:
    """Set a stance; the one before."""
    before, stance.name = stance.name, name
    return before


def cudagraph_mark_step_begin() -> None:
    """Accepted as in PyTorch; no call's results are overwritten by the next one."""
