"""The fragment reuse index of a version: where compactions moved rows whose indexes they left as they were.

Implements "Fragment Reuse Index" of the index specification. Its entries are in the manifest, or, if pylance wrote more than
200 KB of them, in a file of the index's folder, which is read when it is needed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.messages import discard_unknown_fields, parse_message
from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.metadata.details_file import DetailsFile
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.metadata.locations import Locations, check_relative

Indexes = tuple[IndexMetadata, ...]
ReuseHistory = Sequence[pb.FragmentReuseIndexDetails.Version]

FRAGMENT_REUSE = "__lance_frag_reuse"
_DETAILS = "the details of the fragment reuse index"
_LOG = logging.getLogger(__name__)


def is_reuse_readable(indexes: Indexes) -> bool:
    """Whether the fragment reuse index, if there is one, has a known form and can be read."""
    return reuse_history(indexes) is not None


def reuse_history(indexes: Indexes) -> ReuseHistory | None:
    """The entries of the fragment reuse index, oldest first; None if they cannot be read."""
    for index in indexes:
        if index.name == FRAGMENT_REUSE:
            details = parse_message(pb.FragmentReuseIndexDetails, index.details, _DETAILS)
            # From version 1 on, the entries are transitions, whose contents are not known here.
            if index.index_version or discard_unknown_fields(details):
                return None
            return details.inline.versions if details.HasField("inline") else _history_in_file(index)
    return ()


def _history_in_file(index: IndexMetadata) -> ReuseHistory | None:
    """The entries that are in a file; None, after a warning, if it cannot be read."""
    if index.details_file is None:
        return None
    try:
        inline = parse_message(pb.FragmentReuseIndexDetails.InlineContent, index.details_file.content, _DETAILS)
    except (CorruptFileError, StorageError) as e:
        _LOG.warning("%s/%s: the fragment reuse index is not used: %s", index.details_file.store.uri, index.details_file.path, e)
        return None
    return None if discard_unknown_fields(inline) else inline.versions


def with_details_files(indexes: Indexes, locations: Locations) -> Indexes:
    """The indexes of a version, of which the fragment reuse index knows the file that has its details, if one has."""
    return tuple(replace(i, details_file=_details_file(i, locations)) if i.name == FRAGMENT_REUSE else i for i in indexes)


def _details_file(index: IndexMetadata, locations: Locations) -> DetailsFile | None:
    with contextlib.suppress(CorruptFileError, UnsupportedFeatureError):  # `reuse_history` says that it cannot be read
        details = parse_message(pb.FragmentReuseIndexDetails, index.details, _DETAILS)
        if details.HasField("external"):
            check_relative(details.external.path, "details of the fragment reuse index")
            store, folder = locations.index_folder(index)
            return DetailsFile(store, f"{folder}/{details.external.path}", details.external.offset, details.external.size)
    return None


def with_inline_details(index: IndexMetadata) -> IndexMetadata:
    """An index with all of its details in the manifest. Raises CorruptFileError for a file of other details."""
    if index.details_file is None:
        return index
    history = reuse_history((index,))
    if history is None:
        raise CorruptFileError(f"{index.details_file.store.uri}/{index.details_file.path} does not have {_DETAILS}")
    details = pb.FragmentReuseIndexDetails()
    details.inline.versions.extend(history)
    return replace(index, details=details.SerializeToString(deterministic=True), details_file=None)
