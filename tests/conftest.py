"""Servers that tests of several folders need."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a moto server in a process of its own, on loopback only."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("s3_server.py")), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "Running on" in line:
            break
    # The server logs every request, and would wait for ever once the pipe is full.
    log = threading.Thread(target=process.stderr.read)
    log.start()
    endpoint = f"http://127.0.0.1:{port}"
    urllib.request.urlopen(f"{endpoint}/moto-api/").close()
    boto3.client("s3", "us-east-1", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b").create_bucket(Bucket="tables")
    yield endpoint
    process.terminate()
    process.wait()
    log.join()
    process.stderr.close()
