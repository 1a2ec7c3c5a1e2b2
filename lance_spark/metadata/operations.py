"""The operations of a transaction: one frozen class for each operation of the specification.

Implements "Transaction Types" of the transaction specification. An unknown operation is kept as `Unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lance_spark.metadata.fragment import BasePath, DataFile, Fragment, IndexFile, IndexMetadata
from lance_spark.metadata.manifest import Manifest
from lance_spark.schema.schema import Schema


@dataclass(frozen=True)
class Append:
    """Adds fragments. Their ids are assigned when the manifest is built."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True)
class Delete:
    """Deletes rows: `updated_fragments` have new deletion files, `deleted_fragment_ids` are removed."""

    updated_fragments: tuple[Fragment, ...] = ()
    deleted_fragment_ids: tuple[int, ...] = ()
    predicate: str = ""


@dataclass(frozen=True)
class Overwrite:
    """Creates the table or replaces all of its data and its schema; `config_upsert_values` are merged into the table's config.

    With `keeps_columns`, the schema is that of the read version, or that and new columns, so the operation conflicts with changes of the
    schema since. The transaction file does not have this.
    """

    fragments: tuple[Fragment, ...]
    schema: Schema
    config_upsert_values: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()
    keeps_columns: bool = False


@dataclass(frozen=True)
class CreateIndex:
    """Adds, replaces or (without `new_indices`) drops indexes."""

    new_indices: tuple[IndexMetadata, ...] = ()
    removed_indices: tuple[IndexMetadata, ...] = ()


@dataclass(frozen=True)
class RewriteGroup:
    """Fragments that were rewritten together, and their replacements, whose ids are reserved by ReserveFragments or 0."""

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]


@dataclass(frozen=True)
class RewrittenIndex:
    """An index segment that was rewritten because rows moved: `new_id` replaces `old_id`.

    One that was `rebuilt` has all rows of the new fragments, whichever of the old ones it covered; the manifest shows this by its bitmap,
    but the transaction file does not, as the format has no place for it there.
    """

    old_id: bytes
    new_id: bytes
    details_type: str = ""
    details: bytes = b""
    index_version: int = 0
    files: tuple[IndexFile, ...] = ()
    rebuilt: bool = False


@dataclass(frozen=True)
class Rewrite:
    """Moves rows without changing them (compaction).

    `reuse` is an entry of the fragment reuse index that records where the rows went; the manifest has it together with earlier ones, but
    the transaction file does not, as the format has no place for it there.
    """

    groups: tuple[RewriteGroup, ...]
    rewritten_indices: tuple[RewrittenIndex, ...] = ()
    reuse: IndexMetadata | None = None


@dataclass(frozen=True)
class Merge:
    """Adds columns: has all fragments of the table, with their new files, and the new schema.

    With `keeps_values`, the new files have the values that the old ones have, in the storage version of the commit's settings. The
    transaction file does not have this. With `published`, the table becomes what this manifest says: that of a branch, with the base paths
    of the table. The transaction file does not have this either.
    """

    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool | None = None
    keeps_values: bool = False
    published: Manifest | None = None


@dataclass(frozen=True)
class Project:
    """Drops or reorders columns: the new schema."""

    schema: Schema
    preserves_nullability: bool | None = None


@dataclass(frozen=True)
class Restore:
    """Makes an older version the current one."""

    version: int


@dataclass(frozen=True)
class ReserveFragments:
    """Reserves fragment ids for a later Rewrite."""

    num_fragments: int


@dataclass(frozen=True)
class InsertedKeys:
    """The primary keys of the rows that an update inserted, so that two writers do not insert the same key.

    `field_ids` are the key's columns. The keys are 64-bit `hashes`, or a split-block bloom filter for `bloom_items` keys with the
    false-positive rate `bloom_probability`.
    """

    field_ids: tuple[int, ...]
    hashes: tuple[int, ...] | None = None
    bloom: bytes = b""
    bloom_bits: int = 0
    bloom_items: int = 0
    bloom_probability: float = 0.0


REWRITE_ROWS = 0
REWRITE_COLUMNS = 1


@dataclass(frozen=True)
class Update:
    """Changes rows: moves them to new fragments (`REWRITE_ROWS`), or writes new files for some columns (`REWRITE_COLUMNS`).

    `fields_modified` are the columns changed in `updated_fragments`; `updated_fragment_offsets` has the changed rows (fragment id ->
    portable roaring bitmap; empty: not recorded). `fields_for_preserving_frag_bitmap` are the columns with new values in moved rows: with
    stable row ids, indexes on other columns still cover the moved rows.
    """

    removed_fragment_ids: tuple[int, ...] = ()
    updated_fragments: tuple[Fragment, ...] = ()
    new_fragments: tuple[Fragment, ...] = ()
    fields_modified: tuple[int, ...] = ()
    fields_for_preserving_frag_bitmap: tuple[int, ...] = ()
    update_mode: int = REWRITE_ROWS
    compacted_sstables: tuple[bytes, ...] = ()
    inserted_keys: InsertedKeys | None = None
    updated_fragment_offsets: Mapping[int, bytes] = field(default_factory=dict)


CONSTRAINT = "lance_spark.constraint."
"""Before the name of a CHECK constraint among the keys of a table's config, whose value is the condition as SQL."""


@dataclass(frozen=True)
class UpdateMap:
    """Changes a string map: key -> new value, or None to remove the key. With `replace`, all other keys are removed."""

    updates: Mapping[str, str | None]
    replace: bool = False


@dataclass(frozen=True)
class UpdateConfig:
    """Changes metadata. None or an empty mapping means no change. The keys of `field_metadata_updates` are field ids."""

    config_updates: UpdateMap | None = None
    table_metadata_updates: UpdateMap | None = None
    schema_metadata_updates: UpdateMap | None = None
    field_metadata_updates: Mapping[int, UpdateMap] = field(default_factory=dict)


class DataReplacementGroup(NamedTuple):
    """A new data file of a fragment."""

    fragment_id: int
    new_file: DataFile


@dataclass(frozen=True)
class DataReplacement:
    """Replaces the data file of some columns in some fragments."""

    replacements: tuple[DataReplacementGroup, ...]


@dataclass(frozen=True)
class UpdateMemWalState:
    """Changes the state of the write-ahead logs; entries are kept as bytes."""

    added: tuple[bytes, ...] = ()
    updated: tuple[bytes, ...] = ()
    removed: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Clone:
    """Creates a table as a clone of a version of another one."""

    is_shallow: bool
    ref_version: int
    ref_path: str
    ref_name: str | None = None
    branch_name: str | None = None


@dataclass(frozen=True)
class UpdateBases:
    """Registers further base paths."""

    new_bases: tuple[BasePath, ...]


@dataclass(frozen=True)
class DataOverlay:
    """Adds overlays: new values for single cells of fragments. The groups are kept as bytes."""

    groups: tuple[bytes, ...]


@dataclass(frozen=True)
class Unknown:
    """An unknown or missing operation; `message` is the whole serialised transaction."""

    message: bytes


Operation = (
    Append
    | Delete
    | Overwrite
    | CreateIndex
    | Rewrite
    | Merge
    | Project
    | Restore
    | ReserveFragments
    | Update
    | UpdateConfig
    | DataReplacement
    | UpdateMemWalState
    | Clone
    | UpdateBases
    | DataOverlay
    | Unknown
)
