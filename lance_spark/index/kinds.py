"""The kinds of scalar indexes, by the type URL of their details."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from lance_spark.index.answer import Found
from lance_spark.index.files import IndexFiles
from lance_spark.predicate.tree import Column, Expression

Search = Callable[[IndexFiles, Expression, Column, bytes], Found | None]


@dataclass(frozen=True)
class Kind:
    """A kind of index: its `name`, its `module` in this folder and the newest `version` known.

    In tables with stable row ids, segments of version `addresses_from` or later name rows by address, others by row id (None: always by
    id). `exact` kinds decide alone which rows satisfy a condition.
    """

    name: str
    module: str
    version: int
    addresses_from: int | None
    exact: bool

    def has_addresses(self, version: int | None, stable_row_ids: bool) -> bool:
        """Whether a segment of this index_version names rows by address."""
        return not stable_row_ids or (self.addresses_from is not None and (version or 0) >= self.addresses_from)

    @property
    def search(self) -> Search:
        """`search(files, condition, column, details)` of the kind: the rows whose values satisfy the condition on the column.

        None if the index cannot tell, or if it would not help.
        """
        search: Search = importlib.import_module(f"lance_spark.index.{self.module}").search
        return search


KINDS: dict[str, Kind] = {
    "BTreeIndexDetails": Kind("BTREE", "btree", 1, 1, exact=True),
    "BitmapIndexDetails": Kind("BITMAP", "bitmap", 0, None, exact=True),
    "LabelListIndexDetails": Kind("LABEL_LIST", "label_list", 1, None, exact=True),
    "NGramIndexDetails": Kind("NGRAM", "ngram", 0, None, exact=False),
    "BloomFilterIndexDetails": Kind("BLOOMFILTER", "bloom_filter", 0, 0, exact=False),
    "ZoneMapIndexDetails": Kind("ZONEMAP", "zone_map", 0, 0, exact=False),
}
"""In the order in which the indexes of one column are asked."""


def kind_of(details_type: str) -> Kind | None:
    """The kind for a type URL; None if it is unknown. Writers disagree about the package of the message."""
    return KINDS.get(details_type.rpartition(".")[2])
