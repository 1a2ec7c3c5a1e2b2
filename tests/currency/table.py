"""The tables that are tried: small ones of pylance, of which a manifest or a transaction is changed by hand."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa

from lance_spark.metadata.manifest import Manifest, parse, serialise

NUMBERS = itertools.count()


def new_uri(folder: Path) -> str:
    """The URI of a table that does not exist."""
    return str(folder / f"{next(NUMBERS)}.lance")


def new_table(folder: Path) -> str:
    """A table of two rows in one version."""
    uri = new_uri(folder)
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    return uri


def change_manifest(uri: str, change: Callable[[Manifest], Manifest]) -> None:
    """Replace the manifest of the only version."""
    (path,) = Path(uri, "_versions").glob("*.manifest")
    path.write_bytes(serialise(change(parse(path.read_bytes(), path.name))))


def set_transaction(uri: str, body: bytes) -> None:
    """Have the only version be made by the transaction `body`, which is a serialised message."""
    name = "0-f225210f-6d45-49c5-8815-abb5e6fae02f.txn"
    Path(uri, "_transactions", name).write_bytes(body)
    change_manifest(uri, lambda manifest: replace(manifest, transaction=None, transaction_file=name))


def attempt(action: Callable[[], object]) -> BaseException | None:
    """What an action raises; panics of pylance are exceptions that are not `Exception`."""
    try:
        action()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # noqa: BLE001
        return e
    return None


def names_in_binary(pattern: bytes) -> Iterator[str]:
    """The distinct texts in the library of pylance that match; its texts follow each other without separators."""
    (library,) = Path(lance.__file__).parent.glob("*.so")
    yield from sorted({match.decode() for match in re.findall(pattern, library.read_bytes())})


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; its cells have no line breaks."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"
