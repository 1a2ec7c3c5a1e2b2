"""Indexes by pylance on columns in every stored form of their type: dictionaries, large and view types, nested values."""

from __future__ import annotations

import logging
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset

COUNT = 300
TEXTS = [None if i % 13 == 0 else ("", "x", "xa", "xé", "Xb", "y%", "y_1", "z" * 30)[i // 10 % 8] for i in range(COUNT)]
NUMBERS = [None if i % 13 == 0 else i // 3 - 10 for i in range(COUNT)]
BYTES = [None if t is None else t.encode() for t in TEXTS]

OF_TEXT = (
    *("{c} = 'xa'", "{c} > 'xa'", "{c} LIKE 'x%'", "{c} LIKE 'x'", "{c} LIKE 'y\\%'", "{c} NOT LIKE 'x%'", "{c} RLIKE '^x'"),
    *("startswith({c}, 'x')", "endswith({c}, 'a')", "contains({c}, 'zzz')", "{c} IN ('x', 'xa', NULL)", "{c} BETWEEN 'x' AND 'y'"),
    *("lower({c}) = 'xb'", "{c} <=> 'x'", "length({c}) > 2"),
)
OF_BYTES = ("{c} = X'7861'", "{c} > X'78'", "{c} IN (X'78', X'7861')", "{c} <> X'78'")
OF_NUMBERS = ("{c} = 5", "{c} > 5", "{c} NOT IN (3, 4)", "{c} BETWEEN 1 AND 9", "{c} + 1 = 6", "{c} = 5.0", "{c} <=> 4")
FORMS: dict[str, tuple[pa.Array, tuple[str, ...]]] = {
    "dictionary of strings": (pa.array(TEXTS).dictionary_encode(), OF_TEXT),
    "dictionary of large strings": (pa.array(TEXTS, pa.large_string()).dictionary_encode(), OF_TEXT),
    "dictionary of bytes": (pa.array(BYTES).dictionary_encode(), OF_BYTES),
    "dictionary of integers": (pa.array(NUMBERS).dictionary_encode(), OF_NUMBERS),
    "large strings": (pa.array(TEXTS, pa.large_string()), OF_TEXT),
    "views of strings": (pa.array(TEXTS, pa.string_view()), OF_TEXT),
    "large bytes": (pa.array(BYTES, pa.large_binary()), OF_BYTES),
    "decimals": (pa.array([None if n is None else Decimal(n) for n in NUMBERS], pa.decimal128(9, 2)), OF_NUMBERS),
    "halves": (pa.array(NUMBERS, pa.float16()), OF_NUMBERS),
    "booleans": (pa.array([None if n is None else n > 5 for n in NUMBERS]), ("{c}", "NOT {c}", "{c} IN (true)", "{c} > false")),
    "vectors": (pa.array([None if n is None else [n, n] for n in NUMBERS], pa.list_(pa.float32(), 2)), ()),
    "lists": (pa.array([None if t is None else [t, "q"] for t in TEXTS]), ("array_contains({c}, 'x')",)),
    "lists of dictionaries": (
        pa.ListArray.from_arrays(pa.array(range(COUNT + 1)), pa.array(TEXTS).dictionary_encode()),
        ("array_contains({c}, 'x')", "arrays_overlap({c}, array('x', 'xa'))"),
    ),
    "structs": (pa.array([None if t is None else {"a": t} for t in TEXTS]), ("{c}.a = 'x'", "{c}.a LIKE 'x%'")),
}
KINDS = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "NGRAM", "LABEL_LIST")


@pytest.mark.parametrize("form", FORMS)
def test_every_condition_finds_the_rows_of_a_scan_and_uses_each_index(form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    values, conditions = FORMS[form]
    used = []
    for kind in KINDS:
        uri = str(tmp_path / kind)
        lance.write_dataset(pa.table({"id": range(COUNT), "c": values}), uri, max_rows_per_file=100)
        try:
            lance.dataset(uri).create_scalar_index("c", kind)
        except (OSError, TypeError, ValueError, NotImplementedError):
            continue  # pylance does not make such an index
        table = Dataset.open(uri)
        for condition in (*conditions, "{c} IS NULL", "{c} IS NOT NULL"):
            text = condition.format(c="c")
            with_index, without = (table.scan(["id"], filter=text, use_scalar_index=on).to_table() for on in (True, False))
            assert with_index == without, (kind, text)
        used.append("indexes: none" not in table.scan(filter="c IS NULL").explain())
        assert table.verify().ok, kind
    assert any(used)
    assert not [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP"])
def test_like_without_wildcards_finds_a_page_of_that_text_alone(kind: str, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"c": ["abc"] * 3}), tmp_path).create_scalar_index("c", kind)
    assert Dataset.open(str(tmp_path)).scan(filter="c LIKE 'abc'").to_table().num_rows == 3
