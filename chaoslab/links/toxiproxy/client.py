"""Client of a Toxiproxy server, by the calls of `toxiproxy-python`.

    ProxyClient ─► the library's APIConsumer, bound to one server ─► the server
                   no answer, or streams that are to end ─► the proxy made anew from `_wanted`
                   and that is not answered either ─► the server restarted, all proxies made anew

The library's `Toxiproxy` and `Proxy` are not used: they have no deadlines, drop what the server
answers, and cannot update a toxic.

Toxiproxy changes toxics under a lock of their proxy, and waits meanwhile until each stream has
taken the bytes that wait in the toxic. A stream takes none while its receiver does not read, nor
once its connection was closed: calls about the proxy then wait for seconds, or for ever. Deleting a
proxy needs that lock only if a connection has just come, and ends the streams. So to close
connections the proxy is replaced by a new one, and so is a proxy whose calls are not answered.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from requests.exceptions import Timeout

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Json
from chaoslab.links.base import Counters, Remade
from chaoslab.links.effects import Direction, Effect
from chaoslab.links.proxied.client import ProxyClient, Toxic
from chaoslab.links.proxied.host import RestartableHost
from chaoslab.links.proxied.http_api import Endpoint, NoSuchName, decoded
from chaoslab.links.proxied.process import LocalServer
from chaoslab.links.proxied.toxics import STREAMS, is_freeze, whole_numbers

try:
    from toxiproxy.api import APIConsumer
    from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists
except ImportError as error:
    raise AbilityError(
        "links: toxiproxy needs toxiproxy-python: pip install 'chaoslab[toxiproxy]', or use "
        "links: embedded, which needs nothing"
    ) from error

_CHANGE_S = 1.0
"""After this long without an answer the server is stuck. A harness that stalls for 5 s is taken
for dead, and several links may be stuck at once."""
_THIN_KB_PER_S = 64
"""A bandwidth toxic below it may hold the toxic before it for longer than a deadline."""
_FLUSH_S = 0.1
"""Time in which held bytes pass before a freeze is removed, at the speed of memory."""


class Unresponsive(FleetError):
    """The server is there and does not answer."""


@dataclass(slots=True, kw_only=True)
class _Wanted:
    """A proxy as it is to be."""

    listen: str
    upstream: str
    is_on: bool = True
    toxics: dict[str, Toxic] = field(default_factory=dict)
    is_made: bool = True
    """Whether the server has it so: False after an attempt to make it anew that failed."""


class ToxiproxyClient(ProxyClient):
    """The server whose API is at `api`: it asks for no token, but what lies before it may.

    `place` is where it runs: there its connections are counted, and it is restarted if it is stuck.
    """

    def __init__(self, api: Endpoint, place: RestartableHost | None = None) -> None:
        super().__init__(api)
        self._place = place or LocalServer(api)
        host, _, port = api.address.rpartition(":")
        self._consumer = type("BoundConsumer", (APIConsumer,), {"host": host, "port": int(port)})
        self._released_s = -math.inf
        self._wanted: dict[str, _Wanted] = {}
        self.remade: list[Remade] = []
        """Proxies that were made again."""

    def ask(
        self, method: str, path: str, body: Json = None, *, within_s: float = _CHANGE_S
    ) -> Json:
        """One call by the library, which raises at some error answers and passes others on."""
        words = f"{self} was asked to {method} {path}"
        given = {} if body is None else {"json": body}
        if self.api.token:
            given["headers"] = {"Authorization": f"Bearer {self.api.token}"}
        try:
            answer = getattr(self._consumer, method.lower())(path, timeout=within_s, **given)
        except NotFound as error:
            raise NoSuchName(f"{words}: {error}") from error
        except Timeout as error:
            raise Unresponsive(f"{words} and did not answer within {within_s:g} s") from error
        except (ProxyExists, InvalidToxic, OSError) as error:
            raise FleetError(f"{words}: {error}") from error
        if answer.status_code >= 400:
            raise FleetError(f"{words} and answered with an error ({answer.text!r})")
        return decoded(answer.text)

    def create(self, proxy: str, listen: str, upstream: str, *, is_on: bool = True) -> None:
        """Create a proxy, and keep its definition."""
        super().create(proxy, listen, upstream, is_on=is_on)
        self._wanted[proxy] = _Wanted(listen=listen, upstream=upstream, is_on=is_on)

    def reset(self, proxy: str) -> None:
        """A new proxy ends every open connection; its reset_peer leaves those as they are."""
        self._make_anew(proxy)

    def switch(self, proxy: str, *, is_on: bool) -> None:
        """Off by a new proxy: none of its calls waits for the streams that this ends."""
        self._wanted[proxy].is_on = is_on
        if is_on:
            self._do(proxy, partial(super().switch, proxy, is_on=True))
        else:
            self._make_anew(proxy)

    def count(self, proxy: str, port: int) -> Counters:  # noqa: ARG002 - the base's signature
        """The server counts bytes at the end of a connection: too late. The kernel knows."""
        return Counters(connections=self._place.established(port))

    def toxics(self, name: str, direction: Direction, effect: Effect) -> Sequence[Toxic]:
        """One toxic for each direction."""
        kind, attributes = whole_numbers(effect)
        names = {name: direction}
        if direction is Direction.BOTH:
            names = {f"{name}.{way}": way for way in direction.ways}
        return tuple(
            Toxic(name=one, kind=kind, stream=STREAMS[way], attributes=attributes)
            for one, way in names.items()
        )

    def add(self, proxy: str, toxic: Toxic) -> None:
        self._wanted[proxy].toxics[toxic.name] = toxic
        self._do(proxy, partial(super().add, proxy, toxic))

    def change(self, proxy: str, toxic: Toxic) -> None:
        """While no thin link behind it holds the change up."""
        self._wanted[proxy].toxics[toxic.name] = toxic
        change = partial(super().change, proxy, toxic)
        self._do(
            proxy, partial(self._unhindered, proxy, toxic, change, thinner_than=_THIN_KB_PER_S)
        )

    def release(self, proxy: str, toxic: Toxic) -> None:
        """Let held bytes pass before the freeze is removed.

        While it takes a toxic away, Toxiproxy offers each piece that waits in it for 5 s to the
        reader that is next. Where a connection broke meanwhile (and over a frozen link it does),
        nobody is there to take them.
        """
        if is_freeze(toxic):
            self.change(proxy, replace(toxic, attributes={**toxic.attributes, "latency": 0}))
            self._released_s = time.monotonic()

    def remove(self, proxy: str, toxic: Toxic) -> None:
        """Once what a freeze held back got through, and while nothing holds the removal up."""
        if is_freeze(toxic):
            time.sleep(max(0.0, self._released_s + _FLUSH_S - time.monotonic()))
        self._wanted[proxy].toxics.pop(toxic.name, None)
        remove = partial(super().remove, proxy, toxic)
        self._do(proxy, partial(self._unhindered, proxy, toxic, remove))

    # ---------------------------------------------------------------- what is stuck is made anew

    def _do(self, proxy: str, call: Callable[[], None]) -> None:
        """Make a call that changes a proxy; where it fails, make the proxy anew as it is to be."""
        try:
            if self._wanted[proxy].is_made:
                call()
                return
            why = "an attempt to make it anew had failed"
        except NoSuchName:
            raise
        except FleetError as error:
            why = str(error)
        self._make_anew(proxy, why)

    def _make_anew(self, proxy: str, why: str = "") -> None:
        """A new proxy, without streams. With `why` this was nobody's wish, and is told.

        If the server does not even delete the old one, all proxies are made anew on a new server.
        """
        ended = {proxy: self._streams(proxy)} if why else {}
        try:
            self._replace(proxy)
        except Unresponsive as error:
            why = why or str(error)
            ended = {each: self._streams(each) for each in self._wanted} | ended
            self._place.restart()
            for each in self._wanted:
                self._replace(each)
        self.remade += [Remade(link=one, streams=n, reason=why) for one, n in ended.items()]

    def _replace(self, proxy: str) -> None:
        wanted = self._wanted[proxy]
        wanted.is_made = False
        with suppress(NoSuchName):
            self.delete(proxy)
        super().create(proxy, wanted.listen, wanted.upstream, is_on=False)
        for toxic in wanted.toxics.values():
            super().add(proxy, toxic)
        if wanted.is_on:
            super().switch(proxy, is_on=True)
        wanted.is_made = True

    def _streams(self, proxy: str) -> int | None:
        return self._place.established(int(self._wanted[proxy].listen.rpartition(":")[2]))

    # ---------------------------------------------------------------- thin links behind a toxic

    def _unhindered(
        self,
        proxy: str,
        toxic: Toxic,
        call: Callable[[], None],
        *,
        thinner_than: float = math.inf,
    ) -> None:
        """Bandwidth toxics behind this one step aside for the time of the call.

        Toxiproxy interrupts a toxic before it changes it, and lets all that waits in it pass before
        it removes it, at the speed of what is behind it.
        """
        aside = [one for one in self._behind(proxy, toxic) if _rate(one) < thinner_than]
        for one in aside:
            super().remove(proxy, one)
        call()
        for one in aside:
            super().add(proxy, one)

    def _behind(self, proxy: str, toxic: Toxic) -> Sequence[Toxic]:
        """The toxics that bytes meet after this one; NoSuchName if it is not there."""
        chain = list(self.state(proxy).toxics.values())
        names = [one.name for one in chain]
        if toxic.name not in names:
            raise NoSuchName(f"there is no toxic {toxic.name} on {proxy}")
        behind = chain[names.index(toxic.name) + 1 :]
        return [one for one in behind if one.stream == toxic.stream]

    def __str__(self) -> str:
        return f"Toxiproxy at {self.api}"


def _rate(toxic: Toxic) -> float:
    """Rate in KB/s; infinity without one."""
    rate = toxic.attributes.get("rate")
    return rate if toxic.kind == "bandwidth" and isinstance(rate, int) else math.inf
