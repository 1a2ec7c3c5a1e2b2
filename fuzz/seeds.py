"""The good tables that mutations start from: the golden ones of all writers, and those of fuzz/tables with one column for each encoding.

Only files that reading touches are seeds: of many versions the latest manifest, and what it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lance_spark import Dataset

ROOT = Path(__file__).parent.parent
FOLDERS = (ROOT / "fuzz" / "tables", ROOT / "tests" / "golden")


@dataclass(frozen=True)
class Seed:
    """A file, `path`, of the table in the folder `table` (relative to the repository)."""

    table: str
    path: str

    @property
    def data(self) -> bytes:
        """The good bytes."""
        return (ROOT / self.table / self.path).read_bytes()


@cache
def seeds() -> tuple[Seed, ...]:
    """All seeds, in the same order everywhere."""
    tables = [table for folder in FOLDERS for table in sorted(folder.glob("*.lance"))]
    return tuple(Seed(table.relative_to(ROOT).as_posix(), path) for table in tables for path in sorted(_files(table)))


@cache
def every_file() -> tuple[Seed, ...]:
    """All files of all tables, also those of old versions, of indexes and refs: what operations may touch."""
    paths = [path for folder in FOLDERS for path in sorted(folder.glob("*.lance/**/*")) if path.is_file()]
    tables = [next(p for p in path.parents if p.parent in FOLDERS) for path in paths]
    return tuple(Seed(t.relative_to(ROOT).as_posix(), path.relative_to(t).as_posix()) for t, path in zip(tables, paths))


@cache
def latest_manifests() -> frozenset[Seed]:
    """The manifest of the latest version of each table."""
    return frozenset(Seed(table, Dataset.open(str(ROOT / table)).snapshot.path) for table in {s.table for s in every_file()})


def _files(table: Path) -> set[str]:
    snapshot = Dataset.open(str(table)).snapshot
    files = {snapshot.path}
    for fragment in snapshot.manifest.fragments:
        files.update(snapshot.locations.data_file(file)[1] for file in fragment.files)
        if fragment.deletion is not None:
            files.add(snapshot.locations.deletion_file(fragment)[1])
    transaction = f"_transactions/{snapshot.manifest.transaction_file}"
    return {f for f in (*files, transaction) if (table / f).is_file()}
