"""What old versions of Lance left out of a manifest, or got wrong, put right before the next version is made of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import Manifest
from lance_spark.table.build.index_coverage import fragments_of


def completed(manifest: Manifest) -> Manifest:
    """`manifest` as a newer version of Lance would have written it.

    The highest fragment id is missing where it is 0, and in the oldest tables always. Some tables of 0.16 say that they are of the storage
    version 0.1, while all their files are of another one.
    """
    highest = highest_fragment_id(manifest)
    data_format = manifest.data_format
    if data_format == "0.1" and len(found := format_of(manifest.fragments)) == 1:
        (data_format,) = found
    return replace(manifest, max_fragment_id=highest if highest >= 0 else None, data_format=data_format)


def highest_fragment_id(manifest: Manifest) -> int:
    """The highest id that a fragment has, or is known to have had; -1 if there has been none."""
    known = manifest.max_fragment_id
    if known is None:
        # Ids of fragments that are gone must not be given again while an index covers them.
        known = max((max(covered) for i in manifest.indexes if (covered := fragments_of(i))), default=-1)
    return max(known, int(manifest.lazy_fragments.ids.max(initial=-1)))


def format_of(fragments: Iterable[Fragment]) -> set[str]:
    """The storage versions of the fragments' data files."""
    return {str(v) for v in {file.storage_version for f in fragments for file in f.files}}
