"""Finding the rows of a table that a merge may match, before Spark joins them with the source.

A join would move all rows of the table. If the condition demands that columns are equal and the source has few keys, tasks look
for the keys in these columns, without Spark, and Spark joins only the rows that have one of them. What is found may
contain other rows, but no matching row is missing, so the join decides as it would for the whole table.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from lance_spark.metadata.bitmaps import bitmap_of, offsets_of
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.inserted_keys import names_column
from lance_spark.metadata.locations import Locations
from lance_spark.metadata.row_address import by_fragment
from lance_spark.schema.schema import Schema, quoted
from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import promised, to_spark
from lance_spark.spark.workers.import_cache import start_task
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.key_hash import KeySet, key_hashes
from lance_spark.table.scan.parts import Part, all_live_rows
from lance_spark.table.scan.plan import BATCH_ROWS, ScanPlan, plan_tasks, row_bytes
from lance_spark.table.scan.projection import Projection
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.verbs.condition import Condition
from lance_spark.verbs.job import nearby
from lance_spark.verbs.target import Target

if TYPE_CHECKING:
    from sqlglot import exp

MIN_ROWS = 1 << 20
"""Smaller tables are joined at once, which takes less time than looking for keys."""

MAX_KEYS = 8 << 20
"""The most keys that are looked for: they are in the memory of the driver and of each worker, 8 bytes each."""

_CHUNK_KEYS, _MAX_CHUNKS = 128 << 10, 128
_GROUPS_PER_CORE = 2
_MOST = 4
"""If more than one of so many rows may match, all rows are joined."""

_BROADCAST_BYTES = 64 << 20
_DECODED, _ROW_BYTES = 4, 32
"""Rows in memory are assumed to have so many times their bytes in files, and some more."""

_WIDENED = {**dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"), **dict.fromkeys(("float", "double"), "float")}
_COMPARABLE = {"boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"}


_STAR = re.compile(r"(^|[.(,])\s*\*|\bidentifier\b", re.IGNORECASE)
"""What may name columns without their names: `*`, and IDENTIFIER('text')."""


def used_columns(schema: Schema, texts: Sequence[Condition]) -> tuple[str, ...] | None:
    """The columns that expressions in SQL may use, since their names occur in them; None if that is unknown or they cannot be read early.

    Spark reads only the columns that it needs, while a column in the result is read. Spark may refuse its values, if it has nanoseconds.
    """
    if not all(isinstance(text, str) and not _STAR.search(text) for text in texts):
        return None
    whole = "\n".join(map(str, texts))
    found = [f for f in schema.fields if not re.fullmatch(r"\w+", f.name, re.ASCII) or names_column(whole, f.name)]
    late = any(f.is_blob or getattr(f.type, "unit", None) == "ns" for f in Schema(tuple(found)).walk())
    return None if late else tuple(f.name for f in found)


def matching_rows(
    target: Target, source: DataFrame, condition: Condition, snapshot: Snapshot, names: Sequence[str], stack: ExitStack
) -> DataFrame | None:
    """The rows of the table that may match a row of the source, with the columns `names`; None if it is better to join all rows.

    The source is evaluated twice, so it is cached until `stack` is closed: its rows must be the same in the join.
    """
    total = int(all_live_rows(snapshot).sum())
    if total < MIN_ROWS:
        return None
    columns = equal_columns(condition, target.alias, to_spark(ScanPlan().schema(snapshot)), source.schema)
    if columns is None:
        return None
    with ExitStack() as own:
        if source.storageLevel == StorageLevel.NONE:
            source.persist()
            own.callback(source.unpersist)
        keys = keys_of(source, columns.source)
        if keys is None:
            return None
        stack.push(own.pop_all())
    found = rows_with_keys(target, snapshot, columns.target, keys)
    few = sum(map(len, found.values())) * _MOST <= total
    return frame_of(target, snapshot, found, names) if few else None


@dataclass(frozen=True)
class Keys:
    """Columns that a condition demands to be equal: names of columns of the table, and of the source."""

    target: tuple[str, ...]
    source: tuple[str, ...]


def equal_columns(condition: Condition, alias: str | None, table: StructType, source: StructType) -> Keys | None:
    """The columns of both sides that are equal where `condition` is true, if there are some that `key_hashes` supports.

    `table` and `source` are their schemas. Only conditions as text can be analysed.
    """
    # The parser takes long to load, and workers load this module without it.
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if not isinstance(condition, str):
        return None
    try:
        tree = sqlglot.parse_one(condition, dialect="spark")
    except SqlglotError:
        return None
    found: dict[str, str] = {}
    for term in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        term = term.unnest()
        sides = (term.left, term.right) if isinstance(term, exp.EQ) else ()
        columns = {kind: f for side in sides if isinstance(side, exp.Column) for kind, f in _resolved(side, alias, table, source)}
        if len(columns) == 2 and _kind(columns["table"]) == _kind(columns["source"]) is not None:
            found[columns["table"].name] = columns["source"].name
    return Keys(tuple(found), tuple(found.values())) if found else None


def _resolved(column: exp.Column, alias: str | None, table: StructType, source: StructType) -> Iterator[tuple[str, StructField]]:
    """The side of a column and its field, unless it is a field of a struct or may be on either side."""
    *qualifiers, name = (part.name.lower() for part in column.parts)
    own, others = ([f for f in side if f.name.lower() == name] for side in (table, source))
    if not qualifiers:
        own, others = ([] if others else own), ([] if own else others)
    elif alias is not None and qualifiers == [alias.lower()]:
        others = []
    elif len(qualifiers) == 1 and qualifiers[0] not in {f.name.lower() for f in (*table, *source)}:
        # This must be an alias in the source; if not, the join reports it.
        own = []
    else:
        return
    if len(own) + len(others) == 1:
        yield ("table", own[0]) if own else ("source", others[0])


def _kind(field: StructField) -> str | None:
    """What the values of a column can be compared with; None if `key_hashes` does not support them."""
    text = field.dataType.simpleString()
    return _WIDENED.get(text, text if text in _COMPARABLE or text.startswith("decimal(") else None)


def keys_of(source: DataFrame, names: Sequence[str]) -> KeySet | None:
    """The keys in these columns of the source; None if there are more than `MAX_KEYS`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start_task()
        chunks: list[np.ndarray] = []
        for batch in batches:
            hashes, valid = key_hashes(batch.columns)
            chunks.append(hashes if valid is None else hashes[valid])
            if sum(map(len, chunks)) >= _CHUNK_KEYS:
                yield _chunk(chunks)
                chunks = []
        if chunks:
            yield _chunk(chunks)

    # mapInArrow takes names with dots or backticks as paths.
    plain_names = [f"c{i}" for i in range(len(names))]
    columns = source.select(*(quoted([name]) for name in names)).toDF(*plain_names)
    chunks = columns.mapInArrow(work, "keys binary")
    # A limit reads partitions step by step, and stops where there are too many keys.
    rows = chunks.limit(_MAX_CHUNKS + 1).collect()
    found = [np.frombuffer(row[0], np.uint64) for row in rows]
    hashes = np.unique(np.concatenate([np.empty(0, np.uint64), *found]))
    return KeySet(hashes) if len(rows) <= _MAX_CHUNKS and len(hashes) <= MAX_KEYS else None


