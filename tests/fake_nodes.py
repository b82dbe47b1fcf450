"""What the nodes of a fake fleet are and what they print, with every key that `Kind` promises."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaoslab.core.events import Json
from chaoslab.fleet.base import NodeSpec

TOKENS_PER_STEP = 1024
STEP_S = 0.1
STEPS_PER_SAMPLE = 5
TOKENS_PER_ROUND = STEPS_PER_SAMPLE * TOKENS_PER_STEP


@dataclass(kw_only=True)
class Troubles:
    """What goes wrong in a fake run; by default nothing does."""

    crash_at_start: frozenset[str] = frozenset()
    """Exit with code 1 soon after the start, every time."""
    mute: frozenset[str] = frozenset()
    """Run, but never join."""
    refuses: frozenset[tuple[str, str]] = frozenset()
    """(verb, node) that raises FleetError."""
    immortal: frozenset[str] = frozenset()
    """Signals that should end the node do nothing, except from leaving the fleet."""
    not_back: frozenset[str] = frozenset()
    """A second incarnation runs but never joins."""
    starts_late_s: float = 0.0
    """From the request for a further incarnation until it runs, as in a cluster."""
    lingering: frozenset[str] = frozenset()
    """Does not exit when training ends."""
    round_s: Callable[[int], float] = lambda _number: 0.5
    """Time from merged round `number` to the next."""
    evaluator_exit: int = 0
    crowded_below_s: float = 0.0
    """Whoever keeps a shorter step time than this loses two periods in every report."""
    unpaced: frozenset[str] = frozenset()
    """Do not know the hook `pace`."""


@dataclass(kw_only=True)
class FakeNode:
    """One life of a node."""

    spec: NodeSpec
    incarnation: int
    alive: bool = True
    held: bool = False
    """Paused or wedged."""
    is_ending: bool = False
    """Others were asked to end it."""
    member: bool = False
    epoch: int = 0
    step: int = 0
    period_s: float | None = None
    """Step time that it was told; it goes on at its own all the same."""

    @property
    def works(self) -> bool:
        """Whether it trains."""
        return self.alive and not self.held

    @property
    def pid(self) -> int:
        """Different for every life of every node."""
        return 1000 * self.incarnation + sum(self.spec.name.encode()) % 1000

    @property
    def who(self) -> dict[str, Json]:
        """The head of what a learner says."""
        return {"learner": self.spec.name, "incarnation": self.incarnation}

    def started(self, now_s: float) -> dict[str, Json]:
        """NODE_STARTED."""
        return {
            "node": self.spec.name,
            "role": self.spec.role.value,
            "incarnation": self.incarnation,
            "pid": self.pid,
            "start_ticks": round(100 * now_s),
            "boot_id": "a boot",
            "namespaces": "pid:[1]",
            "labels": dict(self.spec.labels),
        }

    def exited(
        self, *, signal: str | None, code: int | None, sent: Sequence[str]
    ) -> dict[str, Json]:
        """NODE_EXITED."""
        return {
            "node": self.spec.name,
            "incarnation": self.incarnation,
            "pid": self.pid,
            "exit_code": code,
            "signal": signal,
            "refused_lines": 0,
            "sent": list(sent),
        }

    def contribution(self) -> dict[str, Json]:
        """One of the contributors of ROUND_MERGED."""
        return {
            **self.who,
            "epoch": self.epoch,
            "step": self.step,
            "c_steps": STEPS_PER_SAMPLE,
            "c_tokens": TOKENS_PER_ROUND,
            "weight": float(TOKENS_PER_ROUND * TOKENS_PER_STEP),
            "tokens_from": 0,
            "tokens_to": TOKENS_PER_ROUND,
        }

    def sample(self, crowded_below_s: float, trained: int) -> dict[str, Json]:
        """LEARNER_STEP. `trained`: steps of the training as a whole, of which the loss comes."""
        is_crowded = self.period_s is not None and self.period_s < crowded_below_s
        return {
            **self.who,
            "epoch": self.epoch,
            "step": self.step,
            "steps": STEPS_PER_SAMPLE,
            "step_s": crowded_below_s if is_crowded else STEP_S,
            "period_s": self.period_s,
            "overruns": 2 if is_crowded else 0,
            "loss": 5.0 / (1 + trained / 50),
            "tokens": self.step * TOKENS_PER_STEP,
            "data_position": self.step,
        }

    def account(self) -> dict[str, Json]:
        """LEARNER_FINAL."""
        return {
            **self.who,
            "step": self.step,
            "tokens": self.step * TOKENS_PER_STEP,
            "versions": {},
            "digests": {},
            "committed": {},
            "discarded": {},
            "in_flight": {},
        }
