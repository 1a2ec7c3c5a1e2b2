"""What a search raises for a segment of an index that it cannot use, so that it starts again without it."""

from __future__ import annotations

from lance_spark.errors import LanceError
from lance_spark.metadata.fragment import IndexMetadata


class DamagedSegmentError(LanceError):
    """A segment cannot be searched; `index` is what the manifest says about it."""

    def __init__(self, message: str, index: IndexMetadata) -> None:
        super().__init__(message, index)
        self.index = index

    def __str__(self) -> str:
        """The message alone; both arguments are those of the pickle."""
        return str(LanceError(self.args[0]))
