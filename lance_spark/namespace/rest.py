"""Requests to a REST namespace, over HTTP.

Implements the routes of the REST namespace specification that the protocol needs. Requests that were not executed, because the service
was busy or unreachable, are repeated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from lance_spark.errors import NamespaceError
from lance_spark.namespace.error_codes import CONCURRENT, from_code
from lance_spark.namespace.protocol import DELIMITER, shown

_ROUTES = {
    "list_namespaces": ("GET", "namespace/{}/list"),
    "describe_namespace": ("POST", "namespace/{}/describe"),
    "create_namespace": ("POST", "namespace/{}/create"),
    "drop_namespace": ("POST", "namespace/{}/drop"),
    "list_tables": ("GET", "namespace/{}/table/list"),
    "describe_table": ("POST", "table/{}/describe"),
    "declare_table": ("POST", "table/{}/declare"),
    "register_table": ("POST", "table/{}/register"),
    "deregister_table": ("POST", "table/{}/deregister"),
    "drop_table": ("POST", "table/{}/drop"),
    "rename_table": ("POST", "table/{}/rename"),
}
_IN_QUERY = ("page_token", "check_declared")
_CODES = {400: 13, 401: 16, 403: 15, 405: 0, 409: CONCURRENT, 429: 21, 501: 0, 503: 17}
"""Error codes by HTTP status, for responses without a code."""
_UNAVAILABLE = 17
_MOST_BYTES = 64 << 20
"""More than a page of any listing; a response is in memory."""
_TIMEOUT = urllib3.Timeout(connect=10, read=120)
_RETRIES = urllib3.Retry(
    total=5, connect=3, read=0, redirect=0, other=0, status=4, status_forcelist=(429, 503), allowed_methods=None, backoff_factor=0.2,
    raise_on_status=False,
)  # fmt: skip


@dataclass(frozen=True)
class Rest:
    """The service at `uri`. `headers`, which may contain credentials, are sent with every request."""

    uri: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    delimiter: str = DELIMITER

    def call(self, operation: str, id: tuple[str, ...], request: Mapping[str, object]) -> Mapping[str, Any]:
        """Send one request. Raises the error for the code in the response."""
        method, route = _ROUTES[operation]
        query = {name: str(value).lower() if value is True else str(value) for name, value in request.items() if name in _IN_QUERY}
        if self.delimiter != DELIMITER:
            query["delimiter"] = self.delimiter
        path = route.format(quote(self.delimiter.join(id) or self.delimiter, safe="$"))
        url = f"{self.uri.rstrip('/')}/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        body = None if method == "GET" else json.dumps(dict(request)).encode()
        what = f"{operation} of {shown(id)} at {self.uri}"
        try:
            response = _pool(os.getpid()).request(
                method, url, body=body, headers={"Content-Type": "application/json", **dict(self.headers)}, preload_content=False
            )
            content = response.read(_MOST_BYTES + 1, decode_content=True)
            response.release_conn()
        except (urllib3.exceptions.HTTPError, ValueError, OSError) as e:
            # The message is not shown, since it may repeat headers.
            raise NamespaceError(f"{what}: the service does not respond ({type(e).__name__})", _UNAVAILABLE) from None
        if len(content) > _MOST_BYTES:
            raise NamespaceError(f"{what}: the response has more than {_MOST_BYTES} bytes")
        return _answer(what, response.status, content)


def _answer(what: str, status: int, content: bytes) -> Mapping[str, Any]:
    answer: object = {}
    try:
        answer = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError):
        if status < 300:
            raise NamespaceError(f"{what}: the response is not JSON: {content[:100]!r}") from None
    fields = answer if isinstance(answer, dict) else {}
    if status >= 300:
        code, said = fields.get("code"), fields.get("error") or fields.get("detail") or f"HTTP status {status}"
        known = code if type(code) is int and 0 <= code < 1000 else _CODES.get(status, NamespaceError.code)
        raise from_code(known, f"{what}: {str(said)[:500]}")
    if not isinstance(answer, dict):
        raise NamespaceError(f"{what}: the response is not a JSON object: {content[:100]!r}")
    return fields


@lru_cache(maxsize=1)
def _pool(pid: int) -> urllib3.PoolManager:
    """The connections of a process."""
    return urllib3.PoolManager(retries=_RETRIES, timeout=_TIMEOUT)
