"""The files of a segment: "Storage Layout" of the page MinHash LSH Index.

`signatures.lance` has a row for each text with tokens: its number and its signature. `bands.lance` has a row for each band of each
signature, ordered by its key, and in a global buffer the last key of each page of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.minhash.parameters import MinHash, details_of_min_hash, min_hash_of
from lance_spark.index.minhash.signatures import band_keys, signed
from lance_spark.index.moves import Translation
from lance_spark.index.target import IndexFileWriter, IndexTarget, Trained
from lance_spark.index.text.build.split import Splitter

SIGNATURES = "signatures.lance"
BANDS = "bands.lance"
VERSION = 0
_PAGE_ROWS = 4096
_BATCH_BYTES = 4 << 20
_MOST_TOKENS = 1 << 18
"""More distinct tokens than so many are forgotten."""
_PLAIN = {"lance-encoding:compression": "none"}
_FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip", **_PLAIN}
_BANDS_SCHEMA = pa.schema(
    [pa.field("band_key", pa.uint64(), nullable=False, metadata=_PLAIN), pa.field("doc_id", pa.uint32(), nullable=False, metadata=_PLAIN)]
)

Signed = Iterator[tuple[np.ndarray, np.ndarray]]
"""Numbers of rows (uint64) and their signatures."""


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, whose values are texts."""
    how = parameters["parameters"]
    assert isinstance(how, MinHash), "parameters of signatures are checked where the index is defined"
    return _written(target, how, details_of_min_hash(how), sign_rows(rows, how))


def sign_rows(rows: Iterable[pa.RecordBatch], how: MinHash) -> Signed:
    """The signatures of rows, which have the columns "value" and "row"; texts without tokens have none."""
    splitter = Splitter(how.tokenizer)
    for batch in rows:
        if len(splitter) > _MOST_TOKENS:
            splitter = Splitter(how.tokenizer)
        for places, signatures in signed(batch.column("value"), how, splitter):
            yield batch.column("row").to_numpy()[places], signatures


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one segment with the rows of all sources that still exist, without splitting their texts again."""
    how = min_hash_of(sources[0][0].details, f"{sources[0][0].folder}: the details of the index")

    def kept() -> Signed:
        for files, translation in sources:
            if files.details != sources[0][0].details:
                raise CorruptFileError(f"{sources[0][0].folder}: the segments of the index have different parameters")
            for rows, signatures in read_signatures(files):
                now, exist = translation.numbers(rows)
                yield now[exist], signatures[exist]

    return _written(target, how, sources[0][0].details, kept())


def read_signatures(files: IndexFiles) -> Signed:
    """The rows that a segment names and their signatures, in batches. Raises CorruptFileError, UnsupportedFeatureError or StorageError."""
    file, how = check_signatures(files)
    for batch in file.batches(["_rowid", "signature"], batch_rows=max(1, _BATCH_BYTES // (2 * how.num_hashes))):
        values = unsigned(batch.column(1).flatten(), file.path)
        yield unsigned(batch.column(0), file.path), values.reshape(-1, how.num_hashes)


def check_signatures(files: IndexFiles) -> tuple[IndexFile, MinHash]:
    """Open the file of signatures, and check that it belongs to the index. Raises what `read_signatures` raises."""
    how, file = min_hash_of(files.details, f"{files.folder}: the details of the index"), files.open(SIGNATURES)
    expected = _signatures_schema(how).types
    if file.schema.types != expected:
        raise CorruptFileError(f"{file.path}: expected columns of {expected}, found {file.schema.types}")
    if file.metadata.get("minhash_lsh_details") != files.details.hex():
        raise CorruptFileError(f"{file.path}: the file does not belong to the index, whose parameters are others")
    return file, how


def _signatures_schema(how: MinHash) -> pa.Schema:
    signature = pa.field("signature", pa.list_(pa.uint16(), how.num_hashes), nullable=False, metadata=_FULL_ZIP)
    return pa.schema([pa.field("_rowid", pa.uint64(), nullable=False), signature])


def _written(target: IndexTarget, how: MinHash, details: bytes, rows: Signed) -> Trained:
    metadata = {"minhash_lsh_details": details.hex(), "minhash_lsh_index_version": str(VERSION)}
    keys = [np.empty(0, np.uint64)]
    with target.create(SIGNATURES, _signatures_schema(how)) as out:
        for numbers, signatures in rows:
            values = pa.array(signatures.reshape(-1))
            out.put(pa.array(numbers), pa.FixedSizeListArray.from_arrays(values, how.num_hashes))
            keys.append(band_keys(signatures, how.num_bands).reshape(-1))
        out.metadata |= metadata
    with target.create(BANDS, _BANDS_SCHEMA) as out:
        _write_bands(out, np.concatenate(keys), how.num_bands)
        out.metadata |= metadata
    return target.trained(details, VERSION)


def _write_bands(out: IndexFileWriter, keys: np.ndarray, num_bands: int) -> None:
    """Write the rows of all keys, those of one document after those of another."""
    order = np.argsort(keys, kind="stable")
    ordered, documents = keys[order], (order // num_bands).astype(np.uint32)
    step = _BATCH_BYTES // 8
    for start in range(0, len(keys), step):
        out.put(pa.array(ordered[start : start + step]), pa.array(documents[start : start + step]))
    lasts = ordered[np.minimum(np.arange(_PAGE_ROWS, len(keys) + _PAGE_ROWS, _PAGE_ROWS) - 1, len(keys) - 1)]
    out.attach("minhash_lsh_page_table_buffer", lasts.astype("<u8").tobytes())
    out.metadata |= {"minhash_lsh_num_docs": str(len(keys) // num_bands), "minhash_lsh_page_rows": str(_PAGE_ROWS)}
