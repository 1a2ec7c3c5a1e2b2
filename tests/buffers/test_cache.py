"""A cache keeps what was used last, up to its number of bytes."""

from __future__ import annotations

import pickle

from lance_spark.buffers.cache import Cache


def test_values_are_made_once() -> None:
    cache, numbers = Cache(100), iter(range(3))
    assert [cache.get("a", lambda: next(numbers), lambda _: 8) for _ in range(3)] == [0, 0, 0]
    assert next(numbers) == 1


def test_what_was_not_used_for_the_longest_time_is_dropped() -> None:
    cache = Cache(100)
    for key in "abc":
        cache.keep(key, key, 40)
        assert cache.known("a") == "a"
    assert [cache.known(key) for key in "abc"] == ["a", None, "c"]


def test_values_that_would_fill_most_of_it_are_not_kept() -> None:
    cache = Cache(100)
    cache.keep("a", "large", 51)
    assert cache.known("a") is None


def test_its_pickle_is_empty() -> None:
    cache = Cache(1000)
    cache.keep("a", bytes(100), 100)
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.known("a") is None
    copy.keep("b", "there", 500)
    assert copy.known("b") == "there"
