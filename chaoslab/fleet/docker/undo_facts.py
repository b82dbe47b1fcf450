"""Facts of the undo verbs of the docker fleet: what an undo log says of each, checked.

    undo log ─► EngineFacts ─┬─ RunResourcesFacts ── StoreFacts
                             └─ ContainerFacts ─┬─ LimitFacts
                                                └─ PlugFacts

Facts that do not belong to the run that wrote them are refused. `undo_verbs` names the verbs,
`cleanup` carries them out.
"""

import ipaddress
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from chaoslab.fleet.run_name import own_name, require_own_name, require_own_run, run_name
from chaoslab.undo.facts import NODE, Facts, is_loopback, require, require_match


def is_on_this_machine(engine: str) -> bool:
    """Whether the engine at this address is reached by a socket or the loopback of this machine."""
    parts = urlsplit(engine)
    return parts.scheme == "unix" or is_loopback(parts.hostname or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts(Facts):
    """Something on an engine: this machine's, or the one that DOCKER_HOST names."""

    engine: str

    def __post_init__(self) -> None:
        require(
            is_on_this_machine(self.engine) or self.engine == os.environ.get("DOCKER_HOST"),
            f"the engine at {self.engine} is neither on this machine nor the one that DOCKER_HOST "
            f"names: if it is the run's, set DOCKER_HOST={self.engine} and heal again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResourcesFacts(EngineFacts):
    """All that a run made on an engine."""

    run: str

    def __post_init__(self) -> None:
        EngineFacts.__post_init__(self)
        require_own_run(self, self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts(EngineFacts):
    """A container of the run, by its name."""

    container: str

    def __post_init__(self) -> None:
        EngineFacts.__post_init__(self)
        require_own_name(self, self.container, "container")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitFacts(ContainerFacts):
    """Limits of the container before."""

    cpus: float
    memory_bytes: int
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugFacts(ContainerFacts):
    """Connections of the container before."""

    network: str
    aliases: list[str]
    address: str

    def __post_init__(self) -> None:
        ContainerFacts.__post_init__(self)
        own = own_name(run_name(self.directory))
        require(self.network == own, f"the network {self.network!r} is not this run's")
        for alias in self.aliases:
            require_match(NODE, alias, "node")
        require(not self.address or _is_address(self.address), f"{self.address!r} is no address")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts(RunResourcesFacts):
    """A volume of the run on an engine, and the image of the container that frees it."""

    volume: str
    image: str

    def __post_init__(self) -> None:
        RunResourcesFacts.__post_init__(self)
        require_own_name(self, self.volume, "volume")


def _is_address(word: str) -> bool:
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True
