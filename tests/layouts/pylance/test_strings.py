"""Pages of strings that pylance wrote decode to their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.buffers.blocks import Encoding
from lance_spark.encodings.delta import Delta
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.general import General
from lance_spark.encodings.range_ import Range
from lance_spark.encodings.variable import Variable
from tests.encodings.cases.pages import value_chunks
from tests.encodings.cases.strings import strings_of

RANDOM = np.random.default_rng(2)
URLS = [b"https://www.example.com/%x/index.html?q=%d" % (n, n % 17) for n in RANDOM.integers(0, 2**40, 2000).tolist()]
NOISE = [RANDOM.bytes(n) for n in RANDOM.integers(0, 40, 2000).tolist()]


def kinds(node: Encoding) -> list[type[Encoding]]:
    """The classes of `node` and of its nested encodings."""
    inner = getattr(node, "values", None) or getattr(node, "offsets", None)
    return [type(node), *(kinds(inner) if inner else [])]


# name, strings, Arrow type, field metadata, version, what the encodings begin with
PAGES: list[tuple[str, list[bytes], pa.DataType, dict[str, str], str, list[type[Encoding]]]] = [
    ("FSST", URLS, pa.string(), {}, "2.1", [Fsst, Variable]),
    ("FSST, large chunks", URLS, pa.string(), {}, "2.2", [Fsst, Variable]),
    ("FSST of 64-bit offsets", URLS, pa.large_string(), {}, "2.2", [Fsst, Variable]),
    ("plain", NOISE, pa.binary(), {}, "2.1", [Variable]),
    ("plain with 64-bit offsets", NOISE, pa.large_binary(), {}, "2.2", [Variable]),
    ("LZ4", URLS, pa.binary(), {"compression": "lz4"}, "2.1", [General, Variable]),
    ("zstd", URLS, pa.binary(), {"compression": "zstd"}, "2.2", [General, Variable]),
    ("offsets as differences", [s[:7] for s in NOISE], pa.binary(), {}, "2.3", [Variable, Delta]),
    ("64-bit offsets as differences", NOISE, pa.large_binary(), {}, "2.3", [Variable, Delta]),
    ("offsets as a range", [RANDOM.bytes(1) for _ in range(3000)], pa.binary(), {}, "2.3", [Variable, Range]),
]


@pytest.mark.parametrize(("strings", "t", "metadata", "version", "encodings"), [p[1:] for p in PAGES], ids=[p[0] for p in PAGES])
def test_a_page_of_pylance_is_read(
    tmp_path: Path, strings: list[bytes], t: pa.DataType, metadata: dict[str, str], version: str, encodings: list[type[Encoding]]
) -> None:
    node, chunks = value_chunks(tmp_path, pa.array(strings, pa.large_binary()).cast(t), version, metadata)
    assert kinds(node)[: len(encodings)] == encodings
    assert strings_of(node.decode_chunks(chunks)) == strings
