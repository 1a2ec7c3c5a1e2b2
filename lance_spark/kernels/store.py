"""Compiled kernels on disk, one file for each kernel and types of arguments.

A file's name has a digest of all that determines its code: the kernel and all that it calls, the versions of Python, numba and llvmlite,
numba's settings and the processor. So a file's content never changes, and what fits nothing is never loaded. A file begins with digests of
its key and of its content, which are compared before the content is read as code. See `code_folders` for who may have written it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from lance_spark.errors import InvalidOptionError, KernelNotCompiledError, logged
from lance_spark.kernels import code_folders
from lance_spark.kernels.source_digest import Role, Source
from lance_spark.kernels.target import PERMISSION, USUAL, is_usual

_Target = tuple[str, str, str]
"""A processor as numba describes it: triple, name and features."""
SUFFIX = ".kernel"
_FORM = 3
"""Counts changes of what is in a file."""
_MAGIC = f"lance-spark kernel {_FORM}\n".encode()
_DIGEST_SIZE = 32
_SHORT = 20
"""So many digits of a digest are in the name of a file."""
_SETTINGS = ("BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT", "USING_SVML", "LOOP_VECTORIZE", "SLP_VECTORIZE")
"""The settings of numba that change its code."""
_PATIENCE_S = 60.0
"""If another process holds the lock for longer, the kernel is compiled without it."""
_POLL_S = 0.02
_UNUSED_DAYS = 30
"""For so long, the code of another version of a kernel is kept: two installations may share a folder."""
_LOG = logging.getLogger("lance_spark")

asked: set[tuple[str, str]] = set()
"""The names of the kernels that this process has called, each with the types of its arguments: not what only other kernels call."""


class KernelStore:
    """The code of one kernel on disk, as numba's dispatcher asks for it. One process at a time compiles it; the others wait."""

    def __init__(self, source: Source, role: Role = Role.ENTRANCE) -> None:
        self._source, self._role = source, role
        self._lock: int | None = None
        self._versions: dict[_Target, str] = {}

    @property
    def cache_path(self) -> str:
        """The folder that new code is written to, which numba shows in statistics."""
        return str(code_folders.writable(code_folders.kernel_folders()))

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Around the dispatcher's `compile`, which calls the methods below."""
        try:
            yield
        finally:
            self._release_lock()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None if it has to be compiled: then the lock is held until it is saved.

        Raises KernelNotCompiledError if LANCE_SPARK_COMPILE forbids that.
        """
        types = _text(sig)
        if self._role is Role.ENTRANCE:
            asked.add((self._source.name, types))
        found = self._load(types, target_context)
        if found is not None:
            return found
        self._check_permission(types)
        folder = code_folders.writable(code_folders.kernel_folders())
        if folder is None or self._lock is not None:
            return None
        self._lock = _locked(folder / f"{self._source.name}.lock")
        return self._load(types, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled function. Without a place for it, each process compiles it."""
        folder = code_folders.writable(code_folders.kernel_folders())
        if folder is None or data.library.has_dynamic_globals:
            return
        key = self._key(_text(sig), data.codegen.magic_tuple())
        as_bytes: Any = dumps  # numba has no types
        content: bytes = as_bytes(_kept(data, self._role))
        try:
            code_folders.write(folder, key.file, key.header + _digest(content) + content)
            self._remove_old(folder, data.codegen)
        except OSError as e:
            _LOG.warning("the compiled kernel %s is not kept: %s", self._source.name, e)

    def path(self, types: str, codegen: Any) -> Path | None:
        """The file with the code for these types of arguments; None if it would have to be compiled."""
        for folder, key in self._places(types, codegen):
            content = code_folders.read(folder, key.file)
            if content is not None and _code(content, key) is not None:
                return folder / key.file
        return None

    def _load(self, types: str, target_context: Any) -> Any:
        for folder, key in self._places(types, target_context.codegen()):
            content = code_folders.read(folder, key.file)
            if content is None:
                continue
            code = _code(content, key)
            if code is None:
                _LOG.warning("%s is damaged, or no compiled kernel; it is ignored", folder / key.file)
                continue
            with logged(f"loading {folder / key.file}"):
                rebuilt: Any = CompileResult  # numba has no types
                return rebuilt._rebuild(target_context, *_unpacked(code, target_context))
        return None

    def _places(self, types: str, codegen: Any) -> Iterator[tuple[Path, _Key]]:
        """Where the code may be: that for this processor first."""
        for target in _targets(codegen):
            key = self._key(types, target)
            for folder in code_folders.read_folders():
                yield folder, key

    def _key(self, types: str, target: _Target) -> _Key:
        return _Key(self._source.name, self._version(target), _hex(f"{self._role.value}: {types}"))

    def _version(self, target: _Target) -> str:
        if target not in self._versions:
            self._versions[target] = _hex(repr((_surroundings(), target, self._source.digest)))
        return self._versions[target]

    def _check_permission(self, types: str) -> None:
        setting = os.environ.get(PERMISSION, "")
        if setting == "never":
            raise KernelNotCompiledError(
                f"the kernel {self._source.name} is not compiled for ({types}), and {PERMISSION}=never forbids to compile it. "
                f"It was looked for in {', '.join(map(str, code_folders.read_folders()))}: run `lance-spark warm`"
            )
        if setting:
            raise InvalidOptionError(f"{PERMISSION} is {setting!r}; it must be never, or not be set")

    def _remove_old(self, folder: Path, codegen: Any) -> None:
        """Remove the code of other versions of the kernel, unless another installation may still use it."""
        current = {self._version(target) for target in _targets(codegen)}
        oldest = time.time() - _UNUSED_DAYS * 24 * 3600
        for path in folder.glob(f"{self._source.name}-*{SUFFIX}"):
            version = path.name.split("-")[-2]
            if version not in current and path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


