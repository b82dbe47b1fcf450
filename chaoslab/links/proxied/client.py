"""Client of a proxy server's API, which is Toxiproxy's: proxies, toxics, and reading back.

    ProxiedLink ─ toxics of an effect ─► ProxyClient ─ HTTP ─► the embedded proxy, or Toxiproxy

It keeps no state. A subclass for each server makes the calls, translates effects to toxics, and
does what servers do differently. Every answer is compared with what was asked, because a server may
ignore what it does not know.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Counters
from chaoslab.links.effects import Direction, Effect
from chaoslab.links.proxied.http_api import CALL_S, Endpoint, an_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic as the server knows it. `name` is unique on its proxy."""

    name: str
    kind: str
    stream: str
    attributes: Mapping[str, Json]
    toxicity: Json = 1

    @property
    def facts(self) -> Mapping[str, Json]:
        """All but its name, as servers call it."""
        own = {"type": self.kind, "stream": self.stream, "toxicity": self.toxicity}
        return {**self.attributes, **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyState:
    """State of one proxy of a server."""

    is_on: bool
    toxics: Mapping[str, Toxic]
    """Toxics by name, in the order in which bytes pass; with attributes that the server added."""


class ProxyClient(ABC):
    """The server at `api`. Every method raises FleetError if it fails, NoSuchName if the server has
    no proxy or toxic of that name.
    """

    look_s = CALL_S
    """Deadline of `look`, which is called all through a run."""

    def __init__(self, api: Endpoint) -> None:
        self.api = api

    # ---------------------------------------------------------------- different for each server

    @abstractmethod
    def ask(self, method: str, path: str, body: Json = None, *, within_s: float = CALL_S) -> Json:
        """Make one call; the answer, None if it is empty."""

    @abstractmethod
    def toxics(self, name: str, direction: Direction, effect: Effect) -> Sequence[Toxic]:
        """Toxics that implement an effect; their names are `name` or begin with it."""

    @abstractmethod
    def reset(self, proxy: str) -> None:
        """Reset the open connections of a proxy."""

    @abstractmethod
    def count(self, proxy: str, port: int) -> Counters:
        """Counters of the proxy that listens on `port`."""

    def release(self, proxy: str, toxic: Toxic) -> None:  # noqa: B027 - nothing, unless overridden
        """Let bytes that a toxic holds back pass; called before `remove`."""

    # ---------------------------------------------------------------- proxies

    def create(self, proxy: str, listen: str, upstream: str, *, is_on: bool = True) -> None:
        """A proxy that accepts connections when this returns, or refuses them."""
        body: Json = {"name": proxy, "listen": listen, "upstream": upstream, "enabled": is_on}
        made = an_object(self.ask("POST", "/proxies", body))
        if (made.get("listen"), made.get("upstream")) != (listen, upstream):
            raise FleetError(f"{self} was asked for {listen} to {upstream} and made {dict(made)}")

    def delete(self, proxy: str) -> None:
        """Delete a proxy, which ends its connections."""
        self.ask("DELETE", f"/proxies/{proxy}")

    def look(self) -> Mapping[str, ProxyState]:
        """Every proxy of the server, other people's included."""
        found = an_object(self.ask("GET", "/proxies", within_s=self.look_s))
        return {name: _state(one) for name, one in found.items()}

    def state(self, proxy: str) -> ProxyState:
        """State of one proxy."""
        return _state(self.ask("GET", f"/proxies/{proxy}"))

    def switch(self, proxy: str, *, is_on: bool) -> None:
        """Let connections in, or end the open ones and refuse."""
        answer = an_object(self.ask("POST", f"/proxies/{proxy}", {"enabled": is_on}))
        if answer.get("enabled") is not is_on:
            raise FleetError(f"{self} did not switch {proxy} {'on' if is_on else 'off'}")

    # ---------------------------------------------------------------- toxics

    def add(self, proxy: str, toxic: Toxic) -> None:
        """Add a toxic, which acts when this returns."""
        body: Json = {
            "name": toxic.name,
            "type": toxic.kind,
            "stream": toxic.stream,
            "attributes": toxic.attributes,
        }
        self._require_same(toxic, self.ask("POST", f"/proxies/{proxy}/toxics", body))

    def change(self, proxy: str, toxic: Toxic) -> None:
        """Change attributes, which apply when this returns."""
        path = f"/proxies/{proxy}/toxics/{toxic.name}"
        self._require_same(toxic, self.ask("POST", path, {"attributes": toxic.attributes}))

    def remove(self, proxy: str, toxic: Toxic) -> None:
        """Remove a toxic from a proxy."""
        self.ask("DELETE", f"/proxies/{proxy}/toxics/{toxic.name}")

    def _require_same(self, asked: Toxic, answer: Json) -> None:
        got = an_object(answer)
        attributes = an_object(got.get("attributes"))
        wrong = [key for key, value in asked.attributes.items() if attributes.get(key) != value]
        if got.get("stream") != asked.stream or got.get("type") != asked.kind or wrong:
            raise FleetError(f"{self} was asked for {asked} and made {dict(got)}")

    def __str__(self) -> str:
        return f"the proxy at {self.api}"


def _state(shown: Json) -> ProxyState:
    proxy = an_object(shown)
    listed = proxy.get("toxics")
    toxics = [_toxic(an_object(one)) for one in listed] if isinstance(listed, list) else []
    return ProxyState(
        is_on=proxy.get("enabled") is True, toxics={toxic.name: toxic for toxic in toxics}
    )


def _toxic(shown: Mapping[str, Json]) -> Toxic:
    return Toxic(
        name=str(shown.get("name")),
        kind=str(shown.get("type")),
        stream=str(shown.get("stream")),
        attributes=an_object(shown.get("attributes")),
        toxicity=shown.get("toxicity"),
    )
