"""Redaction: keys and passwords of URIs and options are removed from errors and logs. Pure, no I/O."""

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
"""Matches keys, signatures and encoded credentials."""
_SHORTEST = 3
"""Shorter parts of an option are not redacted, since they occur in any text."""


def is_signed(uri: str) -> bool:
    """True if the query of a URI contains credentials, such as a signature."""
    return _SIGNATURE.search(uri) is not None


def shown(uri: str) -> str:
    """A URI without its password and its query."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    # In Azure URIs, the part before the @ is the container.
    is_container = scheme.lower() in ("az", "abfs", "abfss") and ":" not in user and "@" not in user
    path, query, _ = path.partition("?")
    user = user if is_container else HIDDEN * bool(at)
    return f"{scheme}://{user}{at}{host}{slash}{path}{query}{HIDDEN * bool(query)}"


def redacted(text: str, options: Mapping[str, str]) -> str:
    """Remove the values of options, and parts of them in any encoding, from `text`, the message of a client."""
    values = {value for value in options.values() if value.lower() not in ("", "true", "false")}
    parts = {form for value in values for part in _parts(value) for form in _forms(part)}
    for part in sorted((p for p in parts if len(p) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return _LONG.sub(HIDDEN, _USER.sub(HIDDEN, text))


def _parts(value: str) -> Iterator[str]:
    """The value of an option and its parts: strings in JSON, parts of connection strings, URLs and signatures."""
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
    """The encodings of a text that clients use in URLs and messages."""
    yield from (part, urllib.parse.quote(part), urllib.parse.quote(part, safe=""), urllib.parse.quote_plus(part))
    yield from (urllib.parse.unquote(part), json.dumps(part)[1:-1], repr(part)[1:-1])