@dataclass(frozen=True)
class _Key:
    """What determines a kernel's code: its name and digests."""

    name: str
    version: str
    """Of the kernel and of all that compiles it."""
    types: str
    """Of the types of the arguments, and of who calls it."""

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version[:_SHORT]}-{self.types[:_SHORT]}{SUFFIX}"

    @property
    def header(self) -> bytes:
        return _MAGIC + f"{self.version} {self.types}\n".encode()


def _code(content: bytes, key: _Key) -> bytes | None:
    """The code in the content of a file; None if the file is not that of the key, or not whole."""
    if not content.startswith(key.header):
        return None
    start = len(key.header) + _DIGEST_SIZE
    code = content[start:]
    return code if content[len(key.header) : start] == _digest(code) else None


def _kept(compiled: Any, role: Role) -> tuple[list[str], tuple[Any, ...]]:
    """The functions of others that the code calls, and what `CompileResult._rebuild` makes the compiled function of.

    The notes of its types, a third of numba's own files, are for people. LLVM's intermediate code, a half of the rest, is compiled into
    the kernels that call it: where only Python does, a module that has nothing but the function's name takes its place. The environments
    of numba's functions hold constants; without any, they would only have the modules of these functions imported.
    """
    external = [function.name for function in compiled.library._final_module.functions if function.is_declaration]
    library, description, environment, signature, objectmode, lifted, _, reload_init, environments = compiled._reduce()
    if role is Role.ENTRANCE:
        name, kind, (machine_code, _) = library
        library = (name, kind, (machine_code, _named(description.llvm_cpython_wrapper_name)))
    with_constants = tuple(one for one in environments if one.consts)
    parts = (library, description, environment, signature, objectmode, lifted, "", reload_init, with_constants)
    return [name for name in external if not name.startswith("llvm.")], parts


def _unpacked(code: bytes, target_context: Any) -> tuple[Any, ...]:
    """What `CompileResult._rebuild` needs, when all functions that the code calls are there.

    Those of numba's runtime suffice for the kernels of this package. The others come with all that is needed to compile, which takes
    longer to load than many kernels.
    """
    external, parts = pickle.loads(code)
    runtime: Any = rtsys  # numba has no types
    runtime.initialize(target_context)
    if not all(map(binding.address_of_symbol, external)):
        target_context.refresh()
    return tuple(parts)


def _named(function: str) -> bytes:
    """LLVM's intermediate code of a module that has a function of this name, which does nothing."""
    parse: Any = binding.parse_assembly  # llvmlite has no types
    code: bytes = parse(f'define void @"{function}"() {{\n  ret void\n}}\n').as_bitcode()
    return code


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(sig: Any) -> str:
    normalize: Any = normalize_signature  # numba has no types
    types, _ = normalize(sig)
    return ", ".join(map(str, types))


def _targets(codegen: Any) -> list[_Target]:
    """The processors whose code this process can run: its own, as numba describes it, and the usual one."""
    own: _Target = codegen.magic_tuple()
    usual = (own[0], USUAL, "")
    return [own, usual] if is_usual() and own != usual else [own]


@functools.cache
def _surroundings() -> tuple[object, ...]:
    """The versions and settings that change the code, or how it is kept."""
    settings: Any = config  # its attributes are created at import
    python = (sys.implementation.cache_tag, sys.abiflags)
    versions = (numba.__version__, llvmlite.__version__, np.__version__.split(".")[0])
    return (_FORM, python, versions, [getattr(settings, name, None) for name in _SETTINGS])


def _locked(path: Path) -> int | None:
    """The descriptor of the locked file; None if the file system has no locks, or if another process keeps the lock for too long."""
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644)
    except OSError:
        return None
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            time.sleep(_POLL_S)
        except OSError:
            break
    os.close(lock)
    return None
