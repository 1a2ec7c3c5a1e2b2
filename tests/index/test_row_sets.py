"""Sets of rows, many at once, are read and written as by another library."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import numbers_of, of_numbers
from lance_spark.index.row_sets import (
    ROW_ADDRESSES,
    TREEMAP,
    Form,
    numbers_in,
    parse_row_addresses,
    parse_treemap,
    serialise_row_addresses,
    serialise_treemap,
    sets_of,
)

FORMS = {"row addresses": ROW_ADDRESSES, "treemap": TREEMAP}


@st.composite
def a_set(draw: st.DrawFn) -> np.ndarray:
    """Numbers in containers of all three kinds."""
    rng = random.Random(draw(st.integers(0, 1 << 30)))
    parts = [np.empty(0, np.uint64)]
    for high in sorted(rng.sample(range(5), rng.randrange(4))):
        for key in sorted(rng.sample([0, 1, 2, 3, 4, 5, 6, 7, 8, 65535], rng.randrange(1, 7))):
            base = (high * 2**32 if high < 4 else 0xFFFFFFFF << 32) + key * 65536
            kind = rng.randrange(4)
            if kind == 0:
                low = np.array(sorted(rng.sample(range(65536), rng.choice([1, 2, 50, 4096]))))
            elif kind == 1:
                low = np.flatnonzero(np.random.default_rng(rng.randrange(99)).random(65536) < 0.4)
            elif kind == 2:
                low = np.arange(rng.choice([0, 7]), rng.choice([8, 9000, 65536]))
            else:
                low = np.flatnonzero(np.arange(65536) % 64 < 40)[: rng.randrange(4000, 5000)]
            parts.append(low.astype(np.uint64) + np.uint64(base))
    return np.concatenate(parts)


def all_sets(sets: list[np.ndarray]) -> pa.LargeListArray:
    return sets_of(np.cumsum([0, *map(len, sets)]), np.concatenate([np.empty(0, np.uint64), *sets]))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(sets=st.lists(a_set(), max_size=5))
def test_sets_are_written_and_read_as_by_another_library(form: Form, sets: list[np.ndarray]) -> None:
    written = form.serialise(all_sets(sets)).to_pylist()
    others = [(serialise_row_addresses if form.sized else serialise_treemap)(of_numbers(numbers)) for numbers in sets]
    assert [len(w) <= len(o) for w, o in zip(written, others)] == [True] * len(sets)
    for numbers, data in zip(sets, written):
        parsed = parse_row_addresses(data, {}, "a set") if form.sized else parse_treemap(data, "a set")
        assert numbers_of(parsed).tolist() == numbers.tolist()
    for data in (written, others):
        for type_ in (pa.binary(), pa.large_binary()):
            read = pa.concat_arrays(list(form.parse(pa.array(data, type_), {}, "a file")) or [all_sets([])])
            assert read.equals(all_sets(sets))


def test_many_sets_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.index.row_sets._PIECE_NUMBERS", 10)
    sets = [np.arange(n, dtype=np.uint64) for n in (4, 5, 3, 0, 0, 40, 1, 10)]
    data = ROW_ADDRESSES.serialise(all_sets(sets)).cast(pa.binary())
    parts = list(ROW_ADDRESSES.parse(data.slice(1), {}, "a file"))
    assert [len(numbers_in(p)) for p in parts] == [8, 40, 1, 10]
    assert pa.concat_arrays(parts).to_pylist() == [s.tolist() for s in sets[1:]]


def test_a_bitmap_of_size_0_has_all_rows_of_its_fragment() -> None:
    data = pa.array([b"\x02\0\0\0" + b"\x07\0\0\0" + b"\0\0\0\0" + b"\x09\0\0\0" + b"\0\0\0\0"])
    (rows,) = ROW_ADDRESSES.parse(data, {3: 2, 7: 3}, "a file")
    assert rows.to_pylist() == [[(7 << 32) + i for i in range(3)]]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_damaged_sets_are_refused_or_are_sets(form: Form) -> None:
    """Any bytes are a set, whose numbers are ascending, or a CorruptFileError."""
    rng = random.Random(3)
    rows = {0: BitMap(range(300)), 4: BitMap([1, 5, 70000]), 9: BitMap(np.flatnonzero(np.arange(65536) % 7 < 3))}
    good = (serialise_row_addresses if form.sized else serialise_treemap)(rows)
    refused = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(60) if rng.random() < 0.7 else rng.randrange(len(data))] = rng.choice([0, 1, 255, rng.randrange(256)])
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        try:
            for sets in form.parse(pa.array([bytes(data)]), {}, "a file"):
                numbers = numbers_in(sets)
                assert (numbers[1:] > numbers[:-1]).all()
        except CorruptFileError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_few_bytes_that_stand_for_too_many_rows_are_refused(form: Form) -> None:
    full = BitMap()
    full.add_range(0, 1 << 32)
    rows = dict.fromkeys(range(3), full)
    many = (
        serialise_row_addresses(rows)
        if form.sized
        else (3).to_bytes(8, "little") + b"".join(number.to_bytes(4, "little") + full.serialize() for number in range(3))
    )
    with pytest.raises(CorruptFileError, match="when decoded"):
        list(form.parse(pa.array([many]), {}, "a file"))
