"""A fleet, a fault and a check that come with another package than chaoslab.

fleet: {kind: nice, niceness: 10}       local processes of low priority
fault: toy.nap                          nodes that are stopped for a while
check: toy_rounds, min_rounds: 20       so many rounds were merged
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from chaoslab.checks.base import Finding, Outcome
from chaoslab.core.events import Kind
from chaoslab.core.payloads import NodeProbed, Status
from chaoslab.faults.base import BaseFault, Layer
from chaoslab.faults.evidence.base import EvidenceCode
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.fleet.base import Ability, Fleet, Node, NodeSpec
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.settings import Local
from chaoslab.fleet.protocols import Pausable, able
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.plan.model import Injection
from chaoslab.record.history import History


class NiceFleet(LocalFleet):
    """Local processes that leave the cores to others."""

    kind = "nice"
    niceness = 0

    def enlist(self, spec: NodeSpec) -> Node:
        """Start it by `nice`, which becomes the node's own program."""
        command = ("nice", "-n", str(self.niceness), *spec.command)
        return super().enlist(replace(spec, command=command))


@dataclass(frozen=True, slots=True, kw_only=True)
class NiceFleets:
    """Makes the fleet of each run of a plan."""

    niceness: int
    kind: ClassVar[str] = NiceFleet.kind

    @property
    def abilities(self) -> frozenset[Ability]:
        """Those of its class on this machine."""
        return NiceFleet.abilities

    def __call__(self, run_directory: Path, clock: Any, **given: Any) -> Fleet:
        """One fleet."""
        fleet = NiceFleet(run_directory, clock, **given)
        fleet.niceness = self.niceness
        return fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Nice(Local):
    """Processes of this machine, of low priority."""

    niceness: int = 5
    """From 0 to 19: how much they leave to others."""

    def factory(self, request: FleetRequest) -> FleetFactory:  # noqa: ARG002 - the protocol's
        """Makes fleets of this niceness."""
        return NiceFleets(niceness=self.niceness)


class NapCode(EvidenceCode):
    """Why the evidence of a nap has its status, where no code of chaoslab says it."""

    WOKE_EARLY = "toy.woke_early", Status.WEAK
    """It was stopped, and ran again before the fault ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nap(BaseFault):
    """Stop nodes for a while; they do not know it."""

    name = "toy.nap"
    summary = "stop the process for a while"
    layer = Layer.PROCESS
    imitates = "a machine that stalls"
    proof = "process state T, probed from outside"
    needs = frozenset({Ability.PAUSE})
    takes_away = True
    duration_key = "napped_s"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Stop every target."""
        able(fleet, Pausable).pause(*injection.targets)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """Let every target go on; safe to repeat."""
        for name in injection.targets:
            able(fleet, Pausable).resume(name)

    def look(self, window: EvidenceWindow) -> Found:
        """What the probes of one target saw."""
        probes = window.of(NodeProbed)
        stopped = [event for event in probes if event.payload.state == "T"]
        if not stopped:
            return no_evidence(Code.NOT_STOPPED, "was never seen stopped")
        napped_s = stopped[-1].time_s - stopped[0].time_s
        is_awake = probes[-1] is not stopped[-1]
        return Found(
            code=NapCode.WOKE_EARLY if is_awake else window.lasted(napped_s),
            text=f"was stopped for {napped_s:.1f} s",
            measured={"napped_s": napped_s},
            proof=(stopped[0], stopped[-1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """So many rounds were merged."""

    name: ClassVar[str] = "toy_rounds"
    summary: ClassVar[str] = "enough rounds were merged"
    min_rounds: int = 10

    def judge(self, history: History) -> Finding:
        """Count them. A record that breaks off says nothing of what came after it."""
        merged = len(history.of(Kind.ROUND_MERGED))
        is_over = history.last(Kind.SYNCER_FINAL) is not None
        too_few = Outcome.FAIL if is_over else Outcome.UNKNOWN
        return Finding(
            check=self.name,
            outcome=Outcome.PASS if merged >= self.min_rounds else too_few,
            reason=f"{merged} rounds were merged",
            observed=merged,
            bound=self.min_rounds,
            samples=merged,
        )
