"""Faults to break a fake run with; each does and proves just what the tests of the run need."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.events import Kind
from chaoslab.faults.base import Layer
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.fleet.base import Ability, Fleet, Role
from chaoslab.plan.model import Injection
from chaoslab.record.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeKill:
    """Kills; proved by the exit; healed by a restart unless `heals` is False."""

    name: ClassVar[str] = "process.kill"
    summary: ClassVar[str] = "kill"
    layer: ClassVar[Layer] = Layer.PROCESS
    imitates: ClassVar[str] = "a crash"
    proof: ClassVar[str] = "the exit"
    needs: ClassVar[frozenset[Ability]] = frozenset({Ability.KILL})
    takes_away: ClassVar[bool] = True
    brings_in: ClassVar[bool] = False
    roles: ClassVar[frozenset[Role]] = frozenset({Role.LEARNER})

    beat_offsets: tuple[float, ...] = ()
    heals: bool = True

    def steps(self) -> tuple[float, ...]:
        return self.beat_offsets

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        for name in injection.targets:
            fleet.kill(name)

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        for name in injection.targets:
            fleet.signal(name, signal=f"SIGUSR{step_index + 1}")

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        if self.heals:
            for name in injection.targets:
                fleet.restart(name)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        return tuple(self._proof_of(name, injection, history) for name in injection.targets)

    def _proof_of(self, name: str, injection: Injection, history: History) -> Evidence:
        began = next(
            event.seq
            for event in history.of(Kind.FAULT_INJECTING)
            if event.payload.injection == injection.id
        )
        exits = [
            event.seq
            for event in history.of(Kind.NODE_EXITED)
            if event.seq > began and event.payload.node == name
        ]
        return Evidence(
            target=name,
            code=Code.AS_ASKED if exits else Code.STILL_RUNNING,
            requested={"signal": "SIGKILL"},
            measured={"exits": len(exits)},
            text=f"{name} {'exited' if exits else 'did not exit'}",
            proof=tuple(exits),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FakePause(FakeKill):
    """Pauses instead; proved by the state T."""

    name: ClassVar[str] = "process.pause"

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        for name in injection.targets:
            fleet.pause(name)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        for name in injection.targets:
            fleet.resume(name)

    def evidence(self, injection: Injection, history: History) -> tuple[Evidence, ...]:
        return tuple(_pause_proofs(injection, history))


def _pause_proofs(injection: Injection, history: History) -> Iterator[Evidence]:
    for name in injection.targets:
        stopped = [
            event.seq
            for event in history.of(Kind.NODE_PROBED)
            if event.payload.node == name and event.payload.state == "T"
        ]
        yield Evidence(
            target=name,
            code=Code.AS_ASKED if len(stopped) > 1 else Code.NOT_STOPPED,
            requested={"for_s": injection.for_s},
            measured={"probes": len(stopped)},
            text=f"{name} was seen stopped {len(stopped)} times",
            proof=tuple(stopped),
        )
