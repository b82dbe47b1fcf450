"""The live page in a browser: from a link to the page, and what it shows of a fault.

entered(browser, link, "Cy") ─► Page    page.until(f"{card('half-dies')}.dataset.stage", "active")
"""

import re
import time
from pathlib import Path
from typing import Any

from tests.chromium import Browser, Page

ABORT = "document.getElementById('abort')"
PHASE = "document.getElementById('phase').textContent"
AGAIN_S = 0.4
"""After this time a second press is no double click."""


def entered(browser: Browser, link: str, name: str = "", **how: Any) -> Page:
    """Follow a link, give a name, and wait for the page to show the run."""
    page = browser.visit(link, **how)
    page.until("!document.getElementById('enter').hidden")
    assert link.partition("#")[2] not in page.js("location.href")
    page.js(f"document.getElementById('name').value = {name!r}")
    page.js("document.querySelector('#enter button').click()")
    page.until("Boolean(document.getElementById('charter')?.textContent)")
    return page


def printed_link(said: Path, whose: str, within_s: float = 60.0) -> str:
    """The link that `--serve` printed for somebody into this file."""
    end_s = time.monotonic() + within_s
    while not (found := re.search(rf"^ *{whose}.*: (http\S+)$", said.read_text(), re.MULTILINE)):
        assert time.monotonic() < end_s, f"no link was printed: {said.read_text()}"
        time.sleep(0.05)
    return found[1]


def card(spec: str) -> str:
    """The card of a fault, as an expression."""
    return f"document.querySelector('article[aria-labelledby=fault-{spec}]')"


def text(page: Page) -> str:
    """All that it shows."""
    said: str = page.js("document.body.innerText")
    return said
