"""A proxy server in a container on the network of a run; see `links.proxied.host`.

    learner ── dials its address on the network ──► the server's container ──► syncer:4600
    harness ── token ──► its API, on a port that the engine publishes to this machine ──┘
                         of Toxiproxy, which asks for no token: a gate before it

    harness ── Tools, in a container beside it, made when packets are first to suffer ──► iptables

Toxiproxy comes from an image of its own, chaoslab's proxy and the gate (`links.proxy.gate`) from
that of the nodes. Toxiproxy shares the network of the gate's container and has its API on loopback
there, so no node of the run reaches it. What the server leaves goes with the run's resources, and
the rules with the server's network.
"""

import secrets
from pathlib import Path
from typing import Final

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Engine, Limits
from chaoslab.fleet.docker.images import images
from chaoslab.fleet.docker.images.kernel_probe import tried
from chaoslab.fleet.docker.images.tools import Tools
from chaoslab.fleet.docker.run_resources import RunResources
from chaoslab.links.netem.netfilter import ProxyDrops
from chaoslab.links.ports import established
from chaoslab.links.proxied.host import PlacePort
from chaoslab.links.proxied.http_api import Endpoint, await_answer
from chaoslab.links.proxy.access import TOKEN
from chaoslab.undo.base import NoUndoLog

_API_PORT: Final = 8474
_FIRST_PORT: Final = 4700
_LIMITS: Final = Limits(cpus=1.0, memory_bytes=512 << 20, processes=256)
_INNER_PORT: Final = 8475
_LISTEN: Final = ("--host", "0.0.0.0", "--port", str(_API_PORT))  # noqa: S104 - in its container
_COMMANDS: Final = {
    "toxiproxy": (
        "python3", "-m", "chaoslab.links.proxy.gate", *_LISTEN, "--api-port", str(_INNER_PORT),
    ),
    "embedded": ("python3", "-m", "chaoslab.links.proxy", *_LISTEN, "--reachable-by-others"),
}  # fmt: skip
"""Program that listens for the harness, by kind of links; each requires the token."""
_TOXIPROXY: Final = ("/toxiproxy-server", "-host", "127.0.0.1", "-port", str(_INNER_PORT))


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
        self._server = f"{self._name}-server"
        self._next = _FIRST_PORT
        self._opened: list[str] = []
        """Containers that were made."""
        self._tools: Tools | None = None
        self._drops: ProxyDrops | None = None

    def require_toxiproxy(self) -> None:
        """AbilityError if the engine has no image of it, or none of its gate."""
        for name in (images.proxy_image(), images.source().image):
            if self._engine.image_id(name) is None:
                raise AbilityError(
                    f"links: toxiproxy need the image {name}: run `chaoslab doctor images "
                    "build`, or use links: embedded"
                )

    def open(self, kind: str) -> Endpoint:
        """Start the server. FleetError if it does not answer.

        Programs on the network of the run reach what asks for a token, and nothing else.
        """
        token = secrets.token_urlsafe()
        self._engine.create(
            ContainerSpec(
                name=self._name,
                image=images.source().image,
                command=_COMMANDS[kind],
                limits=self._engine.within(_LIMITS),
                network=self._run_resources.network,
                aliases=("proxy",),
                environment={TOKEN: token},
                labels=self._run_resources.labels,
                hears=True,  # it ends with its standard input
                published=_API_PORT,
            )
        )
        self._opened.append(self._name)
        self._engine.start(self._name)
        if kind == "toxiproxy":
            self._start_toxiproxy()
        self._api = Endpoint(address=self._engine.reached(self._name, _API_PORT), token=token)
        await_answer(self._api, self.ended)
        return self._api

    def _start_toxiproxy(self) -> None:
        self._engine.create(
            ContainerSpec(
                name=self._server,
                image=images.proxy_image(),
                command=_TOXIPROXY,
                limits=self._engine.within(_LIMITS),
                network=f"container:{self._name}",
                environment={"LOG_LEVEL": "warn"},
                labels=self._run_resources.labels,
            )
        )
        self._opened.append(self._server)
        self._engine.start(self._server)

    def restart(self) -> None:
        """Make Toxiproxy's container anew; that of its gate, the address and the token stay."""
        self._engine.remove(self._server)
        self._opened.remove(self._server)
        self._start_toxiproxy()
        await_answer(self._api, self.ended)

    def ended(self) -> str:
        return next(filter(None, map(self._engine.ended, self._opened)), "")

    def port(self) -> PlacePort:
        """The next free port: nothing else listens in the container."""
        self._next += 1
        return PlacePort(host=self._engine.inspect(self._name).address, number=self._next)

    def established(self, number: int) -> int | None:
        """Established connections, from the kernel; None for an engine elsewhere."""
        if not self._engine.is_local:
            return None
        pid = self._engine.inspect(self._name).pid
        return established(number, Path(f"/proc/{pid}/net"))

    # ---------------------------------------------------------------- see `packet_rules.Place`

    interface = "eth0"

    def drops(self) -> ProxyDrops:
        """Tools in the server's network, in a container of their own, made at the first use."""
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
        """False: incoming packets cannot be told apart by link."""
        return False, "beside a proxy only loss is possible: use links: netem, if the kernel has it"

    def close(self) -> None:
        if self._tools is not None:
            self._tools.close()
            self._tools = self._drops = None
        while self._opened:
            self._engine.remove(self._opened[-1])
            self._opened.pop()
        self._engine.close()
