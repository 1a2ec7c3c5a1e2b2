"""The kinds of scalar indexes, by the type URL of their details."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import index_pb2
from lance_spark.index.answer import Found
from lance_spark.index.files import IndexFiles
from lance_spark.index.moves import Translation
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.predicate.tree import Column, Expression

Search = Callable[[IndexFiles, Expression, Column], Found | None]
Train = Callable[[Iterable[pa.RecordBatch], pa.DataType, IndexTarget, Mapping[str, object]], Trained]
Parameters = Callable[[IndexFiles], dict[str, object]]
Rewrite = Callable[[Sequence[tuple[IndexFiles, Translation]], IndexTarget], Trained]


@dataclass(frozen=True)
class Kind:
    """A kind of index: its `name`, its `module` in this folder, and the newest `version` and the `oldest` one known.

    In tables with stable row ids, segments of version `addresses_from` or later name rows by address, others by row id (None: always by
    id). `package` is that of the details message. `zoned` kinds summarise zones of rows, which cannot follow rows that move. A kind that
    is not for `stable` row ids has no version that tells how rows are named there. `target` is the kind of the files of a JSON index.
    Segments of `trained` kinds are built with a model, see `table.indexes.vectors`.
    """

    name: str
    module: str
    version: int
    addresses_from: int | None
    package: str = "lance.table"
    zoned: bool = False
    stable: bool = True
    target: Kind | None = None
    trained: bool = False
    oldest: int = 0

    def knows(self, index_version: int | None) -> bool:
        """Whether segments of this index_version can be read; None is that of old writers."""
        return self.oldest <= (index_version or 0) <= self.version

    def has_addresses(self, version: int | None, stable_row_ids: bool) -> bool:
        """Whether a segment of this index_version names rows by address."""
        return not stable_row_ids or (self.addresses_from is not None and (version or 0) >= self.addresses_from)

    def new_version(self, trained: int, stable_row_ids: bool) -> int:
        """The index_version of a new segment whose files have the version `trained`."""
        return max(trained, self.addresses_from or 0) if stable_row_ids else trained

    @property
    def train(self) -> Train:
        """`train(rows, value_type, target, parameters)` of the kind: writes the files for rows in order of their addresses.

        The batches have the columns "value" and "row" (uint64: addresses or row ids).
        """
        train: Train = importlib.import_module(f"lance_spark.index.{self.module}").train
        return train

    @property
    def parameters(self) -> Parameters:
        """`parameters(files)` of a `zoned` kind, and of JSON: the parameters that a segment was built with."""
        parameters: Parameters = importlib.import_module(f"lance_spark.index.{self.module}").parameters
        return parameters

    @property
    def rewrite(self) -> Rewrite:
        """`rewrite(sources, target)` of the kind: writes one segment with the rows of others that still exist, where they are now."""
        rewrite: Rewrite = importlib.import_module(f"lance_spark.index.{self.module}").rewrite
        return rewrite

    @property
    def search(self) -> Search:
        """`search(files, condition, column)` of the kind: the rows whose values satisfy the condition on the column.

        None if the index cannot tell, or if it would not help.
        """
        search: Search = importlib.import_module(f"lance_spark.index.{self.module}").search
        return search


KINDS: dict[str, Kind] = {
    "BTreeIndexDetails": Kind("BTREE", "btree", 1, 1),
    "BitmapIndexDetails": Kind("BITMAP", "bitmap", 0, None),
    "LabelListIndexDetails": Kind("LABEL_LIST", "label_list", 1, None),
    "FMIndexDetails": Kind("FM", "fm.index", 10, 0, package="lance.index.pb", oldest=10),
    "NGramIndexDetails": Kind("NGRAM", "ngram", 0, None),
    "BloomFilterIndexDetails": Kind("BLOOMFILTER", "bloom_filter", 0, 0, package="lance.index.pb", zoned=True),
    "ZoneMapIndexDetails": Kind("ZONEMAP", "zone_map", 0, 0, zoned=True),
    "RTreeIndexDetails": Kind("RTREE", "rtree", 0, None, package="lance.index.pb"),
    "JsonIndexDetails": Kind("JSON", "json_path", 0, None, package="lance.index.pb"),
}
"""In the order in which the indexes of one column are asked."""

SEARCHED: dict[str, Kind] = {
    "VectorIndexDetails": Kind("VECTOR", "vector.make.segment", 2, None, package="lance.index.pb", trained=True),
    "InvertedIndexDetails": Kind("INVERTED", "text.build.inverted", 3, None),
    "MinHashLshIndexDetails": Kind("MINHASHLSH", "minhash.segment", 0, None, package="lance.index.pb"),
}
"""Kinds that are searched for the best rows instead of being asked for those that satisfy a condition; see `table.search`."""

FIXED = frozenset({"FMIndexDetails"})
"""Details of kinds whose readers do not follow rows that move: their segments name rows by address in all tables."""

TARGETS = ("BTREE", "BITMAP", "ZONEMAP", "NGRAM")
"""The kinds that the files of a JSON index may be of. The files of a BLOOMFILTER do not tell the type of the values."""


def kind_named(name: str) -> Kind:
    """The kind `name`."""
    return next(kind for kind in KINDS.values() if kind.name == name)


def url_of(name: str) -> str:
    """The type URL of the kind `name`."""
    return next(f"/{kind.package}.{message}" for message, kind in (*KINDS.items(), *SEARCHED.items()) if kind.name == name)


def kind_of(details_type: str, details: bytes) -> Kind | None:
    """The kind for a type URL and its details; None if it is unknown. Writers disagree about the package of the message."""
    message = details_type.rpartition(".")[2]
    kind = KINDS.get(message) or SEARCHED.get(message)
    return kind if kind is None or kind.name != "JSON" else _of_json(kind, details)


def _of_json(kind: Kind, details: bytes) -> Kind | None:
    """The kind of a JSON index, which names rows as its target does."""
    try:
        target = KINDS.get(index_pb2.JsonIndexDetails.FromString(details).target_details.type_url.rpartition(".")[2])
    except DecodeError:
        return None
    if target is None or target.name not in TARGETS:
        return None
    # All versions are 0, but only version 1 of a BTREE has addresses in tables with stable row ids.
    return replace(kind, addresses_from=target.addresses_from, zoned=target.zoned, stable=target.name != "BTREE", target=target)
