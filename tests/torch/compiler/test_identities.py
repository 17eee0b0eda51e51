"""What containers hold, compared object by object."""

from collections import deque

import pytest

from fgrad.torch.compiler.identities import Contents


class Equal:
    def __eq__(self, other):
        raise AssertionError("asked whether it is equal")


def test_the_same_objects_are_never_asked_whether_they_are_equal():
    a, b = Equal(), Equal()
    table, row = {"a": a}, [b]
    contents = Contents([table.values(), row])
    assert contents.hold()
    row[0] = a
    assert not contents.hold()
    row[0] = b
    assert contents.hold()


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ("a", ["a"]), ((), [])])
def test_an_equal_object_of_another_kind_is_another_one(old, new):
    table = {"a": old}
    contents = Contents([table.values()])
    table["a"] = new
    assert not contents.hold()


@pytest.mark.parametrize("change", [deque.pop, deque.clear, lambda d: d.append(1), lambda d: d.rotate(1)])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_taken_added_or_moved_is_seen(change, place):
    rows = [deque([1, 2, 3]) for _ in range(3)]
    contents = Contents(rows)
    change(rows[place])
    assert not contents.hold()


def test_nothing_moves_from_one_container_to_the_next():
    a, b = [1, 2], [3]
    contents = Contents([a, b])
    b.insert(0, a.pop())
    assert not contents.hold()


def test_no_other_object_gets_the_address_of_one_that_was_held():
    row = [object() for _ in range(100)]
    contents = Contents([row])
    for i in range(100):
        row[i] = None
        row[i] = object()
    assert not contents.hold()


def test_what_was_held_before_is_compared_with_what_is_held_now():
    row = [1, 2]
    assert not Contents([row], [[1, 3]]).hold() and Contents([row], [[1, 2]]).hold()
    assert Contents([]).hold() and not Contents([row], [[]]).hold()
