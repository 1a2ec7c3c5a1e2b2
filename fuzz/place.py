"""A copy of a seed's table on fast storage, with some files changed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fuzz.seeds import ROOT

MEMORY = Path("/dev/shm")
"""Where files take no disk, and syncing them no time; another place is used where there is no such folder."""


@contextmanager
def table(source: str, changes: Mapping[str, bytes | None]) -> Iterator[Path]:
    """The folder of a copy of the table `source` (relative to the repository) in which the files of `changes` are others, or missing.

    Beside it there is room for other tables.
    """
    with tempfile.TemporaryDirectory(prefix="lance_fuzz", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        copy = Path(folder, "table.lance")
        shutil.copytree(ROOT / source, copy, copy_function=shutil.copyfile)
        for path, data in changes.items():
            if data is None:
                (copy / path).unlink()
                continue
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(data)
        yield copy
