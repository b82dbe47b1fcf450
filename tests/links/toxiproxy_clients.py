"""Toxiproxy's own Go client and Python client behind one verb: what each answers.

    do("add", name="p", toxic="t", …) ─► goclient/ | toxiproxy-python ─► the server

The first, which its command line uses, too, is built once with a Go toolchain, at the version that
chaoslab pins, into the cache.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from chaoslab.links.toxiproxy.server_binary import VERSION

_SOURCE: Final = Path(__file__).parent / "goclient"
_BUILD_S: Final = 600
_STATUS: Final = re.compile(r"HTTP (\d+): .*")


class NoSuchVerb(Exception):
    """The client has no way to say it."""


class Client(Protocol):
    """One client of one server. An error of the server comes back as `{"error": …}`."""

    def do(self, verb: str, **words: Any) -> Any:
        """Carry out one verb and return what the client says of it."""
        ...


def binaries() -> Path:
    """The folder with `goclient`; skips the test where it cannot be had."""
    cache = os.environ.get("CHAOSLAB_CACHE") or Path.home() / ".cache" / "chaoslab"
    folder = Path(cache).absolute() / f"toxiproxy-{VERSION}-clients"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _go(folder, "build", "-o", str(folder / "goclient"), ".", cwd=_SOURCE)
    except (OSError, subprocess.SubprocessError) as error:
        if "toxiproxy" in os.environ.get("CHAOSLAB_REQUIRE", ""):
            raise
        pytest.skip(f"Toxiproxy's clients cannot be built: {error}")
    return folder


def _go(folder: Path, *words: str, cwd: Path) -> None:
    environment = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
    subprocess.run(
        ("go", *words), cwd=cwd, env=environment, timeout=_BUILD_S, check=True, capture_output=True
    )


# ---------------------------------------------------------------- the Go client


class GoClient:
    """`goclient/main.go`, one process for all verbs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def do(self, verb: str, **words: Any) -> Any:
        """One line there and one back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {key.capitalize(): value for key, value in {"verb": verb, **words}.items()}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            return {"error": _STATUS.sub(r"HTTP \1", answer["error"])}
        return answer["answer"]


@contextmanager
def go_client(url: str) -> Iterator[GoClient]:
    """It runs for the time of the block."""
    with subprocess.Popen(
        (binaries() / "goclient",), env={"TOXIPROXY_URL": url}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield GoClient(process)


# ---------------------------------------------------------------- the Python client


class PythonClient:
    """`toxiproxy-python`, which has one server for each process. It cannot update a toxic."""

    def __init__(self, host: str, port: int) -> None:
        self._server = Toxiproxy()
        self._server.update_api_consumer(host, port)

    def do(self, verb: str, **words: Any) -> Any:
        """One call or two of it."""
        try:
            return self._do(verb, **words)
        except (NotFound, ProxyExists, InvalidToxic) as error:
            return {"error": type(error).__name__}

    def _do(self, verb: str, name: str = "", **words: Any) -> Any:
        match verb:
            case "version":
                return APIConsumer.get("/version").status_code
            case "list":
                return {key: vars(one) for key, one in self._server.proxies().items()}
            case "populate":
                return [vars(one) for one in self._server.populate(words["proxies"])]
            case "reset":
                return self._server.reset()
            case "create":
                return vars(self._server.create(words["upstream"], name, words["listen"]))
        return self._with(verb, name, words)

    def _with(self, verb: str, name: str, words: Mapping[str, Any]) -> Any:
        proxy = self._server.get_proxy(name)
        if proxy is None:
            return None
        match verb:
            case "inspect":
                return {key: vars(one) for key, one in proxy.toxics().items()}
            case "enable":
                return proxy.enable()
            case "disable":
                return proxy.disable()
            case "delete":
                return proxy.destroy()
            case "add":
                return proxy.add_toxic(**{**words, "name": words["toxic"]})
            case "remove":
                return proxy.destroy_toxic(words["toxic"])
        raise NoSuchVerb(verb)
