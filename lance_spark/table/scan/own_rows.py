"""What a task of a read says that finds its rows itself, by a search or among the changes of versions."""

from __future__ import annotations

from lance_spark.table.scan.task import ScanTask


class FindsItsRows:
    """The part of a task (see `spark.read.reader.Task`) that is about scans: it has none."""

    @property
    def scans(self) -> tuple[ScanTask, ...]:
        """No scans, in contrast to `ScanTask.scans`: such a task finds its rows itself."""
        return ()

    @property
    def tables(self) -> tuple[int, int]:
        """No tables, in contrast to `ScanTask.tables`."""
        return (0, 0)

    @property
    def indexes(self) -> str:
        """No names, in contrast to `ScanTask.indexes`: `explain` of what is read names those that it uses."""
        return ""
