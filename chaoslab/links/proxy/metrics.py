"""Prometheus metrics of the proxy: bytes of every link, by Toxiproxy's names.

    links ─ exposition ─► toxiproxy_proxy_sent_bytes_total{direction=…,proxy=…,…} 4096

Updated continuously; Toxiproxy counts a connection once it has ended. Toxiproxy's metrics about its
own runtime are not provided.
"""

from collections.abc import Iterable

from chaoslab.links.proxy.link import ProxyLink
from chaoslab.links.proxy.toxics import DOWN, UP

_METRICS = (
    ("toxiproxy_proxy_received_bytes_total", "bytes taken from clients and upstreams", "received"),
    ("toxiproxy_proxy_sent_bytes_total", "bytes handed on to upstreams and clients", "delivered"),
)


def exposition(links: Iterable[ProxyLink]) -> str:
    """The metrics in Prometheus' text format, version 0.0.4."""
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
