"""NEAR DUPLICATES of texts: the rows whose texts share most of their shingles, by a join of their signatures (`index.minhash`).

Rows with equal signatures are paired with the first of them alone, so that many copies of a text are few pairs. Of the others, those are
compared that share a band of their signatures: a join by the keys of bands.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from lance_spark.arrow.texts import bytes_of
from lance_spark.arrow.types import is_text
from lance_spark.errors import InvalidOptionError, check_type
from lance_spark.schema.schema import Field, quoted
from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import promised
from lance_spark.spark.protocol import identified
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.storage.location import absolute
from lance_spark.table.mem_wal.scan import check_no_log
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.verbs.near_duplicates import NearDuplicates, grouped
from lance_spark.verbs.target import Target

if TYPE_CHECKING:
    from lance_spark.index.minhash.parameters import MinHash

_ROW_ID = "_rowid"
_SIGNED = st.StructType().add("id", st.LongType()).add("signature", st.BinaryType())
_BANDS = st.StructType().add("band", st.LongType()).add("id", st.LongType()).add("signature", st.BinaryType())
_PAIRS = st.StructType().add("id_a", st.LongType()).add("id_b", st.LongType()).add("_distance", st.DoubleType())

Batches = Iterator[pa.RecordBatch]


class TextDuplicateVerbs:
    """How texts that are nearly the same are found in a `LanceTable`."""

    _target: Target

    def nearDuplicates(self, column: str, threshold: float, *, filter: str | None = None, **parameters: Any) -> NearDuplicates:
        """The rows of the latest version whose texts in `column` have an estimated Jaccard similarity of at least `threshold`, from 0 to 1.

        The similarity is the share of shingles, `shingle_size` (3) tokens in a row, that two texts have in common; it is estimated by
        `num_hashes` (128) numbers of each text, with an error of about 1 / sqrt(num_hashes). Pairs that are as similar as the threshold are
        found in at least 99% of the cases, more similar ones more often. `_distance` is 1 - similarity. Texts without tokens are in no
        pair, and of texts with equal signatures, each is paired only with the one whose row id is lowest. `filter` selects rows.

        If the column has a MINHASHLSH index and no `parameters` are given, its parameters are used, and without a filter its signatures.
        The parameters are those of the index: num_hashes, shingle_size, and `tokenizer`, a mapping with parameters of a full-text index.

        Raises InvalidOptionError for arguments that cannot be.

        Examples:
            >>> from lance_spark import LanceTable
            >>> texts = ["a new house by the old tree", "A new house by the old tree!", "something else entirely", "words"]
            >>> spark.createDataFrame([(t,) for t in texts], "text STRING").coalesce(1).write.format("lance").save("/tmp/t.lance")
            >>> found = LanceTable.forPath(spark, "/tmp/t.lance").nearDuplicates("text", 0.8)
            >>> found.pairs.collect()
            [Row(id_a=0, id_b=1, _distance=0.0)]
        """
        check_type("column", column, str, "the name of a column")
        if not isinstance(threshold, Real) or isinstance(threshold, bool) or not 0 < float(threshold) <= 1:
            raise InvalidOptionError(f"threshold must be a similarity above 0 and up to 1, not {threshold!r}")
        target, snapshot = self._target, self._target.latest()
        steps = snapshot.manifest.schema.resolve(column)
        if not is_text(steps[-1].type):
            raise InvalidOptionError(f"column {column!r} is not of texts, but of the type {steps[-1].type}")
        check_no_log(snapshot, "nearDuplicates")
        rows = _Texts(target, snapshot, quoted(tuple(f.name for f in steps)), steps[-1], filter)
        signatures, how = rows.signed(parameters)
        return grouped(_pairs(signatures, how, float(threshold)))


@dataclass(frozen=True)
class _Texts:
    """The texts of a column of a version; `filter` selects rows."""

    target: Target
    snapshot: Snapshot
    column: str
    field: Field
    filter: str | None

    def signed(self, given: Mapping[str, object]) -> tuple[DataFrame, MinHash]:
        """The row ids and signatures of all texts with tokens, and the parameters."""
        from lance_spark.index.minhash.parameters import new_min_hash  # loads the decoders
        from lance_spark.table.minhash.signatures import indexed_signatures

        index = None if given else indexed_signatures(self.snapshot, self.field)
        if index is None or self.filter is not None:
            how = new_min_hash(given) if index is None else index.parameters
            return self._scanned(how, None), how
        data, uuids = pickle.dumps((self.snapshot, self.field)), index.segments

        def read(batches: Batches) -> Batches:
            from lance_spark.table.minhash.signatures import signatures_in

            snapshot, field = pickle.loads(data)
            for i in (i for batch in batches for i in batch.column(0).to_pylist()):
                yield from (_row_batch(ids, signatures) for ids, signatures in signatures_in(snapshot, field, uuids[i]))

        found = _step(self.target.spark.range(0, len(uuids), 1, len(uuids)), read, _SIGNED)
        others = [i for i in self.snapshot.manifest.lazy_fragments.ids.tolist() if i not in index.covered]
        return (found.union(self._scanned(index.parameters, others)) if others else found), index.parameters

    def _scanned(self, min_hash: MinHash, fragments: Sequence[int] | None) -> DataFrame:
        """The signatures of the texts of some fragments (None: all)."""
        options = {**identified(self.target.options, self.snapshot.identity), "version": str(self.snapshot.version), "with_row_id": "true"}
        options |= {"columns": json.dumps([self.column])} | ({} if self.filter is None else {"filter": self.filter})
        options |= {} if fragments is None else {"fragments": ",".join(map(str, fragments))}
        rows = self.target.spark.read.format("lance").options(**options).load(absolute(self.target.uri))
        (text,) = (name for name in rows.columns if name != _ROW_ID)
        plain = rows.select(F.col(_ROW_ID).alias("row"), F.col(quoted((text,))).alias("value"))

        def sign(batches: Batches) -> Batches:
            from lance_spark.index.minhash.segment import sign_rows

            yield from (_row_batch(ids, signatures) for ids, signatures in sign_rows(batches, min_hash))

        return _step(plain, sign, _SIGNED)


def _step(rows: DataFrame, function: Callable[[Batches], Batches], schema: st.StructType) -> DataFrame:
    """The rows that a function makes of Arrow batches."""
    conversion = Conversion(promised(schema))

    def work(batches: Batches) -> Batches:
        start_task()
        with brief_errors():
            yield from map(conversion.apply, function(batches))

    work.__name__ = function.__name__
    return rows.mapInArrow(work, schema)


def _row_batch(ids: np.ndarray, signatures: np.ndarray) -> pa.RecordBatch:
    width = 2 * signatures.shape[1]
    offsets = np.arange(0, width * len(ids) + 1, width, dtype=np.int32)
    data = pa.py_buffer(signatures.astype("<u2").tobytes())
    values = pa.Array.from_buffers(pa.binary(), len(ids), [None, pa.py_buffer(offsets), data])
    return pa.RecordBatch.from_arrays([pa.array(ids.astype(np.int64)), values], names=["id", "signature"])


def _matrix(signatures: pa.Array, num_hashes: int) -> np.ndarray:
    """The signatures of a column that `_row_batch` has made, a row for each."""
    data, bounds = bytes_of(signatures)
    found: np.ndarray = data[bounds[0] : bounds[-1]].view("<u2").reshape(-1, num_hashes)
    return found


def _pairs(signed: DataFrame, min_hash: MinHash, threshold: float) -> DataFrame:
    """The pairs of rows with signatures of which so large a part is equal."""
    num_hashes, bands = min_hash.num_hashes, _bands(min_hash, threshold)

    def banded(batches: Batches) -> Batches:
        from lance_spark.index.minhash.signatures import band_keys

        for batch in batches:
            keys = band_keys(_matrix(batch.column(1), num_hashes), bands).astype(np.int64)
            for band in range(bands):
                yield pa.RecordBatch.from_arrays([pa.array(keys[:, band]), *batch.columns], names=["band", "id", "signature"])

    def compared(batches: Batches) -> Batches:
        for batch in batches:
            a, b = (_matrix(batch.column(i), num_hashes) for i in (2, 3))
            equal = (a == b).sum(axis=1)
            near = pa.array(equal >= threshold * num_hashes)
            distances = pa.array(1 - equal / num_hashes)
            yield pa.RecordBatch.from_arrays([*batch.columns[:2], distances], names=["id_a", "id_b", "_distance"]).filter(near)

    firsts = signed.groupBy("signature").agg(F.min("id").alias("id"), F.count(F.lit(1)).alias("count"))
    several = firsts.where("count > 1").select("signature", F.col("id").alias("id_a"))
    same = signed.join(several, "signature").where("id <> id_a").select("id_a", F.col("id").alias("id_b"), F.lit(0.0).alias("_distance"))
    bucketed = _step(firsts.select("id", "signature"), banded, _BANDS)
    a, b = (bucketed.select("band", F.col("id").alias(f"id_{x}"), F.col("signature").alias(f"signature_{x}")) for x in "ab")
    candidates = a.join(b, "band").where("id_a < id_b").select("id_a", "id_b", "signature_a", "signature_b")
    return same.union(_step(candidates, compared, _PAIRS).dropDuplicates(["id_a", "id_b"]))


def _bands(min_hash: MinHash, threshold: float) -> int:
    from lance_spark.index.minhash.parameters import bands_for

    return bands_for(min_hash.num_hashes, threshold)
