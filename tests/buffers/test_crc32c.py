"""CRC-32C matches RFC 3720, in pieces and in blocks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from lance_spark.buffers.crc32c import available, crc32c, crc32c_of_blocks

VECTORS = {b"": 0, b"123456789": 0xE3069283, bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43, bytes(range(32)): 0x46DD794E}


@pytest.mark.parametrize("data", VECTORS)
def test_checksums_are_those_of_the_standard(data: bytes) -> None:
    assert available()
    assert crc32c(data) == VECTORS[data]
    assert crc32c(np.frombuffer(data, np.uint8)) == VECTORS[data]
    assert crc32c(memoryview(bytearray(data))) == VECTORS[data]
    assert crc32c(data[5:], crc32c(data[:5])) == VECTORS[data]


def test_each_block_of_each_piece_has_its_checksum() -> None:
    data = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8)
    pieces = [data[:600], data[600:610], data[:0], data[610:]]
    expected = [crc32c(piece[i : i + 128]) for piece in pieces for i in range(0, max(len(piece), 1), 128)]
    assert crc32c_of_blocks(pieces, 128) == expected


def test_without_the_library_files_are_written_and_read_without_checksums(tmp_path: object) -> None:
    code = f"""
import sys
sys.modules["google_crc32c"] = None
import pyarrow as pa
from lance_spark import Dataset
Dataset.write({str(tmp_path)!r} + "/t", pa.table({{"a": [1, 2]}}))
print(Dataset.open({str(tmp_path)!r} + "/t").take([1])["a"].to_pylist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[2]"
    assert done.stderr.count("google-crc32c is not installed") == 1
