"""The encoding of a page as text, such as "mini-block: fsst(variable(flat))": the layout, then the encodings of the values."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.errors import LanceError
from lance_spark.layouts.nodes.page_layouts import Blob, Constant, FullZip, Indexed, Layout, MiniBlock, parse_layout
from lance_spark.reading.steps import Column, Page
from lance_spark.v2_0.tree import decode_page

_ARRAY_ENCODING = "lance.encodings.ArrayEncoding"
_UNKNOWN = "unknown encoding"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def page_encoding(page: Page, column: Column) -> str:
    """The encoding of a page of a 2.x file; "unknown encoding" if it is not supported."""
    if page.encoding_type != _ARRAY_ENCODING:
        return _layout(page.encoding_type, page.encoding)
    try:
        return _tree(decode_page(page, column))
    except (LanceError, DecodeError):
        return _kind(page.encoding)


def _kind(encoding: bytes) -> str:
    """The name of an encoding that is not read, such as that of a struct, which has no values."""
    try:
        kind = pb.ArrayEncoding.FromString(encoding).WhichOneof("array_encoding")
    except DecodeError:
        return _UNKNOWN
    return kind.replace("_", " ") if kind else _UNKNOWN


@lru_cache(maxsize=1024)
def _layout(encoding_type: str, encoding: bytes) -> str:
    try:
        return _in_words(parse_layout(encoding_type, encoding))
    except (LanceError, DecodeError):
        return _UNKNOWN


def _in_words(layout: Layout) -> str:
    if isinstance(layout, MiniBlock):
        if layout.dictionary is not None:
            return f"mini-block: dictionary({_tree(layout.value)}, {_tree(layout.dictionary)})"
        return f"mini-block: {_tree(layout.value)}"
    if isinstance(layout, FullZip):
        return f"full zip: {_tree(layout.value)}"
    if isinstance(layout, Indexed):
        return f"full zip: dictionary({_tree(layout.indices)}, {_tree(layout.items.value)})"
    if isinstance(layout, Blob):
        return "blob descriptors"
    assert isinstance(layout, Constant)
    return "constant"


def _tree(node: Any) -> str:
    """A node of a tree of encodings of any storage version, with its subtree."""
    inner = ", ".join(text for text in map(_tree, _children(node)) if text)
    name = _name(node)
    return f"{name}({inner})" if name and inner else name or inner


def _children(node: Any) -> Iterator[Any]:
    for f in dataclasses.fields(node):
        value = getattr(node, f.name)
        yield from (v for v in (value if isinstance(value, tuple) else (value,)) if dataclasses.is_dataclass(v))


def _name(node: Any) -> str:
    """The specification's name of a node; "" for one that only wraps others."""
    kind = type(node).__name__
    if kind in ("NoNulls", "PackedField"):
        return ""
    scheme = getattr(node, "scheme", None) or getattr(node, "compression", None)
    if scheme is not None:
        return str(scheme)
    return _WORD.sub(" ", kind.removesuffix("Encoding")).lower()
