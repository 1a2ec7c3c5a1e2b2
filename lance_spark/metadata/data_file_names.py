"""The names of data files: unique, and they say which write made a file, and for which table if it is at a base path."""

from __future__ import annotations

import hashlib
import uuid

_UNIQUE_DIGITS = 24 + 14
_JOB_DIGITS = 12
_MARK_DIGITS = 12


def fresh_name(job: str, mark: str = "") -> str:
    """A unique file name. It begins with 24 binary digits, because object stores spread load by leading characters.

    `job` is that of the write, and `mark` that of the table for a file at a base path, which other tables may share.
    """
    unique = uuid.uuid4().bytes
    return f"{int.from_bytes(unique[:3], 'big'):024b}{unique[3:10].hex()}{mark}{job}.lance"


def job_of(name: str) -> str:
    """The job in a name of `fresh_name`; something else for files of other writers."""
    return name.removesuffix(".lance")[_UNIQUE_DIGITS:][-_JOB_DIGITS:]


def mark_of(root_uri: str) -> str:
    """The mark of the table with this root."""
    return hashlib.sha256(root_uri.encode()).hexdigest()[:_MARK_DIGITS]


def is_marked(name: str, root_uri: str) -> bool:
    """True if `fresh_name` made a name for a file of the table with this root at a base path."""
    stem = name.removesuffix(".lance")
    has_mark = len(stem) == _UNIQUE_DIGITS + _MARK_DIGITS + _JOB_DIGITS
    return has_mark and stem[_UNIQUE_DIGITS:-_JOB_DIGITS] == mark_of(root_uri)
