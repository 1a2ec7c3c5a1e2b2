"""Operations on spans match the same operations on rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.reading import spans as sp

ROWS = st.sets(st.integers(0, 60)).map(lambda rows: np.array(sorted(rows), dtype=np.int64))


def rows_of(spans: sp.Spans) -> list[int]:
    return [row for start, stop in spans.tolist() for row in range(start, stop)]


@given(ROWS)
def test_spans_hold_the_rows_and_do_not_touch(rows: np.ndarray) -> None:
    spans = sp.from_rows(rows)
    assert rows_of(spans) == rows.tolist()
    assert sp.count(spans) == len(rows)
    assert (spans[1:, 0] > spans[:-1, 1]).all()


@given(st.integers(0, 9), st.integers(0, 9))
def test_a_range_is_one_span(start: int, length: int) -> None:
    assert rows_of(sp.from_rows(range(start, start + length))) == list(range(start, start + length))
    assert rows_of(sp.all_rows(length)) == list(range(length))


@given(ROWS, st.integers(0, 9))
def test_merged_spans_hold_all_rows_and_close_gaps_up_to_the_limit(rows: np.ndarray, gap: int) -> None:
    spans = sp.from_rows(rows)
    merged = sp.merged(spans, gap)
    assert set(rows_of(merged)) >= set(rows.tolist())
    assert (merged[1:, 0] - merged[:-1, 1] > gap).all()
    assert [rows_of(merged)[i] for i in sp.positions(spans, merged)] == rows.tolist()


@given(ROWS, st.integers(0, 3), st.integers(0, 3))
def test_wider_spans_hold_the_neighbours(rows: np.ndarray, before: int, behind: int) -> None:
    wider = sp.merged(sp.wider(sp.from_rows(rows), before, behind), 0)
    neighbours = {r + d for r in rows.tolist() for d in range(-before, behind + 1)}
    assert rows_of(wider) == sorted(n for n in neighbours if n >= 0)


@given(ROWS, st.integers(0, 60), st.integers(0, 60))
def test_a_cut_holds_the_rows_between_and_counts_from_its_start(rows: np.ndarray, start: int, length: int) -> None:
    cut = sp.cut(sp.from_rows(rows), start, start + length)
    assert rows_of(cut) == [r - start for r in rows.tolist() if start <= r < start + length]


@given(ROWS, st.integers(0, 9))
def test_spans_within_others_have_the_positions_of_their_rows(rows: np.ndarray, gap: int) -> None:
    spans = sp.from_rows(rows)
    merged = sp.merged(spans, gap)
    assert rows_of(sp.within(spans, merged)) == sp.positions(spans, merged).tolist()
    assert sp.rows(spans).tolist() == rows.tolist()


@given(ROWS, ROWS)
def test_rows_in_both_selections(a: np.ndarray, b: np.ndarray) -> None:
    assert rows_of(sp.both(sp.from_rows(a), sp.from_rows(b))) == sorted(set(a.tolist()) & set(b.tolist()))
