"""The files beside a data file that contain blobs."""

from __future__ import annotations

import re

_SIDECAR = re.compile(r"[01]{32}\.blob")


def sidecar_path(path: str, blob_id: int) -> str:
    """The path of a sidecar with blobs of the data file at `path`."""
    # The id is in binary, least significant digit first, so that adjacent ids do not share a prefix.
    return f"{path.removesuffix('.lance')}/{f'{blob_id:032b}'[::-1]}.blob"


def is_sidecar_name(name: str) -> bool:
    """True if a file name has the form of `sidecar_path`."""
    return _SIDECAR.fullmatch(name) is not None
