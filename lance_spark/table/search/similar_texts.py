"""Searching for the texts that are most similar to one text, by their signatures: those of a MINHASHLSH index, and those of other rows.

All signatures are compared: an index that is searched by its bands alone misses rows that share none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark.arrow.types import is_text
from lance_spark.errors import InvalidOptionError
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import Field, quoted
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.search.nearest import DEFAULT_K, number_of
from lance_spark.table.search.vector_search import DISTANCE
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.table.minhash.signatures import IndexedSignatures
    from lance_spark.table.search.hits import Hits

_KEYS = ("column", "q", "k")
_ADDRESS = "_rowaddr"


@dataclass(frozen=True)
class SimilarTexts:
    """A search for the `k` rows whose texts in the column at `path` are most similar to `text`; see `search.Query`.

    `_distance` is 1 - the estimated share of shingles in common, as in pylance. Texts without tokens are never found. With `prefilter`,
    the most similar of the rows that satisfy the predicate are found; without, those of the most similar rows that satisfy it. With
    `fast_search`, rows that no index covers are left out: all, if there is none.
    """

    path: tuple[str, ...]
    field: Field
    text: str
    k: int
    prefilter: bool = False
    fast_search: bool = False

    @property
    def columns(self) -> pa.Schema:
        """See `search.Query`."""
        return pa.schema([DISTANCE])

    @property
    def comes_first(self) -> tuple[str, ...]:
        """See `search.Query`."""
        return ()

    @property
    def most_rows(self) -> int | None:
        """See `search.Query`."""
        return self.k

    def hits(self, snapshot: Snapshot, plan: ScanPlan) -> Hits:
        """See `search.Query`. Of rows at equal distances, those that are first in the table come first."""
        from lance_spark.index.minhash.parameters import new_min_hash  # loads the decoders
        from lance_spark.index.minhash.segment import sign_rows
        from lance_spark.table.minhash.signatures import indexed_signatures
        from lance_spark.table.search.hits import Hits

        index = indexed_signatures(snapshot, self.field)
        how = new_min_hash({}) if index is None else index.parameters
        asked = pa.record_batch({"value": pa.array([self.text], self.field.type), "row": pa.array([0], pa.uint64())})
        queries = [one for _, signatures in sign_rows([asked], how) for one in signatures]
        addresses, distances = np.empty(0, np.uint64), np.empty(0, np.float32)
        for own, signatures in self._signed(snapshot, plan, index) if queries else ():
            equal = (signatures == queries[0]).sum(axis=1)
            addresses = np.concatenate([addresses, own])
            distances = np.concatenate([distances, (1 - equal / how.num_hashes).astype(np.float32)])
            best = np.lexsort((addresses, distances))[: self.k]
            addresses, distances = addresses[best], distances[best]
        hits = Hits(addresses, pa.Table.from_arrays([pa.array(distances)], schema=self.columns))
        return hits if self.prefilter else hits.where(snapshot, plan.predicate)

    def _signed(self, snapshot: Snapshot, plan: ScanPlan, index: IndexedSignatures | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The addresses of rows, and their signatures."""
        from lance_spark.index.minhash.parameters import new_min_hash
        from lance_spark.index.minhash.segment import sign_rows
        from lance_spark.predicate.evaluate import raw_values
        from lance_spark.table.minhash.signatures import located_signatures
        from lance_spark.table.search.hits import addresses_of

        predicate = plan.predicate if self.prefilter else None
        if index is not None:
            allowed = None if predicate is None else addresses_of(snapshot, predicate, index.covered, plan.use_scalar_index)
            for uuid in index.segments:
                for addresses, _, signatures in located_signatures(snapshot, self.field, uuid):
                    kept = slice(None) if allowed is None else np.isin(addresses, allowed)
                    yield addresses[kept], signatures[kept]
        others = self._others(snapshot, index)
        if not others:
            return
        column = Column(self.path, self.field.type)
        scan = ScanPlan((quoted(self.path), _ADDRESS), predicate, fragments=others)
        batches = (batch for task in plan_tasks(snapshot, scan) for batch in task.read())
        texts = (pa.record_batch({"value": raw_values(column, b), "row": b.column(_ADDRESS)}) for b in batches)
        yield from sign_rows(texts, new_min_hash({}) if index is None else index.parameters)

    def _others(self, snapshot: Snapshot, index: IndexedSignatures | None) -> frozenset[int]:
        """The fragments whose texts are signed by the search."""
        if self.fast_search:
            return frozenset(() if index is None else index.lost)
        return frozenset(i for i in snapshot.manifest.lazy_fragments.ids.tolist() if index is None or i not in index.covered)

    def explain(self, snapshot: Snapshot, plan: ScanPlan) -> Sequence[str]:
        """See `search.Query`."""
        from lance_spark.table.minhash.signatures import indexed_signatures

        index = indexed_signatures(snapshot, self.field)
        when = "before" if self.prefilter else "after"
        filtered = "none" if plan.predicate is None else f"{plan.predicate.text} ({when} the search)"
        used = "none" if index is None else f"MINHASHLSH, {len(index.segments)} segments of {len(index.covered)} fragments"
        signed = f"texts signed by the search: those of {len(self._others(snapshot, index))} fragments"
        return [f"similar texts: column {'.'.join(self.path)!r}, k={self.k}", f"filter: {filtered}", f"indexes: {used}", signed]


def similar_texts_of(snapshot: Snapshot, given: Mapping[str, Any], prefilter: bool, fast_search: bool) -> SimilarTexts | None:
    """The search that `nearest` asks for, if it has a text in place of a vector, for a column of texts; None otherwise.

    Raises InvalidOptionError for parameters that only searches for vectors have.
    """
    column, text = given.get("column"), given.get("q")
    if not isinstance(column, str) or not isinstance(text, str):
        return None
    steps = snapshot.manifest.schema.resolve(column)
    if not is_text(steps[-1].type):
        return None
    if others := [key for key, value in given.items() if key not in _KEYS and value is not None]:
        raise InvalidOptionError(f"nearest has no parameter {others[0]!r} for a text; its parameters are: {', '.join(_KEYS)}")
    k = number_of("k", given.get("k"), 1) or DEFAULT_K
    return SimilarTexts(tuple(f.name for f in steps), steps[-1], text, k, prefilter, fast_search)
