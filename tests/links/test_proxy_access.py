"""The proxy's API refuses browsers, names that lead to it by somebody's DNS, and strangers."""

import base64
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.links.proxied.embedded import EmbeddedLinks
from chaoslab.links.proxied.http_api import Endpoint, call
from chaoslab.links.proxy.access import TOKEN, Guard
from chaoslab.links.proxy.toxics import Refused


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8474"}, 0),
        ({"host": "127.0.0.1"}, 0),
        ({"host": "127.9.9.9:1"}, 0),
        ({"host": "[::1]:8474"}, 0),
        ({}, 403),
        ({"host": "rebound.example:8474"}, 403),
        ({"host": "192.0.2.1:8474"}, 403),
        ({"host": "localhost.example"}, 403),
        ({"host": "localhost", "origin": "null"}, 403),
        ({"host": "localhost", "referer": "http://localhost/"}, 403),
        ({"host": "localhost", "sec-fetch-site": "cross-site"}, 403),
        ({"host": "localhost", "user-agent": "Mozilla/5.0 (X11)"}, 403),
        ({"host": "localhost", "user-agent": "python-requests/2.34"}, 0),
    ],
)
def test_a_browser_or_a_foreign_name_is_refused(headers: Mapping[str, str], status: int) -> None:
    assert refusal(Guard(), headers) == status
    assert refusal(Guard(token="secret"), headers) == (status or 401)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Bearer secret", 0), ("bearer  secret ", 0), (basic("secret"), 0),
        ("", 401), ("StressDriver", 401), ("Bearer secre", 401), ("Bearer secret2", 401),
        ("Basic secret", 401), ("Basic !!", 401), ("Basic /w==", 401), (basic("other"), 401),
        ("Digest secret", 401), ("Bearer s\xe9cret", 401),
    ],
)  # fmt: skip
def test_a_token_is_asked_for_in_either_form(said: str, status: int) -> None:
    guard = Guard(token="secret", is_loopback=False)
    assert refusal(guard, {"host": "proxy:8474", "authorization": said}) == status
    assert "secret" not in repr(guard)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 0), ("Application/JSON; charset=utf-8", 0), ("", 415),
        ("text/plain", 415), ("application/x-www-form-urlencoded", 415),
    ],
)  # fmt: skip
def test_a_body_that_a_page_could_send_is_refused(kind: str, status: int) -> None:
    headers = {"host": "localhost", "content-type": kind}
    assert refusal(Guard(), headers, has_body=True) == status
    assert refusal(Guard(), headers) == 0


def refusal(guard: Guard, headers: Mapping[str, str], *, has_body: bool = False) -> int:
    """The status of the refusal; 0 if there is none."""
    try:
        guard.require(headers, has_body=has_body)
    except Refused as refused:
        return refused.status
    return 0


# ---------------------------------------------------------------- the real thing


@pytest.mark.gate
def test_the_proxy_of_a_run_obeys_nobody_but_its_harness(tmp_path: Path) -> None:
    with EmbeddedLinks(tmp_path) as links:
        for token in ("", "guessed"):
            stranger = Endpoint(address=links.api.address, token=token)
            with pytest.raises(FleetError, match="token"):
                call(stranger, "GET", "/proxies")
        assert call(links.api, "GET", "/proxies") == {}
        assert len(links.api.token) > 40
        assert links.host.pid is not None
        command = Path(f"/proc/{links.host.pid}/cmdline").read_text()
        shown = command + str(links.api) + repr(links.api)
        assert links.api.token not in shown
        assert links.api.token not in (tmp_path / "embedded-proxy.log").read_text()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("host", "allowed"),
    [("0.0.0.0", ()), ("0.0.0.0", ("--reachable-by-others",)), ("example.com", ())],
)
def test_an_address_that_others_reach_needs_a_flag_and_a_token(
    host: str, allowed: tuple[str, ...]
) -> None:
    command = (sys.executable, "-m", "chaoslab.links.proxy", "--host", host, *allowed)
    environment = {} if allowed else {TOKEN: "secret"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert TOKEN in done.stderr
