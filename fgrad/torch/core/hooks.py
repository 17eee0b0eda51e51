"""Handles of hooks: what ``register_hook`` and its kin return."""

import itertools
import weakref
from collections import OrderedDict
from typing import Any

_ids = itertools.count()


class RemovableHandle:
    """Removes a hook again, by ``remove()`` or at the end of a ``with`` block.

    >>> import fgrad.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 2)
    >>> handle.remove()

    Source: `torch.utils.hooks.RemovableHandle <https://docs.pytorch.org/docs/stable/notes/autograd.html>`_.
    """

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(_ids)
        extras = () if extra_dict is None else extra_dict if isinstance(extra_dict, list) else (extra_dict,)
        self.extra_dict_ref = tuple([weakref.ref(d) for d in extras])

    def remove(self) -> None:
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def register(hooks: "OrderedDict[int, Any]", hook: Any) -> RemovableHandle:
    """Enter a hook at the end of a dict of hooks."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
