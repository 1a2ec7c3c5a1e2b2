"""Where a table is: URIs as users, Spark and manifests write them, taken apart. Pure, no I/O."""

from __future__ import annotations

import os
import re
import urllib.parse
from dataclasses import dataclass

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.storage.secrets import is_signed, shown

# Scheme in a URI -> the kind of store. Spark says s3a and abfss.
_KINDS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(.*)", re.DOTALL)


@dataclass(frozen=True)
class Location:
    """One root, normalised.

    `kind` is "file", "memory", "s3", "gs" or "az"; `bucket` the bucket or container, "" where there is none; `account` the Azure
    storage account if the URI names it; `path` has no slash at the end. `uri` says all of it again, for a local file as the plain path.
    """

    kind: str
    bucket: str
    path: str
    uri: str
    account: str = ""

    def is_in_store_of(self, other: Location) -> bool:
        """Whether both are on the local disks, or in the same bucket or container: where the same credentials count."""
        return (self.kind, self.bucket, self.account) == (other.kind, other.bucket, other.account)


def locate(uri: str) -> Location:
    """The place that a URI or a local path names. Relative paths count from the working directory of this process.

    The part after `file:` is percent-decoded, as pylance does; Spark writes `file:/x` for `file:///x`.
    """
    if not uri.strip():
        raise InvalidOptionError("the path of the table is empty")
    if not can_be_path(uri):
        raise InvalidOptionError(f"{shown(uri)!r} has characters that no path can have")
    match = _SCHEME.fullmatch(uri)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", uri)
    if scheme == "file":
        path = urllib.parse.unquote("/" + rest.removeprefix("//localhost/").lstrip("/"))
        if not can_be_path(path):
            raise InvalidOptionError(f"{shown(uri)!r} has characters that no path can have")
        return _local(path)
    if not scheme or not rest.startswith("/"):
        return _local(uri)
    if scheme == "memory" and rest.startswith("//"):
        path = "/" + rest.strip("/")
        return Location("memory", "", path, f"memory:/{path}")
    if scheme not in _KINDS or not rest.startswith("//"):
        known = ", ".join(f"{s}://" for s in _KINDS)
        slashes = "//" if rest.startswith("//") else "/"
        raise UnsupportedFeatureError(f"there is no support for {scheme}:{slashes} locations; there is for local paths and {known}")
    authority, _, path = rest[2:].partition("/")
    path = path.strip("/")
    kind = _KINDS[scheme]
    bucket, at, host = authority.partition("@")
    if at and (kind != "az" or ":" in bucket or "@" in host or not host):
        # What is before the @ is a password most of the time, and is not shown.
        raise InvalidOptionError(f"a {scheme}:// location takes no user or password before an @; credentials are storage options")
    if not bucket:
        raise UnsupportedFeatureError(f"a {scheme}:// location must name a bucket or container")
    if is_signed(path):
        raise InvalidOptionError(f"a {scheme}:// location takes no signature in a query; credentials are storage options")
    name = scheme if kind == "az" else kind
    return Location(kind, bucket, path, f"{name}://{authority}/{path}".rstrip("/"), host.partition(".")[0])


def can_be_path(text: str) -> bool:
    """Whether there are no characters in `text` that neither a file system nor an object store takes."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def split_manifest_store(uri: str) -> tuple[str, str]:
    """A URI without the external manifest store that it names, and that store, "" for none.

    `s3+ddb://bucket/path?ddbTableName=t` is how pylance names a table of DynamoDB.
    """
    if not uri.lower().startswith("s3+ddb://"):
        return uri, ""
    place, _, query = uri.partition("?")
    names = urllib.parse.parse_qs(query).get("ddbTableName", [])
    if len(names) != 1:
        raise UnsupportedFeatureError("an s3+ddb:// location must name one table of DynamoDB: s3+ddb://bucket/path?ddbTableName=name")
    return f"s3://{place[len('s3+ddb://') :]}", f"dynamodb://{names[0]}"


def _local(path: str) -> Location:
    path = os.path.abspath(path)
    return Location("file", "", path, path)
