"""The procedures of the SQL catalog, CALL lance.system.<name>(..): one row of `PROCEDURES` each.

Names and arguments are those of `LanceTable` in snake_case. `table` is a name as in SQL, or a path. Types are Spark's, as in DDL.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from lance_spark.dataset import Dataset
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.inspection.metadata_tables import METADATA_TABLES
from lance_spark.options.field import options_of
from lance_spark.predicate import parse
from lance_spark.spark.catalog.definition import shown_properties
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.changes import alter
from lance_spark.table.changes.merge.log import merge_log
from lance_spark.table.changes.update import rows_by_fragment
from lance_spark.table.compaction import cluster
from lance_spark.table.compaction.clustered import CONFIG, Clustering
from lance_spark.table.compaction.compaction import CompactionOptions
from lance_spark.table.compaction.optimize import STAGES as COMPACTION_STAGES
from lance_spark.table.compaction.optimize import commit_tasks, run_task, stage_tasks
from lance_spark.table.indexes import create, stages
from lance_spark.table.indexes.create import NewIndex, commit_created
from lance_spark.table.indexes.describe import index_statistics, list_indices
from lance_spark.table.indexes.optimize import STAGES, Optimization, commit_optimized
from lance_spark.table.indexes.segment import attempted
from lance_spark.table.maintenance.cleanup import DEFAULT_AGE, CleanupPolicy, cleanup_old_versions
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.consumers import Consumers
from lance_spark.table.versions.history import versions
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot, to_datetime
from lance_spark.table.versions.tags_and_branches import Reference, resolve
from lance_spark.table.write.options import NOTED, WriteOptions

Rows = Iterable[Sequence[Any]]
Results = Sequence[Sequence[Any]]
"""The results of each stage of a job so far."""
_NOTED = {field: "bigint" if options_of(WriteOptions)[field].kind == "count" else "string" for field in NOTED.values()}


@dataclass(frozen=True)
class Stage:
    """Tasks of a job, and the function of a task. `tasks` takes the version, the results of the stages before, and the arguments."""

    tasks: Callable[..., Sequence[Any]]
    run: Callable[[Any], Any]


@dataclass(frozen=True)
class Job:
    """The part of a procedure that runs on executors. `commit` takes what `Stage.tasks` takes, with the results of all stages."""

    stages: tuple[Stage, ...]
    commit: Callable[..., Rows]


@dataclass(frozen=True)
class Procedure:
    """A procedure: the columns of its result, its parameters after `table`, and the function that returns its rows, or its job.

    Only the first `required` parameters have no default.
    """

    columns: str
    work: Callable[..., Rows] | Job
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    required: int = 0


def _reference(version: str | None) -> Reference | None:
    """A version number or the name of a tag."""
    return int(version) if version is not None and version.isdecimal() else version


def _clustering(snapshot: Snapshot, given: dict[str, Any]) -> tuple[Clustering, WriteOptions]:
    noted = WriteOptions(**{name: given.pop(name) for name in _NOTED if name in given})
    chosen = _chosen(snapshot, given.pop("where", None))
    return Clustering(tuple(given.pop("columns", ())), fragments=chosen, **given), noted


def _clustering_stage(number: int) -> Stage:
    tasks, run = cluster.STAGES[number]
    return Stage(lambda snapshot, before, **given: tasks(snapshot, _clustering(snapshot, given)[0], _SEGMENTS, before), run)


def _commit_clustering(snapshot: Snapshot, done: Results, **given: Any) -> Rows:
    how, noted = _clustering(snapshot, given)
    m = cluster.commit_clustered(Here(), snapshot, how, done, noted)
    return [(m.version, m.fragments_removed, m.fragments_added, m.rows)]


def _noted(given: Mapping[str, Any]) -> WriteOptions:
    return WriteOptions(**given)


def _compaction_options(given: dict[str, Any]) -> tuple[CompactionOptions, str | None, WriteOptions]:
    noted = WriteOptions(**{name: given.pop(name) for name in _NOTED if name in given})
    where = given.pop("where", None)
    return CompactionOptions(**given), where, noted


def _chosen(snapshot: Snapshot, where: str | None) -> frozenset[int] | None:
    return None if where is None else frozenset(rows_by_fragment(Here(), snapshot, parse(where, snapshot.manifest.schema)))


def compaction(number: int) -> Stage:
    """A stage of `compact`, of `COMPACTION_STAGES`."""

    def tasks(snapshot: Snapshot, before: Results, **given: Any) -> Sequence[Any]:
        options, where, noted = _compaction_options(given)
        return stage_tasks(number, snapshot, _chosen(snapshot, where), options, noted, _SEGMENTS, before)

    return Stage(tasks, run_task)


def commit_compaction(snapshot: Snapshot, done: Results, **given: Any) -> Rows:
    """The row of `compact`."""
    options, where, noted = _compaction_options(given)
    m = commit_tasks(snapshot, _chosen(snapshot, where), done, options, noted)
    figures = (m.fragments_removed, m.fragments_added, m.files_removed, m.files_added)
    return [(m.version, *figures, m.conflicts, list(m.left_out))]


def clean_up(
    snapshot: Snapshot,
    older_than: int | None = None,
    retain_versions: int | None = None,
    dry_run: bool = False,
    before_version: int | None = None,
    before_timestamp: int | None = None,
    delete_unverified: bool = False,
    error_if_tagged_old_versions: bool = True,
) -> Rows:
    """The row of `cleanup`."""
    is_before = before_version is not None or before_timestamp is not None
    age = None if older_than is None else timedelta(microseconds=older_than)
    if age is None and retain_versions is None and not is_before:
        age = DEFAULT_AGE
    policy = CleanupPolicy(age, retain_versions, delete_unverified, error_if_tagged_old_versions, None, dry_run)
    s = cleanup_old_versions(snapshot, policy, oldest_kept=_oldest_kept(snapshot, before_version, before_timestamp) if is_before else None)
    files = (s.data_files_removed, s.transaction_files_removed, s.index_files_removed, s.deletion_files_removed)
    return [(s.bytes_removed, s.old_versions, *files, list(s.files))]


def _oldest_kept(snapshot: Snapshot, version: int | None, timestamp: int | None) -> int:
    """The oldest version that is not before this version or time, in microseconds since 1970."""
    later = [v.version for v in versions(snapshot.store) if timestamp is not None and micros(v.timestamp) >= timestamp]
    limits: list[int] = [snapshot.version, *(() if version is None else (version,)), *later[:1]]
    return min(limits)


def restore(snapshot: Snapshot, version: str | None = None, timestamp: int | None = None, **noted: Any) -> Rows:
    """The row of `restore`."""
    if version is None and timestamp is None:
        raise InvalidOptionError("restore needs either version (a number or a tag) or timestamp")
    return [(alter.restore(_old(snapshot, version, timestamp), _noted(noted).noted).version,)]


def _old(snapshot: Snapshot, version: str | None, timestamp: int | None) -> Snapshot:
    """A version, or the latest one at a time in microseconds since 1970; without both, `snapshot`."""
    if version is not None and timestamp is not None:
        raise InvalidOptionError("give either version (a number or a tag) or timestamp, not both")
    if timestamp is None:
        return resolve(snapshot, _reference(version))
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=timestamp)
    except OverflowError as e:
        raise InvalidOptionError("the timestamp must be in the years 1 to 9999") from e
    return open_snapshot(snapshot.store, timestamp=moment, allow_other_stores=snapshot.allow_other_stores)


def _create_tag(snapshot: Snapshot, name: str, version: str | None = None, if_not_exists: bool = False, or_replace: bool = False) -> Rows:
    exists = (if_not_exists or or_replace) and name in Dataset(snapshot).tags.list()
    if exists and or_replace:
        return _update_tag(snapshot, name, version)
    if not exists:
        Dataset(snapshot).tags.create(name, _reference(version))
    return [(name, Dataset(snapshot).tags.get_version(name))]


def _update_tag(snapshot: Snapshot, name: str, version: str | None = None) -> Rows:
    Dataset(snapshot).tags.update(name, _reference(version))
    return [(name, Dataset(snapshot).tags.get_version(name))]


def _delete_tag(snapshot: Snapshot, name: str, if_exists: bool = False) -> Rows:
    if not if_exists or name in Dataset(snapshot).tags.list():
        Dataset(snapshot).tags.delete(name)
    return [(name,)]


def _consumers(snapshot: Snapshot) -> Rows:
    def since_1970(moment: datetime | None) -> int | None:
        return None if moment is None else micros(moment)

    return [(c.id, c.branch, c.version, c.lag, since_1970(c.updated_at), since_1970(c.expires_at)) for c in Consumers(snapshot).list()]


def _drop_consumer(snapshot: Snapshot, id: str) -> Rows:
    Consumers(snapshot).drop(id)
    return [(id,)]


def _create_branch(
    snapshot: Snapshot, name: str, version: str | None = None, if_not_exists: bool = False, or_replace: bool = False
) -> Rows:
    exists = (if_not_exists or or_replace) and name in Dataset(snapshot).branches.list()
    if exists and or_replace:
        if resolve(snapshot, _reference(version)).store.uri != snapshot.root.uri:
            raise UnsupportedFeatureError(f"the branch {name!r} can be replaced only by a version of the main branch")
        Dataset(snapshot).branches.delete(name)
    elif exists:
        return [(name, open_snapshot(snapshot.root, branch=name, allow_other_stores=snapshot.allow_other_stores).version)]
    return [(name, Dataset(snapshot).create_branch(name, _reference(version)).version)]


def _delete_branch(snapshot: Snapshot, name: str, if_exists: bool = False) -> Rows:
    if not if_exists or name in Dataset(snapshot).branches.list():
        Dataset(snapshot).branches.delete(name)
    return [(name,)]


def _rows_of(name: str) -> Callable[[Snapshot], Rows]:
    """The rows of a metadata table, with times in microseconds since 1970."""
    table = METADATA_TABLES[name]
    return lambda snapshot: [[micros(v) if isinstance(v, datetime) else v for v in row] for row in table.rows(snapshot)]


def _history(snapshot: Snapshot, limit: int | None = None) -> Rows:
    return [(e.version, micros(e.timestamp), e.operation, e.message, dict(e.properties)) for e in Dataset(snapshot).history(limit)]


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


def _detail(snapshot: Snapshot) -> Rows:
    manifest = snapshot.manifest
    files = [file for fragment in manifest.fragments for file in fragment.files]
    modified, size = micros(to_datetime(manifest.timestamp)), sum(file.size or 0 for file in files)
    columns = json.loads(manifest.config.get(CONFIG, "{}")).get("columns", [])
    figures = (len(files), size, manifest.num_rows, snapshot.version)
    yield ("lance", snapshot.root.uri, modified, [], columns, *figures, shown_properties(manifest.config))


def _verify(snapshot: Snapshot, decode: bool = True) -> Rows:
    report = Dataset(snapshot).verify(decode, progress=False)
    problems = [f"{p.kind}: {p.path}: {p.message}" for p in report.problems]
    return [(report.version, report.files, report.ok, problems, list(report.orphans))]


def _merge_mem_wal(snapshot: Snapshot, **noted: Any) -> Rows:
    for done in merge_log(snapshot, _noted(noted), Here()):
        changes = done.changes
        yield (changes.version, done.shard, done.generation, changes.num_updated_rows, changes.num_inserted_rows, changes.num_deleted_rows)


def _set_primary_key(snapshot: Snapshot, columns: Sequence[str], **noted: Any) -> Rows:
    return [(alter.set_primary_key(snapshot, columns, _noted(noted).noted).version,)]


def _set_not_null(snapshot: Snapshot, columns: Sequence[str], **noted: Any) -> Rows:
    return [(alter.alter_columns(snapshot, [{"path": c, "nullable": False} for c in columns], _noted(noted)).version,)]


def _add_constraint(snapshot: Snapshot, name: str, condition: str, **noted: Any) -> Rows:
    return [(alter.add_constraint(snapshot, name, condition, _noted(noted).noted).version,)]


def _drop_constraint(snapshot: Snapshot, name: str, if_exists: bool = False, **noted: Any) -> Rows:
    return [(alter.drop_constraint(snapshot, name, if_exists, _noted(noted).noted).version,)]


def _shallow_clone(snapshot: Snapshot, path: str, version: str | None = None, timestamp: int | None = None) -> Rows:
    clone = Dataset(_old(snapshot, version, timestamp)).shallow_clone(path)
    return [(clone.uri, clone.version)]


def _deep_clone(snapshot: Snapshot, path: str, version: str | None = None, timestamp: int | None = None) -> Rows:
    clone = Dataset(_old(snapshot, version, timestamp)).deep_clone(path, progress=False)
    return [(clone.uri, clone.version)]


_INDEX = {
    **{
        "name": "string",
        "replace": "boolean",
        "train": "boolean",
        "rows_per_zone": "bigint",
        "number_of_items": "bigint",
        "probability": "double",
    },
    **{"path": "string", "target_index_type": "string", "metric": "string"},
    **{"base_tokenizer": "string", "language": "string", "with_position": "boolean", "max_token_length": "bigint", "block_size": "bigint"},
    **dict.fromkeys(("lower_case", "stem", "remove_stop_words", "ascii_folding", "prefix_only"), "boolean"),
    **{"custom_stop_words": "array<string>", "min_ngram_length": "bigint", "max_ngram_length": "bigint"},
    **dict.fromkeys(("split_identifiers", "split_on_numerics", "preserve_original", "index_operators"), "boolean"),
    **dict.fromkeys(("num_partitions", "target_partition_size", "sample_rate", "max_iters", "num_sub_vectors", "num_bits"), "bigint"),
    **dict.fromkeys(("m", "ef_construction", "max_level"), "bigint"),
    **{"ivf_centroids": "array<array<double>>", "pq_codebook": "array<array<array<double>>>"},
}
_SEGMENTS = 8
"""The number of segments that a large index is built as at least, which are the tasks."""


def _new_index(column: str, kind: str, name: str | None = None, replace: bool = False, train: bool = True, **parameters: Any) -> NewIndex:
    return NewIndex(column, kind, name, replace, train, parameters)


def _creation_stage(stage: stages.Stage[NewIndex]) -> Stage:
    def tasks(snapshot: Snapshot, before: Results, **given: Any) -> Sequence[Any]:
        return stage.tasks(snapshot, _new_index(**given), _SEGMENTS, before)

    return Stage(tasks, partial(attempted, stage.run))


def _commit_index(snapshot: Snapshot, done: Results, **given: Any) -> Rows:
    made = commit_created(snapshot, _new_index(**given), done, {})
    before = {index.uuid for index in snapshot.manifest.indexes}
    name = next(index.name for index in made.manifest.indexes if index.uuid not in before)
    return [(made.version, name, index_statistics(made, name)["num_indexed_fragments"])]


def _drop_index(snapshot: Snapshot, name: str) -> Rows:
    return [(Dataset(snapshot).drop_index(name).version,)]


def _optimization(num_indices_to_merge: int | None = None, index_names: Sequence[str] | None = None, retrain: bool = False) -> Optimization:
    return Optimization(num_indices_to_merge, index_names, retrain)


def _optimization_stage(stage: stages.Stage[Optimization]) -> Stage:
    def tasks(snapshot: Snapshot, before: Results, **given: Any) -> Sequence[Any]:
        return stage.tasks(snapshot, _optimization(**given), _SEGMENTS, before)

    return Stage(tasks, partial(attempted, stage.run))


def _commit_optimization(snapshot: Snapshot, done: Results, **given: Any) -> Rows:
    made, how = commit_optimized(snapshot, _optimization(**given), done, {}), _optimization(**given)
    names = how.names or sorted({index.name for index in snapshot.manifest.indexes} - SYSTEM_INDEXES)
    before, after = ([index_statistics(of, name) for name in names] for of in (snapshot, made))
    indexed = sum(max(0, a["num_indexed_fragments"] - b["num_indexed_fragments"]) for a, b in zip(after, before))
    segments_before, segments = (sum(s["num_segments"] for s in of) for of in (before, after))
    added = len({i.uuid for i in made.manifest.indexes} - {i.uuid for i in snapshot.manifest.indexes})
    return [(made.version, indexed, segments_before, segments, added)]


def _index_statistics(snapshot: Snapshot) -> Rows:
    fields = {i["name"]: i["fields"] for i in list_indices(snapshot) if i["name"] not in SYSTEM_INDEXES}
    for name in sorted(fields):
        s = index_statistics(snapshot, name)
        indexed, unindexed = (s["num_indexed_fragments"], s["num_indexed_rows"]), (s["num_unindexed_fragments"], s["num_unindexed_rows"])
        yield (name, fields[name], s["index_type"], *indexed, *unindexed)


_NAME_AND_VERSION = {"name": "string", "version": "string", "if_not_exists": "boolean", "or_replace": "boolean"}
_AT = {"version": "string", "timestamp": "timestamp"}
_NAME = {"name": "string", "if_exists": "boolean"}
PROCEDURES: Mapping[str, Procedure] = {
    "create_index": Procedure(
        "version bigint, index_name string, fragments_indexed bigint",
        Job(tuple(_creation_stage(stage) for stage in create.STAGES), _commit_index),
        {"column": "string", "kind": "string", **_INDEX},
        2,
    ),
    "drop_index": Procedure("version bigint", _drop_index, {"name": "string"}, 1),
    "optimize_indices": Procedure(
        "version bigint, fragments_indexed bigint, segments_before bigint, segments_after bigint, segments_added bigint",
        Job(tuple(_optimization_stage(stage) for stage in STAGES), _commit_optimization),
        {"num_indices_to_merge": "bigint", "index_names": "array<string>", "retrain": "boolean"},
    ),
    "indexes": Procedure(
        "name string, type string, fields array<string>, uuid string, version bigint, fragments array<bigint>", _rows_of("indexes")
    ),
    "index_statistics": Procedure(
        "name string, fields array<string>, type string, num_indexed_fragments bigint, num_indexed_rows bigint, "
        "num_unindexed_fragments bigint, num_unindexed_rows bigint",
        _index_statistics,
    ),
    "compact": Procedure(
        "version bigint, fragments_removed bigint, fragments_added bigint, files_removed bigint, files_added bigint, conflicts bigint, "
        "left_out array<bigint>",
        Job(tuple(map(compaction, range(COMPACTION_STAGES))), commit_compaction),
        {
            "where": "string",
            "target_rows_per_fragment": "bigint",
            "materialize_deletions": "boolean",
            "materialize_deletions_threshold": "double",
            "max_bytes_per_file": "bigint",
            "drop_index_coverage": "boolean",
            "defer_index_remap": "boolean",
            **{"max_source_fragments": "bigint", "max_source_rows": "bigint", "max_source_bytes": "bigint"},
            "excluded_fragment_ids": "array<bigint>",
            "sort_by": "array<string>",
            **_NOTED,
        },
    ),
    "cluster": Procedure(
        "version bigint, fragments_removed bigint, fragments_added bigint, rows bigint",
        Job(tuple(_clustering_stage(i) for i in range(len(cluster.STAGES))), _commit_clustering),
        {"columns": "array<string>", "where": "string", "full": "boolean", "target_rows_per_fragment": "bigint", **_NOTED},
    ),
    "cleanup": Procedure(
        "bytes_removed bigint, old_versions bigint, data_files_removed bigint, transaction_files_removed bigint, "
        "index_files_removed bigint, deletion_files_removed bigint, files array<string>",
        clean_up,
        {
            **{"older_than": "interval day to second", "retain_versions": "bigint", "dry_run": "boolean"},
            **{"before_version": "bigint", "before_timestamp": "timestamp"},
            **{"delete_unverified": "boolean", "error_if_tagged_old_versions": "boolean"},
        },
    ),
    "restore": Procedure("version bigint", restore, {**_AT, **_NOTED}),
    "create_tag": Procedure("name string NOT NULL, version bigint", _create_tag, _NAME_AND_VERSION, 1),
    "update_tag": Procedure("name string, version bigint", _update_tag, {"name": "string", "version": "string"}, 1),
    "delete_tag": Procedure("name string NOT NULL", _delete_tag, _NAME, 1),
    "tags": Procedure("name string, branch string, version bigint, created_at string, updated_at string", _rows_of("tags")),
    "consumers": Procedure("id string, branch string, version bigint, lag bigint, updated_at timestamp, expires_at timestamp", _consumers),
    "drop_consumer": Procedure("id string", _drop_consumer, {"id": "string"}, 1),
    "create_branch": Procedure("name string NOT NULL, version bigint", _create_branch, _NAME_AND_VERSION, 1),
    "delete_branch": Procedure("name string NOT NULL", _delete_branch, _NAME, 1),
    "branches": Procedure("name string, parent_branch string, parent_version bigint, created_at timestamp", _rows_of("branches")),
    "history": Procedure(
        "version bigint, timestamp timestamp, operation string, message string, properties map<string,string>",
        _history,
        {"limit": "bigint"},
    ),
    "detail": Procedure(
        "format string, location string, lastModified timestamp, partitionColumns array<string>, clusteringColumns array<string>, "
        "numFiles bigint, sizeInBytes bigint, numRows bigint, version bigint, properties map<string,string>",
        _detail,
    ),
    "verify": Procedure(
        "version bigint, files bigint, ok boolean, problems array<string>, orphans array<string>", _verify, {"decode": "boolean"}
    ),
    "merge_mem_wal": Procedure(
        "version bigint, shard string, generation bigint, num_updated_rows bigint, num_inserted_rows bigint, num_deleted_rows bigint",
        _merge_mem_wal,
        {"commit_message": "string"},
    ),
    "set_primary_key": Procedure("version bigint", _set_primary_key, {"columns": "array<string>", **_NOTED}, 1),
    "set_not_null": Procedure("version bigint", _set_not_null, {"columns": "array<string>", **_NOTED}, 1),
    "add_constraint": Procedure("version bigint", _add_constraint, {"name": "string", "condition": "string", **_NOTED}, 2),
    "drop_constraint": Procedure("version bigint", _drop_constraint, {**_NAME, **_NOTED}, 1),
    "shallow_clone": Procedure("path string, version bigint", _shallow_clone, {"path": "string", **_AT}, 1),
    "deep_clone": Procedure("path string, version bigint", _deep_clone, {"path": "string", **_AT}, 1),
}
