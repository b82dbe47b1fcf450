"""What an entry of `obligations.jsonl` may say, verb by verb: frozen dataclasses, decoded strictly.

    {"open": 3, "do": "unmount", "node": …, "folder": …} ─► decode ─► VolumeFacts ─► its undo
                                                              └► refused: unknown key, wrong type,
                                                                 a thing that is not this run's

Whatever is undone is the run's own: below its directory, or named after it. `undo` acts on nothing
else, so a book can name no process, file, host or rule of somebody else's, whoever wrote it.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TypeVar, get_args, get_type_hints
from urllib.parse import urlsplit

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.process_identity import Identity, meant_by
from chaoslab.fleet.docker.labels import address_of, own_name, run_name
from chaoslab.fleet.local import cgroups
from chaoslab.links.http_api import Endpoint
from chaoslab.links.packet_rules import INTERFACES, comments_of

_FRAME = frozenset({"open", "do", "until_s"})
"""Keys that any entry may have; with `until_s` comes the boot that it counts from."""
_NODE = re.compile(r"[\w-]+( \(\w+\))?")
"""A node, or what is kept beside it: `learner-0 (spin)`."""
_INJECTION = re.compile(r"injection-\d+|standing")
_PROXY = re.compile(r"[\w-][\w.-]{0,120}")
_CONTROL = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is said of one undo."""

    directory: Path
    """Where the book lies: the run directory, or its control/ for the twin. Absolute and real."""


AnyFacts = TypeVar("AnyFacts", bound=Facts)


def decode(kind: type[AnyFacts], entry: Mapping[str, Json], directory: Path) -> AnyFacts:
    """The facts in an entry of the book in `directory`; FleetError says what is wrong with them."""
    hints = get_type_hints(kind)
    known = {one.name: one for one in fields(kind) if one.name != "directory"}
    frame = _FRAME | ({"boot_id"} if "until_s" in entry and "boot_id" not in known else set())
    given = {key: value for key, value in entry.items() if key not in frame}
    if unknown := sorted(given.keys() - known.keys()):
        raise FleetError(f"{unknown[0]!r} is no fact of it")
    for name, one in known.items():
        if name not in given and one.default is MISSING:
            raise FleetError(f"{name!r} is missing")
        if name in given and not _is_a(given[name], hints[name]):
            raise FleetError(f"{name} cannot be {given[name]!r}")
    return kind(directory=directory.resolve(), **given)


def _is_a(value: Json, hint: object) -> bool:
    """A whole number serves as a float; null is never written."""
    if hint == list[str]:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    kinds = get_args(hint) or (hint,)
    if float in kinds or int in kinds:
        is_number = isinstance(value, int) or (float in kinds and isinstance(value, float))
        return is_number and not isinstance(value, bool)
    return isinstance(value, str)


# ---------------------------------------------------------------- processes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts(Facts):
    """A process that the run started, and the mark of all that it starts itself."""

    pid: int
    node: str = "process"
    mark: str = ""
    """Below the directory: nobody else's processes bear it. Empty: they bear none."""
    incarnation: int = 0
    start_ticks: int | None = None
    boot_id: str | None = None
    namespaces: str | None = None
    start_time: float | None = None
    """Seconds since the epoch: what files of earlier versions have instead of the ticks."""

    def __post_init__(self) -> None:
        _require_match(_NODE, self.node, "node")
        _require(self.pid > 1, f"process {self.pid} was not started by a run")
        is_own = Path(self.mark).is_relative_to(self.directory) and ".." not in self.mark
        _require(is_own or not self.mark, f"the mark {self.mark!r} is not one of this run")

    @property
    def identity(self) -> Identity:
        """Which process it is. FleetError if that cannot be known from here."""
        names = ("pid", "start_ticks", "boot_id", "namespaces", "start_time", "mark")
        found = {name: getattr(self, name) for name in names}
        return meant_by({name: value for name, value in found.items() if value is not None})


