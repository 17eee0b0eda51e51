"""What functions under ``functools.cache`` have kept, as a walk sees it."""

import functools

import pytest

from fgrad.mutable.capture.caches import CachedFunction, CachedResults


@pytest.mark.parametrize("size", [None, 1, 2, 128])
def test_results_are_found_and_forgotten(size):
    @functools.lru_cache(size)
    def listed(*key):
        return [*key]

    assert isinstance(listed, CachedFunction)
    cache = CachedResults(listed)
    one = listed(1)
    before = dict(cache.items())
    assert before == {1: [1]} and before[1] is one and len(cache) == 1 and cache.is_unchanged(before)
    two = listed(2, 3)
    assert not cache.is_unchanged(before) and [two] == [x for x in dict(cache.items()).values() if x is two]
    assert listed(1) is one or size == 1
    after = dict(cache.items())
    cache.restore(before)
    assert cache.is_unchanged(before) or size == 1  # what has been pushed out does not come back
    assert listed(1) is one or size == 1
    assert listed(2, 3) == two and listed(2, 3) is not two
    assert not cache.is_unchanged(after)


def test_the_order_of_use_does_not_matter():
    listed = functools.lru_cache(2)(lambda x: [x])
    listed(1), listed(2)
    before = dict(CachedResults(listed).items())
    listed(1)
    assert CachedResults(listed).is_unchanged(before)
    listed.cache_clear()
    assert not CachedResults(listed).is_unchanged(before)
