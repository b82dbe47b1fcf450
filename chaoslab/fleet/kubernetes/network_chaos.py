"""NetworkChaos objects of Chaos Mesh: what effects on links become, and what their status says.

    effects on links, one way ─┬─ freeze ──────────────────────────► partition
                               ├─ bandwidth alone ─────────────────► bandwidth (tbf)
                               └─ latency, duplicates … and rates ─► netem, all in one object
    up    pods of learners ──► address of the syncer's Service, syncer's pods
    down  syncer's pods ─────► pods of learners

Every object acts on what its pods send (`direction: to`), so each way has its own; learners to whom
the same is done share it. Chaos Mesh puts a packet into one queue at most: all effects of a way on
a learner that need one are in one object. Nothing here asks a cluster.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from chaoslab.core.events import Json
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.fleet.kubernetes import names
from chaoslab.fleet.kubernetes.manifests import Manifests
from chaoslab.fleet.kubernetes.parts import mapping, mappings
from chaoslab.links.effects import (
    Bandwidth,
    Corrupt,
    Direction,
    Duplicate,
    Effect,
    Freeze,
    Latency,
    LinkAbility,
    Reorder,
)
from chaoslab.links.netem.queues import ON_THE_WIRE, WAITING_BYTES_LEAST, WAITING_S
from chaoslab.plan.model import SYNCER

ABILITIES: Final = frozenset(
    {
        LinkAbility.LATENCY, LinkAbility.BANDWIDTH, LinkAbility.SHARED_BANDWIDTH,
        LinkAbility.FREEZE, LinkAbility.DUPLICATE, LinkAbility.REORDER, LinkAbility.CORRUPT,
    }
)  # fmt: skip
"""Whether the kernels of the machines can do it is seen when it is tried."""
_LACKS: Final[Mapping[LinkAbility, str]] = {
    LinkAbility.LOSS: "nothing counts the packets that it drops, so no run could prove it: use "
    "network.corrupt, which is lost, too, or --fleet docker",
    LinkAbility.BLACKHOLE: "a partition drops packets, and TCP sends them again after the heal: "
    "use network.freeze or network.partition",
    LinkAbility.JITTER_SHAPES: "its jitter is uniform: leave out `distribution`",
}
_NO_STREAMS: Final = "NetworkChaos acts on packets, not on connections: use links: embedded"
_PART: Final = "net"
"""First word of the names of these objects after that of the run."""
_PARTITION: Final[Mapping[str, Json]] = {"action": "partition"}
_BUFFER_BYTES_LEAST: Final = 16 << 10
_BUFFER_S: Final = 0.002
_UINT32_MAX: Final = (1 << 32) - 1


def why_not(ability: LinkAbility) -> str:
    """Why NetworkChaos cannot do it, and what can."""
    return _LACKS.get(ability, _NO_STREAMS)


class EffectKey(NamedTuple):
    """For what an effect was asked, in a single direction."""

    injection: str
    learner: str
    way: Direction
    kind: str
    """Of the effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkChaosManifests(Manifests):
    """Manifests of one run's NetworkChaos objects."""

    namespace: str

    def network_chaos(self, name: str, spec: Mapping[str, Json]) -> Mapping[str, Json]:
        """The object that has this spec; it goes with the run."""
        return {
            "apiVersion": "chaos-mesh.org/v1alpha1",
            "kind": "NetworkChaos",
            "metadata": self._metadata(name),
            "spec": {**spec},
        }

    def name_of(self, part: str, number: int) -> str:
        """Name of an object; `number` tells it from earlier ones."""
        return self.name(_PART, *part.split()[:2], str(number))

    def specs(
        self, address: str, asked: Mapping[EffectKey, Effect]
    ) -> Mapping[str, Mapping[str, Json]]:
        """Specs of the objects that these effects need, by the part that each plays: `up queue …`.

        `address`: that of the syncer's Service. Learners to whom the same injections do the same
        share an object.
        """
        frozen: dict[tuple[Direction, str], list[str]] = {}
        queued: dict[tuple[Direction, str], list[tuple[str, Effect]]] = {}
        for one, effect in asked.items():
            if isinstance(effect, Freeze):
                frozen.setdefault((one.way, one.injection), []).append(one.learner)
            else:
                queued.setdefault((one.way, one.learner), []).append((one.injection, effect))
        found = {
            f"{way} freeze {injection}": {**self._where(learners, address, way), **_PARTITION}
            for (way, injection), learners in frozen.items()
        }
        alike: dict[tuple[Direction, str], list[str]] = {}
        for (way, learner), effects in queued.items():
            whose = "+".join(injection for injection, _ in effects)
            queue = json.dumps([whose, _queue([effect for _, effect in effects])])
            alike.setdefault((way, queue), []).append(learner)
        for (way, queue), learners in alike.items():
            where = self._where(learners, address, way)
            found[f"{way} queue {queue}"] = {**where, **json.loads(queue)[1]}
        return found

    def _where(self, learners: Sequence[str], address: str, way: Direction) -> dict[str, Json]:
        """Whose packets, and to whom."""
        if way is Direction.DOWN:
            return {**self._pods([SYNCER]), "target": self._pods(learners), "direction": "to"}
        outside: list[Json] = [address]  # what learners dial, which becomes a pod's only later
        return {
            **self._pods(learners), "target": self._pods([SYNCER]), "externalTargets": outside,
            "direction": "to",
        }  # fmt: skip

    def _pods(self, nodes: Sequence[str]) -> dict[str, Json]:
        of_nodes: dict[str, Json] = {
            "key": names.LABEL_NODE, "operator": "In",
            "values": [names.label_value(node) for node in sorted(nodes)],
        }  # fmt: skip
        selector: dict[str, Json] = {
            "namespaces": [self.namespace],
            "labelSelectors": {names.LABEL_RUN: self.run},
            "expressionSelectors": [of_nodes],
            "podPhaseSelectors": ["Running"],  # pods of earlier incarnations stay until the end
        }
        return {"mode": "all", "selector": selector}


