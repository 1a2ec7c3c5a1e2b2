"""A moto server whose conditional puts are atomic, as those of S3 and DynamoDB are.

moto itself looks whether something is there and then writes it, and other requests may come between: of two commits that are put at the
same time both would succeed, and one be lost.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.dynamodb.responses import DynamoHandler
from moto.s3.responses import S3Response
from moto.server import main

_LOCK = threading.Lock()


def _one_at_a_time(kind: type, name: str) -> None:
    method = getattr(kind, name)

    def locked(self: Any) -> Any:
        with _LOCK:
            return method(self)

    setattr(kind, name, locked)


if __name__ == "__main__":
    _one_at_a_time(S3Response, "put_object")
    _one_at_a_time(DynamoHandler, "put_item")
    main()
