"""The packages that lance-spark needs, as its own metadata lists them, beside those that are installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata

_NAME = re.compile(r"[\w.-]+")
_LIMIT = re.compile(r"(>=|<=|==|<|>)\s*([0-9.]+)")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
_Release = tuple[int, ...]
_COMPARISONS: dict[str, Callable[[_Release, _Release], bool]] = {
    ">=": lambda version, limit: version >= limit,
    "<=": lambda version, limit: version <= limit,
    "==": lambda version, limit: version == limit,
    "<": lambda version, limit: version < limit,
    ">": lambda version, limit: version > limit,
}


@dataclass(frozen=True)
class Requirement:
    """A package, the versions of it that fit, such as `>=4.0,<4.4`, and the extra that needs it ("" for none)."""

    name: str
    versions: str
    extra: str

    def installed(self) -> str | None:
        """The version that is installed; None if there is none."""
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return None

    def allows(self, version: str) -> bool:
        """Whether a version fits."""
        return fits(version, self.versions)


def fits(version: str, limits: str) -> bool:
    """Whether a version is within limits such as `>=3.11,<3.14`. Only its numbers are compared."""
    own = _release(version)
    return all(_COMPARISONS[sign](own, _release(limit)) for sign, limit in _LIMIT.findall(limits))


def requirements() -> Iterator[Requirement]:
    """What the installed lance-spark needs. Raises PackageNotFoundError if it is no installed package."""
    for line in metadata.requires("lance-spark") or ():
        needed, _, condition = line.partition(";")
        name = _NAME.match(needed)
        extra = _EXTRA.search(condition)
        if name is not None:
            yield Requirement(name[0], needed[name.end() :].strip(), extra[1] if extra else "")


def python_versions() -> str:
    """The versions of Python that fit. Raises PackageNotFoundError if lance-spark is no installed package."""
    return metadata.metadata("lance-spark")["Requires-Python"] or ""


def _release(version: str) -> _Release:
    """The numbers of a version, without zeros at its end: 4.0.0 is 4."""
    numbers = [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
