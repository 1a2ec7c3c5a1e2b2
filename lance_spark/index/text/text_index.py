"""The files of a segment of a full-text index: its parameters and partitions. Spec: "Inverted Index"."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.errors import CorruptFileError, MissingFileError, StorageError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.index.text.analysis.parameters import LARGE, SMALL, TextParameters, parameters_of, parse_parameters
from lance_spark.index.text.blocks import BlockFormat
from lance_spark.index.text.one_file import FIRST_FILE, OnePart
from lance_spark.index.text.partition import Partition
from lance_spark.index.text.postings import Part

_LOG = logging.getLogger(__name__)
_METADATA = "metadata.lance"
_MOST_PARTS = 1 << 16
_TAILS = {"fixed32_v1": False, "varint_delta_v1": True}
"""The codecs of the last block of a posting list: whether it has varints."""
_TEXT_BYTES = 1 << 10


@dataclass(frozen=True)
class TextIndex:
    """A segment: how its texts were split, and the parts that have them. `has_positions`: whether phrases can be searched."""

    parameters: TextParameters
    parts: Sequence[Part]
    has_positions: bool


def open_text_index(files: IndexFiles) -> TextIndex:
    """Open a segment. Raises CorruptFileError, UnsupportedFeatureError or StorageError."""
    return files.cached("text index", lambda: _open(files), lambda index: _TEXT_BYTES * len(index.parts))


def told_parameters(segments: Sequence[IndexFiles], what: str) -> TextParameters:
    """How the texts of an index are split, from the first segment whose file can be read, or else from what the manifest says about one.

    Raises CorruptFileError, which names a file, if neither tells all of it; `what` names the index.
    """
    problems: list[str] = []
    for files in segments:
        try:
            return _parameters(files)
        except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
            problems.append(str(e))
    for files in segments:
        try:
            found = parameters_of(files.details, files.indexed.logical_type == "json", f"{files.folder}: the details of the index")
        except CorruptFileError as e:
            problems.append(str(e))
            continue
        if not found.remove_stop_words:
            _LOG.warning("%s: its parameters are those of the manifest, since a file cannot be read: %s", what, problems[0])
            return found
    raise CorruptFileError(
        f"{what} cannot be searched: {problems[0]}; without this file, its stop words are not known: drop the index and create it again"
    )


def _parameters(files: IndexFiles) -> TextParameters:
    file = _metadata(files)
    if file is None:
        return OnePart(files).parameters
    return parse_parameters(file.metadata.get("params", "{}"), file.path)


def _metadata(files: IndexFiles) -> IndexFile | None:
    """The file of the parameters and partitions; None in a segment without partitions, of an early writer."""
    try:
        return files.open(_METADATA)
    except MissingFileError:
        if not files.store.exists(f"{files.folder}/{FIRST_FILE}"):
            raise
        return None


def _open(files: IndexFiles) -> TextIndex:
    file = _metadata(files)
    if file is None:
        part = OnePart(files)
        return TextIndex(part.parameters, (part,), has_positions=False)
    metadata = file.metadata
    layout = BlockFormat(_block_size(file), _has_varints(file))
    parameters = parse_parameters(metadata.get("params", "{}"), file.path)
    return TextIndex(parameters, tuple(Partition(files, number, layout) for number in _partitions(file)), parameters.with_position)


def _block_size(file: IndexFile) -> int:
    size = file.number("posting_block_size", SMALL)
    if size not in (SMALL, LARGE):
        raise UnsupportedFeatureError(f"{file.path}: posting lists have blocks of {size} documents; known are {SMALL} and {LARGE}")
    return size


def _has_varints(file: IndexFile) -> bool:
    codec = file.metadata.get("posting_tail_codec", "fixed32_v1")
    if codec not in _TAILS:
        raise UnsupportedFeatureError(
            f"{file.path}: the last blocks of posting lists have the codec {codec!r}; known are {', '.join(_TAILS)}"
        )
    return _TAILS[codec]


def _partitions(file: IndexFile) -> list[int]:
    """The numbers of the partitions."""
    text = file.metadata.get("partitions", "")
    try:
        numbers = json.loads(text)
    except ValueError:
        numbers = None
    valid = isinstance(numbers, list) and len(numbers) <= _MOST_PARTS
    if not valid or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
        raise CorruptFileError(f"{file.path}: expected a list of the numbers of partitions, found {text[:100]!r}")
    return list(numbers)
