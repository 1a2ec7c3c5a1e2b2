"""References of compiled Java classes, from the constant pools of their class files (JVM specification, section 4.4)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

_UTF8, _CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 1, 7, 9, 10, 11, 12
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_WIDE = (5, 6)
_PARAMETER = re.compile(r"\[*(?:L[^;]*;|[BCDFIJSZ])")


def references(class_file: bytes) -> Iterator[tuple[str, str]]:
    """Each referenced class, with "", and each referenced member: `name/2` with its number of parameters, or `.name` for a field."""
    pool = _constant_pool(class_file)
    for tag, value in pool.values():
        if tag == _CLASS:
            yield _class_name(pool, value), ""
        if tag in (_FIELD, _METHOD, _INTERFACE_METHOD):
            owner, member = struct.unpack(">HH", value)
            name, descriptor = (_text(pool, i) for i in struct.unpack(">HH", pool[member][1]))
            parameters = len(_PARAMETER.findall(descriptor[: descriptor.rindex(")")])) if tag != _FIELD else 0
            name = "new" if name == "<init>" else name
            yield _class_name(pool, pool[owner][1]), f".{name}" if tag == _FIELD else f"{name}/{parameters}"


def _constant_pool(class_file: bytes) -> dict[int, tuple[int, bytes]]:
    """The tag and bytes of each entry, by index."""
    count = struct.unpack_from(">H", class_file, 8)[0]
    pool: dict[int, tuple[int, bytes]] = {}
    at, index = 10, 1
    while index < count:
        tag = class_file[at]
        start = at + 3 if tag == _UTF8 else at + 1
        size = struct.unpack_from(">H", class_file, at + 1)[0] if tag == _UTF8 else _SIZES[tag]
        pool[index] = tag, class_file[start : start + size]
        at, index = start + size, index + (2 if tag in _WIDE else 1)
    return pool


def _class_name(pool: dict[int, tuple[int, bytes]], entry: bytes) -> str:
    (name,) = struct.unpack(">H", entry)
    return _text(pool, name).replace("/", ".")


def _text(pool: dict[int, tuple[int, bytes]], index: int) -> str:
    return pool[index][1].decode()
