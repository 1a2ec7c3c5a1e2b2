"""How the texts of a column are split into words: as its full-text index says, also where that index cannot be searched."""

from __future__ import annotations

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFiles
from lance_spark.index.text.analysis.analyzer import Analyzer
from lance_spark.index.text.analysis.parameters import TextParameters, has_items
from lance_spark.index.text.text_index import told_parameters
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.schema.schema import Field
from lance_spark.table.versions.snapshot import Snapshot

_BYTES = 1 << 12
"""About the memory of parameters."""


def text_parameters(snapshot: Snapshot, field: Field) -> TextParameters | None:
    """The parameters of the full-text index of a column, which may cover no rows; None without an index.

    Raises UnsupportedFeatureError if its words are not known here, and CorruptFileError if nothing tells the parameters.
    """
    kept = snapshot.locations.kept
    return kept.get(("text parameters", field.id), lambda: _parameters(snapshot, field), lambda _: _BYTES)


def _parameters(snapshot: Snapshot, field: Field) -> TextParameters | None:
    named = [index for index in snapshot.manifest.indexes if _is_of(index, field)]
    if not named:
        return None
    what = f"{snapshot}: the full-text index {named[0].name!r} of column {field.name!r}"
    if any(has_items(index.details) for index in named):
        raise UnsupportedFeatureError(
            f"{what} has each item of a list as a document of its own (document_granularity), which is not supported; "
            "search with pylance, or create an index whose documents are whole lists"
        )
    found = told_parameters([_files(snapshot, index, field) for index in named], what)
    try:
        Analyzer(found)
    except UnsupportedFeatureError as e:
        raise UnsupportedFeatureError(f"{what} cannot be searched: {e}") from e
    return found


def _is_of(index: IndexMetadata, field: Field) -> bool:
    return index.details_type.endswith(".InvertedIndexDetails") and tuple(index.fields[:1]) == (field.id,)


def _files(snapshot: Snapshot, index: IndexMetadata, field: Field) -> IndexFiles:
    store, folder = snapshot.locations.index_folder(index)
    sizes = {file.path: file.size for file in index.files if file.size}
    return IndexFiles(store, folder, field, {}, 0, sizes, index.details, verify_checksums=snapshot.verify_checksums)
