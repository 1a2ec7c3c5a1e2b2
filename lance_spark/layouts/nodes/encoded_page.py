"""An encoded page for the file writer, and kernels that put many small buffers into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, copy
from lance_spark.layouts.nodes.planar import PLANAR_TYPE, planar_layout
from lance_spark.layouts.nodes.version_grammar import Grammar

_ENCODING_TYPE = "lance.encodings21.PageLayout"


@dataclass(frozen=True)
class EncodedPage:
    """A page of `num_rows` rows, ready to write: its buffers (uint8) in order, and the message that describes them.

    `bounds`: see `layouts.page_bounds`.
    """

    encoding_type: str
    encoding: bytes
    buffers: tuple[np.ndarray, ...]
    num_rows: int
    bounds: bytes = b""

    @classmethod
    def of(cls, layout: pb.PageLayout, buffers: Sequence[np.ndarray], num_rows: int, grammar: Grammar) -> EncodedPage:
        """The page of a layout message, which is that of 2.1; the grammar determines in which message it is stored."""
        return cls(*message_of(layout, grammar), tuple(buffers), num_rows)


def message_of(layout: pb.PageLayout, grammar: Grammar) -> tuple[str, bytes]:
    """The type and the bytes of the message of a page."""
    if grammar.planar:
        return PLANAR_TYPE, planar_layout(layout).SerializeToString(deterministic=True)
    return _ENCODING_TYPE, layout.SerializeToString(deterministic=True)


def copy_pieces(out: np.ndarray, at: np.ndarray, data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> None:
    """Copy piece i of `data`, from `begins[i]` to `ends[i]`, to `at[i]` in `out`."""
    _copy_pieces(out, at, np.ascontiguousarray(data), begins, ends)


def put_unsigned(out: np.ndarray, at: np.ndarray, numbers: np.ndarray, width: int) -> None:
    """Write each of `numbers` as `width` bytes, little endian, to its position in `out`."""
    for byte in range(width):
        out[at + byte] = (numbers >> (8 * byte)) & 0xFF


@kernel
def _copy_pieces(out: np.ndarray, at: np.ndarray, data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> None:
    for i in range(len(at)):
        copy(data, U(begins[i]), out, U(at[i]), U(ends[i] - begins[i]))
