"""The codes of the vectors of a partition, and what a quantizer does with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.vector.compared import Compared


@dataclass(frozen=True)
class Codes:
    """The codes of the vectors of a partition, a row for each; `factors` are further numbers of each vector.

    They are in memory as the quantizer reads them, such as column by column.
    """

    values: np.ndarray
    factors: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return self.values.nbytes + sum(f.nbytes for f in self.factors.values())

    def rows(self, start: int, stop: int) -> Codes:
        """Those of some of the vectors."""
        return Codes(self.values[start:stop], {name: numbers[start:stop] for name, numbers in self.factors.items()})


GROUP = 32
"""So many vectors of a partition, from the first one on, may be compared in another way than the last ones, as in pylance."""


class Quantizer(Protocol):
    """How the vectors of an index are encoded."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file of codes that it reads."""

    def codes(self, batch: pa.RecordBatch, what: str) -> Codes:
        """The codes of a partition from these columns; `what` names the file in errors. Raises CorruptFileError."""

    def forms(self, queries: np.ndarray) -> np.ndarray:
        """Queries as `distances` takes them, made once for all partitions: a row for each. Under cosine, queries have the length 1."""

    def distances(self, forms: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """About the distances (float32) of vectors of a partition around this centroid, a row for each, to queries, a column for each.

        They may be some of the vectors of a partition: whole groups of `GROUP`, and the last ones.
        """


class GraphQuantizer(Quantizer, Protocol):
    """A quantizer of vectors that may have graphs, which single vectors are compared with."""

    def compared(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> Compared:
        """The same for one query and single vectors."""


def byte_rows(array: pa.Array, what: str, width: int | None = None) -> np.ndarray:
    """The lists of a column as rows of a matrix. Raises CorruptFileError for nulls, and unless all have `width` items."""
    t = array.type
    if not pa.types.is_fixed_size_list(t) or array.null_count or (width is not None and t.list_size != width):
        raise CorruptFileError(f"{what}: expected lists of {width or 'some'} numbers without nulls, found {array.null_count} nulls in {t}")
    items = array.values[array.offset * t.list_size : (array.offset + len(array)) * t.list_size]
    if items.null_count:
        raise CorruptFileError(f"{what}: expected lists without nulls, found {items.null_count} of them")
    found: np.ndarray = items.to_numpy(zero_copy_only=False).reshape(len(array), t.list_size)
    return found


def numbers(array: pa.Array, dtype: type, what: str) -> np.ndarray:
    """The values of a column of numbers. Raises CorruptFileError for nulls and other types."""
    if array.null_count or array.type != pa.from_numpy_dtype(dtype):
        raise CorruptFileError(f"{what}: expected {np.dtype(dtype)} without nulls, found {array.null_count} nulls in {array.type}")
    found: np.ndarray = array.to_numpy(zero_copy_only=False)
    return found
