"""The ids, row counts and data files of very many fragments, read from their serialised DataFragment messages at once.

Where a message is not as all writers write it, `Unusual` is raised, and the protobuf library must read it. Both give the same numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark._proto import table_pb2 as pb
from lance_spark.buffers.byte_ranges import Bytes
from lance_spark.buffers.wire import AT_ONCE, Unusual, contents, distinct, fields, kinds, packed

NO_FILE = -1
"""The number of deleted rows of a fragment without a deletion file."""

_OF_FRAGMENT, _OF_FILE, _OF_DELETION = kinds(pb.DataFragment), kinds(pb.DataFile), kinds(pb.DeletionFile)
_PLAIN = np.isin(np.arange(len(_OF_FRAGMENT)), (1, 2, 4, 5, 7, 9))
"""The fields of a fragment that has no files but those of its data: id, files, rows, and sequences in the manifest."""


def counted(data: Bytes, spans: np.ndarray) -> np.ndarray:
    """One int64 row for each DataFragment message at `spans` of `data`, see `Fragments.counts`. Raises Unusual."""
    found = np.zeros((len(spans), 4), np.int64)
    found[:, 2] = NO_FILE
    for step in fields(data, spans, _OF_FRAGMENT):
        for number, column in ((1, 0), (4, 1)):
            which = step.numbers == number
            found[step.messages[which], column] = step.values[which]
        found[step.messages[step.numbers == 2], 3] = 1
        deletions = step.numbers == 3
        if deletions.any():
            messages = step.messages[deletions]
            # A second one would be merged with the first.
            if (found[messages, 2] != NO_FILE).any():
                raise Unusual
            found[messages, 2] = 0
            for own in fields(data, step.spans[deletions], _OF_DELETION):
                rows = own.numbers == 4
                found[messages[own.messages[rows]], 2] = own.values[rows]
    return found


def own_files(data: Bytes, spans: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The paths of the data files of DataFragment messages that name no other files, and which messages (bool) these are.

    Files below base paths, deletion files and files with sequences are other files. Raises Unusual.
    """
    plain = np.ones(len(spans), np.bool_)
    owners, files = _files(data, spans, plain)
    paths = np.zeros((len(files), 2), np.int64)
    for step in fields(data, files, _OF_FILE):
        named = step.numbers == 1
        paths[step.messages[named]] = step.spans[named]
        plain[owners[step.messages[step.numbers == 7]]] = False
    try:
        return contents(data, paths[plain[owners]]).cast(pa.large_string()).to_pylist(), plain
    except pa.ArrowInvalid as e:  # no UTF-8
        raise Unusual from e


def column_bytes(data: Bytes, spans: np.ndarray, ids: frozenset[int]) -> np.ndarray:
    """A float64 for each DataFragment message, see `Fragments.column_bytes`. Raises Unusual."""
    found = [_column_bytes(data, spans[first : first + AT_ONCE], ids) for first in range(0, len(spans), AT_ONCE)]
    return np.concatenate(found) if found else np.empty(0)


def _column_bytes(data: Bytes, spans: np.ndarray, ids: frozenset[int]) -> np.ndarray:
    owners, files = _files(data, spans)
    sizes, shares = np.zeros(len(files)), np.zeros(len(files))
    for step in fields(data, files, _OF_FILE):
        sized, listed = step.numbers == 6, step.numbers == 2
        sizes[step.messages[sized]] = step.values[sized]
        if listed.any():
            # Most files have the same columns.
            which, lists = distinct(data, step.spans[listed])
            of_lists = np.array([np.isin(packed(one), list(ids)).mean() for one in lists])
            shares[step.messages[listed]] = of_lists[which]
    found = np.bincount(owners, sizes * shares, len(spans))
    found[owners[(sizes == 0) & (shares > 0)]] = -1
    return found


def layouts(data: Bytes, spans: np.ndarray) -> np.ndarray:
    """A number for each DataFragment message: messages with equal numbers have data files with the same columns and versions.

    Raises Unusual.
    """
    owners, files = _files(data, spans)
    # Of each file: its fields, their columns, and both numbers of its version.
    columns = np.zeros((4, len(files)), np.int64)
    for step in fields(data, files, _OF_FILE):
        for i, number in enumerate((2, 3)):
            listed = step.numbers == number
            if listed.any():
                columns[i, step.messages[listed]] = 1 + distinct(data, step.spans[listed])[0]
        for i, number in enumerate((4, 5), 2):
            versions = step.numbers == number
            columns[i, step.messages[versions]] = step.values[versions]
    found, counts = np.zeros(len(spans), np.int64), np.bincount(owners, minlength=len(spans))
    alike, firsts = _numbered(*columns), np.cumsum(counts) - counts
    for i in range(counts.max(initial=0)):
        have = counts > i
        found[have] = 1 + found.max() + _numbered(found[have], alike[firsts[have] + i])
    return found


def _numbered(*columns: np.ndarray) -> np.ndarray:
    """A number for each row of columns, the same for equal rows."""
    order = np.lexsort(columns)
    differs = np.zeros(len(order), np.bool_)
    for column in columns:
        values = column[order]
        differs[1:] |= values[1:] != values[:-1]
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(differs)
    return found


def _files(data: Bytes, spans: np.ndarray, plain: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The data files of DataFragment messages: the numbers of their messages, ascending, and where they are.

    Messages that name files but data files become False in `plain`.
    """
    owners, files = [np.empty(0, np.int64)], [np.empty((0, 2), np.int64)]
    for step in fields(data, spans, _OF_FRAGMENT):
        which = step.numbers == 2
        owners.append(step.messages[which])
        files.append(step.spans[which])
        if plain is not None:
            plain[step.messages[~_PLAIN[step.numbers]]] = False
    owner, file = np.concatenate(owners), np.concatenate(files)
    order = np.argsort(owner, kind="stable")
    return owner[order], file[order]
