"""A real browser for pages. `make browser` installs one if the system has none."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """The path of a Chromium."""
    installed = Path(sys.prefix, "browser", "chromium")
    return next((found for name in NAMES if (found := shutil.which(name))), str(installed) if installed.exists() else None)


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """A headless browser. The test is skipped if there is none."""
    api: Any = pytest.importorskip("playwright.sync_api", reason="no playwright: `make browser` installs it")
    path = program()
    if path is None:
        pytest.skip("no Chromium: `make browser` installs one")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@contextlib.contextmanager
def showing(browser: Browser, html: Path, width: int, scheme: Any, *, without_policy: bool = False) -> Iterator[Page]:
    """Open the page in a file. It must load nothing, report no error and open no dialog. `without_policy` removes its security policy."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=without_policy)
    page = context.new_page()
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("dialog", lambda dialog: seen.append(dialog.message))
    page.goto(html.as_uri())
    yield page
    assert seen == [html.as_uri()]
    context.close()
