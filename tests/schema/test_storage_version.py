"""Storage versions: parsing and order."""

from __future__ import annotations

import pytest

from lance_spark.schema.storage_version import V0_1, V2_0, V2_1, V2_2, StorageVersion


@pytest.mark.parametrize(
    ("written", "version"),
    [((0, 1), V0_1), ((0, 2), V0_1), ((0, 0), V0_1), ((0, 3), V2_0), ((2, 0), V2_0), ((2, 1), V2_1), ((9, 7), (9, 7))],
)
def test_numbers_in_files(written: tuple[int, int], version: StorageVersion) -> None:
    assert StorageVersion.of_file(written) == version


def test_parsing_texts() -> None:
    assert [str(StorageVersion.parse(text)) for text in ("2.1", "0.1", "10.20")] == ["2.1", "0.1", "10.20"]
    for text in ("", "2", "2.", "v2.1", "2.1.0", "2.x", "-2.1"):
        with pytest.raises(ValueError, match="expected two numbers"):
            StorageVersion.parse(text)


def test_order() -> None:
    assert V0_1 < V2_0 < V2_1 < V2_2 < StorageVersion(10, 0)
