"""HTTP API of the embedded proxy: Toxiproxy's, with extensions.

    GET  /version                              {version}
    GET  /proxies                              all, by name
    POST /proxies                              {name, listen, upstream, enabled}
    GET POST PATCH DELETE /proxies/{p}         show, {enabled, listen, upstream}, delete
    GET POST /proxies/{p}/toxics               all; {name, type, stream, toxicity, attributes}
    GET POST PATCH DELETE /proxies/{p}/toxics/{t}   show, {toxicity, attributes}, delete
    POST /populate                             [{name, listen, upstream, enabled}], all or none
    POST /reset                                enable every proxy, remove all toxics
    GET  /metrics                              bytes of each proxy, for Prometheus
  beyond Toxiproxy:
    GET  /proxies/{p}/counters                 live bytes and connections
    POST /proxies/{p}/reset                    reset every open connection (RST)

Toxiproxy's command line and clients work with it. Stricter than Toxiproxy: unknown keys and invalid
values are refused.
"""

import re
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from chaoslab.links.proxy.link import ProxyLink
from chaoslab.links.proxy.toxics import (
    DOWN,
    NAME,
    UP,
    Json,
    Refused,
    Toxic,
    changed,
    only,
    read_toxic,
)

_HOST_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*")
_PORT = re.compile(r"[0-9]{1,5}")
_KEYS = ("name", "listen", "upstream", "enabled", "toxics")
Answer: TypeAlias = tuple[int, Json]
Body: TypeAlias = Mapping[str, Json]

_METRICS = (
    ("toxiproxy_proxy_received_bytes_total", "bytes taken from clients and upstreams", "received"),
    ("toxiproxy_proxy_sent_bytes_total", "bytes handed on to upstreams and clients", "delivered"),
)

VERSION = "2.12.0+chaoslab"
"""Version of Toxiproxy with this API."""


class Api:
    """The links of one proxy process, by name."""

    def __init__(self) -> None:
        self._links: dict[str, ProxyLink] = {}

    def handle(self, method: str, path: str, body: Json) -> Answer:
        """Handle one request. Refused with status 404 or 405 for unknown paths and methods."""
        verbs: Mapping[str, Callable[[], Answer]]
        match path.strip("/").split("/"):
            case ["version"]:
                verbs = {"GET": lambda: (200, {"version": VERSION})}
            case ["metrics"]:
                verbs = {"GET": lambda: (200, _metrics(self._links.values()))}
            case ["populate"]:
                verbs = {"POST": lambda: self._populate(body)}
            case ["reset"]:
                verbs = {"POST": self._reset}
            case ["proxies"]:
                verbs = {"GET": self._index, "POST": lambda: self._create(_object(body))}
            case ["proxies", name, *rest]:
                verbs = self._verbs(self._link(name), rest, body)
            case _:
                verbs = {}
        if not verbs:
            raise Refused(f"{path}: not found", status=404)
        if method not in verbs:
            raise Refused(f"{path}: method must be {' or '.join(verbs)}, got {method}", status=405)
        return verbs[method]()

    def close(self) -> None:
        """Close every connection and every listener."""
        for link in self._links.values():
            link.disable()

    def _verbs(
        self, link: ProxyLink, rest: list[str], body: Json
    ) -> Mapping[str, Callable[[], Answer]]:
        match rest:
            case []:
                return {
                    "GET": lambda: (200, link.to_json()),
                    "POST": lambda: _update(link, _object(body)),
                    "PATCH": lambda: _update(link, _object(body)),
                    "DELETE": lambda: self._delete(link),
                }
            case ["counters"]:
                return {"GET": lambda: (200, link.counters())}
            case ["reset"]:
                return {"POST": lambda: _break_off(link)}
            case ["toxics"]:
                return {
                    "GET": lambda: (200, link.toxics_to_json()),
                    "POST": lambda: _add(link, _object(body)),
                }
            case ["toxics", name]:
                return {
                    "GET": lambda: (200, _toxic(link, name).to_json()),
                    "POST": lambda: _change(link, name, _object(body)),
                    "PATCH": lambda: _change(link, name, _object(body)),
                    "DELETE": lambda: _remove(link, name),
                }
            case _:
                return {}

    # ---------------------------------------------------------------- links

    def _link(self, name: str) -> ProxyLink:
        if name not in self._links:
            raise Refused(f"proxy {name!r}: not found", status=404)
        return self._links[name]

    def _index(self) -> Answer:
        return 200, {name: link.to_json() for name, link in self._links.items()}

    def _create(self, body: Body) -> Answer:
        link, is_enabled = _read_proxy(body)
        if link.name in self._links:
            raise Refused(f"proxy {link.name!r}: exists already", status=409)
        if is_enabled:
            link.enable()
        self._links[link.name] = link
        return 201, link.to_json()

    def _populate(self, body: Json) -> Answer:
        """Keep proxies that exist with the same settings; create or replace the others."""
        if not isinstance(body, list):
            raise Refused(f"body: must be a list of proxies, got {body!r}")
        asked = [_read_proxy(_object(one)) for one in body]
        if len({link.name for link, _ in asked}) < len(asked):
            raise Refused("body: names of proxies must be different")
        made = [self._put(link, is_enabled=is_enabled) for link, is_enabled in asked]
        return 201, {"proxies": [link.to_json() for link in made]}

    def _put(self, link: ProxyLink, *, is_enabled: bool) -> ProxyLink:
        there = self._links.get(link.name)
        if there is not None:
            if (there.listen, there.upstream) == (link.listen, link.upstream):
                return there
            there.disable()
            del self._links[link.name]
        if is_enabled:
            link.enable()
        self._links[link.name] = link
        return link

    def _reset(self) -> Answer:
        for link in self._links.values():
            link.enable()
            for toxic in tuple(link.toxics.values()):
                link.remove(toxic)
        return 204, None

    def _delete(self, link: ProxyLink) -> Answer:
        link.disable()
        del self._links[link.name]
        return 204, None


