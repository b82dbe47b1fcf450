"""Fault on the machine of a cluster that a learner's pod runs on: drain it.

    all_hit ─► the targets and what of the run is beside them ─► limits ─► inject, on all of these

Only at that moment is it known which nodes are beside each other. A machine on which the syncer or
the evaluator runs is left alone. What the cluster itself says of the machine is the witness: a
taint that its controllers set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import EngineReported, NodeExited
from chaoslab.core.units import Duration, delay
from chaoslab.faults.actions import AsksToLeave, start_all
from chaoslab.faults.base import Layer
from chaoslab.faults.container import reported
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.faults.pod import evicted
from chaoslab.faults.process import death
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.fleet.cluster_protocols import HasMachines
from chaoslab.fleet.protocols import able
from chaoslab.plan.model import Injection


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrain(AsksToLeave):
    """Cordon the machine and evict the run's pods on it; each node comes back on another one.

    The heal lets the machine take pods again, and starts a node that found no other.
    """

    grace_s: Duration = 10.0
    """How long pods have to leave by themselves. A node starts again as soon as its pod has left,
    or is made to."""

    name = "node.drain"
    layer = Layer.MACHINE
    summary = "the machine takes no more pods, and the run's pods on it are evicted"
    imitates = "kubectl drain for an upgrade or a repair; pods of others stay"
    proof = "the cluster's taint and DisruptionTarget; the node ended, and came back elsewhere"
    needs = frozenset({Ability.KILL, Ability.DRAIN})
    look_s: ClassVar[float] = 1.0
    comes_back = True
    duration_key = "cordoned_s"

    def __post_init__(self) -> None:
        self.require_grace()

    def all_hit(self, injection: Injection, fleet: Fleet) -> tuple[str, ...]:
        """The targets, and the learners beside them. FleetError if another node is there."""
        hit = able(fleet, HasMachines).beside(*injection.targets)
        if others := [name for name in hit if fleet.nodes[name].role is not Role.LEARNER]:
            raise FleetError(
                f"{', '.join(others)} is on the same machine: keep learners apart from it by "
                "fleet.pod and fleet.other_pods, such as a nodeSelector"
            )
        return tuple(hit)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Cordon the machines, and have the pods evicted."""
        able(fleet, HasMachines).drain(injection.id, *injection.targets)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Uncordon the machines, then start every target that is not running."""
        able(fleet, HasMachines).uncordon(injection.id)
        start_all(injection, fleet)

    def requested(self) -> Mapping[str, Json]:
        return {"reported": "evict"}

    def look(self, window: EvidenceWindow) -> Found:
        """The end of the node, and the cluster's words for its cause and for its next machine."""
        exited, told = window.exited, evicted(window)
        cordoned = reported(window, "cordon")
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            return no_evidence(Code.STILL_RUNNING, "did not end when its machine was drained")
        if told is None:
            text = "ended, and the cluster does not report that its pod was evicted"
            return no_evidence(Code.NOT_APPLIED, text)
        if cordoned is None:
            text = "was evicted, and the cluster does not report that its machine was cordoned"
            return no_evidence(Code.NOT_APPLIED, text)
        return self._drained(window, exited, told, cordoned)

    def _drained(
        self,
        window: EvidenceWindow,
        exited: Event[NodeExited],
        told: Event[EngineReported],
        cordoned: Event[EngineReported],
    ) -> Found:
        freed, placed = reported(window, "uncordon"), _placed(window)
        cordoned_s = (freed.time_s if freed else window.end_s) - cordoned.time_s
        machine, found = cordoned.payload.machine, death(window, exited)
        code, text = window.lasted(cordoned_s), f"was evicted ({told.payload.reason}, by the "
        text += f"cluster's word) from {machine}, which took no pods for {cordoned_s:.1f} s"
        if placed is None:
            text += f"; {found.text}, and found no other machine"
        else:
            text += f", and started on {placed.payload.machine} "
            text += delay(placed.time_s - told.time_s, "{} later")
        if placed is not None and placed.payload.machine == machine:
            code = Code.NOT_THROUGHOUT
        return Found(
            code=code,
            text=text,
            measured={
                **found.measured,
                "cordoned_s": cordoned_s,
                "machine": machine,
                "next_machine": placed.payload.machine if placed else None,
            },
            proof=(cordoned, told, exited, placed),
        )


def _placed(window: EvidenceWindow) -> Event[EngineReported] | None:
    """Machine of its next incarnation, by the cluster's report."""
    return window.first(
        EngineReported,
        lambda e: e.payload.action == "start" and e.payload.incarnation > (window.incarnation or 0),
    )
