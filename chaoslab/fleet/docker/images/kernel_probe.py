"""Trial of what the kernel under an engine can do to packets, before a run and apart from it.

    a container of the tools image, without a network ─► the very rules that a run would write
                                                      └► what was refused, and in which words

Tried once for each engine and process; the container is gone when the answer is there. Without the
image of the tools nothing can be tried, and that is the answer.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine.engine import Engine
from chaoslab.fleet.docker.engine.labels import labels_of, trial_name
from chaoslab.fleet.docker.images import images
from chaoslab.fleet.docker.images.tools import Tools, why_no_image
from chaoslab.links.effects import Bandwidth, Direction, Latency, LinkAbility
from chaoslab.links.netem.gateway import Ends, Forwarding
from chaoslab.links.netem.netfilter import Drop, GatewayDrops, ProxyDrops
from chaoslab.links.netem.queues import Queues

_PORT: Final = 4701
_DEVICE: Final = "lo"
_BY_HTB: Final = (LinkAbility.BANDWIDTH, LinkAbility.SHARED_BANDWIDTH)
_BY_NETEM: Final = (
    LinkAbility.LATENCY, LinkAbility.DUPLICATE, LinkAbility.REORDER, LinkAbility.CORRUPT,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailures:
    """Reasons for which each part of a trial failed; empty: it worked."""

    forwarding: str = ""
    """Reason without which there are no netem links at all."""
    lacks: Mapping[LinkAbility, str] = field(default_factory=dict)
    """Abilities of netem links that this kernel lacks."""
    proxy_loss: str = ""
    """Loss of packets before and behind a proxy."""


def tried(engine: Engine) -> ProbeFailures:
    """The answer for this engine. FleetError if it refuses even to run the trial."""
    if why := why_no_image(engine):
        return ProbeFailures(forwarding=why, proxy_loss=why)
    return _tried(engine.url, images.tools_image())


@cache
def _tried(url: str, image: str) -> ProbeFailures:  # noqa: ARG001 - another image is another trial
    name = trial_name()
    labels = labels_of(name, "a trial")
    with (
        closing(Engine.connect(url)) as engine,
        closing(Tools(engine, name, "none", labels=labels, is_gateway=True)) as tools,
    ):
        proxy_loss = _refusal(lambda: _lose_beside_a_proxy(tools))
        forwarding = _refusal(lambda: _forward(tools))
        return ProbeFailures(
            forwarding=forwarding,
            lacks={} if forwarding else _missing(tools),
            proxy_loss=proxy_loss,
        )


def _lose_beside_a_proxy(tools: Tools) -> None:
    drops = ProxyDrops(tools.run)
    for way in Direction.BOTH.ways:
        drops.add(_drop(way))
    tools.run("tc", "qdisc", "del", "dev", _DEVICE, "root")


def _forward(tools: Tools) -> None:
    rules = Forwarding(tools)
    rules.add(_PORT)
    rules.lead(_PORT, "127.0.0.1:4600")
    rules.freeze(_PORT, Direction.UP, is_on=True, comment="trial")
    rules.refuse(_PORT, is_on=True, comment="trial")
    untold: list[Ends] = []
    rules.end(_PORT, untold)
    rules.halve(_PORT, Direction.UP, "trial", untold)
    rules.tell(untold, "trial")
    rules.traffic(_PORT)


def _missing(tools: Tools) -> Mapping[LinkAbility, str]:
    queues = Queues(tools.run, _DEVICE)
    loss = _refusal(lambda: GatewayDrops(tools.run).add(_drop(Direction.UP)))
    rate = Bandwidth(rate_bytes_per_s=1e6)
    htb = _refusal(lambda: queues.put(_PORT, Direction.UP, [rate]))
    netem = htb or _refusal(lambda: queues.put(_PORT, Direction.DOWN, [Latency(mean_s=0.01)]))
    if netem and not htb:
        said = netem.rpartition(f"{tools.name}: ")[2]
        netem = f"the kernel under the engine has no tc netem ({said}): load sch_netem there"
    found = {LinkAbility.LOSS: loss} | dict.fromkeys(_BY_HTB, htb) | dict.fromkeys(_BY_NETEM, netem)
    return {ability: why for ability, why in found.items() if why}


def _drop(way: Direction) -> Drop:
    return Drop(comment=f"trial-{way}", port=_PORT, way=way, share=0.5, interface=_DEVICE)


def _refusal(trial: Callable[[], None]) -> str:
    """Error of a trial; empty without one."""
    try:
        trial()
    except FleetError as error:
        return str(error)
    return ""
