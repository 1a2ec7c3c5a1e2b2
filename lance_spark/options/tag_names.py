"""Which names tags may have."""

from __future__ import annotations

import re

from lance_spark.errors import check_type

SEGMENT = re.compile(r"[\w.-]+")
"""A tag, or a part of a branch between slashes."""


def is_tag_name(name: str) -> bool:
    """True if this is a valid name of a tag. Raises TypeError for anything but text."""
    check_type("the name of a tag", name, str, "text")
    if ".." in name or name.endswith(".lock"):
        return False
    return bool(SEGMENT.fullmatch(name)) and name[0] != "." and name[-1] != "."


def is_new_tag_name(name: str) -> bool:
    """True if a new tag may have this valid name of a tag.

    Letters of other alphabets are valid, but pylance cannot list the tags of a table that has one
    with such a name.
    """
    return is_tag_name(name) and name.isascii()
