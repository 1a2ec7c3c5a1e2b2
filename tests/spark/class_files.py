"""References of compiled Java classes, from the constant pools of their class files (JVM specification, section 4.4)."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_UTF8, _CLASS, _STRING, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 1, 7, 8, 9, 10, 11, 12
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_WIDE = (5, 6)
_IS_INTERFACE = 0x0200
_JAVA = ("java/", "javax/", "jdk/", "sun/")
_OBJECT = "java/lang/Object"
_OF_OBJECT = ("<init>", "equals", "hashCode", "toString", "getClass", "notify", "notifyAll", "wait", "clone", "finalize")
_PARAMETER = re.compile(r"\[*(?:L[^;]*;|[BCDFIJSZ])")


def references(class_file: bytes) -> Iterator[tuple[str, str]]:
    """Each referenced class, with "", and each referenced member: `name/2` with its number of parameters, or `.name` for a field."""
    pool, _end = _constant_pool(class_file)
    for tag, value in pool.values():
        if tag == _CLASS:
            yield _class_name(pool, value), ""
        if tag in (_FIELD, _METHOD, _INTERFACE_METHOD):
            owner, member = struct.unpack(">HH", value)
            name, descriptor = (_text(pool, i) for i in struct.unpack(">HH", pool[member][1]))
            parameters = len(_PARAMETER.findall(descriptor[: descriptor.rindex(")")])) if tag != _FIELD else 0
            name = "new" if name == "<init>" else name
            yield _class_name(pool, pool[owner][1]), f".{name}" if tag == _FIELD else f"{name}/{parameters}"


def strings(class_file: bytes) -> Iterator[str]:
    """Each constant that is a string."""
    pool, _end = _constant_pool(class_file)
    for tag, value in pool.values():
        if tag == _STRING:
            (index,) = struct.unpack(">H", value)
            yield _text(pool, index)


@dataclass(frozen=True)
class ClassFile:
    """What a class declares and refers to: members as their names with descriptors, such as `size()I`; names of classes with slashes."""

    parents: tuple[str, ...]
    is_interface: bool
    members: frozenset[str]
    references: frozenset[tuple[str, str]]
    """Classes and members of them; the member is "" for the class itself."""
    called: frozenset[tuple[str, bool]]
    """Classes whose methods it calls, and whether as those of an interface: Java refuses the other way."""

    @classmethod
    def of(cls, content: bytes) -> ClassFile:
        """Section 4.1 of the JVM specification: the constant pool, then the class, its parents, its fields and its methods."""
        pool, at = _constant_pool(content)

        def numbers(form: str) -> tuple[int, ...]:
            nonlocal at
            values = struct.unpack_from(form, content, at)
            at += struct.calcsize(form)
            return values

        def class_name(index: int) -> str:
            (name,) = struct.unpack(">H", pool[index][1])
            return _text(pool, name)

        access, _this, parent, count = numbers(">HHHH")
        parents = [parent, *numbers(f">{count}H")]
        members = set()
        for _fields_then_methods in range(2):
            for _member in range(numbers(">H")[0]):
                _access, name, descriptor, attributes = numbers(">HHHH")
                members.add(_text(pool, name) + _text(pool, descriptor))
                for _attribute in range(attributes):
                    _name, size = numbers(">HI")
                    at += size
        found, called = set(), set()
        for tag, value in pool.values():
            if tag == _CLASS:
                found.add((_text(pool, struct.unpack(">H", value)[0]), ""))
            if tag in (_FIELD, _METHOD, _INTERFACE_METHOD):
                owner, member = struct.unpack(">HH", value)
                name_and_descriptor = "".join(_text(pool, i) for i in struct.unpack(">HH", pool[member][1]))
                found.add((class_name(owner), name_and_descriptor))
                if tag != _FIELD:
                    called.add((class_name(owner), tag == _INTERFACE_METHOD))
        names = tuple(class_name(index) for index in parents if index)
        return cls(names, bool(access & _IS_INTERFACE), frozenset(members), frozenset(found), frozenset(called))


class ClassFiles:
    """The classes of some jars."""

    def __init__(self, jars: Iterable[Path]) -> None:
        self._jar_of: dict[str, zipfile.ZipFile] = {}
        self._read: dict[str, ClassFile | None] = {}
        for path in jars:
            jar = zipfile.ZipFile(path)
            for name in jar.namelist():
                if name.endswith(".class"):
                    self._jar_of.setdefault(name.removesuffix(".class"), jar)

    def missing(self, jar: Path) -> dict[str, list[str]]:
        """By class of the jar: what it refers to and no jar has, as `class` or `class#member`, or `class#` if that is (no) interface.

        Java's own classes are taken as there.
        """
        out: dict[str, list[str]] = {}
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if name.endswith(".class"):
                    read = ClassFile.of(opened.read(name))
                    for owner, as_interface in sorted(read.called):
                        found = None if owner.startswith(("[", *_JAVA)) else self._class(owner)
                        if found is not None and found.is_interface != as_interface:
                            out.setdefault(name, []).append(f"{owner}#")
                    for owner, member in sorted(read.references):
                        if not owner.startswith(("[", *_JAVA)) and not self._has(owner, member):
                            out.setdefault(name, []).append(f"{owner}#{member}" if member else owner)
        return out

    def _has(self, owner: str, member: str) -> bool:
        if owner.startswith(_JAVA):
            return owner != _OBJECT or member.partition("(")[0] in _OF_OBJECT
        found = self._class(owner)
        if found is None or member in ("", *found.members):
            return found is not None
        return any(self._has(parent, member) for parent in found.parents)

    def _class(self, name: str) -> ClassFile | None:
        if name not in self._read:
            jar = self._jar_of.get(name)
            self._read[name] = None if jar is None else ClassFile.of(jar.read(f"{name}.class"))
        return self._read[name]


def _constant_pool(class_file: bytes) -> tuple[dict[int, tuple[int, bytes]], int]:
    """The tag and bytes of each entry, by index, and where the pool ends."""
    count = struct.unpack_from(">H", class_file, 8)[0]
    pool: dict[int, tuple[int, bytes]] = {}
    at, index = 10, 1
    while index < count:
        tag = class_file[at]
        start = at + 3 if tag == _UTF8 else at + 1
        size = struct.unpack_from(">H", class_file, at + 1)[0] if tag == _UTF8 else _SIZES[tag]
        pool[index] = tag, class_file[start : start + size]
        at, index = start + size, index + (2 if tag in _WIDE else 1)
    return pool, at


def _class_name(pool: dict[int, tuple[int, bytes]], entry: bytes) -> str:
    (name,) = struct.unpack(">H", entry)
    return _text(pool, name).replace("/", ".")


def _text(pool: dict[int, tuple[int, bytes]], index: int) -> str:
    return pool[index][1].decode("utf-8", "surrogatepass")
