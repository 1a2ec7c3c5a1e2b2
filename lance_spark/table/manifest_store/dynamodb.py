"""An external manifest store in DynamoDB. The attributes are those of pylance, so that both can commit to the same tables.

The DynamoDB table has the hash key `base_uri` (text: the path of the Lance table in its bucket) and the range key `version` (number).
The other attributes are `path`, `size` and `committer`. The client is botocore, which s3fs uses too.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.storage.options import DYNAMODB_ENDPOINT
from lance_spark.storage.remote import client_errors
from lance_spark.storage.store import Store

COMMITTER = "lance_spark"


class DynamoDBManifests:
    """Implements `table.manifest_store.external.Manifests`."""

    def __init__(self, store: Store, table: str) -> None:
        given = store.client_options([DYNAMODB_ENDPOINT])
        self._store = store
        settings = (
            given.get("key"),
            given.get("secret"),
            given.get("token"),
            given.get("client_kwargs", {}).get("region_name"),
            given.get(DYNAMODB_ENDPOINT) or os.environ.get("DYNAMODB_ENDPOINT"),
        )
        self._table = table
        with self._explained():
            self._client = _client(os.getpid(), *settings)
            _check_keys(self._client, table)

    def base(self, store: Store) -> str:
        """The table's path in its bucket, without the bucket's name, as in pylance."""
        return store.location.path

    def get(self, base: str, version: int) -> str | None:
        """The path of a version's manifest."""
        answer = self._ask("get_item", Key=_key(base, version), ConsistentRead=True)
        return _text(answer["Item"], "path") if "Item" in answer else None

    def latest(self, base: str) -> tuple[int, str] | None:
        """The highest version and its path."""
        items = self._ask(
            "query",
            KeyConditionExpression="base_uri = :base_uri",
            ExpressionAttributeValues={":base_uri": {"S": base}},
            ScanIndexForward=False,
            ConsistentRead=True,
            Limit=1,
        )["Items"]
        return (int(items[0]["version"]["N"]), _text(items[0], "path")) if items else None

    def put_if_absent(self, base: str, version: int, path: str, size: int) -> None:
        """Store the path atomically and durably. Raises FileExistsError if the version has one, perhaps our own: the client may retry."""
        condition = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
        if not self._put(base, version, path, size, condition):
            raise FileExistsError(f"{base}, version {version}")

    def replace(self, base: str, version: int, path: str, size: int) -> None:
        """Replace the path of an existing version."""
        self._put(base, version, path, size, "attribute_exists(base_uri) AND attribute_exists(version)")

    def remove(self, base: str, version: int, path: str) -> None:
        """Remove a version if it has this path."""
        names, values = {"#path": "path"}, {":path": {"S": path}}
        condition = {"ConditionExpression": "#path = :path", "ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
        self._ask("delete_item", refused={}, Key=_key(base, version), **condition)

    def forget(self, base: str) -> bool:
        """Remove all versions of a table. True if there were any."""
        known = False
        while (found := self.latest(base)) is not None:
            self._ask("delete_item", Key=_key(base, found[0]))
            known = True
        return known

    def _put(self, base: str, version: int, path: str, size: int, condition: str) -> bool:
        """Put an item if `condition` holds. Returns whether it did."""
        item = {**_key(base, version), "path": {"S": path}, "size": {"N": str(size)}, "committer": {"S": COMMITTER}}
        return bool(self._ask("put_item", refused={}, Item=item, ConditionExpression=condition))

    def _ask(self, request: str, refused: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """Send a request and return its response, or `refused` if its condition did not hold."""
        send: Callable[..., dict[str, Any]] = getattr(self._client, request)
        with self._explained():
            try:
                return send(TableName=self._table, **arguments)
            except importlib.import_module("botocore.exceptions").ClientError as e:
                if refused is not None and e.response["Error"]["Code"] == "ConditionalCheckFailedException":
                    return refused
                raise

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Translate the client's errors into our own, without the values of options."""
        try:
            yield
        except OSError as e:
            raise StorageError(f"the manifest store in DynamoDB: {self._store.redacted(e)}") from None
        except client_errors("s3") as e:
            raise StorageError(f"the manifest store in DynamoDB: {self._store.redacted(e)}") from None


def _key(base: str, version: int) -> dict[str, Any]:
    return {"base_uri": {"S": base}, "version": {"N": str(version)}}


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name, {}).get("S")
    if not isinstance(value, str):
        raise CorruptFileError(f"the manifest store has no string {name!r} in {item}")
    return value


@lru_cache(maxsize=8)
def _client(pid: int, key: str | None, secret: str | None, token: str | None, region: str | None, endpoint: str | None) -> Any:
    try:
        session = importlib.import_module("botocore.session").Session()
    except ImportError:
        raise UnsupportedFeatureError("a manifest store in DynamoDB needs the package botocore: pip install 'lance-spark[s3]'") from None
    credentials = {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}
    return session.create_client("dynamodb", region_name=region, endpoint_url=endpoint, **credentials)


@lru_cache(maxsize=32)
def _check_keys(client: Any, table: str) -> None:
    """Raise UnsupportedFeatureError if a DynamoDB table lacks the keys that make commits atomic."""
    schema = client.describe_table(TableName=table)["Table"]["KeySchema"]
    keys = {key["AttributeName"]: key["KeyType"] for key in schema}
    if keys != {"base_uri": "HASH", "version": "RANGE"}:
        raise UnsupportedFeatureError(f"the DynamoDB table has the keys {keys}; expected base_uri (HASH) and version (RANGE)")
