"""Handles of hooks."""

import copy
from collections import OrderedDict

import pytest

from fgrad.mutable.tensor.hooks import RemovableHandle, register, registered_at

pytestmark = pytest.mark.fast


def test_a_handle_removes_its_hook_alone_and_once():
    hooks: OrderedDict[int, str] = OrderedDict()
    first, second = register(hooks, "first"), register(hooks, "second")
    first.remove()
    first.remove()
    assert list(hooks.values()) == ["second"]
    with second:
        assert hooks
    assert not hooks


def test_hooks_are_in_the_order_in_which_they_were_registered():
    hooks: OrderedDict[int, str] = OrderedDict()
    handles = [register(hooks, name) for name in "abc"]
    assert "".join(hooks.values()) == "abc" and [handle.id for handle in handles] == sorted(hooks)


def test_a_handle_removes_what_stands_beside_the_hook():
    hooks, marks = OrderedDict(), OrderedDict()
    handle = RemovableHandle(hooks, extra_dict=marks)
    hooks[handle.id], marks[handle.id] = print, True
    handle.remove()
    assert not hooks and not marks


def test_a_handle_does_not_hold_its_table():
    handle = RemovableHandle(OrderedDict())
    assert handle.hooks_dict_ref() is None
    handle.remove()


def test_the_handle_of_a_copy_removes_the_copys_hook():
    hooks: OrderedDict[int, str] = OrderedDict()
    handle = register(hooks, "hook")
    table, copied = copy.deepcopy((hooks, handle))
    copied.remove()
    assert hooks and not table
    assert RemovableHandle.next_id > handle.id


def test_the_line_that_registered_a_hook_is_known_while_there_is_the_table():
    hooks: OrderedDict[int, str] = OrderedDict()
    id = register(hooks, "hook").id
    assert registered_at(id) is not None
    del hooks
    assert registered_at(id) is None and registered_at(None) is None
