"""Constructs that only some versions of the format allow. Other readers reject them in files of other versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.schema.storage_version import V2_1, V2_2, V2_3, StorageVersion


@dataclass(frozen=True)
class Grammar:
    """`compressed_levels`: in all-null pages. `word_dictionaries`: dictionaries of 64-bit numbers, which 2.1 writers never write.
    `planar`: a page has a structure, by levels or sparse, and a plane of values. `list_dictionaries`: of fixed-size lists.
    `packed_parts`: the offsets of strings, the values or the lengths of runs may be packed. `most_runs`: the most runs for each value of a
    page that is stored as runs.
    """

    large_chunks: bool
    run_levels: bool
    compressed_levels: bool
    constant_values: bool
    word_dictionaries: bool
    compressed_dictionaries: bool
    maps: bool
    variable_packed_structs: bool
    blob_structs: bool
    planar: bool
    list_dictionaries: bool
    packed_parts: bool
    most_runs: float


GRAMMARS: Mapping[StorageVersion, Grammar] = {
    V2_1: Grammar(
        large_chunks=False,
        run_levels=False,
        compressed_levels=False,
        constant_values=False,
        word_dictionaries=False,
        compressed_dictionaries=False,
        maps=False,
        variable_packed_structs=False,
        blob_structs=False,
        planar=False,
        list_dictionaries=False,
        packed_parts=False,
        most_runs=0.5,
    ),
    V2_2: Grammar(
        large_chunks=True,
        run_levels=True,
        compressed_levels=True,
        constant_values=True,
        word_dictionaries=True,
        compressed_dictionaries=True,
        maps=True,
        variable_packed_structs=True,
        blob_structs=True,
        planar=False,
        list_dictionaries=False,
        packed_parts=False,
        most_runs=0.5,
    ),
    V2_3: Grammar(
        large_chunks=True,
        run_levels=True,
        compressed_levels=True,
        constant_values=True,
        word_dictionaries=True,
        compressed_dictionaries=True,
        maps=True,
        variable_packed_structs=True,
        blob_structs=True,
        planar=True,
        list_dictionaries=True,
        packed_parts=True,
        most_runs=1,
    ),
}
