"""A headless Chromium, driven by its DevTools protocol over a pipe: no port, no library between.

    with Browser() as browser:  page = browser.open(file)
        page.js("document.title") · page.press("+") · page.screenshot(path) · page.troubles

CHAOSLAB_REQUIRE=chromium makes its absence a failure; without that, tests that need it are skipped.
The picture of the README: python -m tests.chromium RUN_DIR/report.html docs/report.webp
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import pytest

SCREENSHOTS = Path(__file__).parent.parent / "build" / "screenshots"
"""What tests saw, for a person to look at; continuous integration keeps it."""
APPEARANCES: Mapping[str, Mapping[str, Any]] = {
    "light": {}, "dark": {"is_dark": True}, "narrow": {"width": 390},
    "paper": {"width": 794, "is_printed": True},
}  # fmt: skip
IS_REQUIRED = "chromium" in os.environ.get("CHAOSLAB_REQUIRE", "")
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_ANSWER_S = 60.0
_SOON_S = 15.0
_FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--force-color-profile=srgb",
)  # fmt: skip
_KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, "Enter": 13, "Tab": 9}


class Browser:
    """One process of Chromium, with a profile of its own."""

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        if program is None:
            if IS_REQUIRED:
                pytest.fail("CHAOSLAB_REQUIRE names chromium: apt-get install chromium")
            pytest.skip("needs chromium: apt-get install chromium")
        self._profile = Path(mkdtemp(prefix="chromium-"))
        read_there, self._write = _pipe()
        self._read, write_there = _pipe()
        self._pid = os.posix_spawn(
            program,
            [program, *_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else []),
             f"--user-data-dir={self._profile}"],
            {**os.environ, "HOME": str(self._profile)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read_there, 3),
                (os.POSIX_SPAWN_DUP2, write_there, 4),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )  # fmt: skip
        os.close(read_there)
        os.close(write_there)
        self._asked = 0
        self._heard = b""
        self.events: list[Mapping[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.ask("Browser.close")  # it ends its own processes, and waits for them
            while os.read(self._read, 1 << 20):
                pass
        finally:
            os.killpg(self._pid, signal.SIGKILL)  # also if it did not answer
            os.waitpid(self._pid, 0)
            os.close(self._write)
            os.close(self._read)
            shutil.rmtree(self._profile, ignore_errors=True)

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> Mapping[str, Any]:
        """Call a method of the protocol and return its result; AssertionError if it is refused."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters}
        message |= {"sessionId": session} if session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._asked:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: Mapping[str, Any] = answer["result"]
                return result
            self.events.append(answer)
        raise AssertionError(f"{method}: no answer")

    def wait_for(self, method: str, session: str) -> None:
        """Until an event of a session came; those that were heard before count, too."""
        if self._has(self.events, method, session):
            return
        for event in self._messages():
            self.events.append(event)
            if self._has([event], method, session):
                return

    def _has(self, events: list[Mapping[str, Any]], method: str, session: str) -> bool:
        return any(e.get("method") == method and e.get("sessionId") == session for e in events)

    def _messages(self) -> Iterator[Mapping[str, Any]]:
        until_s = time.monotonic() + _ANSWER_S
        while True:
            while b"\0" in self._heard:
                message, _, self._heard = self._heard.partition(b"\0")
                yield json.loads(message)
            ready, _, _ = select.select([self._read], [], [], until_s - time.monotonic())
            assert ready, f"Chromium said nothing for {_ANSWER_S} s"
            part = os.read(self._read, 1 << 20)
            assert part, "Chromium has ended"
            self._heard += part

    def open(
        self, file: Path, *, width: int = 1280, height: int = 900, is_dark: bool = False,
        is_printed: bool = False,
    ) -> "Page":  # fmt: skip
        """A page of a local file, loaded; `is_printed`: as it is drawn for paper."""
        url = file.resolve().as_uri()
        page = self.visit(url, width=width, height=height, is_dark=is_dark)
        if is_printed:
            page.media(medium="print")
            page.js("window.dispatchEvent(new Event('beforeprint'))")
        return page

    def visit(
        self, url: str, *, width: int = 1280, height: int = 900, is_dark: bool = False
    ) -> "Page":
        """A page of an address, loaded; what it asks for by itself may still be to come."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.ask(f"{domain}.enable")
        page.resize(width, height)
        page.media(is_dark=is_dark)
        page.ask("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired", session)
        return page


class Page:
    """One open page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def ask(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """Call a method of the protocol for this page."""
        return self._browser.ask(method, self._session, **parameters)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        said = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def until(self, expression: str, wanted: object = True, within_s: float = _SOON_S) -> None:
        """Wait for a value in the page, which may be loading another one meanwhile."""
        end_s = time.monotonic() + within_s
        while (found := self._js(expression)) != wanted:
            assert time.monotonic() < end_s, f"{expression} is {found!r}"
            time.sleep(0.01)

    def _js(self, expression: str) -> Any:
        try:
            return self.js(expression)
        except AssertionError as error:
            if "Inspected target navigated" in str(error):
                return None
            raise

    def resize(self, width: int, height: int) -> None:
        """The size of the window, in CSS pixels."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def media(self, *, is_dark: bool = False, medium: str = "screen") -> None:
        """What the page is shown on."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def press(self, key: str, *, shift: bool = False) -> None:
        """One key."""
        text = {"text": {"Enter": "\r"}.get(key, key)} if len(key) == 1 or key == "Enter" else {}
        code = _KEYS.get(key, ord(key[0]))
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                modifiers=8 if shift else 0, **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    def mouse(self, kind: str, x: float, y: float) -> None:
        """mouseMoved, mousePressed or mouseReleased, at a place of the window."""
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def drag(self, x: float, to_x: float, y: float) -> None:
        """From one place to another at the same height, with the left button."""
        self.mouse("mousePressed", x, y)
        self.mouse("mouseMoved", to_x, y)
        self.mouse("mouseReleased", to_x, y)

    def screenshot(self, name: str) -> Path:
        """A PNG of the whole page, among the `SCREENSHOTS`."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        size = "[innerWidth, document.documentElement.scrollHeight]"  # as laid out just now
        width, height = self.js(size)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path = SCREENSHOTS / f"{name}.png"
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    @property
    def requests(self) -> list[str]:
        """The address of everything that the page asked for."""
        return [event["request"]["url"] for event in self._heard("Network.requestWillBeSent")]

    @property
    def troubles(self) -> list[str]:
        """What was thrown, and what was written to the console or to the log."""
        self.js("0")  # whatever was said before has been heard now
        thrown = [
            str(event["exceptionDetails"]) for event in self._heard("Runtime.exceptionThrown")
        ]
        written = [str(event["args"]) for event in self._heard("Runtime.consoleAPICalled")]
        logged = [str(event["entry"]) for event in self._heard("Log.entryAdded")]
        return [*thrown, *written, *logged]

    def _heard(self, method: str) -> list[Mapping[str, Any]]:
        return [
            event["params"]
            for event in self._browser.events
            if event.get("method") == method and event.get("sessionId") == self._session
        ]


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are not among the numbers that Chromium expects its own at."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def main() -> None:
    """Draw the top of a page, as wide as a README, as WebP."""
    page_file, picture = map(Path, sys.argv[1:])
    with Browser() as browser:
        page = browser.open(page_file, width=1180)
        clip = {"x": 0, "y": 0, "width": 1180, "height": 1206, "scale": 1}
        shot = page.ask(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=clip, format="webp",
            quality=70,
        )  # fmt: skip
        picture.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
