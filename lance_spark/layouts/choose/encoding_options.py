"""The encoding options in a column's field metadata. Spec: file_encoding.md, "Compression Configuration"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidOptionError
from lance_spark.schema.schema import Field

_TEXT = ("string", "large_string")
_PREFIX = "lance-encoding:"
_VALUES: Mapping[str, tuple[str, ...]] = {
    "compression": ("none", "fsst", "lz4", "zstd"),
    "structural-encoding": ("miniblock", "fullzip", "sparse"),
    "bss": ("off", "on", "auto"),
    "dict-values-compression": ("none", "lz4", "zstd"),
}


@dataclass(frozen=True)
class EncodingOptions:
    """None and "auto": the writer chooses. `is_text` is not an option; it is True for text columns."""

    compression: str | None = None
    level: int | None = None
    structure: str | None = None
    rle_threshold: float | None = None
    bss: str = "auto"
    dictionary_compression: str | None = None
    chunk_bytes: int | None = None
    dictionary_divisor: int = 2
    is_text: bool = False

    @classmethod
    def of(cls, field: Field) -> EncodingOptions:
        """The options of a leaf. Raises InvalidOptionError, naming the column, for an invalid value."""
        if not field.metadata:
            return cls(is_text=field.logical_type in _TEXT)
        return cls(
            compression=_choice(field, "compression"),
            level=_number(field, "compression-level", -128, 127),
            structure=_choice(field, "structural-encoding"),
            rle_threshold=_fraction(field, "rle-threshold"),
            bss=_choice(field, "bss") or "auto",
            dictionary_compression=_choice(field, "dict-values-compression"),
            chunk_bytes=_number(field, "minichunk-size", 1, 1 << 20),
            dictionary_divisor=_number(field, "dict-divisor", 1, 1 << 31) or 2,
            is_text=field.logical_type in _TEXT,
        )


@dataclass(frozen=True)
class BlobThresholds:
    """Where blobs of version 2 are stored: up to `inline` bytes in the data file, larger ones together in files of at most `pack` bytes,
    and those above `dedicated` bytes in a file each.
    """

    inline: int
    dedicated: int
    pack: int

    @classmethod
    def of(cls, field: Field) -> BlobThresholds:
        """The limits of a blob column. Raises InvalidOptionError, naming the column, for an invalid value."""

        def number(name: str, default: int) -> int:
            given = _number(field, f"blob-{name}-size-threshold", 0, 1 << 62)
            return default if given is None else given

        return cls(number("inline", 64 << 10), number("dedicated", 4 << 20), number("pack-file", 1 << 30))


def _text(field: Field, name: str) -> str | None:
    value = field.metadata.get((_PREFIX + name).encode())
    return None if value is None else value.decode(errors="replace").strip().lower()


def _choice(field: Field, name: str) -> str | None:
    text = _text(field, name)
    if text is not None and text not in _VALUES[name]:
        raise _refusal(field, name, text, "one of " + ", ".join(_VALUES[name]))
    return text


def _number(field: Field, name: str, low: int, high: int) -> int | None:
    text = _text(field, name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise _refusal(field, name, text, f"a whole number from {low} to {high}")
    return number


def _fraction(field: Field, name: str) -> float | None:
    text = _text(field, name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise _refusal(field, name, text, "a number from 0 to 1")
    return number


def _refusal(field: Field, name: str, text: str, wanted: str) -> InvalidOptionError:
    what = "compression scheme" if name == "compression" else name
    return InvalidOptionError(f"column {field.name!r}: invalid {what} {text!r} in {_PREFIX}{name}; expected {wanted}")
