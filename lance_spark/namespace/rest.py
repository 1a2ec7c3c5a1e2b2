"""Requests to a REST namespace, over HTTP.

Implements the routes of the REST namespace specification that the protocol needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from lance_spark.errors import LanceError, NamespaceError
from lance_spark.namespace.error_codes import from_code
from lance_spark.namespace.http import CODES, Response, send
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


@dataclass(frozen=True)
class Rest:
    """The service at `uri`. `headers`, which may contain credentials, are sent with every request."""

    uri: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    delimiter: str = DELIMITER

    def call(self, operation: str, id: tuple[str, ...], request: Mapping[str, object]) -> Mapping[str, Any]:
        """Send one request. Raises the error for the code in the response."""
        method, route = _ROUTES[operation]
        query = {}
        for name, value in request.items():
            if name in _IN_QUERY:
                query[name] = "true" if value is True else str(value)
        if self.delimiter != DELIMITER:
            query["delimiter"] = self.delimiter
        path = route.format(quote(self.delimiter.join(id) or self.delimiter, safe="$"))
        url = f"{self.uri.rstrip('/')}/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        body = None if method == "GET" else json.dumps(dict(request)).encode()
        what = f"{operation} of {shown(id)} at {self.uri}"
        response = send(what, method, url, {"Content-Type": "application/json", **dict(self.headers)}, body)
        if response.status >= 300:
            raise _refusal(what, response)
        return response.fields


def _refusal(what: str, response: Response) -> LanceError:
    code, said = response.fields.get("code"), response.fields.get("error") or response.fields.get("detail")
    known = code if type(code) is int and 0 <= code < 1000 else CODES.get(response.status, NamespaceError.code)
    return from_code(known, f"{what}: {str(said or f'HTTP status {response.status}')[:500]}")
