"""A proxy server in a container on the network of a run; see `links.proxied.host`.

    learner ── dials its address on the network ──► the server's container ──► syncer:4600
    harness ── its API, on a port that the engine publishes to this machine alone ──┘

    harness ── Tools, in a container beside it, made when packets are first to suffer ──► iptables

Toxiproxy comes from an image of its own, chaoslab's proxy from that of the nodes. What the server
leaves goes with the run's resources, and the rules with the server's network.
"""

import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Engine, Limits
from chaoslab.fleet.docker.images import images
from chaoslab.fleet.docker.images.kernel_probe import tried
from chaoslab.fleet.docker.images.tools import Tools
from chaoslab.fleet.docker.run_resources import RunResources
from chaoslab.links.netem.netfilter import ProxyDrops
from chaoslab.links.ports import established
from chaoslab.links.proxied.http_api import Endpoint, call
from chaoslab.links.proxy.access import TOKEN
from chaoslab.undo.base import NoUndoLog

_API_PORT: Final = 8474
_FIRST_PORT: Final = 4700
_READY_S: Final = 20.0
_PAUSE_S: Final = 0.02
_LIMITS: Final = Limits(cpus=1.0, memory_bytes=512 << 20, processes=256)
_COMMANDS: Final = {
    "toxiproxy": ("/toxiproxy-server", "-host", "0.0.0.0", "-port", str(_API_PORT)),  # noqa: S104
    "embedded": (
        "python3", "-m", "chaoslab.links.proxy",
        "--host", "0.0.0.0", "--port", str(_API_PORT), "--reachable-by-others",  # noqa: S104 - inside its container
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPort:
    """A port of the server's container; see `links.proxied.host`."""

    host: str
    number: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.number}"

    def close(self) -> None:
        """Do nothing: it goes with the container."""


class ContainerProxyHost:
    """Container of one proxy server; see `links.proxied.host.ProxyHost`."""

    keeps_rules = False

    def __init__(self, run_directory: Path, engine: Engine) -> None:
        """Nothing is made before `open`; the network is there by then."""
        self._engine = engine
        self._run_resources = RunResources(
            engine=engine, run_directory=run_directory.resolve(), undo_log=NoUndoLog()
        )
        self._name = f"{self._run_resources.network}-proxy"
        self._next = _FIRST_PORT
        self._is_open = False
        self._tools: Tools | None = None
        self._drops: ProxyDrops | None = None

    def require_toxiproxy(self) -> None:
        """AbilityError if the engine has no image of it."""
        if self._engine.image_id(name := images.proxy_image()) is None:
            raise AbilityError(
                f"links: toxiproxy need the image {name}: run `chaoslab images build`, or use "
                "links: embedded"
            )

    def open(self, kind: str) -> Endpoint:
        """Start the server. FleetError if it does not answer.

        Whoever is on the network of the run reaches its API; only chaoslab's own asks for a token.
        """
        token = secrets.token_urlsafe() if kind == "embedded" else ""
        image = images.proxy_image() if kind == "toxiproxy" else images.source().image
        self._engine.create(
            ContainerSpec(
                name=self._name,
                image=image,
                command=_COMMANDS[kind],
                limits=self._engine.within(_LIMITS),
                network=self._run_resources.network,
                aliases=("proxy",),
                environment={"LOG_LEVEL": "warn", **({TOKEN: token} if token else {})},
                labels=self._run_resources.labels,
                hears=True,  # the embedded proxy ends with its standard input
                published=_API_PORT,
            )
        )
        self._is_open = True
        self._engine.start(self._name)
        api = Endpoint(address=self._engine.reached(self._name, _API_PORT), token=token)
        self._await_answer(api)
        return api

    def ended(self) -> str:
        return self._engine.ended(self._name)

    def port(self) -> ContainerPort:
        """The next free port: nothing else listens in the container."""
        self._next += 1
        return ContainerPort(host=self._engine.inspect(self._name).address, number=self._next)

    def established(self, number: int) -> int | None:
        """Established connections, from the kernel; None for an engine elsewhere."""
        if not self._engine.is_local:
            return None
        pid = self._engine.inspect(self._name).pid
        return established(number, Path(f"/proc/{pid}/net"))

    # ---------------------------------------------------------------- see `packet_rules.Place`

    interface = "eth0"

    def drops(self) -> ProxyDrops:
        """By tools in the server's network, in a container of their own; the first use makes it."""
        if self._drops is None:
            self._tools = Tools(
                self._engine, f"{self._name}-tools", f"container:{self._name}",
                labels=self._run_resources.labels,
            )  # fmt: skip
            self._drops = ProxyDrops(self._tools.run)
        return self._drops

    def can_drop(self) -> tuple[bool, str]:
        why = tried(self._engine).proxy_loss
        return not why, why

    def can_use_netem(self) -> tuple[bool, str]:
        """It cannot: incoming packets cannot be told apart by link."""
        return False, "beside a proxy only loss is possible: use links: netem, if the kernel has it"

    def close(self) -> None:
        if self._tools is not None:
            self._tools.close()
            self._tools = self._drops = None
        if self._is_open:
            self._engine.remove(self._name)
            self._is_open = False
        self._engine.close()

    def _await_answer(self, api: Endpoint) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            with suppress(FleetError):
                call(api, "GET", "/version")
                return
            if how := self.ended():
                raise FleetError(f"the proxy for links did not come up: {how}")
            if time.monotonic() > deadline:
                raise FleetError(f"the proxy for links does not answer at {api}")
            time.sleep(_PAUSE_S)
