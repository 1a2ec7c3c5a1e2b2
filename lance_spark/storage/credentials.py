"""Where the clients of object stores find credentials. Only names are told: nothing here reads or returns a secret."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lance_spark.storage.options import TABLES

_VARIABLES = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_STORAGE_TENANT_ID",
    ),
}
"""The environment variables with credentials, or with their place, that the client of each kind of store reads."""
_FILES = {
    "s3": (
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        ("AWS_CONFIG_FILE", "~/.aws/config"),
    ),
    "gs": (("", "~/.config/gcloud/application_default_credentials.json"),),
}
"""The files with credentials: the variable that names one, if there is such a variable, and the usual place."""


def credential_sources(kind: str, options: Mapping[str, str]) -> list[str]:
    """What gives credentials, or settings, to the client of a kind of store: names of options, variables and files."""
    known = TABLES.get(kind, {})
    found = [f"option {name}" for name in sorted(options) if name.lower() in known]
    found += [f"variable {name}" for name in _VARIABLES.get(kind, ()) if os.environ.get(name)]
    for variable, usual in _FILES.get(kind, ()):
        named = os.environ.get(variable, "") if variable else ""
        if os.path.isfile(os.path.expanduser(named or usual)):
            found.append(f"file of {variable}" if named else f"file {usual}")
    return found
