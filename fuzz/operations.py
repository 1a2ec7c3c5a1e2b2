"""What is done with hostile tables: every public operation of `Dataset`, with arguments that fit whatever table it is.

An operation may refuse (LanceError) or do its work; what must hold of the table afterwards is checked in `fuzz.operate`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pyarrow as pa

from fuzz.read import BATCHES, checked
from lance_spark import Dataset
from lance_spark.inspection.gather import inspect
from lance_spark.inspection.page import as_html
from lance_spark.inspection.tables import as_text
from lance_spark.metadata.operations import Append, UpdateBases, UpdateConfig, UpdateMap
from lance_spark.schema.schema import quoted
from lance_spark.table.write.write import begin_write, write_fragments

Run = Callable[[str, random.Random], object]

NEW_ROWS = 2


@dataclass(frozen=True)
class Operation:
    """What to do with the table at a path. `changes` says whether it may change the table, `rows` what becomes of its rows: "same", "more"
    (`NEW_ROWS` more at the end), or "other".
    """

    run: Run
    changes: bool = True
    rows: str = "same"


def _at(uri: str, rng: random.Random) -> Dataset:
    """The latest version most of the time, or any other."""
    dataset = Dataset.open(uri)
    if rng.random() < 0.7:
        return dataset
    return dataset.checkout_version(rng.choice([v.version for v in dataset.versions()]))


def _column(dataset: Dataset, rng: random.Random) -> str:
    """The path of a column in backticks, whatever its name is."""
    return quoted([rng.choice(dataset.schema.names or ["there is none"])])


def _condition(dataset: Dataset, rng: random.Random) -> str:
    column = _column(dataset, rng)
    # The last ones are what indexes are for; most are refused for the type of the column.
    found = (f"{column} = 7", f"{column} IN (1, 3, 900)", f"{column} > 'b'", f"contains({column}, 'a')", f"array_contains({column}, 'x')")
    return rng.choice((f"{column} IS NULL", f"{column} IS NOT NULL", "_rowaddr > 3", "_rowid < 20", "true", "false", *found))


def _drain(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(checked(batch) for batch in islice(batches, BATCHES))


def _open(uri: str, rng: random.Random) -> None:
    dataset = Dataset.open(uri)
    assert dataset.schema is not None
    assert dataset.count_rows() >= 0
    assert str(dataset)
    assert repr(dataset.versions())
    Dataset.open(uri, timestamp=datetime(2100, 1, 1, tzinfo=UTC))


def _history(uri: str, rng: random.Random) -> None:
    assert repr(Dataset.open(uri).history())


def _refs(uri: str, rng: random.Random) -> None:
    dataset = Dataset.open(uri)
    for tag in dataset.tags.list():
        dataset.tags.get_version(tag)
        Dataset.open(uri, tag=tag)
    for branch in dataset.branches.list():
        dataset.checkout_version((branch, None))


def _scan(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    columns = rng.choice((None, [_column(dataset, rng)], ["_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]))
    limit, offset = rng.choice(((None, 0), (3, 0), (2, 5)))
    scan = dataset.scan(columns, rng.choice((None, _condition(dataset, rng))), limit, offset, with_row_id=rng.random() < 0.3)
    _drain(scan.to_batches())


def _count(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    assert dataset.count_rows() >= 0
    dataset.count_rows(_condition(dataset, rng))


def _take(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    rows = min(dataset.count_rows(), 2**63 - 1)
    dataset.take(sorted({0, rows // 2, rows - 1}) if rows else [])
    with contextlib.suppress(IndexError):  # the last id is that of no row
        dataset.take_rows([0, 3, 2**32 + 1, 2**40])


def _blobs(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    for field in dataset.snapshot.manifest.schema.fields:
        if field.is_blob and dataset.count_rows():
            for blob in dataset.take_blobs(quoted([field.name]), indices=[0]):
                assert blob is None or blob.read(100) is not None


def _verify(uri: str, rng: random.Random) -> None:
    assert str(Dataset.open(uri).verify(decode=rng.random() < 0.5, progress=False))


def _new_rows(dataset: Dataset) -> pa.Table:
    """Two rows for the end of the table: its first ones, or nulls."""
    schema = dataset.schema
    rows = dataset.scan(limit=NEW_ROWS).to_table()
    return rows if rows.num_rows == NEW_ROWS else pa.table([pa.nulls(NEW_ROWS, t) for t in schema.types], schema)


def _append(uri: str, rng: random.Random) -> None:
    Dataset.write(uri, _new_rows(Dataset.open(uri)), "append")


def _overwrite(uri: str, rng: random.Random) -> None:
    Dataset.write(uri, pa.table({"n": [1, 2, 3]}), "overwrite")


def _create(uri: str, rng: random.Random) -> None:
    Dataset.write(uri, pa.table({"n": [1]}), "create")


def _delete(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    dataset.delete(_condition(dataset, rng))


def _add_columns(uri: str, rng: random.Random) -> None:
    _at(uri, rng).add_columns(pa.field("a new column", pa.list_(pa.int8())))


def _compute_columns(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    dataset.add_columns({"computed": rng.choice(("1", "_rowaddr", f"{_column(dataset, rng)} IS NULL"))})


def _update(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    column = _column(dataset, rng)
    dataset.update({column: rng.choice((column, "NULL"))}, rng.choice((None, _condition(dataset, rng))))


def _merge_insert(uri: str, rng: random.Random) -> None:
    dataset = Dataset.open(uri)
    merge = dataset.merge_insert(_column(dataset, rng)).when_matched_update_all().when_not_matched_insert_all()
    if rng.random() < 0.3:
        merge = merge.when_not_matched_by_source_delete()
    merge.execute(_new_rows(dataset))


def _optimize(uri: str, rng: random.Random) -> None:
    Dataset.open(uri).optimize.compact_files(target_rows_per_fragment=rng.choice((10, 1000)), materialize_deletions_threshold=0.0)


def _inspect(uri: str, rng: random.Random) -> None:
    found = inspect(_at(uri, rng).snapshot)
    assert as_text(found)
    assert as_html(found)


def _drop_columns(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    dataset.drop_columns([_column(dataset, rng)])


def _alter_columns(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    change = rng.choice(({"name": "renamed"}, {"nullable": False}, {"nullable": True}))
    dataset.alter_columns({"path": _column(dataset, rng), **change})  # type: ignore[typeddict-item]


def _config(uri: str, rng: random.Random) -> None:
    cleaning = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "2"}
    _at(uri, rng).update_config(rng.choice(({"a": "b"}, {"some": None}, cleaning)), replace=rng.random() < 0.2)


def _restore(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    dataset.scan().to_table()  # a version that cannot be read does not become readable
    dataset.restore()


def _commit_prepared(uri: str, rng: random.Random) -> None:
    """A commit for an old version: every transaction since is read and judged."""
    dataset = Dataset.open(uri)
    old = rng.choice([v.version for v in dataset.versions()])
    target = begin_write(uri, dataset.schema, "append")
    fragments = write_fragments(target, _new_rows(dataset).to_batches())
    Dataset.commit(uri, Append(fragments), old)


def _commit_metadata(uri: str, rng: random.Random) -> None:
    dataset = Dataset.open(uri)
    old = rng.choice([v.version for v in dataset.versions()])
    change = UpdateConfig(table_metadata_updates=UpdateMap({"k": "v"}), schema_metadata_updates=UpdateMap({"k": "v"}))
    Dataset.commit(uri, rng.choice((change, UpdateBases(()))), old)


def _cleanup(uri: str, rng: random.Random) -> None:
    dataset = Dataset.open(uri)
    dataset.cleanup_old_versions(
        timedelta(0),
        rng.choice((None, 1, 3)),
        delete_unverified=rng.random() < 0.5,
        error_if_tagged_old_versions=False,
        dry_run=rng.random() < 0.1,
    )


def _tags(uri: str, rng: random.Random) -> None:
    dataset = _at(uri, rng)
    dataset.tags.create("another")
    dataset.tags.update("another", 1)
    dataset.tags.replace_metadata("another", {"k": "v"})
    dataset.tags.delete("another")
    dataset.tags.delete("first")


def _branch(uri: str, rng: random.Random) -> None:
    branch = _at(uri, rng).create_branch("other")
    Dataset.write(branch.uri, _new_rows(branch), "append")
    Dataset.open(uri, branch="other").count_rows()
    branch.branches.replace_metadata("other", {"k": "v"})
    branch.cleanup_old_versions(timedelta(0))
    branch.branches.delete("other")
    branch.branches.delete("dev")


def _shallow_clone(uri: str, rng: random.Random) -> None:
    clone = _at(uri, rng).shallow_clone(str(Path(uri).parent / "clone.lance"))
    _drain(clone.scan().to_batches())
    Dataset.write(clone.uri, _new_rows(clone), "append")


def _deep_clone(uri: str, rng: random.Random) -> None:
    clone = _at(uri, rng).deep_clone(str(Path(uri).parent / "clone.lance"))
    _drain(clone.scan().to_batches())


OPERATIONS: dict[str, Operation] = {
    "open": Operation(_open, changes=False),
    "history": Operation(_history, changes=False),
    "refs": Operation(_refs, changes=False),
    "scan": Operation(_scan, changes=False),
    "count": Operation(_count, changes=False),
    "take": Operation(_take, changes=False),
    "blobs": Operation(_blobs, changes=False),
    "verify": Operation(_verify, changes=False),
    "inspect": Operation(_inspect, changes=False),
    "append": Operation(_append, rows="more"),
    "overwrite": Operation(_overwrite, rows="other"),
    "create": Operation(_create, rows="other"),
    "delete": Operation(_delete, rows="other"),
    "add_columns": Operation(_add_columns),
    "compute_columns": Operation(_compute_columns),
    "update": Operation(_update),
    "merge_insert": Operation(_merge_insert, rows="other"),
    "optimize": Operation(_optimize),
    "drop_columns": Operation(_drop_columns),
    "alter_columns": Operation(_alter_columns),
    "config": Operation(_config),
    "restore": Operation(_restore, rows="other"),
    "commit": Operation(_commit_prepared, rows="more"),
    "commit_metadata": Operation(_commit_metadata),
    "cleanup": Operation(_cleanup),
    "tags": Operation(_tags),
    "branch": Operation(_branch),
    "shallow_clone": Operation(_shallow_clone),
    "deep_clone": Operation(_deep_clone),
}
