"""Conversion of errors of namespace services, by the error codes of the namespace specification."""

from __future__ import annotations

from lance_spark.errors import (
    CommitConflictError,
    InvalidOptionError,
    LanceError,
    NamespaceAlreadyExistsError,
    NamespaceError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

_KINDS: dict[int, type[LanceError]] = {
    0: UnsupportedFeatureError,
    1: NamespaceNotFoundError,
    2: NamespaceAlreadyExistsError,
    3: NamespaceNotEmptyError,
    4: TableNotFoundError,
    5: TableAlreadyExistsError,
    11: VersionNotFoundError,
    13: InvalidOptionError,
    20: SchemaMismatchError,
}
CONCURRENT, UNAUTHENTICATED, UNAVAILABLE = 14, 16, 17


def from_code(code: int, message: str) -> LanceError:
    """The error for a code; NamespaceError for codes without a specific class."""
    if code == CONCURRENT:
        return CommitConflictError(message, retryable=True)
    kind = _KINDS.get(code)
    return kind(message) if kind else NamespaceError(message, code)