def _read_proxy(body: Body) -> tuple[ProxyLink, bool]:
    """A new link, and whether it is to be enabled."""
    only(body, _KEYS, "a proxy")
    name = body.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused(f"name: must consist of letters, digits and . _ -, got {name!r}")
    if body.get("toxics"):
        raise Refused("toxics: must be added after the proxy was created; leave them out")
    listen = _address("listen", body.get("listen", "127.0.0.1:0"))
    is_enabled = _is_enabled(body.get("enabled", True))
    return ProxyLink(name, listen, _upstream(body.get("upstream"))), is_enabled


def _update(link: ProxyLink, body: Body) -> Answer:
    """Enable or disable a link, or change its addresses; toxics are kept."""
    now = link.to_json()
    only(body, _KEYS, "an update of a proxy")
    if body.get("name", link.name) != link.name:
        raise Refused(f"name: cannot be changed from {link.name}; delete it and create another")
    is_enabled = _is_enabled(body.get("enabled", link.is_enabled))
    listen = _address("listen", body.get("listen", now["listen"]))
    link.move(listen, _upstream(body.get("upstream", now["upstream"])))
    if is_enabled:
        link.enable()
    else:
        link.disable()
    return 200, link.to_json()


def _break_off(link: ProxyLink) -> Answer:
    link.reset()
    return 204, None


# ---------------------------------------------------------------- toxics


def _toxic(link: ProxyLink, name: str) -> Toxic:
    if name not in link.toxics:
        raise Refused(f"toxic {name!r}: not found on {link.name}", status=404)
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


# ---------------------------------------------------------------- metrics


def _metrics(links: Iterable[ProxyLink]) -> str:
    """Bytes of every link by Toxiproxy's names, in Prometheus' text format 0.0.4.

    Counted continuously; Toxiproxy counts a connection once it has ended.
    """
    shown = tuple(links)
    lines = []
    for name, meaning, counter in _METRICS:
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} counter"]
        for link in shown:
            for way in (UP, DOWN):
                labels = {
                    "direction": way,
                    "listener": f"{link.listen[0]}:{link.listen[1]}",
                    "proxy": link.name,
                    "upstream": f"{link.upstream[0]}:{link.upstream[1]}",
                }
                inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
                lines.append(f"{name}{{{inside}}} {getattr(link.traffic[way], counter)}")
    return "\n".join([*lines, ""])


# ---------------------------------------------------------------- values


def _object(value: Json) -> Body:
    if not isinstance(value, Mapping):
        raise Refused(f"body: must be a JSON object, got {value!r}")
    return value


def _is_enabled(value: Json) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"enabled: must be true or false, got {value!r}")
    return value


def _upstream(value: Json) -> tuple[str, int]:
    """Address or host name, and port. A name is resolved at every dial, as containers need."""
    host, _, port = str(value).rpartition(":")
    if host != "localhost" and _HOST_NAME.fullmatch(host) and _is_port(port):
        return host, int(port)
    return _address("upstream", value)


def _address(what: str, value: Json) -> tuple[str, int]:
    """An IPv4 address and a port."""
    host, _, port = str(value).rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):
        raise Refused(f"{what}: must be an IPv4 address and a port, got {value!r}") from None
    if not _is_port(port):
        raise Refused(f"{what}: port must be 0 to 65535, got {value!r}")
    return host, int(port)


def _is_port(text: str) -> bool:
    return _PORT.fullmatch(text) is not None and int(text) <= 65535
