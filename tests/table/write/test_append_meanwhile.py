"""Rows that are appended while another client changes the columns get to the right columns, whole."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import CommitConflictError, SchemaMismatchError
from lance_spark.storage.store import Store
from lance_spark.table.write import write
from lance_spark.table.write.options import WriteOptions
from tests.table.interleaving import interrupted_everywhere

OLD, NEW = pa.table({"k": [1, 2], "x": [10, 20]}), pa.table({"k": [3], "x": [30]})


def _dropped_and_added(uri: str) -> None:
    ds = lance.dataset(uri)
    ds.drop_columns(["x"])
    ds.add_columns(pa.field("age", pa.int64()))


@pytest.mark.matrix
@pytest.mark.parametrize("options", [WriteOptions(), WriteOptions(merge_schema=True)])
@pytest.mark.parametrize("type", [pa.int32(), pa.int16()])
def test_values_survive_a_change_of_the_type_at_any_moment(tmp_path: Path, type: pa.DataType, options: WriteOptions) -> None:
    uri = str(tmp_path / "t")

    def prepare() -> None:
        shutil.rmtree(uri, ignore_errors=True)
        Dataset.write(uri, OLD)

    def retype() -> None:
        lance.dataset(uri).alter_columns({"path": "x", "data_type": type})

    def append(opened: Callable[[str], Store]) -> None:
        write.write(opened(uri), NEW, "append", options)

    for _ in interrupted_everywhere(append, prepare, retype):
        table = lance.dataset(uri).to_table()
        assert table.schema.field("x").type == type
        assert sorted(table["x"].to_pylist()) == [10, 20, 30]


def test_values_do_not_get_to_a_new_column_with_the_same_id(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")

    def prepare() -> None:
        shutil.rmtree(uri, ignore_errors=True)
        lance.write_dataset(OLD.select(["k"]), uri)
        lance.dataset(uri).add_columns({"x": "k * 10"})

    def append(opened: Callable[[str], Store]) -> None:
        # The table lacks x if the columns change before the append.
        with contextlib.suppress(SchemaMismatchError):
            write.write(opened(uri), NEW, "append")

    for _ in interrupted_everywhere(append, prepare, lambda: _dropped_and_added(uri)):
        assert set(lance.dataset(uri).to_table()["age"].to_pylist()) == {None}


def test_rows_of_a_stream_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, OLD)
    target = write.begin_write(uri, NEW.schema, "append")
    fragments = write.write_fragments(target, NEW.to_batches())
    lance.dataset(uri).alter_columns({"path": "x", "data_type": pa.int32()})
    with pytest.raises(CommitConflictError, match="they drop a column that we write, or change its type") as e:
        write.commit_write(target, fragments)
    assert e.value.retryable
    assert Dataset.open(uri).count_rows() == 2
