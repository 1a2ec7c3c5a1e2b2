"""Storage options: their names, as in pylance (Rust's object_store), and the matching arguments of s3fs, gcsfs and adlfs. No I/O.

Options for other kinds of store are accepted and ignored, so that one set of options can serve tables on several stores. An unknown
name is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from lance_spark.display.words import nearest
from lance_spark.errors import InvalidOptionError

Arguments = dict[str, Any]
"""Keyword arguments of an fsspec file system, nested as that file system expects them."""


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError
    return text.lower() in ("true", "1")


def _not_flag(text: str) -> bool:
    return not _flag(text)


def _seconds(text: str) -> float:
    """Parse a duration in the syntax of object_store, such as "500ms", "30s" or "2m", or a plain number of seconds."""
    for suffix, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0), ("", 1.0)):
        if text.endswith(suffix):
            return float(text.removesuffix(suffix)) * factor
    raise ValueError


def _addressing(text: str) -> str:
    return "virtual" if _flag(text) else "path"


def _anonymous_token(text: str) -> str | None:
    return "anon" if _flag(text) else None


# Option -> (path of its value in the arguments, conversion). An empty path: the option is accepted and has no effect here.
_Place = tuple[tuple[str, ...], Callable[[str], Any]]

_S3: dict[str, _Place] = {
    "access_key_id": (("key",), str),
    "secret_access_key": (("secret",), str),
    "session_token": (("token",), str),
    "token": (("token",), str),
    "region": (("client_kwargs", "region_name"), str),
    "default_region": (("client_kwargs", "region_name"), str),
    "endpoint": (("endpoint_url",), str),
    "endpoint_url": (("endpoint_url",), str),
    "virtual_hosted_style_request": (("config_kwargs", "s3", "addressing_style"), _addressing),
    "skip_signature": (("anon",), _flag),
    "request_payer": (("requester_pays",), _flag),
    "server_side_encryption": (("s3_additional_kwargs", "ServerSideEncryption"), str),
    "sse_kms_key_id": (("s3_additional_kwargs", "SSEKMSKeyId"), str),
    "sse_bucket_key_enabled": (("s3_additional_kwargs", "BucketKeyEnabled"), _flag),
    "bucket": ((), str),
    "bucket_name": ((), str),
    "unsigned_payload": ((), _flag),
    "imdsv1_fallback": ((), _flag),
    "metadata_endpoint": ((), str),
    "conditional_put": ((), str),
    "copy_if_not_exists": ((), str),
    "checksum_algorithm": ((), str),
    "disable_tagging": ((), _flag),
    "s3_express": ((), _flag),
}
_S3_CLIENT: dict[str, _Place] = {
    "allow_http": ((), _flag),  # follows from the endpoint's scheme
    "allow_invalid_certificates": (("client_kwargs", "verify"), _not_flag),
    "timeout": (("config_kwargs", "read_timeout"), _seconds),
    "connect_timeout": (("config_kwargs", "connect_timeout"), _seconds),
    "client_max_retries": (("config_kwargs", "retries", "max_attempts"), int),
    "proxy_url": (("config_kwargs", "proxies", "https"), str),
    "client_retry_timeout": ((), str),
    "download_retry_count": ((), int),
    "user_agent": (("config_kwargs", "user_agent_extra"), str),
}
_GCS: dict[str, _Place] = {
    "service_account": (("token",), str),
    "service_account_path": (("token",), str),
    "application_credentials": (("token",), str),
    "service_account_key": (("token",), json.loads),
    "skip_signature": (("token",), _anonymous_token),
    "base_url": (("endpoint_url",), str),
    "bucket": ((), str),
    "bucket_name": ((), str),
}
_AZURE: dict[str, _Place] = {
    "account_name": (("account_name",), str),
    "account_key": (("account_key",), str),
    "access_key": (("account_key",), str),
    "master_key": (("account_key",), str),
    "client_id": (("client_id",), str),
    "client_secret": (("client_secret",), str),
    "tenant_id": (("tenant_id",), str),
    "authority_id": (("tenant_id",), str),
    "sas_key": (("sas_token",), str),
    "sas_token": (("sas_token",), str),
    "connection_string": (("connection_string",), str),
    "skip_signature": (("anon",), _flag),
    "endpoint": (("account_host",), str),
    "container_name": ((), str),
}
_AZURE_BARE = ("account_name", "account_key", "client_id", "client_secret", "tenant_id", "sas_key", "sas_token")


def _named(table: Mapping[str, _Place], *prefixes: str) -> dict[str, _Place]:
    return {prefix + name: place for name, place in table.items() for prefix in prefixes}


# Kind of store -> the options that it accepts.
TABLES: dict[str, dict[str, _Place]] = {
    "s3": {**_named(_S3, "", "aws_"), **_S3_CLIENT},
    "gs": {
        **_named({k: v for k, v in _GCS.items() if k not in ("bucket", "bucket_name", "base_url", "skip_signature")}, "", "google_"),
        **_named(_GCS, "google_"),
    },
    "az": {**{n: _AZURE[n] for n in _AZURE_BARE}, **_named(_AZURE, "azure_", "azure_storage_")},
}
MANIFEST_STORE = "manifest_store"
DYNAMODB_ENDPOINT = "dynamodb_endpoint"
GENERAL = (MANIFEST_STORE, DYNAMODB_ENDPOINT)
"""Options of the external manifest store (see `table.manifest_store.external`), which no file system receives."""
_KNOWN = sorted({*GENERAL, *(name for table in TABLES.values() for name in table)})


_OF_BASE = re.compile(r"base_([0-9]{1,10})\.(.+)", re.DOTALL)
"""An option of the base path with an id, as in pylance: `base_1.region`."""


def is_known(name: str) -> bool:
    """Whether there is such a storage option, in any family, also for one base path alone."""
    found = _OF_BASE.fullmatch(name.lower())
    return (name.lower() if found is None else found[2]) in _KNOWN


def is_of_base(name: str) -> bool:
    """Whether an option is for one base path alone."""
    return _OF_BASE.fullmatch(name.lower()) is not None


def options_of_base(options: Mapping[str, str], base_id: int) -> dict[str, str]:
    """The options for the base path with an id: its own ones replace those that are for all."""
    shared = {name: value for name, value in options.items() if not is_of_base(name)}
    own = {}
    for name, value in options.items():
        match = _OF_BASE.fullmatch(name.lower())
        if match is not None and int(match[1]) == base_id:
            own[match[2]] = value
    return {name: value for name, value in shared.items() if name.lower() not in own} | own


def check_names(options: Mapping[str, str]) -> None:
    """Raise InvalidOptionError for an unknown name and suggest the most similar one. Values are never shown."""
    for name in options:
        if not is_known(name):
            raise InvalidOptionError(f"unknown storage option {name!r}{nearest(name, _KNOWN)}")


def arguments(scheme: str, options: Mapping[str, str]) -> Arguments:
    """Translate `options` into keyword arguments of the file system for `scheme`. Raises InvalidOptionError for an invalid value."""
    table, result = TABLES.get(scheme, {}), Arguments()
    for name, text in options.items():
        where, convert = table.get(name.lower(), ((), str))
        if not where:
            continue
        try:
            value = convert(text)
        except ValueError:
            raise InvalidOptionError(f"the storage option {name!r} has an invalid value") from None
        inner = result
        for key in where[:-1]:
            inner = inner.setdefault(key, {})
        inner[where[-1]] = value
    if scheme == "s3" and "endpoint_url" in result:
        # With a custom endpoint, object_store uses path-style addressing by default; botocore would guess.
        result.setdefault("config_kwargs", {}).setdefault("s3", {}).setdefault("addressing_style", "path")
    return result
