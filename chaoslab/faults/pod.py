"""Faults that only a cluster can do: delete the pod of a node, or evict it.

Both are proved by two witnesses: the end of the node, and what the cluster itself reports of the
pod. Deleting, evicting and a signal inside (`process.kill`) are three deaths: the first leaves no
pod and no exit status, the second a reason, the third an exit code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.events import Json
from chaoslab.faults.actions import EndsProcess, HitsTogether
from chaoslab.faults.base import Layer
from chaoslab.faults.container import reported
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.faults.process import death
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.protocols import HasPods, able
from chaoslab.plan.model import Injection


class _TakesPod(HitsTogether, EndsProcess):
    """A fault that takes the pods of its targets away, all at once."""

    __slots__ = ()

    layer = Layer.CONTAINER
    needs = frozenset({Ability.KILL, Ability.POD})
    duration_key = "down_s"
    action: ClassVar[str]
    """What the cluster is to report of the pod."""
    verb: ClassVar[str]
    """The same in a sentence: was …"""

    def requested(self) -> Mapping[str, Json]:
        return {"reported": self.action}

    def look(self, window: EvidenceWindow) -> Found:
        """The end of the node, and the cluster's word for its cause.

        What an outage lasts counts from that word on: to leave in order is part of it.
        """
        exited, told = window.exited, reported(window, self.action)
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            return no_evidence(Code.STILL_RUNNING, f"did not end when its pod was {self.verb}")
        if told is None:
            text = f"ended, and the cluster does not report that its pod was {self.verb}"
            return no_evidence(Code.NOT_APPLIED, text)
        found = death(window, exited)
        why = f" ({told.payload.reason})" if told.payload.reason else ""
        away_s = window.down_s(exited) + max(0.0, exited.time_s - told.time_s)
        return Found(
            code=window.lasted(away_s),
            text=f"had its pod {self.verb}, by the cluster's word{why}, {away_s:.1f} s before its "
            f"return; {found.text}",
            measured={**found.measured, "away_s": away_s},
            proof=(told, *found.proof),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDelete(_TakesPod):
    """Delete the node's pod by force; heal by starting its next incarnation in another one."""

    name = "pod.delete"
    summary = "the pod is deleted by force, without grace"
    imitates = "kubectl delete --force, a machine that the cluster gave up, a preempted pod"
    proof = "the pod is gone, by the cluster's report; the syncer dropped the member"
    action = "gone"
    verb = "deleted"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Delete the pods of all targets at once."""
        able(fleet, HasPods).delete_pod(*injection.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvict(_TakesPod):
    """Evict the node's pod, as the drain of a machine does; heal by its next incarnation."""

    name = "pod.evict"
    summary = "the pod is evicted: SIGTERM, and SIGKILL after its grace"
    imitates = "the drain of a machine, an upgrade of the cluster, a node pool that shrinks"
    proof = "DisruptionTarget, by the cluster's report; the node ended"
    action = "evict"
    verb = "evicted"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Ask for the eviction of all targets at once."""
        able(fleet, HasPods).evict_pod(*injection.targets)
