"""Locations: parsing of the URIs that users, Spark and manifests write. Pure, no I/O."""

from __future__ import annotations

import os
import re
import urllib.parse
from dataclasses import dataclass

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.storage.secrets import is_signed, shown

# URI scheme -> kind of store. Spark uses s3a and abfss.
_KINDS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_DRIVE = re.compile(r"/[a-zA-Z]:")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(.*)", re.DOTALL)


@dataclass(frozen=True)
class Location:
    """A normalised root.

    `kind` is "file", "memory", "s3", "gs", "az" or "hdfs". `bucket` is the bucket, the container or the cluster, "" if there is none.
    `account` is the Azure storage account if the URI names it. `path` has no trailing slash. `uri` is the whole location; for local files
    it is the plain path.
    """

    kind: str
    bucket: str
    path: str
    uri: str
    account: str = ""

    def is_in_store_of(self, other: Location) -> bool:
        """True if both are local or in the same bucket or container, where the same credentials apply."""
        return (self.kind, self.bucket, self.account) == (other.kind, other.bucket, other.account)


def absolute(uri: str) -> str:
    """The URI, or the absolute path for a relative one: Spark's JVM and its Python workers have working directories of their own."""
    return uri if _SCHEME.fullmatch(uri) or not uri.strip() else locate(uri).uri


def locate(uri: str) -> Location:
    """Parse a URI or a local path. Relative paths start at the working directory of this process, and `~` is the user's home.

    The part after `file:` is percent-decoded, as in pylance; Spark writes `file:/x` for `file:///x`. Raises InvalidOptionError for an
    invalid location and UnsupportedFeatureError for an unknown scheme.
    """
    if not uri.strip():
        raise InvalidOptionError("the path of the table is empty")
    if not can_be_path(uri):
        raise InvalidOptionError(f"{shown(uri)!r} contains characters that are not allowed in a path")
    match = _SCHEME.fullmatch(uri)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", uri)
    if scheme == "file":
        path = urllib.parse.unquote("/" + rest.removeprefix("//localhost/").lstrip("/"))
        if not can_be_path(path):
            raise InvalidOptionError(f"{shown(uri)!r} contains characters that are not allowed in a path")
        return _local(path)
    if not scheme or not rest.startswith("/"):
        return _local(os.path.expanduser(uri))
    if scheme == "memory" and rest.startswith("//"):
        path = "/" + rest.strip("/")
        return Location("memory", "", path, f"memory:/{path}")
    if scheme == "hdfs" and rest.startswith("//"):
        return _of_cluster(rest[2:])
    if scheme not in _KINDS or not rest.startswith("//"):
        raise _unsupported(scheme, rest)
    authority, _, path = rest[2:].partition("/")
    path = path.strip("/")
    kind = _KINDS[scheme]
    bucket, at, host = authority.partition("@")
    if at and (kind != "az" or ":" in bucket or "@" in host or not host):
        # The part before the @ is usually a password, so it is not shown.
        raise InvalidOptionError(f"a {scheme}:// location must not contain a user or password; pass credentials as storage options")
    if not bucket:
        raise UnsupportedFeatureError(f"a {scheme}:// location must name a bucket or container")
    if is_signed(path):
        raise InvalidOptionError(f"a {scheme}:// location must not contain a signature; pass credentials as storage options")
    name = scheme if kind == "az" else kind
    return Location(kind, bucket, path, f"{name}://{authority}/{path}".rstrip("/"), host.partition(".")[0])


def _of_cluster(place: str) -> Location:
    """The location of `hdfs://cluster/path`; without a cluster it is that of Hadoop's settings."""
    authority, _, path = place.partition("/")
    if "@" in authority:
        raise InvalidOptionError("an hdfs:// location must not contain a user or password; set HADOOP_USER_NAME, or log in with Kerberos")
    path = "/" + path.strip("/")
    return Location("hdfs", authority, path, f"hdfs://{authority}{path}".rstrip("/") if authority else f"hdfs://{path}")


def _unsupported(scheme: str, rest: str) -> UnsupportedFeatureError:
    """The error for a scheme without a store, which says what to write instead."""
    known = ", ".join(f"{s}://" for s in (*_KINDS, "hdfs"))
    instead = f"use a local path or one of {known}"
    if scheme == "dbfs" and "@" not in rest:  # what is before an @ may be a password
        path = "/" + rest.lstrip("/")
        instead = f"write {path if path.startswith('/Volumes/') else '/dbfs' + path}, the same files as a local path"
    if scheme in ("webhdfs", "swebhdfs", "viewfs"):
        instead = "write the same files as hdfs://host:port/path"
    slashes = "//" if rest.startswith("//") else "/"
    return UnsupportedFeatureError(f"{scheme}:{slashes} locations are not supported; {instead}")


def of_hadoop(text: str) -> str:
    """A location that `locate` understands, from the text of a Hadoop `Path`, such as the LOCATION of a statement that Spark passes on.

    Hadoop writes `file:/x` for the path /x, and encodes nothing: %20 is a part of the name.
    """
    match = _SCHEME.fullmatch(text)
    return "/" + match[2].lstrip("/") if match and match[1].lower() == "file" else text


def can_be_path(text: str) -> bool:
    """False if `text` contains characters that no file system or object store accepts."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def split_manifest_store(uri: str) -> tuple[str, str]:
    """Split a URI into the table's URI and the external manifest store that it names ("" for none).

    pylance names a DynamoDB table as `s3+ddb://bucket/path?ddbTableName=t`.
    """
    if not uri.lower().startswith("s3+ddb://"):
        return uri, ""
    place, _, query = uri.partition("?")
    names = urllib.parse.parse_qs(query).get("ddbTableName", [])
    if len(names) != 1:
        raise UnsupportedFeatureError("an s3+ddb:// location must name one DynamoDB table: s3+ddb://bucket/path?ddbTableName=name")
    return f"s3://{place[len('s3+ddb://') :]}", f"dynamodb://{names[0]}"


def _local(path: str) -> Location:
    if os.name == "nt":  # file:///C:/table
        path = path.removeprefix("/") if _DRIVE.match(path) else path
    path = os.path.abspath(path).replace(os.sep, "/")
    return Location("file", "", path, path)