# ---------------------------------------------------------------- queues


def _queue(effects: Sequence[Effect]) -> dict[str, Json]:
    """Action and parameters of the one queue that does all of these."""
    rates = [one.rate_bytes_per_s for one in effects if isinstance(one, Bandwidth)]
    rate = ON_THE_WIRE * min(rates, default=math.inf)
    if len(rates) == len(effects):
        waiting = min(max(WAITING_BYTES_LEAST, round(WAITING_S * rate)), _UINT32_MAX)
        buffer = max(_BUFFER_BYTES_LEAST, round(_BUFFER_S * rate))
        tbf: dict[str, Json] = {"rate": _bps(rate), "limit": waiting, "buffer": buffer}
        return {"action": "bandwidth", "bandwidth": tbf}
    found: dict[str, Json] = {"action": "netem"}
    if delay := _delay(effects):
        found["delay"] = delay
    for kind in (Duplicate, Corrupt):
        if shares := [one.share for one in effects if isinstance(one, kind)]:
            found[kind.kind] = {kind.kind: _percent(shares), "correlation": "0"}
    if rates:
        found["rate"] = {"rate": _bps(rate)}
    return found


def _delay(effects: Sequence[Effect]) -> dict[str, Json]:
    delays = [one for one in effects if isinstance(one, Latency)]
    late = [one for one in effects if isinstance(one, Reorder)]
    delay_s = sum(one.mean_s for one in delays) + sum(one.delay_s for one in late)
    if not delay_s:
        return {}
    jitter_s = math.hypot(*(one.jitter_s for one in delays))
    found: dict[str, Json] = {
        "latency": _us(delay_s), "jitter": _us(jitter_s), "correlation": "0",
    }  # fmt: skip
    if late:
        share = _percent([one.share for one in late])
        found["reorder"] = {"reorder": share, "correlation": "0", "gap": 0}
    return found


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.0f}us"


def _bps(bytes_per_s: float) -> str:
    """A rate as `tc` reads it, whose bps are bytes."""
    return f"{bytes_per_s:.0f}bps"


def _percent(shares: Sequence[float]) -> str:
    """Of packets that meet at least one of these."""
    return f"{100 * (1 - math.prod(1 - share for share in shares)):.4g}"


# ---------------------------------------------------------------- status


def is_injected(found: Mapping[str, Json]) -> bool:
    """Whether Chaos Mesh says of an object that all of it is in force."""
    return _conditions(found).get("AllInjected") == "True" and not is_ending(found)


def is_ending(found: Mapping[str, Json]) -> bool:
    """Whether somebody has deleted it."""
    return "deletionTimestamp" in names.metadata_of(found)


def state_of(found: Mapping[str, Json]) -> str:
    """What Chaos Mesh says of an object, as a clause: why it is not in force, or not taken back."""
    conditions = _conditions(found)
    if failures := [said for record in _records(found) if (said := _failure(record))]:
        return failures[0]
    if not conditions:
        return "its controller has said nothing of it: does chaos-controller-manager run?"
    if conditions.get("Selected") != "True":
        return "it selects no pod that runs and that Chaos Mesh may touch"
    return f"it says {', '.join(f'{key}={value}' for key, value in sorted(conditions.items()))}"


def pods_left(found: Mapping[str, Json]) -> Sequence[str]:
    """Names of the pods from which an object is not taken back yet."""
    left = [one for one in _records(found) if one.get("phase") != "Not Injected"]
    return [str(one.get("id")).rpartition("/")[2] for one in left]


def has_ended(pod: Mapping[str, Json]) -> bool:
    """Whether nothing of a pod runs any more."""
    return mapping(pod, "status").get("phase") in ("Succeeded", "Failed")


def _conditions(found: Mapping[str, Json]) -> Mapping[str, str]:
    told = mappings(found, "status", "conditions")
    return {str(one.get("type")): str(one.get("status")) for one in told}


def _records(found: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    return mappings(found, "status", "experiment", "containerRecords")


def _failure(record: Mapping[str, Json]) -> str:
    """The last failure of one pod, if the last thing that happened there was one."""
    events = mappings(record, "events")
    if not events or events[-1].get("type") != "Failed":
        return ""
    return f"{record.get('id')}: {' '.join(str(events[-1].get('message')).split())[:300]}"
