"""What `warm` has compiled: a list beside the code, by which it is told in a second whether all of it can still be loaded."""

from __future__ import annotations

import importlib
import io
import json
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lance_spark.kernels import code_folders
from lance_spark.kernels.kernel import Kernel
from lance_spark.kernels.source_digest import Source
from lance_spark.version import __version__

_LIST = "warmed.json"


@dataclass(frozen=True, order=True)
class Compiled:
    """A kernel and the types of its arguments."""

    name: str
    types: str

    def __str__(self) -> str:
        return f"{self.name}({self.types})"

    def file(self) -> Path | None:
        """The file with the code that this process would load; None if it would have to be compiled."""
        from numba.core import registry

        from lance_spark.kernels.store import KernelStore

        source = self._source()
        codegen: Any = registry.cpu_target.target_context.codegen()
        return None if source is None else KernelStore(source).path(self.types, codegen)

    def _source(self) -> Source | None:
        """What the kernel is compiled from; None if this version of the package has no such kernel."""
        module, _, function = self.name.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), function, None)
        except ModuleNotFoundError:
            return None
        return found.source if isinstance(found, Kernel) else None


def asked() -> list[Compiled]:
    """What this process has called."""
    from lance_spark.kernels import store

    return sorted(Compiled(name, types) for name, types in store.asked if name.startswith("lance_spark."))


def keep(compiled: Sequence[Compiled]) -> Path | None:
    """Write the list and the code into one folder, and return it; None if no folder can be written to. Raises OSError.

    Code that was found elsewhere is copied: the cache of the user who makes an image is not for the user who runs it.
    """
    folder = code_folders.writable(code_folders.kernel_folders())
    if folder is None:
        return None
    for one in compiled:
        file = one.file()
        if file is not None and file.parent not in (folder, code_folders.SHIPPED):
            code_folders.write(folder, file.name, _content(file))
    code_folders.write(folder, _LIST, _encoded(compiled))
    return folder


def listed() -> list[Compiled] | None:
    """The list of an earlier `warm` of this version of the package; None if there is none."""
    return _list_in(code_folders.read_folders())


def shipped() -> list[Compiled] | None:
    """What the wheel brings; None if it brings nothing, or if some of it does not fit this machine."""
    found = _list_in([code_folders.SHIPPED])
    return None if found is None or any(one.file() is None for one in found) else found


def _list_in(folders: Sequence[Path]) -> list[Compiled] | None:
    for folder in folders:
        content = code_folders.read(folder, _LIST)
        found = None if content is None else _decoded(content)
        if found is not None:
            return found
    return None


def pack(compiled: Sequence[Compiled], archive: str) -> None:
    """Write the code and the list into a tar archive with gzip, to be unpacked into one folder. Raises OSError."""
    files = sorted({file for one in compiled if (file := one.file()) is not None})
    with tarfile.open(archive, "w:gz") as packed:
        for file in files:
            _add(packed, file.name, _content(file))
        _add(packed, _LIST, _encoded(compiled))


def _content(file: Path) -> bytes:
    content = code_folders.read(file.parent, file.name)
    assert content is not None, "it was read a moment ago"
    return content


def _add(packed: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # root's, whoever packs it
    entry.size, entry.mtime = len(content), int(time.time())
    packed.addfile(entry, io.BytesIO(content))


def _encoded(compiled: Sequence[Compiled]) -> bytes:
    kernels = [[one.name, one.types] for one in sorted(compiled)]
    return json.dumps({"version": __version__, "kernels": kernels}, indent=0).encode()


def _decoded(content: bytes) -> list[Compiled] | None:
    """The list, if it is whole and of this version of the package."""
    try:
        found = json.loads(content)
        return [Compiled(name, types) for name, types in found["kernels"]] if found["version"] == __version__ else None
    except (ValueError, KeyError, TypeError):
        return None
