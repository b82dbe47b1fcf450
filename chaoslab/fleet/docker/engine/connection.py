"""Connection to a Docker engine, and what becomes of what the Docker SDK raises.

    connect ── DOCKER_HOST, or the socket of this machine ──► the engine
            └─ ssh://user@host ─► tunnel ─────────────────────► the engine over there
    _asked("to start x") ── whatever the SDK raises ──► FleetError: what was asked and answered

An engine that is missing, or refuses us, is an AbilityError with a remedy.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Final, Self
from urllib.parse import urlsplit

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.docker.engine.tunnel import Tunnel
from chaoslab.links.proxied.http_api import address_of

try:
    from docker.errors import APIError, DockerException, NotFound
    from requests.exceptions import RequestException
    from requests.exceptions import Timeout as RequestTimeout
    from urllib3.exceptions import TimeoutError as PoolTimeout

    import docker
except ImportError as error:
    raise AbilityError(
        "the docker fleet needs the Docker SDK: pip install 'chaoslab[docker]', or use "
        "--fleet local, which needs nothing"
    ) from error


ASK_S: Final = 60.0
"""Time limit of one answer; the death of a container takes longest."""
_AGAIN_S: Final = 5.0
"""Time limit of an engine that did not answer the last time: a run still has to end."""
_SILENT: Final[set[str]] = set()
"""Engines that did not answer the last time, by address."""
_API_LEAST: Final = (1, 41)
_BY_SSH: Final = "ssh://"

__all__ = [
    "ASK_S",
    "APIError",
    "Conflict",
    "EngineConnection",
    "DockerException",
    "Missing",
    "RequestException",
    "is_silence",
    "labelled",
]


class Missing(FleetError):
    """No such container, network, volume or image."""


class Conflict(FleetError):
    """Another client is at it already."""


class EngineConnection:
    """A connection to one engine. What is asked by it stands in `objects` and `engine`."""

    def __init__(
        self, client: "docker.DockerClient", url: str, tunnel: Tunnel | None = None
    ) -> None:
        self._client = client
        self._tunnels = ExitStack()
        self.url = url
        """Address of the engine: unix:///var/run/docker.sock, tcp://host:2376, ssh://user@host."""
        self._tunnel = tunnel
        if tunnel is not None:
            self._tunnels.callback(tunnel.close)

    @classmethod
    def connect(cls, url: str | None = None) -> Self:
        """The engine at `url`, DOCKER_HOST or this machine's socket; AbilityError if none answers.

        DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say how it is asked.
        """
        url = url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        tunnel = None
        try:
            tunnel = Tunnel.to_engine(url) if url.startswith(_BY_SSH) else None
            client = _client(url if tunnel is None else tunnel.address, _patience_s(url))
        except (DockerException, RequestException, OSError, ValueError, FleetError) as error:
            if is_silence(error):
                _SILENT.add(url)
            reason = _why(_bottom(error), tunnel)
            if tunnel is not None:
                tunnel.close()
            raise AbilityError(
                f"no Docker engine answers at {url} ({reason}): start it, join the group "
                "that may use it, or set DOCKER_HOST; --fleet local needs none"
            ) from error
        engine, version = cls(client, url, tunnel), client.api.api_version
        if tuple(int(part) for part in version.split(".")) < _API_LEAST:
            engine.close()
            least = ".".join(map(str, _API_LEAST))
            raise AbilityError(
                f"the Docker engine at {url} speaks API {version}; {least} is needed"
            )
        return engine

    def close(self) -> None:
        """Close its connections and tunnels."""
        self._client.close()
        self._tunnels.close()

    @property
    def host(self) -> str:
        """Where on its machine it publishes ports: only where this one reaches them.

        A number: an engine takes a name for every address that its machine has.
        """
        is_near = self.is_local or self._tunnel is not None
        return "127.0.0.1" if is_near else _number_of(urlsplit(self.url).hostname or "127.0.0.1")

    @property
    def is_local(self) -> bool:
        """Whether it runs on this very machine, as far as its address tells."""
        return self.url.startswith("unix:")

    def published_address(self, port: str) -> str:
        """host:port at which this machine reaches a port that the engine published.

        Over ssh that is the other machine's loopback: it is forwarded until the engine is closed.
        """
        if self._tunnel is None:
            return f"{self.host}:{port}"
        with self._asked(f"for its port {port}"):
            tunnel = Tunnel.to_port(self.url, int(port))
        self._tunnels.callback(tunnel.close)
        return tunnel.address

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Raise errors of the SDK as FleetError, with the question and the answer."""
        words = f"the Docker engine at {self.url} was asked {what}"
        self._client.api.timeout = _patience_s(self.url)
        try:
            yield
            _SILENT.discard(self.url)
        except NotFound as error:
            raise Missing(f"{words}: {_said(error)}") from error
        except (DockerException, RequestException, OSError) as error:
            if is_silence(error):
                _SILENT.add(self.url)
            is_conflict = isinstance(error, APIError) and error.status_code == HTTPStatus.CONFLICT
            refusal = Conflict if is_conflict else FleetError
            raise refusal(f"{words}: {_why(_bottom(error), self._tunnel)}") from error


def _client(url: str, limit_s: float) -> "docker.DockerClient":
    """Client of the SDK, which has negotiated the version of the API."""
    _require_listener(url)
    environment = {**os.environ, "DOCKER_HOST": url}
    return docker.DockerClient.from_env(
        version="auto", timeout=int(limit_s), environment=environment
    )


def _number_of(host: str) -> str:
    """Address of a host, IPv4 if it has one."""
    try:
        return address_of(host)
    except OSError as error:
        raise FleetError(f"the Docker engine's host {host} has no address: {error}") from error


def _patience_s(url: str) -> float:
    return _AGAIN_S if url in _SILENT else ASK_S


def is_silence(error: BaseException) -> bool:
    """Whether the engine did not answer in time; the SDK has no one exception for that."""
    return isinstance(_bottom(error), TimeoutError | RequestTimeout | PoolTimeout)


def _require_listener(url: str) -> None:
    """OSError if none listens at a socket of this machine: the SDK would leave its own open."""
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
            knocking.settimeout(ASK_S)
            knocking.connect(url.removeprefix("unix://"))


def labelled(labels: Mapping[str, str]) -> Mapping[str, list[str]]:
    """A filter for everything that bears these labels."""
    return {"label": [f"{key}={value}" if value else key for key, value in labels.items()]}


def _why(error: BaseException, tunnel: Tunnel | None) -> str:
    """Error text; where no engine answered, with that of ssh."""
    error_text = "" if tunnel is None or isinstance(error, APIError) else tunnel.error_text
    return f"{_said(error)}; ssh: {error_text}" if error_text else _said(error)


def _bottom(error: BaseException) -> BaseException:
    """Innermost cause of wrapped errors, such as the engine's own message."""
    wrapped = () if isinstance(error, APIError) else (error.__cause__, *error.args)
    inner = next((one for one in wrapped if isinstance(one, BaseException) and str(one)), None)
    return error if inner is None else _bottom(inner)


def _said(error: BaseException) -> str:
    explanation = getattr(error, "explanation", None)
    return " ".join(str(explanation or error).split())[:300]
