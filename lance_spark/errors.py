"""The errors of this package. Every one is a `LanceError`; ValueError and TypeError are raised for wrong Python arguments."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
_LOGGER = logging.getLogger(__name__)


def one_line(text: str) -> str:
    """`text` in one line. Characters that would control a terminal or change the direction of writing become escapes.

    Names of columns and files, and messages of commits, are untrusted.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_ITEM = "\n  - "
"""Begins each difference in the list of a SchemaMismatchError: the only line breaks in messages."""


class LanceError(Exception):
    """Base of all errors that lance_spark raises about tables, files and options.

    `code` is the error code of the Lance namespace specification for this kind of error.
    """

    code: int = 18

    def __str__(self) -> str:
        """The message, as `one_line`: names, paths and values in it come from files and users. It can be printed and sent anywhere."""
        return _ITEM.join(map(one_line, super().__str__().split(_ITEM)))


class CorruptFileError(LanceError):
    """Bytes that break the format: truncated, overlapping, out of bounds, of the wrong type."""


class UnsupportedFeatureError(LanceError):
    """A feature flag, encoding, type or option that this version of lance_spark does not implement."""

    code = 0


class TableNotFoundError(LanceError, FileNotFoundError):
    """There is no Lance table at the given path."""

    code = 4


class TableAlreadyExistsError(LanceError, FileExistsError):
    """The table to create already exists."""

    code = 5


class VersionNotFoundError(LanceError):
    """The table exists, but not the requested version, tag, branch or time."""

    code = 11


class InvalidOperationError(LanceError, ValueError):
    """An operation that does not fit the table that it is committed to, or a table whose parts do not fit each other."""

    code = 13


class NamespaceError(LanceError):
    """A namespace refused a request or failed; `code` is its error code in the namespace specification."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = type(self).code if code is None else code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.code)


class NamespaceNotFoundError(NamespaceError):
    """There is no namespace with the given id."""

    code = 1


class NamespaceAlreadyExistsError(NamespaceError):
    """The namespace to create already exists."""

    code = 2


class NamespaceNotEmptyError(NamespaceError):
    """The namespace to drop still has tables or namespaces in it."""

    code = 3


class RefConflictError(LanceError):
    """A tag or branch already exists, or another one still needs it."""


class SchemaMismatchError(LanceError):
    """The data's columns do not fit the table's; the message lists the differences."""

    code = 20


class CommitConflictError(LanceError):
    """Another writer's commit conflicts with ours.

    `retryable` is True if the whole operation can succeed when it is run again on the new version, and False if
    the table has changed so that the operation no longer applies.
    """

    code = 14

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable

    def __reduce__(self) -> tuple[object, ...]:
        return _conflict, (str(self), self.retryable)


def _conflict(message: str, retryable: bool) -> CommitConflictError:
    return CommitConflictError(message, retryable=retryable)


class BranchMergeConflictError(LanceError):
    """Rows were changed in both branches of a merge. `conflicts` is a pyarrow table of them: `kind`, `base`, `ours`, `theirs`."""

    def __init__(self, message: str, conflicts: Any = None) -> None:
        super().__init__(message)
        self.conflicts = conflicts

    def __reduce__(self) -> tuple[type[BranchMergeConflictError], tuple[str, object]]:
        return type(self), (str(self), self.conflicts)


class AmbiguousMergeError(LanceError):
    """Two changes of one merge or update affect the same row; `address` is its address in the version that was read."""

    def __init__(self, message: str, address: int) -> None:
        super().__init__(message)
        self.address = address

    def __reduce__(self) -> tuple[object, ...]:
        return AmbiguousMergeError, (str(self), self.address)


class MatchedRowsError(LanceError):
    """A merge that must not find rows of its source in the table (`when_matched_fail`) has found one; the table is unchanged."""


class KernelNotCompiledError(LanceError):
    """A loop would have to be compiled, which LANCE_SPARK_COMPILE=never forbids; the message has the name of the kernel."""


class FunctionFailedError(LanceError):
    """A user's function that computes a column has failed, or has returned something that is no values of the column."""