def _chunk(hashes: Sequence[np.ndarray]) -> pa.RecordBatch:
    distinct = np.unique(np.concatenate(hashes))
    return pa.RecordBatch.from_arrays([pa.array([distinct.tobytes()], pa.binary())], names=["keys"])


Found = dict[int, bytes]
"""Rows of a table: portable roaring bitmaps of their offsets, by fragment id."""


@dataclass(frozen=True)
class _Find:
    """A function that finds the rows of a task's scan, whose last column is `ROW_ADDRESS`, that may have one of the keys."""

    keys: KeySet
    conversion: Conversion

    def __call__(self, task: ScanTask) -> Found:
        found: dict[int, BitMap] = {}
        for batch in task.read():
            rows, _ = self.keys.find(self.conversion.apply(batch).columns)
            for fragment_id, offsets in by_fragment(batch.column(ROW_ADDRESS).to_numpy()[rows]) if len(rows) else ():
                found[fragment_id] = found.get(fragment_id, BitMap()) | bitmap_of(offsets)
        return {fragment_id: bytes(rows.serialize()) for fragment_id, rows in found.items()}


def rows_with_keys(target: Target, snapshot: Snapshot, names: Sequence[str], keys: KeySet) -> dict[int, BitMap]:
    """The offsets of the rows, by fragment id, that may have one of the keys in these columns."""
    if not len(keys.hashes):
        return {}
    columns = tuple(quoted([name]) for name in names)
    plan = ScanPlan(columns=columns, with_row_address=True)
    conversion = Conversion(promised(to_spark(ScanPlan(columns=columns).schema(snapshot))))
    runner = nearby(target.spark, target.cores())
    tasks = [task for task in plan_tasks(snapshot, plan, runner.cores) if task.parts]
    found: dict[int, BitMap] = {}
    for part in runner.run(tasks, _Find(keys, conversion)):
        for fragment_id, data in part.items():
            found[fragment_id] = found.get(fragment_id, BitMap()) | BitMap.deserialize(data)
    return found


