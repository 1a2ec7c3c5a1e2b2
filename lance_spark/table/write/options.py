"""The options of writes.

Parsers, the parameters of verbs and procedures, and docs/options.md come from the fields of `WriteOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

from lance_spark.errors import InvalidOptionError, check_at_least, check_texts, check_type
from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION
from lance_spark.options.field import option, options_of
from lance_spark.table.build.manifest_builder import DEFAULT_FORMAT
from lance_spark.table.versions.history import COMMIT_MESSAGE
from lance_spark.table.write.bases import DatasetBasePath, Targets, given_bases

MAX_ROWS_PER_FILE = 1 << 20
MAX_BYTES_PER_FILE = 90 << 30


@dataclass(frozen=True)
class WriteOptions:
    """How to write; the defaults are pylance's.

    `data_storage_version` ("2.1") is the file format of a new or overwritten table; "stable": the newest stable one; None: the table's
    current one, or the newest stable one.
    A data file ends after `max_rows_per_file` rows, or the batch that makes it exceed `max_bytes_per_file` bytes. `stable_row_ids`
    and `column_options` are for new tables (see `table.write.new_schema`): {"v.lance.compression": "zstd"}.
    `properties` are stored in the transaction, like the commit message and the name and
    number of a write that must happen only once (see `metadata.numbered_writes`). Without `overwrite_schema` an overwritten table
    keeps its columns, which the data must fit. With `merge_schema` an append adds columns that the table does not have, and so does an
    overwrite, which keeps the others.
    `config` is merged into the config of a new or overwritten table.
    `initial_bases` are registered with a new table. New data files are written to `target_bases`, or to all with `target_all_bases`. With
    `allow_other_stores`, these may be in other stores or buckets than the table, if the table says so.
    """

    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    max_rows_per_file: int = option(
        MAX_ROWS_PER_FILE,
        "count",
        f"Maximum number of rows in a data file (default: {MAX_ROWS_PER_FILE}).",
        aliases=("max_row_per_file",),
        least=1,
        use=("new table", "later writes"),
    )
    max_bytes_per_file: int = option(
        MAX_BYTES_PER_FILE,
        "count",
        f"Approximate maximum number of bytes in a data file (default: {MAX_BYTES_PER_FILE}).",
        least=1,
        use=("new table", "later writes"),
    )
    data_storage_version: str | None = option(
        None,
        "storage version",
        "The file format of a new table: 2.0, 2.1, 2.2 (default, also called `stable`) or 2.3 (unstable). "
        "An existing table keeps its format.",
        aliases=("file_format_version",),
        use=("new table",),
    )
    stable_row_ids: bool = option(
        False,
        "flag",
        "`true` gives the rows of a new table permanent ids.",
        aliases=("enable_stable_row_ids",),
        use=("new table",),
    )
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    commit_message: str | None = option(
        None,
        "text",
        "The commit message in the table's history.",
        aliases=("userMetadata",),
        use=("noted",),
    )
    txn_app_id: str | None = option(
        None,
        "text",
        "The name of an application, with `txnVersion`, for writes that must happen exactly once.",
        name=APP_ID,
        use=("noted",),
    )
    txn_version: int | None = option(
        None,
        "count",
        "The number of the write. Skipped if `txnAppId` has committed this number or a higher one.",
        name=APP_VERSION,
        use=("noted",),
    )
    column_options: Mapping[str, str] = field(default_factory=dict, hash=False)
    overwrite_schema: bool = option(
        True,
        "flag",
        "With mode overwrite: `false` keeps the table's columns, and the data must match them.",
        name="overwriteSchema",
    )
    merge_schema: bool = option(
        False,
        "flag",
        "`true` adds new columns of the data to the table. With mode overwrite, it also keeps the others.",
        name="mergeSchema",
    )
    write_order: Sequence[str] = option(
        (),
        "columns",
        "The columns by which each task sorts the rows that it writes, separated by commas or as a JSON list "
        "(see [writing](writing.md#sort-rows-as-they-are-written)).",
        use=("new table", "later writes"),
    )
    initial_bases: Sequence[DatasetBasePath] = option(
        (),
        "bases",
        "Further folders for the data files of a new table, as a JSON list of `path`, `name` and `is_dataset_root` "
        "(see [base paths](base-paths.md)).",
        use=("new table",),
    )
    target_bases: Sequence[str] = option(
        (),
        "columns",
        "The base paths that get the new data files in turn: names or paths, separated by commas or as a JSON list; "
        "`.` is the table's own folder.",
        use=("new table", "later writes"),
    )
    target_all_bases: bool | None = option(
        None,
        "flag",
        "All base paths get the new data files in turn: `true` after the table's own folder, `false` without it.",
        use=("new table", "later writes"),
    )
    allow_other_stores: bool = False
    config: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.data_storage_version == "stable":
            object.__setattr__(self, "data_storage_version", DEFAULT_FORMAT)
        if (self.txn_app_id is None) != (self.txn_version is None):
            raise InvalidOptionError(
                "give both txnAppId and txnVersion (the name of the application and the number of its write), or neither"
            )
        if self.txn_version is not None:
            check_type("txnVersion", self.txn_version, Integral, "an integer")
        if self.txn_version is not None and self.txn_version < 0:
            raise InvalidOptionError(f"txnVersion must be at least 0, not {self.txn_version}")
        for name in ("max_rows_per_file", "max_bytes_per_file"):
            check_at_least(name, getattr(self, name), options_of(WriteOptions)[name].least)
        if isinstance(self.write_order, str):
            raise TypeError(f"write_order must be a sequence of names of columns, not text; pass [{self.write_order!r}]")
        object.__setattr__(self, "write_order", tuple(self.write_order))
        if isinstance(self.target_bases, str):
            raise TypeError(f"target_bases must be a sequence of names or paths, not text; pass [{self.target_bases!r}]")
        object.__setattr__(self, "initial_bases", given_bases(self.initial_bases))
        object.__setattr__(self, "target_bases", tuple(self.target_bases))
        check_texts("properties", self.properties, '{"key": "text"}')
        check_texts("column_options", self.column_options, '{"v.lance.compression": "zstd"}')

    def after_commit(self, version: int) -> WriteOptions:
        """The options of the next commit of the same change, after one that made `version` (0: none). Only one has the write's number."""
        return replace(self, txn_app_id=None, txn_version=None) if version else self

    @property
    def targets(self) -> Targets:
        """The folders for new data files."""
        return Targets(tuple(self.target_bases), self.target_all_bases)

    @property
    def keeps_columns(self) -> bool:
        """True if an overwritten table keeps its columns."""
        return self.merge_schema or not self.overwrite_schema

    @property
    def noted(self) -> dict[str, str]:
        """The properties to store in the transaction."""
        job = {COMMIT_MESSAGE: self.commit_message, APP_ID: self.txn_app_id, APP_VERSION: self.txn_version}
        return {**self.properties, **{key: str(value) for key, value in job.items() if value is not None}}


NOTED: Mapping[str, str] = {o.name: name for name, o in options_of(WriteOptions).items() if "noted" in o.use}
"""The fields of what every change stores in its transaction, by their names in Spark."""
NO_OPTIONS = WriteOptions()
