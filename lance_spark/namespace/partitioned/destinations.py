"""The destination of new rows: partition values as keys, the tables for them, and names for new tables."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.namespace.manifest_table import NAMESPACE
from lance_spark.namespace.partitioned.leaves import Leaf, leaves_of
from lance_spark.namespace.partitioned.root import LEAF, PartitionedVersion, column_or_nulls
from lance_spark.namespace.partitioned.spec import PartitionSpec

Key: TypeAlias = tuple[Any, ...]
"""Comparable partition values: numbers of time units instead of times, None for null."""
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_NAME = 16
"""Characters of the name of a table: 36^16 are about 2^83 names, so they do not collide."""


def keys(columns: Sequence[pa.Array], count: int) -> list[Key]:
    """The keys of rows of partition values."""
    return list(zip(*map(_comparable, columns))) if columns else [()] * count


def _comparable(values: pa.Array) -> list[Any]:
    t = values.type
    if pa.types.is_floating(t):
        numbers = values.cast(pa.float64()).to_pylist()
        return [None if v is None else "nan" if v != v else v.hex() for v in numbers]
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return list(values.view(pa.int32()).to_pylist())
    if pa.types.is_temporal(t):
        return list(values.view(pa.int64()).to_pylist())
    return list(values.to_pylist())


def groups(columns: Sequence[pa.Array], count: int) -> Iterator[np.ndarray]:
    """Group rows by equal values in all columns: one array of ascending positions for each combination."""
    codes = np.zeros(count, np.int64)
    for column in columns:
        coded = column.dictionary_encode(null_encoding="encode")
        own = coded.indices.to_numpy()
        _, codes = np.unique(codes * max(len(coded.dictionary), 1) + own, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order])) + 1
    yield from np.split(order, bounds)


@dataclass(frozen=True)
class Place:
    """A table for rows with the same partition values: an existing one (`leaf`), or a new one."""

    object_id: str
    location: str
    leaf: Leaf | None


@dataclass(frozen=True)
class Places:
    """The tables of one spec by key, and the names of partition namespaces by the first values of a key.

    Names of new tables are derived from `job`, so that all tasks of a job choose the same names.
    """

    version: PartitionedVersion
    spec: PartitionSpec
    job: str

    @cached_property
    def leaves(self) -> dict[Key, list[Leaf]]:
        """The tables by key. Other writers may have created several for one key."""
        rows = self.version.leaves
        rows = rows.filter(pc.equal(rows["spec"], self.spec.id)).sort_by("object_id")
        columns = [column_or_nulls(rows, f.column, f.type) for f in self.spec.fields]
        found: dict[Key, list[Leaf]] = {}
        for key, leaf in zip(keys(columns, rows.num_rows), leaves_of(self.version, rows), strict=True):
            found.setdefault(key, []).append(leaf)
        return found

    @cached_property
    def names(self) -> dict[Key, str]:
        """The ids of the partition namespaces by the values down to their level; if there are several, the first id."""
        rows = self.version.manifest.rows
        below = pc.starts_with(rows["object_id"], f"{self.spec.namespace}$")
        rows = rows.filter(pc.and_(below, pc.equal(rows["object_type"], NAMESPACE))).sort_by("object_id")
        columns = [column_or_nulls(rows, f.column, f.type) for f in self.spec.fields]
        found: dict[Key, str] = {}
        for object_id, key in zip(rows["object_id"].to_pylist(), keys(columns, rows.num_rows), strict=True):
            parent, _, _ = object_id.rpartition("$")
            level = object_id.count("$")
            # Ignore namespaces below an ignored one, so that each remaining one has a complete path.
            if level == 1 or found.get(key[: level - 1]) == parent:
                found.setdefault(key[:level], object_id)
        return found

    def place(self, key: Key, fresh: bool) -> Place:
        """The table for rows with this key; with `fresh`, always a new one."""
        there = self.leaves.get(key)
        if there and not fresh:
            return Place(there[0].object_id, there[0].location, there[0])
        object_id = there[0].object_id if there else f"{self.namespaces(key)[-1]}${LEAF}"
        return Place(object_id, f"{self._hash(object_id, key)[:8]}_{object_id}", None)

    def namespaces(self, key: Key) -> list[str]:
        """The ids of the namespaces from `v<N>` down to that of a table for `key`, including new ones."""
        path = [self.spec.namespace]
        for level in range(1, len(key) + 1):
            known = self.names.get(key[:level])
            at_home = known is not None and known.rpartition("$")[0] == path[-1]
            if known is not None and at_home:
                path.append(known)
            else:
                path.append(f"{path[-1]}${self._name(key[:level])}")
        return path

    def _hash(self, what: str, key: Key) -> str:
        return hashlib.sha256(f"{self.job}\0{what}\0{key!r}".encode()).hexdigest()

    def _name(self, key: Key) -> str:
        number = int(self._hash(self.spec.namespace, key), 16)
        digits = itertools.islice(_digits(number), _NAME)
        return "".join(_ALPHABET[d] for d in digits)


def _digits(number: int) -> Iterator[int]:
    while True:
        number, digit = divmod(number, len(_ALPHABET))
        yield digit
