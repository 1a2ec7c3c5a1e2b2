"""Array encodings of storage 2.0: nodes that read the selected values of their page as an Arrow array."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Steps


class Encoding(Protocol):
    """A node of a page's encoding tree. Its buffers are ranges of the file."""

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values of `spans`, concatenated, as an array of type `t` with offset 0."""
