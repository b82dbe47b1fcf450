"""Faults that only a cluster can do: to the pod of a node, or to its Job.

All are proved by two witnesses: the end of the node, and what the cluster itself reports of pod and
Job. Each is another death: a forced deletion leaves no pod and no exit status, an eviction a
reason, a new Job another unique id; a signal inside (`process.kill`) leaves an exit code.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import EngineReported, NodeExited
from chaoslab.core.units import delay
from chaoslab.faults.actions import EndsProcess, HitsTogether
from chaoslab.faults.base import Layer
from chaoslab.faults.container import reported, reported_of_life
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.faults.process import death
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.cluster_protocols import HasJobs, HasPods
from chaoslab.fleet.protocols import able
from chaoslab.plan.model import Injection

EVICTED: Final = "EvictionByEvictionAPI"
"""The cluster's word for why it takes away a pod that is evicted."""


class _ByCluster(HitsTogether, EndsProcess):
    """A fault that the cluster carries out on all its targets at once."""

    __slots__ = ()

    layer = Layer.CONTAINER
    needs = frozenset({Ability.KILL, Ability.POD})
    duration_key = "down_s"

    @property
    @abstractmethod
    def action(self) -> str:
        """Report expected from the cluster."""

    @property
    @abstractmethod
    def cause(self) -> str:
        """The same in a sentence: the node ended when …"""

    def requested(self) -> Mapping[str, Json]:
        return {"reported": self.action}

    def look(self, window: EvidenceWindow) -> Found:
        """The end of the node, and the cluster's word for its cause."""
        exited, told = window.exited, self.told(window)
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            return no_evidence(Code.STILL_RUNNING, f"did not end when {self.cause}")
        if told is None:
            text = f"ended, and the cluster does not report that {self.cause}"
            return no_evidence(Code.NOT_APPLIED, text)
        return self.look_further(window, exited, told)

    def told(self, window: EvidenceWindow) -> Event[EngineReported] | None:
        """Report of the cluster."""
        return reported(window, self.action)

    @abstractmethod
    def look_further(
        self, window: EvidenceWindow, exited: Event[NodeExited], told: Event[EngineReported]
    ) -> Found:
        """Findings about a target that ended, with the cluster's report."""


class Removal(StrEnum):
    """Way in which a cluster removes a pod."""

    FORCE = "force"
    EVICT = "evict"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDelete(_ByCluster):
    """Take the node's pod away; heal by starting its next incarnation in another one."""

    how: Removal = Removal.FORCE
    """force: deleted without grace; evict: SIGTERM, and SIGKILL after the pod's grace."""

    name = "pod.delete"
    summary = "the pod is deleted by force, or evicted with grace"
    imitates = "kubectl delete --force, a machine that the cluster gave up; evicted: a drain, an \
upgrade of the cluster, a node pool that shrinks"
    proof = "the pod is gone or has DisruptionTarget, by the cluster's report; the node ended"

    @property
    def action(self) -> str:
        return "gone" if self.how is Removal.FORCE else "evict"

    @property
    def cause(self) -> str:
        return f"its pod was {'deleted' if self.how is Removal.FORCE else 'evicted'}"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Delete the pods of all targets at once, or ask for their eviction."""
        cluster = able(fleet, HasPods)
        take = cluster.delete_pod if self.how is Removal.FORCE else cluster.evict_pod
        take(*injection.targets)

    def told(self, window: EvidenceWindow) -> Event[EngineReported] | None:
        """Report of the cluster about the pod that the fault met."""
        return reported_of_life(window, "gone") if self.how is Removal.FORCE else evicted(window)

    def look_further(
        self, window: EvidenceWindow, exited: Event[NodeExited], told: Event[EngineReported]
    ) -> Found:
        """Its end and the length of its absence: to leave in order is part of an outage."""
        found = death(window, exited)
        why = f" ({told.payload.reason})" if told.payload.reason else ""
        away_s = window.down_s(exited) + max(0.0, exited.time_s - told.time_s)
        return Found(
            code=window.was_away(away_s),
            text=f"ended when {self.cause}, by the cluster's word{why}, {away_s:.1f} s before its "
            f"return; {found.text}",
            measured={**found.measured, "away_s": away_s},
            proof=(told, *found.proof),
        )


def evicted(window: EvidenceWindow) -> Event[EngineReported] | None:
    """That the pod which the fault met was evicted as by a drain, and not preempted, say."""
    told = reported_of_life(window, "evict")
    return told if told is not None and told.payload.reason == EVICTED else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRestart(_ByCluster):
    """Delete the node's Job, and create the next one at once.

    The heal starts a target that died again meanwhile.
    """

    name = "job.restart"
    summary = "the Job is deleted, with its pod, and another one is created"
    imitates = "kubectl replace --force, a JobSet that recreates its Jobs"
    proof = "the Job is gone and the next one has another unique id, by the cluster's report"
    comes_back = True
    duration_key = ""
    action = "job_gone"
    cause = "its Job was deleted"
    needs = frozenset({Ability.KILL, Ability.JOB})

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Delete the Jobs of all targets, then create theirs anew."""
        able(fleet, HasJobs).delete_job(*injection.targets)
        for name in injection.targets:
            fleet.restart(name)

    def requested(self) -> Mapping[str, Json]:
        return {"reported": self.action, "restarts": 1}

    def look_further(
        self, window: EvidenceWindow, exited: Event[NodeExited], told: Event[EngineReported]
    ) -> Found:
        """The next Job, and whether the node ran in it."""
        restarted, new = window.restarted, reported(window, "job")
        if restarted is None or restarted.seq < exited.seq:
            text = "ended with its Job and was not started again before the fault ended"
            return no_evidence(Code.NOT_RESTARTED, text)
        if new is None or new.payload.uid == told.payload.uid:
            return no_evidence(Code.NO_EFFECT, "came back in the same Job", uid=told.payload.uid)
        down_s = restarted.time_s - exited.time_s
        return Found(
            code=Code.AS_ASKED,
            text=f"ended when {self.cause}, by the cluster's word, and started in another one "
            f"{delay(down_s, '{} later')}",
            measured={
                "restarts": 1, "down_s": down_s,
                "uid": new.payload.uid, "uid_before": told.payload.uid,
            },
            proof=(told, new, exited, restarted),
        )  # fmt: skip