class CommitStateUnknownError(LanceError):
    """The outcome of the commit is unknown because the store does not respond: the version may or may not have been written."""


class WriterFencedError(LanceError):
    """A newer writer has claimed the shard of a write-ahead log: this one can append nothing more. What it put before is in the log."""

    code = 14


class StorageError(LanceError, OSError):
    """The store refused or failed: permissions, a full disk, a lost connection."""

    code = 17


class MissingFileError(StorageError, FileNotFoundError):
    """A file that a table, a version or an option refers to does not exist."""


class InvalidOptionError(LanceError):
    """An unknown option or an invalid value."""

    code = 13


def check_type(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise TypeError for an argument of another type. True and False are no numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is Integral):
        raise TypeError(f"{name} must be {expected}, not {value!r}")


def check_at_least(name: str, value: object, least: int) -> None:
    """Raise TypeError or ValueError unless the argument is an integer of at least `least`."""
    check_type(name, value, Integral, "an integer")
    if cast(int, value) < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_texts(name: str, values: object, example: str, null: bool = False) -> None:
    """Raise TypeError unless the argument is a mapping of text to text; `null` allows None as a value."""
    check_type(name, values, Mapping, f"a mapping such as {example}")
    for key, value in cast(Mapping[object, object], values).items():
        check_type(f"the keys of {name}", key, str, "text")
        if not (null and value is None):
            check_type(f"{name}[{key!r}]", value, str, "text")


def by_name_from_now(*names: str, after: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a method that takes these arguments by name take them by position after the first ones, with a FutureWarning.

    That is for a method that took them so in the release before.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> R:
            late = args[after:]
            if not late or len(late) > len(names):
                return function(*args, **given)
            named = dict(zip(names, late))
            shown = ", ".join(f"{name}=.." for name in named)
            warnings.warn(
                f"{function.__name__}: write {shown}: the next release takes these arguments by name only",
                FutureWarning,
                stacklevel=2,
            )
            if twice := sorted(named.keys() & given.keys()):
                raise TypeError(f"{function.__name__}: {twice[0]} is given twice")
            return function(*args[:after], **named, **given)  # type: ignore[arg-type]

        return called

    return decorate


UNREADABLE = (CorruptFileError, UnsupportedFeatureError, StorageError)
"""The errors of a file that cannot be read: it is damaged, of a later format, or its store fails."""


@contextlib.contextmanager
def wrong_arguments_as_options() -> Iterator[None]:
    """Raise InvalidOptionError instead of a ValueError of the block, for users who give options, or arguments in SQL.

    Subclasses of ValueError pass. They are errors of this package, of pyarrow and of codecs, and no wrong arguments.
    """
    try:
        yield
    except ValueError as e:
        if type(e) is not ValueError:
            raise
        raise InvalidOptionError(str(e)) from e


@contextlib.contextmanager
def logged(what: str) -> Iterator[None]:
    """Log any exception of the block instead of raising it; `what` describes the block.

    For steps after a commit or another error, whose own errors must neither look like a failed commit nor hide that error.
    """
    try:
        yield
    except Exception:
        _LOGGER.exception("%s failed", what)


@contextlib.contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo`, which deletes files that the block has written, if the block fails or is interrupted.

    For a block that does not commit: no version can refer to the files. See also `on_refusal`.
    """
    try:
        yield
    except CommitStateUnknownError:
        raise
    except BaseException:
        undo()
        raise


@contextlib.contextmanager
def on_refusal(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo`, which deletes files that a version would refer to, if the commit in the block is refused.

    For a block that commits: all errors of `table.commit.commit.commit` are refusals but CommitStateUnknownError. After that, or if the
    block is interrupted or another error passes it, the commit may have landed, and then its version needs the files. They stay, and a
    cleanup of the table removes those that no version refers to.
    """
    try:
        yield
    except CommitStateUnknownError:
        raise
    except (LanceError, ValueError):
        undo()
        raise
