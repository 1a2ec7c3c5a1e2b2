"""The properties of a table (its config) whose names are ours, pylance's or the JVM connector's.

A misspelled one would be kept and have no effect. Other properties are the user's, and are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.metadata.operations import CONSTRAINT
from lance_spark.metadata.view_records import VIEW
from lance_spark.options.field import options_of
from lance_spark.table.write.new_schema import column_of
from lance_spark.table.write.options import WriteOptions

_PREFIXES = ("lance.", "lance_spark.")
_OF_OTHERS = {
    "delta.appendonly": "rows of a lance table may be changed by whoever may write to it",
    "write.wap.enabled": (
        "changes wait in a branch: write to t.branch_x, then CALL fast_forward(table => 't', branch => 'main', to => 'x')"
    ),
}
"""Properties of Delta Lake and Iceberg that would protect a table there, by their names in small letters, and what to say of them."""
_OF_NAMESPACES = "lance.namespace."
_AUTO_CLEANUP = ("interval", "older_than", "retain_versions", "referenced_branch", "delete_rate_limit", "delete_concurrency")
_COMPACTION = (
    *("target_rows_per_fragment", "max_rows_per_group", "max_bytes_per_file", "materialize_deletions"),
    *("materialize_deletions_threshold", "num_threads", "batch_size", "defer_index_remap", "compaction_mode", "scope"),
    *("binary_copy_read_batch_bytes", "max_source_fragments", "max_overlays_per_fragment", "max_data_files_per_fragment"),
)
KNOWN = (
    *(f"lance.auto_cleanup.{name}" for name in _AUTO_CLEANUP),
    *(f"lance.compaction.{name}" for name in _COMPACTION),
    *("lance.row_lineage.spill", "lance.row_lineage.inline_max_bytes", "lance.row_ids.range_segments"),
    *("lance_spark.clustering", "lance_spark.mem_wal", "lance_spark.primary_key", "lance_spark.written", VIEW),
)
"""Properties that have a meaning, besides the options of new tables and columns, and constraints."""
_OF_NEW_TABLES = [o for o in options_of(WriteOptions).values() if "new table" in o.use]
_OPTIONS = tuple(name for o in _OF_NEW_TABLES for name in o.names)


def check_properties(keys: Iterable[str]) -> None:
    """Raise InvalidOptionError for a property that is unknown, and looks like one of ours, and UnsupportedFeatureError for `_OF_OTHERS`.

    An unknown one begins with `lance.` or `lance_spark.`, or is one edit away from a property that is known.
    """
    for key in keys:
        name = key.lower()
        if instead := _OF_OTHERS.get(name):
            raise UnsupportedFeatureError(f"the property {key!r} would have no effect: {instead}; leave it out")
        if key in KNOWN or name in _OPTIONS or name.startswith((CONSTRAINT, _OF_NAMESPACES)) or column_of(key) is not None:
            continue
        alike = [known for known in (*KNOWN, *_OPTIONS) if is_one_edit(name, known)]
        if not alike and not name.startswith(_PREFIXES):
            continue
        hint = f"; did you mean {alike[0]!r}?" if alike else nearest(name, (*KNOWN, *_OPTIONS, CONSTRAINT))
        others = "" if hint else f"; known are {', '.join(KNOWN)} and {CONSTRAINT}<name>"
        raise InvalidOptionError(f"unknown property {key!r}, which would have no effect{hint}{others}")


def is_one_edit(text: str, other: str) -> bool:
    """True if `text` is `other`, or becomes it by one character that is added, left out, changed, or swapped with the next one."""
    if len(text) > len(other):
        text, other = other, text
    if len(other) - len(text) > 1:
        return False
    differing = (i for i, (a, b) in enumerate(zip(text, other)) if a != b)
    first = next(differing, len(text))
    if len(text) < len(other):
        return text[first:] == other[first + 1 :]
    changed = text[first + 1 :] == other[first + 1 :]
    pair, other_pair = text[first : first + 2], other[first : first + 2]
    swapped = pair == other_pair[::-1] and text[first + 2 :] == other[first + 2 :]
    return changed or swapped
