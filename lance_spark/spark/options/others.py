"""Options of other connectors that this one does not have."""

from __future__ import annotations

import logging

from lance_spark.errors import UnsupportedFeatureError

IGNORED = (
    "use_queued_write_buffer",
    "queue_depth",
    "max_batch_bytes",
    "max_rows_per_group",
    "block_size",
    "index_cache_size",
    "metadata_cache_size",
    "pushDownFilters",
    "topN_push_down",
    "executor_credential_refresh",
)
"""Tuning options of the JVM connector, which do not change results."""

UNBUILT = {
    "streamingQueryId": "",
    "blob_pack_file_size_threshold": "",
    "use_large_var_types": "string and binary values of any length are supported without it",
    "lance.partition.spec": "",
    "backfill_columns": "",
    "update_columns": "",
    "withEventTimeOrder": "the first rows of a stream come fragment by fragment; give a watermark "
    "that spans their times, or read them by a batch, and stream with startingVersion",
}
"""Options that would change the result, with the alternative if there is one."""

_IGNORED = {name.lower() for name in IGNORED}
_UNBUILT = {name.lower(): name for name in UNBUILT}
_LOG = logging.getLogger(__name__)
_ignored_before: set[str] = set()


def is_ignored(key: str) -> bool:
    """True for an option without an effect; warns of it once per process."""
    name = key.lower()
    if name not in _IGNORED:
        return False
    if name not in _ignored_before:
        _ignored_before.add(name)
        _LOG.warning("the option %r of the JVM connector has no effect here", key)
    return True


def check_built(key: str) -> None:
    """Raise UnsupportedFeatureError for an option that would change the result."""
    name = _UNBUILT.get(key.lower())
    if name is not None:
        hint = f": {UNBUILT[name]}" if UNBUILT[name] else ""
        raise UnsupportedFeatureError(f"the option {name!r} is not implemented{hint}")
