"""Requests to catalogs that speak JSON over HTTP, and their tokens."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from lance_spark.errors import LanceError, NamespaceError
from lance_spark.namespace.catalogs.metastore import Names, whole_number
from lance_spark.namespace.error_codes import from_code
from lance_spark.namespace.http import CODES, USUAL, Patience, Response, send
from lance_spark.namespace.protocol import shown

_MARGIN_S = 60
"""A token is asked for again so long before it expires."""
_lock = threading.Lock()
_tokens: dict[tuple[int, Login], tuple[str, float]] = {}


@dataclass(frozen=True)
class Login:
    """A client's id and secret, which the service at `url` changes for a token (OAuth 2, client credentials)."""

    url: str
    credential: str = field(repr=False)
    scope: str

    def token(self) -> str:
        """A token that is valid now; it is kept in this process until it expires. Raises NamespaceError."""
        key = (os.getpid(), self)
        with _lock:
            token, until = _tokens.get(key, ("", 0.0))
            if time.time() >= until:
                token, until = self._asked()
                _tokens[key] = token, until
            return token

    def _asked(self) -> tuple[str, float]:
        name, _, secret = self.credential.rpartition(":")
        form = {"grant_type": "client_credentials", "client_id": name, "client_secret": secret, "scope": self.scope}
        what = f"the login at {self.url}"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        response = send(what, "POST", self.url, headers, urlencode({k: v for k, v in form.items() if v}).encode())
        token, lifetime = response.fields.get("access_token"), response.fields.get("expires_in", 3600)
        if response.status >= 300 or not isinstance(token, str) or not isinstance(lifetime, int):
            raise NamespaceError(f"{what}: no token, HTTP status {response.status}", CODES.get(response.status, 16))
        return token, time.time() + max(lifetime - _MARGIN_S, 1)


@dataclass(frozen=True)
class Service:
    """The service below a URL. A token, or what `login` gets, is sent with every request."""

    title: str
    url: str
    token: str | None = field(default=None, repr=False)
    login: Login | None = None
    patience: Patience = USUAL

    def call(
        self,
        method: str,
        path: str,
        names: Names,
        missing: type[LanceError],
        exists: type[LanceError] = LanceError,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        """Send a request. Raises `missing` for 404, `exists` for 409, and the error for the status otherwise."""
        what = f"{self.title}: {method} of {shown(names)}"
        token = self.login.token() if self.login else self.token
        sent = {"Content-Type": "application/json", **(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        url = f"{self.url}{path}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        response = send(what, method, url, sent, None if body is None else json.dumps(body).encode(), self.patience)
        if response.status < 300:
            return response.fields
        said = f"{what}: {_message(response)}"
        if response.status == 404:
            raise missing(said)
        if response.status == 409:
            raise exists(said)
        raise from_code(CODES.get(response.status, NamespaceError.code), said)

    def pages(
        self, path: str, names: Names, key: str, query: Mapping[str, str], token_names: tuple[str, str], missing: type[LanceError]
    ) -> Iterator[Any]:
        """The members of all pages of a list. `token_names` are those of a page's token in the query and in the response."""
        asked, answered = token_names
        token: str | None = None
        while True:
            page = self.call("GET", path, names, missing, query={**query, **({asked: token} if token else {})})
            yield from page.get(key) or []
            before, token = token, page.get(answered) or None
            if token is None:
                return
            if token == before:
                raise NamespaceError(f"{self.title}: a list without end: {answered} {token!r}")


def patience_of(options: Mapping[str, str]) -> Patience:
    """The times that the properties give, in milliseconds, and the number of repetitions. Raises InvalidOptionError."""
    connect, read = whole_number(options, "connect_timeout_millis"), whole_number(options, "read_timeout_millis")
    retries = whole_number(options, "max_retries")
    return Patience(
        USUAL.connect_s if connect is None else connect / 1000,
        USUAL.read_s if read is None else read / 1000,
        USUAL.retries if retries is None else retries,
    )


def _message(response: Response) -> str:
    error = response.fields.get("error")
    text = error.get("message") if isinstance(error, dict) else response.fields.get("message") or response.fields.get("detail") or error
    return f"HTTP {response.status}: {str(text)[:500]}" if text else f"HTTP {response.status}"
