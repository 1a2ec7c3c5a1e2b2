"""Requests with JSON over HTTP, to services that keep the names of tables.

Requests that were not executed, because the service was busy or unreachable, are repeated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import urllib3

from lance_spark.errors import NamespaceError
from lance_spark.namespace.error_codes import CONCURRENT

UNAVAILABLE = 17
CODES = {400: 13, 401: 16, 403: 15, 405: 0, 409: CONCURRENT, 429: 21, 501: 0, 503: UNAVAILABLE}
"""Codes of the namespace specification by HTTP status, for responses without a code."""
_MOST_BYTES = 64 << 20
"""More than a page of any listing; a response is in memory."""


@dataclass(frozen=True)
class Patience:
    """How long a service may take to be connected and to respond, in seconds, and how often a request is repeated."""

    connect_s: float = 10
    read_s: float = 120
    retries: int = 5

    @property
    def timeout(self) -> urllib3.Timeout:
        """The times for urllib3."""
        return urllib3.Timeout(connect=self.connect_s, read=self.read_s)

    @property
    def retry(self) -> urllib3.Retry:
        """The repetitions for urllib3. What may have been executed is not repeated."""
        return urllib3.Retry(
            total=self.retries,
            connect=min(self.retries, 3),
            read=0,
            redirect=0,
            other=0,
            status=min(self.retries, 4),
            status_forcelist=(429, 503),
            allowed_methods=None,
            backoff_factor=0.2,
            raise_on_status=False,
        )


USUAL = Patience()


@dataclass(frozen=True)
class Response:
    """The status of a response and its JSON object, which is empty for other contents."""

    status: int
    fields: Mapping[str, Any]


def send(what: str, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None, patience: Patience = USUAL) -> Response:
    """Send one request. Raises NamespaceError, with `what`, if there is no response that can be read; any status is returned."""
    try:
        response = _pool(os.getpid()).request(
            method, url, body=body, headers=dict(headers), preload_content=False, timeout=patience.timeout, retries=patience.retry
        )
        content = response.read(_MOST_BYTES + 1, decode_content=True)
        response.release_conn()
    except (urllib3.exceptions.HTTPError, ValueError, OSError) as e:
        # The message is not shown, since it may repeat headers.
        raise NamespaceError(f"{what}: the service does not respond ({type(e).__name__})", UNAVAILABLE) from None
    if len(content) > _MOST_BYTES:
        raise NamespaceError(f"{what}: the response has more than {_MOST_BYTES} bytes")
    return Response(response.status, _fields(what, response.status, content))


def _fields(what: str, status: int, content: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError):
        if status < 300:
            raise NamespaceError(f"{what}: the response is not JSON: {content[:100]!r}") from None
        return {}
    if isinstance(answer, dict):
        return answer
    if status < 300:
        raise NamespaceError(f"{what}: the response is not a JSON object: {content[:100]!r}")
    return {}


@lru_cache(maxsize=1)
def _pool(pid: int) -> urllib3.PoolManager:
    """The connections of a process."""
    return urllib3.PoolManager()
