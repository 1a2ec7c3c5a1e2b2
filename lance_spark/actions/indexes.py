"""Indexes: make, extend, drop and describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.actions.action import NOTED, REQUIRED, Action, Asked, Command, Job, Parameter, Said, asked, noted
from lance_spark.display.words import printable
from lance_spark.inspection.metadata_tables import METADATA_TABLES
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.indexes import create, optimize
from lance_spark.table.indexes.create import NewIndex
from lance_spark.table.indexes.describe import index_statistics, list_indices
from lance_spark.table.indexes.optimize import Optimization
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class Built:
    """A new index: its version and name, and the number of fragments that it covers."""

    version: int
    index_name: str
    fragments_indexed: int


def _new_index(
    snapshot: Snapshot,
    column: str,
    kind: str,
    name: str | None = None,
    replace: bool = False,
    train: bool = True,
    **parameters: Any,
) -> Asked[NewIndex]:
    write = noted(parameters)
    return Asked(NewIndex(column, kind, name, replace, train, parameters), write)


def _built(before: Snapshot, made: Snapshot) -> Built:
    known = {index.uuid for index in before.manifest.indexes}
    name = next((index.name for index in made.manifest.indexes if index.uuid not in known), None)
    if name is None:  # the write with this number was done before
        return Built(made.version, "", 0)
    return Built(made.version, name, index_statistics(made, name)["num_indexed_fragments"])


def _commit_built(snapshot: Snapshot, asked: Asked[NewIndex], results: Results) -> Built:
    return _built(snapshot, create.commit_created(snapshot, asked.how, results, asked.write.noted))


def _build(runner: Runner, snapshot: Snapshot, asked: Asked[NewIndex]) -> Built:
    return _built(snapshot, create.create_index(runner, snapshot, asked.how, asked.write.noted))


@dataclass(frozen=True)
class Optimized:
    """The latest version after indexes were extended, and numbers of fragments and segments."""

    version: int
    fragments_indexed: int
    segments_before: int
    segments_after: int
    segments_added: int


def _optimization(
    snapshot: Snapshot,
    num_indices_to_merge: int | None = None,
    index_names: Sequence[str] | None = None,
    retrain: bool = False,
    **given: Any,
) -> Asked[Optimization]:
    write = noted(given)
    return Asked(Optimization(num_indices_to_merge, index_names, retrain), write)


def _optimized(before: Snapshot, made: Snapshot, how: Optimization) -> Optimized:
    names = how.names or sorted(_names(before))
    old, new = ([index_statistics(of, name) for name in names] for of in (before, made))
    fragments = "num_indexed_fragments"
    known = {index.uuid for index in before.manifest.indexes}
    return Optimized(
        made.version,
        sum(max(0, a[fragments] - b[fragments]) for a, b in zip(new, old)),
        sum(s["num_segments"] for s in old),
        sum(s["num_segments"] for s in new),
        len({index.uuid for index in made.manifest.indexes} - known),
    )


def _names(snapshot: Snapshot) -> set[str]:
    return {index.name for index in snapshot.manifest.indexes} - SYSTEM_INDEXES


def _commit_optimized(snapshot: Snapshot, asked: Asked[Optimization], results: Results) -> Optimized:
    made = optimize.commit_optimized(snapshot, asked.how, results, asked.write.noted)
    return _optimized(snapshot, made, asked.how)


def _optimize(runner: Runner, snapshot: Snapshot, asked: Asked[Optimization]) -> Optimized:
    made = optimize.optimize_indices(runner, snapshot, asked.how, asked.write.noted)
    return _optimized(snapshot, made, asked.how)


def drop_index(snapshot: Snapshot, name: str, **given: Any) -> list[tuple[int]]:
    """The row of `drop_index`."""
    return [(create.drop_index(snapshot, name, noted(given).noted).version,)]


def statistics(snapshot: Snapshot) -> Iterable[Sequence[Any]]:
    """The rows of `index_statistics`."""
    fields = {i["name"]: i["fields"] for i in list_indices(snapshot)}
    for name in sorted(_names(snapshot)):
        found = index_statistics(snapshot, name)
        yield (name, fields[name], found["index_type"], *(found[figure] for figure in COVERAGE))


COVERAGE: Mapping[str, str] = {
    "num_indexed_fragments": "bigint",
    "num_indexed_rows": "bigint",
    "num_unindexed_fragments": "bigint",
    "num_unindexed_rows": "bigint",
}
_PYLANCE = "the name in pylance"
_OF_KINDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "of ZONEMAP: the rows of a zone": (("rows_per_zone", "bigint"),),
    "of BLOOMFILTER": (("number_of_items", "bigint"), ("probability", "double")),
    "of RTREE": (("page_size", "bigint"),),
    "of JSON": (("path", "string"), ("target_index_type", "string")),
    "of vectors": (("metric", "string"),),
    "of INVERTED": (
        ("base_tokenizer", "string"),
        ("language", "string"),
        ("with_position", "boolean"),
        ("max_token_length", "bigint"),
        ("block_size", "bigint"),
        ("lower_case", "boolean"),
        ("stem", "boolean"),
        ("remove_stop_words", "boolean"),
        ("ascii_folding", "boolean"),
        ("prefix_only", "boolean"),
        ("custom_stop_words", "array<string>"),
        ("min_ngram_length", "bigint"),
        ("max_ngram_length", "bigint"),
        ("split_identifiers", "boolean"),
        ("split_on_numerics", "boolean"),
        ("preserve_original", "boolean"),
        ("index_operators", "boolean"),
    ),
    "of vectors, see there": (
        ("num_partitions", "bigint"),
        ("target_partition_size", "bigint"),
        ("sample_rate", "bigint"),
        ("max_iters", "bigint"),
        ("num_sub_vectors", "bigint"),
        ("num_bits", "bigint"),
        ("m", "bigint"),
        ("ef_construction", "bigint"),
        ("max_level", "bigint"),
        ("ivf_centroids", "array<array<double>>"),
        ("pq_codebook", "array<array<array<double>>>"),
    ),
}
_NEW = (
    Parameter("column", "string", "the column", REQUIRED),
    Parameter(
        "kind",
        "string",
        "the kind, such as BTREE, INVERTED or IVF_PQ",
        REQUIRED,
        says={"Dataset": Said(_PYLANCE, "index_type")},
    ),
    Parameter("name", "string", "the name of the index (default: that of the column and _idx)"),
    Parameter(
        "replace",
        "boolean",
        "replace an index of this name",
        False,
        says={"statement": Said("ALTER TABLE t CREATE INDEX is that of the JVM connector", default=True)},
    ),
    Parameter("train", "boolean", "index the rows that are there, and not only those of an optimization", True),
    *(Parameter(name, kind, of) for of, named in _OF_KINDS.items() for name, kind in named),
    *NOTED,
)
ACTIONS = (
    Action(
        "create_index",
        "build an index of a column",
        {"version": "bigint", "index_name": "string", "fragments_indexed": "bigint"},
        Job(_new_index, asked(create.STAGES), _commit_built, _build),
        _NEW,
        effect="keeps",
        methods={"Dataset": ("create_index",), "LanceTable": ("createIndex",)},
        command=Command("indexes create"),
        see="See [indexes](indexes.md), [full-text indexes](indexes.md#full-text-indexes) and "
        "[vector indexes](searching.md#making-an-index).",
    ),
    Action(
        "drop_index",
        "drop an index of any kind",
        {"version": "bigint"},
        drop_index,
        (Parameter("name", "string", "the name of the index", REQUIRED), *NOTED),
        effect="keeps",
        methods={"Dataset": ("drop_index",), "LanceTable": ("dropIndex",)},
        command=Command(
            "indexes drop",
            question=lambda snapshot, given: printable(f"Drop the index {given['name']}?"),
        ),
    ),
    Action(
        "optimize_indices",
        "extend indexes to the fragments that they do not cover",
        {
            "version": "bigint",
            "fragments_indexed": "bigint",
            "segments_before": "bigint",
            "segments_after": "bigint",
            "segments_added": "bigint",
        },
        Job(_optimization, asked(optimize.STAGES), _commit_optimized, _optimize),
        (
            Parameter("num_indices_to_merge", "bigint", "how many segments are joined with the new rows (default: all)"),
            Parameter("index_names", "array<string>", "the indexes (default: all)"),
            Parameter("retrain", "boolean", "build the indexes again", False),
            *NOTED,
        ),
        effect="keeps",
        methods={"Dataset": ("optimize.optimize_indices",), "LanceTable": ("optimizeIndices",)},
        command=Command("indexes optimize"),
    ),
    Action(
        "indexes",
        "list the segments of all indexes",
        {
            "name": "string",
            "type": "string",
            "fields": "array<string>",
            "uuid": "string",
            "version": "bigint",
            "fragments": "array<bigint>",
        },
        METADATA_TABLES["indexes"].rows,
        methods={"Dataset": ("list_indices",), "LanceTable": ("listIndices",)},
        command=Command("indexes list", of_version=True),
    ),
    Action(
        "index_statistics",
        "tell what each index covers",
        {"name": "string", "fields": "array<string>", "type": "string", **COVERAGE},
        statistics,
        command=Command("indexes statistics", of_version=True),
    ),
)
