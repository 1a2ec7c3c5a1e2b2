"""One partition of a segment of a vector index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.index.vector.codes import Codes
from lance_spark.index.vector.hnsw import Graph


@dataclass(frozen=True)
class Partition:
    """The rows of a partition, as the segment names them (uint64), and their codes."""

    rows: np.ndarray
    codes: Codes
    graph: Graph | None

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self.rows.nbytes + self.codes.nbytes + (self.graph.nbytes if self.graph else 0)
