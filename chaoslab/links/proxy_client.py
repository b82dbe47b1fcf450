"""What is asked of a proxy server, whichever it is, in the words of Toxiproxy's API.

    ProxiedLink ─ toxics of an effect ─► Carrier ─► the embedded proxy, or a Toxiproxy server

A carrier keeps no book: what stands on which link, and why, is its caller's knowledge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chaoslab.core.events import Json
from chaoslab.links.base import Counters
from chaoslab.links.effects import Direction, Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic as the server knows it. `name` is unique on its proxy."""

    name: str
    kind: str
    stream: str
    attributes: Mapping[str, Json]

    @property
    def facts(self) -> Mapping[str, Json]:
        """What a server says of it if nobody else changed it."""
        return {"type": self.kind, "stream": self.stream, "toxicity": 1, **self.attributes}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyState:
    """What a server says of one of its proxies."""

    is_on: bool
    toxics: Mapping[str, Mapping[str, Json]]
    """By name, what each is: `Toxic.facts`, and whatever attributes the server added."""


class ProxyClient(Protocol):
    """The server, asked by the names of proxies. Every verb raises FleetError when it fails."""

    def create(self, proxy: str, listen: str, upstream: str) -> None:
        """It lets connections in when this returns."""
        ...

    def delete(self, proxy: str) -> None:
        """NotThere if it is not."""
        ...

    def look(self) -> Mapping[str, ProxyState]:
        """Every proxy of the server, soon or not at all."""
        ...

    def toxics(self, name: str, direction: Direction, effect: Effect) -> Sequence[Toxic]:
        """What stands for this effect, called `name` or by names that begin so."""
        ...

    def add(self, proxy: str, toxic: Toxic) -> None:
        """It acts when this returns, and was read back."""
        ...

    def change(self, proxy: str, toxic: Toxic) -> None:
        """Its attributes hold when this returns, and were read back."""
        ...

    def release(self, proxy: str, toxic: Toxic) -> None:
        """Let what it holds back go on; before `remove`, which may follow at once."""
        ...

    def remove(self, proxy: str, toxic: Toxic) -> None:
        """NotThere if it is not."""
        ...

    def switch(self, proxy: str, *, is_on: bool) -> None:
        """Let connections in, or end the open ones and refuse."""
        ...

    def reset(self, proxy: str) -> None:
        """Break the open connections off."""
        ...

    def count(self, proxy: str, port: int) -> Counters:
        """What it has carried."""
        ...
