"""Texts without secrets: what URIs and options hold of keys and passwords is taken out before an error or a log shows it. Pure, no I/O."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping

HIDDEN = "***"
_SIGNATURE = re.compile(
    r"[?&](sig|signature|token|password|secret|awsaccesskeyid|googleaccessid|x-amz-[a-z-]+|x-goog-[a-z-]+)=", re.IGNORECASE
)
_USER = re.compile(r"(?<=//)[^/\s\"']+(?=@)")
_SCHEME = re.compile(r"\b[a-z0-9+]+://", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s;,&?=@:/\"'{}\[\]\\]+")
_LONG = re.compile(r"[A-Za-z0-9+/=_%~-]{32,}")
"""Keys, and what is calculated of them: signatures, encoded credentials."""
_SHORTEST = 3
"""Shorter parts of an option are found in any text."""


def is_signed(uri: str) -> bool:
    """Whether the query of a URI holds the right to read what it names."""
    return _SIGNATURE.search(uri) is not None


def shown(uri: str) -> str:
    """A URI without its password and its query."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    # The part before the @ is the container in URIs of Azure.
    is_container = scheme.lower() in ("az", "abfs", "abfss") and ":" not in user and "@" not in user
    path, query, _ = path.partition("?")
    return f"{scheme}://{user if is_container else HIDDEN * bool(at)}{at}{host}{slash}{path}{query}{HIDDEN * bool(query)}"


def redacted(text: str, options: Mapping[str, str]) -> str:
    """`text`, which a client wrote, without the values of options, whole or in parts and however encoded."""
    values = {value for value in options.values() if value.lower() not in ("", "true", "false")}
    parts = {form for value in values for part in _parts(value) for form in _forms(part)}
    for part in sorted((p for p in parts if len(p) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return _LONG.sub(HIDDEN, _USER.sub(HIDDEN, text))


def _parts(value: str) -> Iterator[str]:
    """What an option's value is made of: itself, the texts of JSON, the parts of connection strings, URLs and signatures."""
    yield value
    for text in (value, urllib.parse.unquote(value)):
        yield from _SEPARATORS.split(_SCHEME.sub("", text))
    try:
        texts = [json.loads(value)] if value.lstrip().startswith(("{", "[", '"')) else []
    except (ValueError, RecursionError):
        return
    while texts:
        text = texts.pop()
        if isinstance(text, dict | list):
            texts += text.values() if isinstance(text, dict) else text
        elif isinstance(text, str):
            yield text
            yield from text.splitlines()


def _forms(part: str) -> Iterator[str]:
    """The ways in which clients write a text into URLs and messages."""
    yield from (part, urllib.parse.quote(part), urllib.parse.quote(part, safe=""), urllib.parse.quote_plus(part))
    yield from (urllib.parse.unquote(part), json.dumps(part)[1:-1], repr(part)[1:-1])
