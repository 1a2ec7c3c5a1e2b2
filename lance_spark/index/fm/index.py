"""FM: the rows whose text contains a substring, of any length.

`part_<number>_fm.lance` has the texts of some rows, see `partition`. In them, the bytes 0 and 0xFF are spaces. Null rows are nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.texts import bytes_of
from lance_spark.errors import CorruptFileError
from lance_spark.index.answer import Found, intersection, of_numbers, union
from lance_spark.index.files import IndexFiles
from lance_spark.index.fm.partition import END, RATE, SEPARATOR, Partition, open_partition
from lance_spark.index.fm.suffixes import suffix_array
from lance_spark.index.fm.tree import BYTES, Shape, branch_bits, huffman
from lance_spark.index.moves import Translation
from lance_spark.index.target import IndexFileWriter, IndexTarget, Trained
from lance_spark.predicate.regex import like_parts
from lance_spark.predicate.tree import And, Call, Column, Compare, Expression, In, Like, Literal, Or

VERSION = 10
_SPACE = 0x20
_NAME = re.compile(r"part_(\d+)_fm\.lance")
_MOST_ROWS = 10_000
_MOST_BYTES = 4 << 20
"""A partition has at most so many texts, and begins no other one when it has so many bytes: sorting suffixes takes memory."""
_MOST_HITS = 1 << 20
"""A text that is at more places than these, and than there are rows, is not looked up: each place takes some steps."""
_BLOCK_WORDS = 4096
_SAMPLES_NODE = 0xFFFFFFFF
_SCHEMA = pa.schema(
    [
        pa.field("node_id", pa.uint32(), nullable=False),
        pa.field("block_id", pa.uint32(), nullable=False),
        pa.field("words", pa.large_binary(), nullable=False),
        pa.field("prefix_rank", pa.uint64(), nullable=False),
        pa.field("bit_len", pa.uint64(), nullable=False),
    ]
)


def search(files: IndexFiles, condition: Expression, column: Column) -> Found | None:
    """The rows with all texts that the condition needs; exact for `contains`, unless a space of the index may be another byte."""
    match condition:
        case And(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            is_exact = len(parts) == len(operands) and all(p.exact for p in parts)
            return Found(intersection([p.rows for p in parts]), is_exact) if parts else None
        case Or(operands):
            parts = [found for o in operands if (found := search(files, o, column)) is not None]
            return Found(union(p.rows for p in parts), all(p.exact for p in parts)) if len(parts) == len(operands) else None
        case Call("contains", (text, Literal(str(part)))) if text == column:
            found = _containing(files, [part])
            return found if found is None or set(part) & {" ", "\0"} else Found(found.rows, exact=True)
        case Call("startswith" | "endswith", (text, Literal(str(part)))) if text == column:
            return _containing(files, [part])
        case Like(text, pattern) if text == column:
            return _containing(files, like_parts(pattern))
        case Compare("=", text, Literal(str(value))) if text == column:
            return _containing(files, [value])
        case In(text, values) if text == column and values and all(isinstance(v, str) for v in values):
            each = [_containing(files, [v]) for v in values]
            known = [f for f in each if f is not None]
            return Found(union(f.rows for f in known), exact=False) if len(known) == len(each) else None
        case _:
            return None


def _containing(files: IndexFiles, parts: Sequence[str]) -> Found | None:
    """The rows that contain all parts; None if those are empty or too frequent."""
    wanted = sorted({part.encode().replace(b"\0", b" ") for part in parts if part}, key=len, reverse=True)
    partitions = _partitions(files) if wanted else []
    numbers = [np.empty(0, np.uint64)]
    for partition in partitions:
        found: np.ndarray | None = None
        for part in wanted:
            first, last = partition.suffixes(part)
            if last - first > max(_MOST_HITS, len(partition.rows)):
                return None
            rows = partition.rows_of(first, last)
            found = rows if found is None else np.intersect1d(found, rows)
            if not len(found):
                break
        numbers += [] if found is None else [found]
    return Found(of_numbers(np.concatenate(numbers)), exact=False) if wanted else None


def _partitions(files: IndexFiles) -> list[Partition]:
    """The partitions, which stay in memory. Raises CorruptFileError, UnsupportedFeatureError or StorageError."""
    names = files.sizes or [entry.name for entry in files.store.contents(files.folder)[0]]
    numbers = sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))
    if not numbers:
        raise CorruptFileError(f"{files.folder}: the index has no file of a partition")

    def read(wanted: Sequence[int]) -> Iterator[Partition]:
        for number in wanted:
            yield open_partition(files.open(f"part_{number}_fm.lance"))

    return files.cached_each("partitions", numbers, read, lambda partition: partition.nbytes)


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write the index of the rows, whose values are texts."""
    number = 0
    for texts, numbers in _parts(rows):
        _write(target, number, texts, numbers)
        number += 1
    if not number:
        _write(target, 0, pa.array([], pa.large_binary()), np.empty(0, np.uint64))
    return target.trained(b"", VERSION)


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one index with the texts, read from the indexes, of the rows of all sources that still exist."""

    def kept() -> Iterator[pa.RecordBatch]:
        for files, translation in sources:
            for partition in _partitions(files):
                now, exist = translation.numbers(partition.rows)
                mask = pa.array(exist)
                columns = [partition.texts().filter(mask), pa.array(now).filter(mask)]
                yield pa.RecordBatch.from_arrays(columns, names=["value", "row"])

    return train(kept(), pa.large_binary(), target, {})


def _parts(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Array, np.ndarray]]:
    """The texts of each partition, without nulls, and their rows."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in rows:
        valid = batch.filter(batch.column("value").is_valid())
        _, bounds = bytes_of(valid.column("value"))
        at = 0
        while at < valid.num_rows:
            fits = int(np.searchsorted(bounds, bounds[at] + _MOST_BYTES - size))
            stop = min(max(fits, at + 1), at + _MOST_ROWS - count, valid.num_rows)
            waiting.append(valid.slice(at, stop - at))
            count, size, at = count + stop - at, size + int(bounds[stop] - bounds[at]), stop
            if count == _MOST_ROWS or size >= _MOST_BYTES:
                yield _joined(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> tuple[pa.Array, np.ndarray]:
    table = pa.Table.from_batches(batches).combine_chunks()
    values, rows = table.column("value"), table.column("row").to_numpy()
    return pa.concat_arrays(values.chunks), rows


def _write(target: IndexTarget, number: int, texts: pa.Array, rows: np.ndarray) -> None:
    """Write a partition."""
    text, begins = _text_of(texts)
    order = suffix_array(text) if len(text) else np.empty(0, np.int64)
    before = text[order - 1] if len(text) else text
    counts = np.bincount(text, minlength=BYTES)
    shape = huffman(counts)
    what = f"{target.folder}/part_{number}_fm.lance"
    samples = order[::RATE].astype("<u8")
    with target.create(f"part_{number}_fm.lance", _SCHEMA) as out:
        written = sum(_put(out, node, *_packed(bits)) for node, bits in enumerate(branch_bits(shape, before, what)))
        blocks = _put(out, _SAMPLES_NODE, samples, len(samples)) if len(samples) else 0
        numbers = {
            "num_bwt_nodes": len(shape.branches),
            "bwt_len": len(text),
            "num_sa_blocks": blocks,
            "sa_samples_len": len(samples),
            "total_wavelet_rows": written,
            "sa_sample_rate": RATE,
            "alphabet_size": BYTES,
        }
        out.metadata |= {key: str(value) for key, value in numbers.items()}
        out.metadata["c_table"] = np.append(0, np.cumsum(counts)).astype("<u8").tobytes().hex()
        out.metadata["huffman_codes"] = _told_codes(shape, what).hex()
        out.metadata["tree_topology"] = _told_shape(shape).hex()
        out.metadata["row_ids"] = rows.astype("<u8").tobytes().hex()
        out.metadata["doc_start_positions"] = begins.astype("<u8").tobytes().hex()


def _text_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The text of all texts, each with a separator, and where each begins."""
    if not len(texts):
        return np.empty(0, np.uint8), np.empty(0, np.int64)
    data, bounds = bytes_of(texts)
    own = data[bounds[0] : bounds[-1]]
    own = np.where((own == SEPARATOR) | (own == END), np.uint8(_SPACE), own)
    lengths = np.diff(bounds)
    found = np.full(len(own) + len(texts) + 1, SEPARATOR, np.uint8)
    found[np.arange(len(own)) + np.repeat(np.arange(len(texts)), lengths)] = own
    found[-1] = END
    return found, np.append(0, np.cumsum(lengths + 1))[:-1]


def _packed(bits: np.ndarray) -> tuple[np.ndarray, int]:
    """Bits as words, and how many there are."""
    padded = np.zeros(-(-len(bits) // 64) * 64, np.bool_)
    padded[: len(bits)] = bits
    return np.packbits(padded, bitorder="little").view("<u8"), len(bits)


def _put(out: IndexFileWriter, node: int, words: np.ndarray, length: int) -> int:
    """Write the words of a node in blocks, which are at least one; how many there are."""
    starts = np.arange(0, max(len(words), 1), _BLOCK_WORDS)
    is_samples = node == _SAMPLES_NODE
    ones = np.append(0, np.cumsum(np.bitwise_count(words)))[starts]
    blocks = [words[start : start + _BLOCK_WORDS].tobytes() for start in starts.tolist()]
    out.put(
        pa.array(np.full(len(starts), node, np.uint32)),
        pa.array(np.arange(len(starts), dtype=np.uint32)),
        pa.array(blocks, pa.large_binary()),
        pa.array(np.where(is_samples, 0, ones).astype(np.uint64)),
        pa.array(np.full(len(starts), length, np.uint64)),
    )
    return len(starts)


def _told_codes(shape: Shape, what: str) -> bytes:
    """The codes of all bytes as the metadata has them: the bits (u32), how many, how many nodes (u16), and these (u32)."""
    taken, nodes = shape.codes(what)
    told = bytearray()
    for byte in range(BYTES):
        length = int((taken[byte] >= 0).sum())
        bits = sum(int(taken[byte, level]) << (length - 1 - level) for level in range(length))
        told += bits.to_bytes(4, "little") + bytes([length]) + length.to_bytes(2, "little")
        told += nodes[byte, :length].astype("<u4").tobytes()
    return bytes(told)


def _told_shape(shape: Shape) -> bytes:
    """The branches of all nodes as the metadata has them."""
    flat = shape.branches.reshape(-1)
    told = np.empty(len(flat), np.dtype([("is_byte", "u1"), ("number", "<u4")]))
    told["is_byte"], told["number"] = flat < 0, np.where(flat < 0, -1 - flat, flat)
    return len(shape.branches).to_bytes(4, "little") + told.tobytes()