# ---------------------------------------------------------------- links


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFacts(Facts):
    """A proxy, on a server of this machine or of the machine where the engine is."""

    api: str
    """host:port."""
    proxy: str
    injection: str = ""
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        host, _, port = self.api.rpartition(":")
        _require(port.isdecimal() and 0 < int(port) < 2**16, f"{self.api!r} is no host:port")
        _require(
            _is_loopback(host) or host == _engine_host(),
            f"{self.api} is not on this machine, nor on that of DOCKER_HOST: nothing is sent there",
        )
        _require_match(_PROXY, self.proxy, "proxy")

    @property
    def endpoint(self) -> Endpoint:
        """How its API is asked."""
        return Endpoint(address=self.api, token=self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFacts(ProxyFacts):
    """What one injection put on a proxy."""

    def __post_init__(self) -> None:
        ProxyFacts.__post_init__(self)
        _require_match(_INJECTION, self.injection, "injection")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProxyFacts(ProxyFacts):
    """A proxy of ours on a server that others use, too."""

    def __post_init__(self) -> None:
        ProxyFacts.__post_init__(self)
        _require(self.proxy.startswith("chaoslab-"), f"the proxy {self.proxy!r} is not chaoslab's")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts(Facts):
    """Rules for packets that bear this comment."""

    tool: str
    comment: str

    def __post_init__(self) -> None:
        _require(self.tool in ("iptables", "nft"), f"no tool for rules is called {self.tool!r}")
        _require(
            comments_of(self.directory).fullmatch(self.comment) is not None,
            f"a rule with the comment {self.comment!r} is not one of this run",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BandFacts(Facts):
    """The queues on one interface."""

    interface: str

    def __post_init__(self) -> None:
        _require(self.interface in INTERFACES, f"no run has queues on {self.interface!r}")


# ---------------------------------------------------------------- the kernel and files


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupFacts(Facts):
    """A cgroup of ours, and the one that its processes go back to."""

    node: str
    path: str
    back: str

    def __post_init__(self) -> None:
        _require_match(_NODE, self.node, "node")
        _require(
            cgroups.is_made_here(Path(self.path), Path(self.back)),
            f"{self.path} is no cgroup that chaoslab made, with {self.back} to go back to",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFacts(Facts):
    """A volume beneath what a node keeps."""

    node: str
    folder: str

    def __post_init__(self) -> None:
        _require_match(_NODE, self.node, "node")
        names = self.names
        is_nodes_own = len(names) == 3 and names[:2] == ("nodes", self.node)
        _require(
            is_nodes_own and str(self.directory.joinpath(*names)) == self.folder,
            f"{self.folder} is not what {self.node} keeps in {self.directory}",
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The way to it from the directory; empty if it lies elsewhere."""
        folder = Path(self.folder)
        if not folder.is_relative_to(self.directory) or ".." in folder.parts:
            return ()
        return folder.relative_to(self.directory).parts


# ---------------------------------------------------------------- containers


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts(Facts):
    """Something on an engine: this machine's, or the one that DOCKER_HOST names."""

    engine: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.engine)
        is_here = parts.scheme == "unix" or _is_loopback(parts.hostname or "")
        _require(
            is_here or self.engine == os.environ.get("DOCKER_HOST"),
            f"the engine at {self.engine} is neither on this machine nor the one that DOCKER_HOST "
            f"names: if it is the run's, set DOCKER_HOST={self.engine} and heal again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResourcesFacts(EngineFacts):
    """All that a run made on an engine."""

    run: str

    def __post_init__(self) -> None:
        EngineFacts.__post_init__(self)
        _require(self.run == run_name(self.directory), f"{self.run!r} is another run")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts(EngineFacts):
    """A container of the run."""

    container: str

    def __post_init__(self) -> None:
        EngineFacts.__post_init__(self)
        _require_own_name(self, self.container, "container")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFacts(ContainerFacts):
    """What the container might use before."""

    cpus: float
    memory_bytes: int
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugFacts(ContainerFacts):
    """How the container was connected before."""

    network: str
    aliases: list[str]
    address: str

    def __post_init__(self) -> None:
        ContainerFacts.__post_init__(self)
        own = own_name(run_name(self.directory))
        _require(self.network == own, f"the network {self.network!r} is not this run's")
        for alias in self.aliases:
            _require_match(_NODE, alias, "node")
        _require(not self.address or _is_address(self.address), f"{self.address!r} is no address")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts(RunResourcesFacts):
    """A volume of the run on an engine, and the image of whoever frees it."""

    volume: str
    image: str

    def __post_init__(self) -> None:
        RunResourcesFacts.__post_init__(self)
        _require_own_name(self, self.volume, "volume")


# ---------------------------------------------------------------- rules


def _require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise FleetError(otherwise)


def _require_match(pattern: "re.Pattern[str]", word: str, what: str) -> None:
    _require(pattern.fullmatch(word) is not None, f"{word!r} is not a valid {what} name")


def _require_own_name(facts: Facts, name: str, what: str) -> None:
    own = own_name(run_name(facts.directory))
    is_own = re.fullmatch(rf"{re.escape(own)}-[\w.-]+", name) is not None
    _require(is_own, f"the {what} {name!r} is not this run's")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True


def _engine_host() -> str | None:
    """The address of the machine of DOCKER_HOST, as far as it is another one."""
    host = urlsplit(os.environ.get("DOCKER_HOST", "")).hostname
    try:
        return address_of(host) if host else None
    except OSError:
        return None
