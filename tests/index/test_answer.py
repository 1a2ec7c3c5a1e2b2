"""How the answers of indexes combine."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from lance_spark.index.answer import Answer, beside, both, either, numbers_of, of_numbers, within
from lance_spark.index.row_sets import parse_row_addresses, parse_treemap, serialise_row_addresses, serialise_treemap

A = Answer({0: BitMap([1, 2]), 1: BitMap([5])}, BitMap([0, 1]), BitMap([0, 1]), ("a",))
B = Answer({1: BitMap([5, 6]), 2: BitMap([7])}, BitMap([1, 2]), BitMap([1]), ("b",))


def test_and_keeps_the_rows_of_a_fragment_that_only_one_index_covers_but_checks_them() -> None:
    answer = both(A, B)
    assert answer.rows == {0: BitMap([1, 2]), 1: BitMap([5]), 2: BitMap([7])}
    assert (answer.covered, answer.exact, answer.names) == (BitMap([0, 1, 2]), BitMap([1]), ("a", "b"))


def test_or_knows_only_fragments_that_both_indexes_cover() -> None:
    answer = either(A, B)
    assert (answer.rows, answer.covered, answer.exact) == ({1: BitMap([5, 6])}, BitMap([1]), BitMap([1]))


def test_a_second_index_answers_for_the_fragments_that_the_first_does_not_cover() -> None:
    answer = beside(A, B)
    assert answer.rows == {0: BitMap([1, 2]), 1: BitMap([5]), 2: BitMap([7])}
    assert (answer.covered, answer.exact) == (BitMap([0, 1, 2]), BitMap([0, 1]))


def test_rows_that_do_not_exist_are_dropped() -> None:
    assert within({0: BitMap([1, 9, 10]), 4: BitMap([1])}, {0: 10, 1: 5}) == {0: BitMap([1, 9])}


def test_rows_are_stored_in_both_forms() -> None:
    numbers = np.array([3 << 32 | 7, 1, 3 << 32, 2**64 - 1], dtype=np.uint64)
    rows = of_numbers(numbers)
    assert rows == {0: BitMap([1]), 3: BitMap([0, 7]), 2**32 - 1: BitMap([2**32 - 1])}
    assert numbers_of(rows).tolist() == sorted(numbers.tolist())
    assert parse_row_addresses(serialise_row_addresses(rows), {}, "") == parse_treemap(serialise_treemap(rows), "") == rows


def test_a_size_of_zero_stands_for_all_rows_of_a_fragment() -> None:
    assert parse_row_addresses(bytes([1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]), {4: 3}, "") == {4: BitMap([0, 1, 2])}
