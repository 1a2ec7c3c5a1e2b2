"""A moto server with atomic conditional puts, as in S3 and DynamoDB.

moto itself looks whether something is there and then writes it, and other requests may come between: of two commits that are put at the
same time both would succeed, and one be lost.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_LOCK = threading.Lock()


@contextlib.contextmanager
def running(log: Callable[[str], object] = lambda line: None) -> Iterator[str]:
    """The address of such a server in a separate process, on loopback only, with the bucket "tables". `log` takes each line of its log."""
    import boto3  # the server itself does without

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # Without -P the folders of tests would take the place of modules of Python with their names.
    command = [sys.executable, "-P", __file__, "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "Running on" in line:
            break
    # The server logs every request, and would wait for ever once the pipe is full.
    reader = threading.Thread(target=_read, args=(process.stderr, log))
    reader.start()
    try:
        endpoint = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(f"{endpoint}/moto-api/").close()
        boto3.client("s3", "us-east-1", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b").create_bucket(
            Bucket="tables"
        )
        yield endpoint
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stderr.close()


def _read(lines: Iterable[str], log: Callable[[str], object]) -> None:
    for line in lines:
        log(line)


def _one_at_a_time(kind: type, name: str) -> None:
    method = getattr(kind, name)

    def locked(self: Any) -> Any:
        with _LOCK:
            return method(self)

    setattr(kind, name, locked)


def _serve() -> None:
    from moto.dynamodb.responses import DynamoHandler
    from moto.s3.responses import S3Response
    from moto.server import main

    _one_at_a_time(S3Response, "put_object")
    _one_at_a_time(DynamoHandler, "put_item")
    main()


if __name__ == "__main__":
    _serve()
