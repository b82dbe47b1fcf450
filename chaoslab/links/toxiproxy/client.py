"""Client of a Toxiproxy server, by the calls of `toxiproxy-python`.

    ProxyClient ─► the library's APIConsumer, bound to one server ─► the server

The library's `Toxiproxy` and `Proxy` are not used: they have no deadlines, drop what the server
answers, and cannot update a toxic.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Counters
from chaoslab.links.effects import Direction, Effect
from chaoslab.links.ports import established
from chaoslab.links.proxied.client import ProxyClient, Toxic
from chaoslab.links.proxied.http_api import CALL_S, Endpoint, NotThere, decoded
from chaoslab.links.proxied.toxics import STREAMS, is_freeze, whole_numbers

try:
    from toxiproxy.api import APIConsumer
    from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
except ImportError as error:
    raise AbilityError(
        "links: toxiproxy needs toxiproxy-python: pip install 'chaoslab[toxiproxy]', or use "
        "links: embedded, which needs nothing"
    ) from error

_THIN_KB_PER_S = 64
"""A bandwidth toxic below it may hold the toxic before it for longer than a deadline."""
_FLUSH_S = 0.1
"""For what a freeze held back to get through, at the speed of memory."""


class ToxiproxyClient(ProxyClient):
    """The server whose API is at `api`: it asks for no token, but what lies before it may.

    `connections` says how many there are on a port of it.
    """

    def __init__(
        self, api: Endpoint, connections: Callable[[int], int | None] = established
    ) -> None:
        super().__init__(api)
        self._connections = connections
        host, _, port = api.address.rpartition(":")
        self._consumer = type("BoundConsumer", (APIConsumer,), {"host": host, "port": int(port)})
        self._released_s = -math.inf
        self._aside: dict[str, list[Toxic]] = {}
        """Toxics that step aside now, or are still to be put back, by proxy."""

    def ask(self, method: str, path: str, body: Json = None, *, within_s: float = CALL_S) -> Json:
        """One call by the library, which raises at some error answers and passes others on."""
        words = f"{self} was asked to {method} {path}"
        given = {} if body is None else {"json": body}
        if self.api.token:
            given["headers"] = {"Authorization": f"Bearer {self.api.token}"}
        try:
            answer = getattr(self._consumer, method.lower())(path, timeout=within_s, **given)
        except NotFound as error:
            raise NotThere(f"{words}: {error}") from error
        except (ProxyExists, InvalidToxic, OSError) as error:
            raise FleetError(f"{words}: {error}") from error
        if answer.status_code >= 400:
            raise FleetError(f"{words} and answered with an error ({answer.text!r})")
        return decoded(answer.text)

    def reset(self, proxy: str) -> None:
        """Off and on again ends every open connection; its reset_peer leaves those as they are."""
        self.switch(proxy, is_on=False)
        self.switch(proxy, is_on=True)

    def count(self, proxy: str, port: int) -> Counters:  # noqa: ARG002 - the base's signature
        """The server counts bytes when a connection closes: too late. The kernel knows who is."""
        connections = self._connections(port)
        return Counters(connections=connections)

    def toxics(self, name: str, direction: Direction, effect: Effect) -> Sequence[Toxic]:
        """One for each way."""
        kind, attributes = whole_numbers(effect)
        names = {name: direction}
        if direction is Direction.BOTH:
            names = {f"{name}.{way}": way for way in direction.ways}
        return tuple(
            Toxic(name=one, kind=kind, stream=STREAMS[way], attributes=attributes)
            for one, way in names.items()
        )

    def change(self, proxy: str, toxic: Toxic) -> None:
        """While nothing holds the change up."""
        with self._nothing_holds_it_up(proxy, toxic, thinner_than=_THIN_KB_PER_S):
            super().change(proxy, toxic)

    def release(self, proxy: str, toxic: Toxic) -> None:
        """What a freeze holds back goes on, before the freeze is taken away.

        While it takes a toxic away, Toxiproxy offers each piece that waits in it for 5 s to whoever
        is next, and keeps every later call about this proxy waiting. Where a connection broke
        meanwhile (and over a frozen link it does), nobody is there to take them.
        """
        if is_freeze(toxic):
            self.change(proxy, replace(toxic, attributes={**toxic.attributes, "latency": 0}))
            self._released_s = time.monotonic()

    def remove(self, proxy: str, toxic: Toxic) -> None:
        """Once what a freeze held back got through, and while nothing holds the removal up."""
        if is_freeze(toxic):
            time.sleep(max(0.0, self._released_s + _FLUSH_S - time.monotonic()))
        with self._nothing_holds_it_up(proxy, toxic):
            super().remove(proxy, toxic)

    @contextmanager
    def _nothing_holds_it_up(
        self, proxy: str, toxic: Toxic, *, thinner_than: float = math.inf
    ) -> Iterator[None]:
        """Bandwidth toxics behind this one step aside for the time of the block.

        Toxiproxy interrupts a toxic before it changes it, and lets all that waits in it pass before
        it removes it, at the speed of what is behind it. Until then it holds a lock that every
        later call about this proxy needs. One that could not be put back is when this is repeated.
        """
        self._put_back(proxy)
        aside = [one for one in self._behind(proxy, toxic) if _rate(one) < thinner_than]
        self._aside[proxy] = aside
        try:
            for one in aside:
                super().remove(proxy, one)
            yield
        finally:
            self._put_back(proxy)

    def _put_back(self, proxy: str) -> None:
        """Add the toxics that stepped aside, unless they are there."""
        aside = self._aside.get(proxy, [])
        there = self.state(proxy).toxics if aside else {}
        for one in tuple(aside):
            if one.name not in there:
                self.add(proxy, one)
            aside.remove(one)

    def _behind(self, proxy: str, toxic: Toxic) -> Sequence[Toxic]:
        """The toxics that bytes meet after this one; NotThere if it is not."""
        chain = list(self.state(proxy).toxics.values())
        names = [one.name for one in chain]
        if toxic.name not in names:
            raise NotThere(f"there is no toxic {toxic.name} on {proxy}")
        behind = chain[names.index(toxic.name) + 1 :]
        return [one for one in behind if one.stream == toxic.stream]

    def __str__(self) -> str:
        return f"Toxiproxy at {self.api}"


def _rate(toxic: Toxic) -> float:
    """In KB/s; infinity where there is none."""
    rate = toxic.attributes.get("rate")
    return rate if toxic.kind == "bandwidth" and isinstance(rate, int) else math.inf
