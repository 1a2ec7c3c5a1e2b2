"""Why Spark refused something, in one line."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError


def reason(error: Exception) -> str:
    """The first line of an error of Spark; of one of the JVM, py4j's own first line names only the call that failed."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    lines = text.strip().splitlines()
    return lines[0] if lines else type(error).__name__
