"""The arguments and the result of a clustering, and what the table remembers: the columns, and which fragments have rows in their order."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from lance_spark.errors import check_at_least
from lance_spark.metadata.data_file_names import job_of
from lance_spark.metadata.fragment import Fragment
from lance_spark.table.compaction.compaction import COMPACTION, CompactionOptions
from lance_spark.table.versions.snapshot import Snapshot

CONFIG = "lance_spark.clustering"
"""The key of the table's config with the columns by which it is clustered, and what was written so, as JSON."""


@dataclass(frozen=True)
class Clustering:
    """The arguments of a clustering: `columns` (none: those that the table was clustered by before), at most four.

    Fragments are clustered that are not yet, and small ones again, or all with `full`; only those with ids in `fragments` (None: all). The
    new ones have `target_rows_per_fragment` rows, or fewer if these are more than a task can sort.

    With the options of a `compaction`, this is what it does of a clustered table: it also joins small fragments that are clustered, and
    rewrites those with many deleted rows.
    """

    columns: tuple[str, ...] = ()
    full: bool = False
    fragments: Container[int] | None = None
    target_rows_per_fragment: int = COMPACTION.target_rows_per_fragment
    compaction: CompactionOptions | None = None

    def __post_init__(self) -> None:
        check_at_least("target_rows_per_fragment", self.target_rows_per_fragment, 1)

    @staticmethod
    def names(columns: Sequence[str | Sequence[str]]) -> tuple[str, ...]:
        """The columns that a call names, each by an argument, or all by one list. Raises TypeError for others."""
        names = columns[0] if len(columns) == 1 and isinstance(columns[0], list | tuple) else columns
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise TypeError(f"columns to cluster by are names, such as 'x', not {wrong[0]!r}")
        return tuple(str(name) for name in names)


@dataclass(frozen=True)
class ClusteringMetrics:
    """The result of a clustering. `version` is the last version that it made, or the latest one if there was nothing to do."""

    version: int
    fragments_removed: int = 0
    fragments_added: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Clustered:
    """What the table's config says: the columns, and the jobs that wrote clustered fragments (see `metadata.data_file_names.job_of`).

    Ids of fragments would not do: a table that is overwritten uses them again.
    """

    columns: tuple[str, ...] = ()
    jobs: frozenset[str] = frozenset()

    @staticmethod
    def in_config(config: Mapping[str, str]) -> Clustered:
        """The record in a table's config; none if it is not valid."""
        try:
            found = json.loads(config.get(CONFIG, "{}"))
            columns, jobs = tuple(found.get("columns", ())), frozenset(found.get("jobs", ()))
        except (ValueError, TypeError, AttributeError):
            return Clustered()
        return Clustered(columns, jobs) if all(isinstance(c, str) for c in columns) else Clustered()

    @staticmethod
    def of(snapshot: Snapshot) -> Clustered:
        """The record of a table, without jobs whose fragments are gone."""
        found = Clustered.in_config(snapshot.manifest.config)
        return (
            replace(found, jobs=found.jobs & {job_of_fragment(fragment) for fragment in snapshot.manifest.fragments})
            if found.jobs
            else found
        )

    @property
    def config(self) -> dict[str, str]:
        """The record as an entry of a table's config."""
        return {CONFIG: json.dumps({"columns": self.columns, "jobs": sorted(self.jobs)})}


def job_of_fragment(fragment: Fragment) -> str:
    """The job that wrote the fragment, as `Clustered` names it."""
    return job_of(fragment.files[0].path) if fragment.files else ""
