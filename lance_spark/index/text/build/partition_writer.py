"""Writing partitions of an index, each as three files, and the metadata of a segment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.arrow.texts import bytes_of
from lance_spark.index.target import IndexTarget
from lance_spark.index.text.analysis.parameters import TextParameters, json_of
from lance_spark.index.text.bm25 import scores_of
from lance_spark.index.text.build.fst_builder import fst_of
from lance_spark.index.text.build.impacts import impacts
from lance_spark.index.text.build.inversion import Documents, Lists
from lance_spark.index.text.build.pack import packed_lists, packed_positions

_PIECE = 2 << 20
"""Documents and positions of posting lists that are packed at once: 40 MB."""

_ITEMS = pa.list_(pa.field("item", pa.large_binary()))
_STARTS = pa.list_(pa.field("item", pa.uint32()))
_LISTS = (("_posting", _ITEMS), ("_max_score", pa.float32()), ("_length", pa.uint32()), ("_impacts", _ITEMS))
_POSITIONS = (("_compressed_position", pa.large_binary()), ("_position_block_offset", _STARTS))
_TOKENS = (("_token_fst_bytes", pa.large_binary()), ("_token_next_id", pa.uint32()), ("_token_total_length", pa.uint64()))
_DOCUMENTS = (("_rowid", pa.uint64()), ("_num_tokens", pa.uint32()))


def _schema(columns: Iterable[tuple[str, pa.DataType]]) -> pa.Schema:
    return pa.schema([pa.field(name, t, nullable=False) for name, t in columns])


class SegmentWriter:
    """Writes the partitions of a segment, which are numbered from 0, and its metadata."""

    def __init__(self, target: IndexTarget, parameters: TextParameters) -> None:
        self._target, self._parameters = target, parameters
        self._partitions = 0

    def add(self, documents: Documents, lists: Iterable[Lists]) -> None:
        """Write a partition. The lists, in order of their tokens, come in pieces. Without documents, there is nothing to write."""
        if not len(documents.rows):
            return
        tokens = self._write_lists(documents, lists)
        self._write_tokens(tokens)
        total = int(documents.lengths.sum(dtype=np.uint64))
        self._write("docs", _DOCUMENTS, [pa.array(documents.rows), pa.array(documents.lengths)], {"total_tokens": str(total)})
        self._partitions += 1

    def finish(self) -> None:
        """Write the metadata of the segment."""
        partitions = json.dumps([*range(self._partitions)], separators=(",", ":"))
        metadata = {"partitions": partitions, "params": json_of(self._parameters), "token_set_format": "fst", **self._layout()}
        schema = _schema([("deleted_fragments", pa.binary())])
        with self._target.create("metadata.lance", schema) as out:
            out.metadata.update(metadata)
            out.put(pa.array([BitMap().serialize()], pa.binary()))

    def _layout(self) -> dict[str, str]:
        parameters = self._parameters
        layout = {
            "format_version": str(parameters.format_version),
            "posting_block_size": str(parameters.block_size),
            "posting_tail_codec": "varint_delta_v1",
        }
        return layout | ({"positions_layout": "shared_stream_v2", "positions_codec": "packed_delta_v1"} if parameters.with_position else {})

    def _name(self, what: str) -> str:
        return f"part_{self._partitions}_{what}.lance"

    def _write(self, what: str, columns: Iterable[tuple[str, pa.DataType]], arrays: list[pa.Array], metadata: Mapping[str, str]) -> None:
        with self._target.create(self._name(what), _schema(columns)) as out:
            out.metadata.update(metadata)
            out.put(*arrays)

    def _write_lists(self, documents: Documents, lists: Iterable[Lists]) -> list[pa.Array]:
        """Write the posting lists; their tokens."""
        parameters = self._parameters
        columns = (*_LISTS, *_POSITIONS) if parameters.with_position else _LISTS
        average = np.float32(documents.lengths.sum(dtype=np.uint64)) / np.float32(len(documents.rows))
        tokens = []
        with self._target.create(self._name("invert"), _schema(columns)) as out:
            out.metadata.update(self._layout())
            for all_lists in lists:
                for piece in all_lists.pieces(_PIECE):
                    out.put(*_packed(piece, documents.lengths, average, parameters))
                    tokens.append(piece.tokens)
        return tokens

    def _write_tokens(self, tokens: list[pa.Array]) -> None:
        united = pa.concat_arrays(tokens)
        data, bounds = bytes_of(united)
        fst = fst_of(data, bounds, np.arange(len(united)))
        total = int(bounds[-1] - bounds[0])
        arrays = [pa.array([fst], pa.large_binary()), pa.array([len(united)], pa.uint32()), pa.array([total], pa.uint64())]
        self._write("tokens", _TOKENS, arrays, {})


def _packed(lists: Lists, lengths: np.ndarray, average: np.float32, parameters: TextParameters) -> list[pa.Array]:
    """The columns of posting lists in a file."""
    size = parameters.block_size
    bounds, documents, frequencies = lists.bounds, lists.documents, lists.frequencies
    scores = scores_of(bounds, documents, frequencies, lengths, average)
    data, blocks, list_blocks, largest = packed_lists(bounds, documents, frequencies, scores, size)
    entries = impacts(bounds, documents, frequencies, lengths, size)
    columns = [_items(data, blocks, list_blocks), pa.array(largest), pa.array(np.diff(bounds).astype(np.uint32)), _items(*entries)]
    if parameters.with_position:
        assert lists.positions is not None, "the positions were kept when the texts were split"
        stream, ends, starts, start_bounds = packed_positions(bounds, frequencies, lists.positions, size)
        columns += [
            _binaries(stream, ends),
            pa.ListArray.from_arrays(pa.array(start_bounds.astype(np.int32)), pa.array(starts), type=_STARTS),
        ]
    return columns


def _items(data: np.ndarray, bounds: np.ndarray, lists: np.ndarray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(lists.astype(np.int32)), _binaries(data, bounds), type=_ITEMS)


def _binaries(data: np.ndarray, bounds: np.ndarray) -> pa.LargeBinaryArray:
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(bounds.astype(np.int64)), pa.py_buffer(data)]
    )