def frame_of(target: Target, snapshot: Snapshot, found: Mapping[int, BitMap], names: Sequence[str]) -> DataFrame:
    """The rows with these offsets, as `Target.rows` returns them, but only with the columns `names` and the row address.

    Spark is told to broadcast them in a join if they are few.
    """
    schema = snapshot.manifest.schema
    plan = ScanPlan(columns=tuple(quoted([f.name]) for f in schema.fields if f.name in names), with_row_address=True)
    shown = to_spark(plan.schema(snapshot))
    if not found:
        return _aliased(target.spark.createDataFrame([], shown), target)
    fields, stable = plan.fields(snapshot), snapshot.manifest.has_stable_row_ids
    parts = []
    for fragment in snapshot.manifest.lazy_fragments.of_ids(found).values():
        offsets = bytes(found[fragment.id].serialize())
        parts.append(_Rows(fragment, snapshot.locations, stable, fields, offsets))
    data = [pickle.dumps(part) for part in parts]
    conversion = Conversion(promised(shown))

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start_task()
        for batch in batches:
            for i in batch.column(0).to_pylist():
                yield from (conversion.apply(rows) for rows in pickle.loads(data[i]).read())

    numbers = target.spark.range(0, len(data), 1, min(len(data), target.cores() * _GROUPS_PER_CORE))
    size = sum(len(found[part.fragment.id]) * _width(part.fragment, part.fields) for part in parts)
    # Spark cannot know how many rows there are. Its default would be to broadcast them.
    hint = "broadcast" if size <= _BROADCAST_BYTES else "merge"
    return _aliased(numbers.mapInArrow(work, shown).hint(hint), target)


def _width(fragment: Fragment, fields: Schema) -> float:
    """The estimated bytes of a row in memory."""
    return _ROW_BYTES + _DECODED * float(row_bytes([Part(fragment, 0, fragment.physical_rows)], fields)[0])


def _aliased(df: DataFrame, target: Target) -> DataFrame:
    return df.alias(target.alias) if target.alias else df


@dataclass(frozen=True)
class _Rows:
    """Rows of a fragment that are not deleted: `rows` is a portable roaring bitmap of their offsets."""

    fragment: Fragment
    locations: Locations
    stable_row_ids: bool
    fields: Schema
    rows: bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        """The columns `fields` of the rows."""
        offsets = offsets_of(BitMap.deserialize(self.rows)).astype(np.int64)
        positions = offsets - np.searchsorted(read_deletions(self.fragment, self.locations), offsets)
        reader = FragmentReader(self.fragment, self.locations, self.stable_row_ids)
        yield from reader.read(positions, Projection(self.fields), BATCH_ROWS)
