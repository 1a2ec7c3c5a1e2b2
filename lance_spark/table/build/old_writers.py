"""Corrects what old versions of Lance omitted from a manifest or got wrong, before the next version is made from it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import Manifest
from lance_spark.table.build.index_coverage import fragments_of


def completed(manifest: Manifest) -> Manifest:
    """`manifest` as a newer version of Lance would have written it.

    The highest fragment id is missing if it is 0, and always in the oldest tables. Some tables of 0.16 claim the storage
    version 0.1 while all their files have another one.
    """
    highest = highest_fragment_id(manifest)
    data_format = manifest.data_format
    if data_format == "0.1" and len(found := format_of(manifest.fragments)) == 1:
        (data_format,) = found
    return replace(manifest, max_fragment_id=highest if highest >= 0 else None, data_format=data_format)


def highest_fragment_id(manifest: Manifest) -> int:
    """The highest id that a fragment has or is known to have had; -1 if there has been no fragment."""
    known = manifest.max_fragment_id
    if known is None:
        # Ids of removed fragments must not be reused while an index covers them.
        known = max((max(covered) for i in manifest.indexes if (covered := fragments_of(i))), default=-1)
    return max(known, int(manifest.lazy_fragments.ids.max(initial=-1)))


def format_of(fragments: Iterable[Fragment]) -> set[str]:
    """The storage versions of the fragments' data files."""
    return {str(v) for v in {file.storage_version for f in fragments for file in f.files}}
