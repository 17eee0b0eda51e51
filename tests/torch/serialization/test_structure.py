"""Nested values as JSON and back."""

import json
import math
from collections import OrderedDict, defaultdict, namedtuple

import hypothesis
import pytest
from hypothesis import strategies as st

from fgrad.torch.serialization.structure import decode
from tests.torch.serialization.former import Encoder

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS | st.builds(object),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(SCALARS, inner, max_size=3),
        st.dictionaries(SCALARS, inner, max_size=3).map(OrderedDict),
    ),
    max_leaves=12,
)


class Objects:
    """Takes bare objects for tensors."""

    def __init__(self):
        self.found = {}

    def describe(self, value, path):
        if type(value) is not object:
            return None
        self.found["/".join(path)] = value
        return {"tensor": "/".join(path)}

    def make(self, description):
        return self.found[description["tensor"]]


def round_trip(value):
    objects = Objects()
    code = json.loads(json.dumps(Encoder(objects.describe).encode(value), allow_nan=False))
    return decode(code, objects.make)


def equal(one, other):
    """Equality that tells 1 from True and 1.0, and finds nan equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict):
        return equal(list(one.items()), list(other.items()))
    return one == other


@hypothesis.given(VALUES)
def test_round_trip(value):
    # keys that str() does not tell apart give tensors one path; the paths of real tensors are made unique elsewhere
    hypothesis.assume(len(set(paths(value))) == len(paths(value)))
    assert equal(round_trip(value), value)


def paths(value, path=()):
    if isinstance(value, dict):
        return [each for key, item in value.items() for each in paths(item, (*path, str(key)))]
    if isinstance(value, list | tuple):
        return [each for i, item in enumerate(value) for each in paths(item, (*path, str(i)))]
    return ["/".join(path)]


def test_the_attribute_of_a_state_dict_stays():
    state = OrderedDict(a=1)
    state._metadata = OrderedDict({"": {"version": 1}})
    found = round_trip([state])[0]
    assert found == state and found._metadata == state._metadata and type(found._metadata) is OrderedDict
    assert not hasattr(round_trip(OrderedDict(a=1)), "_metadata")


def test_containers_may_occur_twice_but_not_in_themselves():
    inner = [1]
    assert round_trip([inner, inner]) == [[1], [1]]
    inner.append({"inner": inner})
    with pytest.raises(ValueError, match=r"at \[0\]\[1\]\[inner\] there is a list that contains itself"):
        round_trip([inner])


class Pair(namedtuple("Pair", "a b")):
    """A class of its own, which loading must not make."""


@pytest.mark.parametrize("value", [frozenset({1, 2}), range(2), len, Pair(1, 2), defaultdict(int), str])
def test_what_has_no_place(value):
    kind = type(value).__name__
    with pytest.raises(TypeError, match=rf"at \[model\]\[0\] there is an? {kind}\.(.|\n)*state_dict\(\)"):
        round_trip({"model": [value]})
    with pytest.raises(TypeError, match=f"at the top there is an? {kind}"):
        round_trip(value)


@pytest.mark.parametrize("key", [(1, 2), b"a", frozenset()])
def test_what_is_no_key(key):
    with pytest.raises(TypeError, match=f"there is a {type(key).__name__} as a key"):
        round_trip({key: 1})


@pytest.mark.parametrize(
    "code",
    [
        {},
        {"set": 1},
        {"set": [], "more": 1},
        {"complex": [1, 2]},
        {"bytes": "x"},
        {"Size": ["1"]},
        {"dtype": "float3"},
        {"layout": "dense"},
        {"device": "nowhere"},
        {"tuple": 1},
        {"tuple": [], "list": []},
        {"dict": {"a": 1}},
        {"dict": [[1]]},
        {"dict": [[1, 2, 3]]},
        {"dict": [[[1], 2]]},
        {"dict": [[{"tuple": []}, 2]]},
        {"dict": [], "_metadata": 1},
        {"OrderedDict": [], "other": 1},
        {"float": "1.5"},
        {"float": math.pi},
        {"tensor": 1},
        [{"__reduce__": []}],
    ],
    ids=repr,
)
def test_wrong_structures(code):
    with pytest.raises(ValueError, match="structure|dictionary"):
        decode(code, make=dict)
