"""Toxiproxy's HTTP API over the proxied links, with what Toxiproxy lacks.

    GET  /version                              the version, as text
    GET  /proxies                              all, by name
    POST /proxies                              {name, listen, upstream, enabled}
    GET POST DELETE /proxies/{p}               show, {enabled}, delete
    GET POST /proxies/{p}/toxics               all; {name, type, stream, attributes}
    GET POST DELETE /proxies/{p}/toxics/{t}    show, {attributes}, delete
  beyond Toxiproxy:
    GET  /proxies/{p}/counters                 live bytes and connections
    POST /proxies/{p}/reset                    a RST on every open connection, now

Strict: what would not be read is refused. /reset and /populate do not exist: they touch proxies of
other people and apply in part.
"""

import re
import socket
from collections.abc import Callable, Mapping
from typing import TypeAlias

from chaoslab.links.proxy.link import ProxyLink
from chaoslab.links.proxy.toxics import NAME, Json, Refused, Toxic, changed, only, read_toxic

_HOST_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*")
Answer: TypeAlias = tuple[int, Json]
Body: TypeAlias = Mapping[str, Json]

VERSION = "2.5.0+chaoslab"
"""The version of Toxiproxy whose API this is a part of."""


class Api:
    """The links of one proxy process, by name."""

    def __init__(self) -> None:
        self._links: dict[str, ProxyLink] = {}

    def handle(self, method: str, path: str, body: Body) -> Answer:
        """Carry out one request. Refused with status 404 or 405 where there is nothing."""
        verbs: Mapping[str, Callable[[], Answer]]
        match path.strip("/").split("/"):
            case ["version"]:
                verbs = {"GET": lambda: (200, VERSION)}
            case ["proxies"]:
                verbs = {"GET": self._index, "POST": lambda: self._create(body)}
            case ["proxies", name, *rest]:
                verbs = self._verbs(self._link(name), rest, body)
            case _:
                verbs = {}
        if not verbs:
            raise Refused(f"there is no {path}", status=404)
        if method not in verbs:
            raise Refused(f"{path} takes {' or '.join(verbs)}, not {method}", status=405)
        return verbs[method]()

    def close(self) -> None:
        """End every connection and every listener."""
        for link in self._links.values():
            link.disable()

    def _verbs(
        self, link: ProxyLink, rest: list[str], body: Body
    ) -> Mapping[str, Callable[[], Answer]]:
        match rest:
            case []:
                return {
                    "GET": lambda: (200, link.to_json()),
                    "POST": lambda: _update(link, body),
                    "DELETE": lambda: self._delete(link),
                }
            case ["counters"]:
                return {"GET": lambda: (200, link.counters())}
            case ["reset"]:
                return {"POST": lambda: _reset(link)}
            case ["toxics"]:
                return {
                    "GET": lambda: (200, [one.to_json() for one in link.toxics.values()]),
                    "POST": lambda: _add(link, body),
                }
            case ["toxics", name]:
                return {
                    "GET": lambda: (200, _toxic(link, name).to_json()),
                    "POST": lambda: _change(link, name, body),
                    "DELETE": lambda: _remove(link, name),
                }
            case _:
                return {}

    # ---------------------------------------------------------------- links

    def _link(self, name: str) -> ProxyLink:
        if name not in self._links:
            raise Refused(f"there is no proxy {name!r}", status=404)
        return self._links[name]

    def _index(self) -> Answer:
        return 200, {name: link.to_json() for name, link in self._links.items()}

    def _create(self, body: Body) -> Answer:
        only(body, ("name", "listen", "upstream", "enabled"), "a proxy")
        name = body.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise Refused(f"{name!r} names no proxy: use letters, digits and . _ - only")
        if name in self._links:
            raise Refused(f"there is a proxy {name!r} already", status=409)
        listen = _address("listen", body.get("listen", "127.0.0.1:0"))
        link = ProxyLink(name, listen, _upstream(body.get("upstream")))
        if _flag("enabled", body.get("enabled", True)):
            link.enable()
        self._links[name] = link
        return 201, link.to_json()

    def _delete(self, link: ProxyLink) -> Answer:
        link.disable()
        del self._links[link.name]
        return 204, None


def _update(link: ProxyLink, body: Body) -> Answer:
    """Switch it on or off; what else a client sends must be as it is."""
    now = link.to_json()
    only(body, ("name", "listen", "upstream", "enabled"), "an update of a proxy")
    for key, value in body.items():
        if key != "enabled" and value != now[key]:
            raise Refused(f"{key} of a proxy stays {now[key]}: delete it and create another")
    if _flag("enabled", body.get("enabled", now["enabled"])):
        link.enable()
    else:
        link.disable()
    return 200, link.to_json()


def _reset(link: ProxyLink) -> Answer:
    link.reset()
    return 204, None


# ---------------------------------------------------------------- toxics


def _toxic(link: ProxyLink, name: str) -> Toxic:
    if name not in link.toxics:
        raise Refused(f"there is no toxic {name!r} on {link.name}", status=404)
    return link.toxics[name]


def _add(link: ProxyLink, body: Body) -> Answer:
    toxic = read_toxic(body)
    link.add(toxic)
    return 200, toxic.to_json()


def _change(link: ProxyLink, name: str, body: Body) -> Answer:
    toxic = _toxic(link, name)
    link.change(toxic, changed(toxic, body))
    return 200, toxic.to_json()


def _remove(link: ProxyLink, name: str) -> Answer:
    link.remove(_toxic(link, name))
    return 204, None


# ---------------------------------------------------------------- values


def _flag(what: str, value: Json) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"{what} is true or false, not {value!r}")
    return value


def _upstream(value: Json) -> tuple[str, int]:
    """As an address, or with a host name: it is looked up at every dial, as a container's needs."""
    host, _, port = str(value).rpartition(":")
    if _HOST_NAME.fullmatch(host) and port.isdecimal() and int(port) <= 65535:
        return host, int(port)
    return _address("upstream", value)


def _address(what: str, value: Json) -> tuple[str, int]:
    """An IPv4 address and a port."""
    host, _, port = str(value).rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        raise Refused(f"{what} is an IPv4 address and a port, not {value!r}") from None
    if not port.isdecimal() or int(port) > 65535:
        raise Refused(f"{what} {value!r} has no port between 0 and 65535")
    return host, int(port)
