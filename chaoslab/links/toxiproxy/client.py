"""A Toxiproxy server, asked through `toxiproxy-python`; see `carrier.Carrier`.

    the library's Toxiproxy and Proxy ─► its APIConsumer, given a deadline ─► the server

The library's own `get` and `post` are used where it lacks a verb: to read back and to update. What
it raises says little, so every call is wrapped into one that says what was asked.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Counters
from chaoslab.links.effects import Direction, Effect
from chaoslab.links.http_api import CALL_S, Endpoint, NotThere, an_object
from chaoslab.links.ports import established
from chaoslab.links.proxy_client import ProxyState, Toxic
from chaoslab.links.toxics import STREAMS, is_freeze, proxy_state, require_same, whole_numbers

try:
    from toxiproxy import Toxiproxy
    from toxiproxy.api import APIConsumer
    from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
    from toxiproxy.proxy import Proxy
except ImportError as error:
    raise AbilityError(
        "links: toxiproxy needs toxiproxy-python: pip install 'chaoslab[toxiproxy]', or use "
        "links: embedded, which needs nothing"
    ) from error

_THIN_KB_PER_S = 64
"""A bandwidth toxic below it may hold the toxic before it for longer than a deadline."""
_FLUSH_S = 0.1
"""For what a freeze held back to get through, at the speed of memory."""
_VERBS = ("get", "post", "delete")


class ToxiproxyClient:
    """The server whose API is at `api`, which has no token; binds the library to it.

    `connections` says how many there are on a port of it.
    """

    def __init__(
        self, api: Endpoint, connections: Callable[[int], int | None] = established
    ) -> None:
        self._connections = connections
        host, _, port = api.address.rpartition(":")
        self.api = api
        self._released_s = -math.inf
        self._server = Toxiproxy()
        self._server.update_api_consumer(host, int(port))
        self._bare = {verb: vars(APIConsumer)[verb] for verb in _VERBS}
        for verb in _VERBS:
            limited = partial(getattr(APIConsumer, verb), timeout=CALL_S)
            setattr(APIConsumer, verb, staticmethod(limited))

    def close(self) -> None:
        """Leave the library as it was."""
        for verb, bare in self._bare.items():
            setattr(APIConsumer, verb, bare)

    # ---------------------------------------------------------------- proxies

    def create(self, proxy: str, listen: str, upstream: str) -> None:
        """Read back, because the server takes what it understands and drops the rest."""
        with self._connection(f"to make {proxy}"):
            self._server.create(upstream, proxy, listen, enabled=True)
        made = an_object(self._get(f"/proxies/{proxy}"))
        if (made.get("listen"), made.get("upstream")) != (listen, upstream):
            wanted = f"{listen} to {upstream}"
            raise FleetError(f"Toxiproxy was asked for {wanted} and made {dict(made)}")

    def delete(self, proxy: str) -> None:
        """End it."""
        with self._connection(f"to delete {proxy}"):
            self._proxy(proxy).destroy()

    def look(self) -> Mapping[str, ProxyState]:
        """All proxies of the server, other people's included."""
        found = an_object(self._get("/proxies"))
        return {name: proxy_state(an_object(one)) for name, one in found.items()}

    def switch(self, proxy: str, *, is_on: bool) -> None:
        """Enable or disable."""
        with self._connection(f"to switch {proxy}"):
            found = self._proxy(proxy)
            found.enable() if is_on else found.disable()
        if proxy_state(an_object(self._get(f"/proxies/{proxy}"))).is_on != is_on:
            raise FleetError(f"Toxiproxy did not switch {proxy} {'on' if is_on else 'off'}")

    def reset(self, proxy: str) -> None:
        """Off and on again ends every open connection; its reset_peer leaves those as they are."""
        self.switch(proxy, is_on=False)
        self.switch(proxy, is_on=True)

    def count(self, proxy: str, port: int) -> Counters:  # noqa: ARG002 - the protocol's signature
        """The server counts bytes when a connection closes: too late. The kernel knows who is."""
        connections = self._connections(port)
        return Counters(up_bytes=None, down_bytes=None, connections=connections, opened=None)

    # ---------------------------------------------------------------- toxics

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

    def add(self, proxy: str, toxic: Toxic) -> None:
        """The library returns nothing: read back."""
        with self._connection(f"to add {toxic.name} to {proxy}"):
            self._proxy(proxy).add_toxic(
                name=toxic.name,
                type=toxic.kind,
                stream=toxic.stream,
                attributes=dict(toxic.attributes),
            )
        require_same(toxic, self._get(f"/proxies/{proxy}/toxics/{toxic.name}"))

    def change(self, proxy: str, toxic: Toxic) -> None:
        """An update of our own, which the library lacks; read back."""
        path = f"/proxies/{proxy}/toxics/{toxic.name}"
        with (
            self._nothing_holds_it_up(proxy, toxic, thinner_than=_THIN_KB_PER_S),
            self._connection(f"to change {toxic.name} of {proxy}"),
        ):
            APIConsumer.post(path, json={"attributes": dict(toxic.attributes)})
        require_same(toxic, self._get(path))

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
        """Take it away."""
        if is_freeze(toxic):
            time.sleep(max(0.0, self._released_s + _FLUSH_S - time.monotonic()))
        with self._nothing_holds_it_up(proxy, toxic):
            self._destroy(proxy, toxic.name)

    @contextmanager
    def _nothing_holds_it_up(
        self, proxy: str, toxic: Toxic, *, thinner_than: float = math.inf
    ) -> Iterator[None]:
        """Bandwidth toxics behind this one step aside for the time of the block.

        Toxiproxy interrupts a toxic before it changes it, and lets all that waits in it pass before
        it removes it, at the speed of what is behind it. Until then it holds a lock that every
        later call about this proxy needs.
        """
        aside = [one for one in self._behind(proxy, toxic) if _rate(one) < thinner_than]
        for one in aside:
            self._destroy(proxy, one.name)
        try:
            yield
        finally:
            for one in aside:
                self.add(proxy, one)

    def _destroy(self, proxy: str, name: str) -> None:
        with self._connection(f"to take {name} from {proxy}"):
            self._proxy(proxy).destroy_toxic(name)

    def _behind(self, proxy: str, toxic: Toxic) -> Sequence[Toxic]:
        """The toxics that bytes meet after this one; NotThere if it is not."""
        found = self._get(f"/proxies/{proxy}/toxics")
        if not isinstance(found, list):
            raise FleetError(f"Toxiproxy lists as toxics of {proxy}: {found!r}")
        chain = [_read(an_object(one)) for one in found]
        names = [one.name for one in chain]
        if toxic.name not in names:
            raise NotThere(f"there is no toxic {toxic.name} on {proxy}")
        behind = chain[names.index(toxic.name) + 1 :]
        return [one for one in behind if one.stream == toxic.stream]

    # ---------------------------------------------------------------- the library

    def _proxy(self, name: str) -> Proxy:
        found = self._server.get_proxy(name)
        if found is None:
            raise NotThere(f"Toxiproxy at {self.api} has no proxy {name}")
        return found

    def _get(self, path: str) -> Json:
        with self._connection(f"for {path}"):
            answer: Json = APIConsumer.get(path).json()
            return answer

    @contextmanager
    def _connection(self, what: str) -> Iterator[None]:
        """What the library raises, as FleetError that says what was asked and answered."""
        words = f"Toxiproxy at {self.api} was asked {what}"
        try:
            yield
        except NotFound as error:
            raise NotThere(f"{words}: {error}") from error
        except (ProxyExists, InvalidToxic, OSError) as error:
            raise FleetError(f"{words}: {error}") from error
        except (KeyError, ValueError, TypeError) as error:  # how the library takes a 500
            raise FleetError(f"{words} and answered with an error ({error!r})") from error


def _rate(toxic: Toxic) -> float:
    """In KB/s; infinity where there is none."""
    rate = toxic.attributes.get("rate")
    return rate if toxic.kind == "bandwidth" and isinstance(rate, int) else math.inf


def _read(toxic: Mapping[str, Json]) -> Toxic:
    return Toxic(
        name=str(toxic.get("name")),
        kind=str(toxic.get("type")),
        stream=str(toxic.get("stream")),
        attributes=an_object(toxic.get("attributes")),
    )
