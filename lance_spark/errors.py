"""The errors of this package. Every one is a `LanceError`; ValueError and TypeError are kept for wrong Python arguments."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

_LOGGER = logging.getLogger(__name__)


class LanceError(Exception):
    """Base of all errors that lance_spark raises about tables, files and options."""


class CorruptFileError(LanceError):
    """Bytes that break the format: truncated, overlapping, out of bounds, of the wrong type."""


class UnsupportedFeatureError(LanceError):
    """A feature flag, encoding, type or option that this version of lance_spark does not implement."""


class TableNotFoundError(LanceError, FileNotFoundError):
    """There is no Lance table at the given path."""


class TableAlreadyExistsError(LanceError, FileExistsError):
    """A table was to be created where there is one already."""


class VersionNotFoundError(LanceError):
    """The table exists, but not the version, tag, branch or time that was asked for."""


class InvalidOperationError(LanceError, ValueError):
    """An operation that does not fit the table that it is committed to, or a table whose parts do not fit each other."""


class RefConflictError(LanceError):
    """A tag or branch is there already, or is still needed by another one."""


class SchemaMismatchError(LanceError):
    """The data's columns do not fit the table's; the message lists the differences."""


class CommitConflictError(LanceError):
    """Another writer's commit stands against ours.

    `retryable` is True when the whole operation, started again from the new version, is expected to succeed, and False when
    the table has changed in a way that the operation did not foresee.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable

    def __reduce__(self) -> tuple[object, ...]:
        return _conflict, (str(self), self.retryable)


def _conflict(message: str, retryable: bool) -> CommitConflictError:
    return CommitConflictError(message, retryable=retryable)


class AmbiguousMergeError(LanceError):
    """Two changes of one merge or update apply to the same row; `address` is the row's address in the version that was read."""

    def __init__(self, message: str, address: int) -> None:
        super().__init__(message)
        self.address = address

    def __reduce__(self) -> tuple[object, ...]:
        return AmbiguousMergeError, (str(self), self.address)


class CommitStateUnknownError(LanceError):
    """The store gave no answer to the commit and cannot be asked now: the version may or may not have been written."""


class StorageError(LanceError, OSError):
    """The store refused or failed: permissions, a full disk, a lost connection."""


class MissingFileError(StorageError, FileNotFoundError):
    """A file that a table, a version or an option names is not there."""


class InvalidOptionError(LanceError):
    """An option that does not exist or a value that it cannot take."""


@contextlib.contextmanager
def logged(what: str) -> Iterator[None]:
    """Log any exception of the block, which does `what`, instead of raising it.

    For what follows a commit or another failure, and must not be taken for a failure of the commit or hide the other one.
    """
    try:
        yield
    except Exception:
        _LOGGER.exception("%s failed", what)
