"""Handles of hooks, as returned by ``register_hook`` and the like."""

import functools
import weakref
from collections import OrderedDict
from typing import Any

from fgrad.mutable.context.modes import modes
from fgrad.seam import RawSource, here


class _Registered(weakref.ref):
    """A weakly referenced dict of hooks, with the user's line that registered each."""

    __slots__ = ("line",)

    line: RawSource | None


#: by handle, for as long as the dict of hooks exists
_registered: dict[int, _Registered] = {}


class RemovableHandle:
    """Removes a hook again, by ``remove()`` or at the end of a ``with`` block.

    >>> import fgrad.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 2)
    >>> handle.remove()

    Source: `torch.utils.hooks.RemovableHandle <https://docs.pytorch.org/docs/stable/notes/autograd.html>`_.
    """

    #: the id of the next handle
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None):
        extras = () if extra_dict is None else extra_dict if isinstance(extra_dict, list) else (extra_dict,)
        self.__setstate__((hooks_dict, RemovableHandle.next_id, tuple(extras)))
        # the callback is a C function: a signal arriving inside a Python one would be lost
        registered = _Registered(hooks_dict, functools.partial(_registered.pop, self.id))
        registered.line = here(2)
        _registered[self.id] = registered

    def remove(self) -> None:
        _registered.pop(self.id, None)
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and self.id in hooks:
                if modes.capturing is not None:
                    _note(hooks, "a hook is removed")
                del hooks[self.id]

    # objects with handles can be copied and pickled: a copy's handles remove the copy's hooks

    def __getstate__(self) -> tuple[Any, int, tuple[Any, ...]]:
        return self.hooks_dict_ref(), self.id, tuple([ref() for ref in self.extra_dict_ref])

    def __setstate__(self, state: tuple[Any, int, tuple[Any, ...]]) -> None:
        self.id: int
        hooks, self.id, extras = state
        self.hooks_dict_ref: Any = _reference(hooks)
        self.extra_dict_ref: tuple[Any, ...] = tuple([_reference(extra) for extra in extras])
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def _reference(hooks: Any) -> Any:
    """A weak reference to a dict of hooks, or a dead one."""
    return weakref.ref(OrderedDict() if hooks is None else hooks)


def register(hooks: "OrderedDict[int, Any]", hook: Any) -> RemovableHandle:
    """Append a hook to a dict of hooks."""
    if modes.capturing is not None:
        _note(hooks, "a hook is registered")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _note(hooks: Any, what: str) -> None:
    """Tell a capture that a dict of hooks is about to change."""
    modes.capturing.note_change(hooks)
    modes.capturing.note_side_effect(what)


def registered_at(id: int | None) -> RawSource | None:
    """The user's line that registered the hook of a handle, if it is still known."""
    registration = None if id is None else _registered.get(id)
    return None if registration is None else registration.line
