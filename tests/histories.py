"""Histories of runs that never ran, written as stories, for whoever reads histories.

    Story().baseline().kill("learner-1").train(6).heal().train(12).end().history()

A story in which nothing goes wrong passes every check. Then something goes wrong: a verb of the
story (`stall`, `mute`, `strike`, …), or a line changed behind its back (`altered`, `without`).
Time is virtual and passes only in `train` and `stall`, in multiples of a quarter of a second, or of
the tick of its `Pace`.
"""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.history import History
from tests.model_training import (
    FRAGMENTS,
    SYNCER,
    Learner,
    ModelTraining,
    Pace,
    by_fragment,
    digests,
)

__all__ = ["FRAGMENTS", "Story", "again", "half_killed"]


@dataclass(kw_only=True)
class Opened:
    """One open injection of a story."""

    data: dict[str, Json]
    targets: tuple[str, ...]
    takes_away: bool
    brings_in: bool
    holds: bool = False
    exits: list[int] = field(default_factory=list)


class Story(ModelTraining):
    """Write a run by telling what happens. Every verb returns the story."""

    def __init__(
        self,
        *,
        learners: int = 4,
        reserve: Sequence[str] = (),
        rejoin_s: float = 1.0,
        twin: "Story | None" = None,
        is_twin: bool = False,
        pace: Pace | None = None,
        syncer_starts_s: float = 0.0,
    ) -> None:
        super().__init__(learners, rejoin_s, pace or Pace())
        self._syncer_starts_s = syncer_starts_s
        self.twin, self.is_twin = twin, is_twin
        self.reserve = tuple(reserve)
        self._injections = 0
        self._open: list[Opened] = []
        self._shaped: list[tuple[str, str]] = []

    # ---------------------------------------------------------------- how a run goes

    def baseline(
        self, for_s: float = 5.0, *, is_steady: bool = True, is_paced: bool = False
    ) -> Self:
        """Start everybody, train, measure; if it is paced, all keep a step time from the start."""
        self.start()
        if is_paced:
            self.period_s = self.pace.step_s
            self.say(Kind.PACE_SET, step_s=self.period_s, measured_s={})
        return self.train(for_s).measure(is_steady=is_steady)

    def measure(self, *, is_steady: bool = True) -> Self:
        """The baseline ends here, and is what was seen since the start."""
        merged_s = [event.time_s for event in self.events if event.kind is Kind.ROUND_MERGED]
        usual_s = self.pace.round_s
        length_s = max(self.now_s - merged_s[0], usual_s) if merged_s else usual_s
        self.say(
            Kind.BASELINE_MEASURED,
            is_steady=is_steady,
            reason="the rate of rounds varied by 3%" if is_steady else "it varied by 80%",
            gap_s_median=usual_s,
            gap_s_max=usual_s,
            tokens_per_s=self.committed / length_s,
            variation=0.03 if is_steady else 0.8,
            step_s=dict.fromkeys(self.learners, self.pace.step_s),
            step_s_median=dict.fromkeys(self.learners, self.pace.step_s),
            step_variation=dict.fromkeys(self.learners, 0.01),
        )
        return self.enter("inject")

    def start(self) -> Self:
        """The first lines of a run: everybody starts and joins."""
        self.say(
            Kind.RUN_STARTED,
            plan="a story",
            seed=7,
            fleet="none",
            algorithm="decoupled",
            learners=list(self.learners),
            reserve=list(self.reserve),
            version="0",
            is_twin=self.is_twin,
        )
        self.enter("start")
        self._node_started(SYNCER, "syncer", 1)
        self.now_s += self._syncer_starts_s
        ready: dict[str, Json] = {"rounds": 0, "committed_tokens": 0.0, "is_recovered": False}
        self.say(Kind.SYNCER_READY, SYNCER, address="here", **ready)
        for learner in self.learners.values():
            self._node_started(learner.name, "learner", 1)
            self.join(learner, "initial")
        return self.enter("baseline")

    def train(self, for_s: float) -> Self:
        """Let time go by, with everything that a healthy training does meanwhile."""
        return self._ticks(for_s, merges=True)

    def stall(self, for_s: float) -> Self:
        """Let time go by in which learners step, but nothing is merged."""
        return self._ticks(for_s, merges=False)

    def train_on_full_machine(self, for_s: float) -> Self:
        """The same on a machine of two cores of which none is idle."""
        for _ in range(round(for_s / self.pace.tick_s)):
            self.tick(merges=True)
            self.say_full_machine()
        return self

    def say_full_machine(self) -> Self:
        """The harness saw that no core of its machine was idle."""
        held: dict[str, Json] = {"others_cores": 0.0, "stolen_cores": 0.0, "idle_cores": 0.0}
        return self.say(
            Kind.MACHINE_SAMPLED, window_s=1.0, cores=2, load_1m=4.0, own_cores=2.0, **held
        )

    def settle(self) -> Self:
        """The harness saw that everything has converged again."""
        return self.enter("settle").say(Kind.RUN_SETTLED, is_settled=True, pending=[])

    def end(self, *, losses: Sequence[tuple[int, float]] = (), outcome: str = "completed") -> Self:
        """Training ends by its own rule: final accounts, exits, evaluation, the end of the run."""
        self.enter("stop").say(Kind.SYNCER_STOP_RULE_MET, SYNCER, reason="its stop rule is met")
        self.stop_training()
        for learner in self.learners.values():
            if learner.is_up and learner.is_member:
                self.finish_learner(learner)
                self.exit(learner.name, code=0)
        self.finish_syncer()
        self.exit(SYNCER, code=0)
        for learner in self.learners.values():
            if learner.is_alive:
                self.exit(learner.name, signal="SIGKILL", sent=["SIGKILL"])
        for tokens, loss in losses:
            measured: dict[str, Json] = {"committed_tokens": tokens, "round": 1, "loss": loss}
            self.say(Kind.EVALUATION_MEASURED, "evaluator", **measured)
        return self.finish(outcome)

    def finish(self, outcome: str = "completed", reason: str = "") -> Self:
        """The last line of a run, without anything before it."""
        return self.say(Kind.RUN_FINISHED, outcome=outcome, reason=reason)

    # ---------------------------------------------------------------- faults and their ends

    def kill(self, *names: str, for_s: float | None = 6.0, spec: str = "die") -> Self:
        """An injection kills them; the syncer sees the sockets close."""
        opened = self._inject("process.kill", spec, names, for_s)
        for name in names:
            self.exit(name, signal="SIGKILL", sent=["SIGKILL"])
            opened.exits.append(len(self.events) - 1)
        return self.say(Kind.FAULT_INJECTED, **opened.data)

    def pause(self, *names: str, for_s: float | None = 6.0, spec: str = "stop") -> Self:
        """An injection stops them; the syncer suspects them after two seconds, drops after six."""
        opened = self._inject("process.pause", spec, names, for_s)
        opened.holds = True
        for name in names:
            self.learners[name].is_held, self.learners[name].held_s = True, 0.0
        return self.say(Kind.FAULT_INJECTED, **opened.data)

    def cut(self, *names: str, for_s: float | None = 6.0, redials: bool = True) -> Self:
        """An injection cuts their links: they step on, and the syncer hears nothing of them."""
        opened = self._inject("network.partition", "cut", names, for_s)
        opened.holds = True
        for name in names:
            learner = self.learners[name]
            learner.is_cut, learner.held_s, learner.redials = True, 0.0, redials
            self.shape(name, opened, "blackhole")
        return self.say(Kind.FAULT_INJECTED, **opened.data)

    def reset(self, *names: str, for_s: float = 6.0) -> Self:
        """An injection breaks their connections off; they dial again at once."""
        opened = self._inject("network.reset", "storm", names, for_s)
        opened.holds = True
        for name in names:
            self.shape(name, opened, "reset")
        return self.say(Kind.FAULT_INJECTED, **opened.data)

    def bring_in(self, *names: str, for_s: float | None = None) -> Self:
        """An injection starts learners of the reserve; `heal` lets them leave in order."""
        opened = self._inject("control.scale_up", "grow", names, for_s, brings_in=True)
        for name in names:
            joins_s, before = self.now_s + self.rejoin_s, self.learners.get(name)
            life = before.incarnation + 1 if before else 1
            self.learners[name] = Learner(name=name, incarnation=life, joins_s=joins_s)
            self._node_started(name, "learner", life)
        return self.say(Kind.FAULT_INJECTED, **opened.data)

    def lose_syncer(self, *, for_s: float | None = 6.0, spec: str = "crash") -> Self:
        """An injection kills the syncer; `stall` lets the learners go on stepping."""
        opened = self._inject("process.kill", spec, (SYNCER,), for_s)
        self.exit(SYNCER, signal="SIGKILL", sent=["SIGKILL"])
        opened.exits.append(len(self.events) - 1)
        self.published.clear()
        return self.say(Kind.FAULT_INJECTED, **opened.data)

    def regain_syncer(
        self, *, without: Sequence[str] = (), starts_s: float = 0.0, **other: Json
    ) -> Self:
        """It is started again on its disk, and all but those `without` join again at once.

        `other` is what it says of itself that is not as it was.
        """
        opened = self._open.pop()
        self._evidence(opened, "proved")
        self.say(Kind.FAULT_HEALING, **opened.data)
        self._node_started(SYNCER, "syncer", 2)
        self.stall(starts_s)
        held: dict[str, Json] = {
            "address": "here",
            "rounds": sum(self.versions),
            "committed_tokens": self.committed,
            "is_recovered": True,
            "versions": by_fragment(self.versions),
            "digests": digests(self.versions),
            "momentum_digests": digests(self.versions, "v"),
        }
        self.say(Kind.SYNCER_READY, SYNCER, **{**held, **other})
        for name, learner in self.learners.items():
            learner.is_member = False
            if name not in without:
                self.say(Kind.LEARNER_FENCED, name, **learner.whose, reason="unavailable")
                self.join(learner, "resumed")
        self.published.extend(enumerate(self.versions))
        return self.say(Kind.FAULT_HEALED, **opened.data)

    def leave(self, name: str) -> Self:
        """Somebody asked it to leave; it does so in order."""
        learner = self.learners[name]
        self.say(Kind.LEARNER_LEFT, name, **learner.who, step=learner.step, reason="asked")
        self.drop(name, "said_goodbye")
        return self.exit(name, code=0, sent=["SIGTERM"])

    def shape(self, link: str, opened: "Opened", effect: str) -> Self:
        """An effect is put on a link; `heal` takes it away."""
        self._shaped.append((link, str(opened.data["injection"])))
        return self.say(
            Kind.LINK_SHAPED, link=link, injection=opened.data["injection"], direction="both",
            effect=effect, settings={},
        )  # fmt: skip

    def touch(self, *names: str, for_s: float = 6.0, fault: str = "compute.steal") -> Self:
        """An injection that takes nobody away, and of which nobody notices anything."""
        opened = self._inject(fault, "touch", names, for_s, takes_away=False)
        return self.say(Kind.FAULT_INJECTED, **opened.data)

    def heal(
        self, *, status: str = "proved", idle: str = "", restarts: bool = True, spec: str = ""
    ) -> Self:
        """End the oldest open injection (of `spec`): evidence, then the victims are back.

        With `idle` there was nothing to break, and the evidence says when.
        """
        opened = next(one for one in self._open if spec in ("", one.data["spec"]))
        self._open.remove(opened)
        self._evidence(opened, "failed" if idle else status, idle)
        self.say(Kind.FAULT_HEALING, **opened.data)
        for link, injection in [one for one in self._shaped if one[1] == opened.data["injection"]]:
            self._shaped.remove((link, injection))
            self.say(Kind.LINK_CLEARED, link=link, injection=injection)
        for name in opened.targets if restarts and opened.takes_away else ():
            self._release(name) if opened.holds else self.restart(name)
        self.say(Kind.FAULT_HEALED, **opened.data)
        for name in opened.targets if opened.brings_in else ():
            self.leave(name)
        return self

    def prove(self, *, status: str = "proved") -> Self:
        """Evidence of the open injections, without healing them."""
        for opened in self._open:
            self._evidence(opened, status)
        return self

    def skip(
        self, *names: str, reason: str = "its trigger did not come", obstacle: str = ""
    ) -> Self:
        """An injection that was never begun; records of old do not say by which obstacle."""
        which: dict[str, Json] = {"injection": f"injection-{self._injections}", "spec": "late"}
        which |= {"obstacle": obstacle} if obstacle else {}
        self._injections += 1
        return self.say(
            Kind.FAULT_SKIPPED, **which, fault="process.kill", targets=list(names), reason=reason
        )

    def restart(self, name: str) -> Self:
        """Start the next incarnation; it joins after `rejoin_s`."""
        old = self.learners[name]
        life = old.incarnation + 1
        self.learners[name] = Learner(
            name=name, incarnation=life, is_mute=old.is_mute, joins_s=self.now_s + self.rejoin_s,
            position=old.position,
        )  # fmt: skip
        return self._node_started(name, "learner", life)

    # ---------------------------------------------------------------- trouble

    def strike(self, name: str, *, signal: str | None = "SIGKILL") -> Self:
        """Somebody else ends the process; no injection asked for it."""
        return self.exit(name, signal=signal)

    def exit(
        self,
        name: str,
        *,
        signal: str | None = None,
        code: int | None = None,
        sent: Sequence[str] = (),
        **facts: Json,
    ) -> Self:
        """A process ends; `sent` is what the harness had sent it."""
        learner = self.learners.get(name)
        if learner:
            learner.is_alive, learner.joins_s = False, None
        return self.say(
            Kind.NODE_EXITED,
            name,
            node=name,
            incarnation=learner.incarnation if learner else 1,
            pid=1,
            exit_code=None if signal else code,
            signal=signal,
            refused_lines=0,
            sent=list(sent),
            **facts,
        )

    def mute(self, *names: str) -> Self:
        """From now on they step and push, but nothing is accepted, or even answered."""
        for name in names:
            self.learners[name].is_mute = True
        return self

    def slow(self, name: str, factor: float) -> Self:
        """Its steps take `factor` times as long from now on."""
        self.learners[name].slowdown = factor
        return self

    def overrun(self, *names: str, lost: int = 1) -> Self:
        """They lose so many periods for each report from now on, by the default all of them."""
        for name in names or self.learners:
            self.learners[name].overruns = lost
        return self

    def freeze(self, name: str) -> Self:
        """It stops stepping without any fault, and the syncer is none the wiser."""
        self.learners[name].is_frozen = True
        return self

    # ---------------------------------------------------------------- the record

    def enter(self, phase: str) -> Self:
        """The harness enters a phase."""
        return self.say(Kind.PHASE_ENTERED, phase=phase)

    def last(self, kind: Kind) -> Event:
        """The latest line of a kind."""
        return next(event for event in reversed(self.events) if event.kind is kind)

    def altered(
        self, kind: Kind, change: Callable[[Event], Mapping[str, Json]], *, which: int = -1
    ) -> Self:
        """Rewrite some keys of one line of a kind, by default of the last one."""
        event = [event for event in self.events if event.kind is kind][which]
        self.events[event.seq] = replace(event, data={**event.data, **change(event)})
        return self

    def without(self, kind: Kind, fits: Callable[[Event], bool] = lambda _: True) -> Self:
        """Leave out the lines of a kind; others keep their numbers."""
        for event in self.events:
            if event.kind is kind and fits(event):
                self.events[event.seq] = replace(event, kind=Kind.COUNTS_SAMPLED, data={})
        return self

    def history(self, until: int | None = None) -> History:
        """The record, or only its first `until` lines, as if the harness had died there."""
        twin = self.twin.history() if self.twin else None
        return History(self.events[:until], twin=twin)

    # ---------------------------------------------------------------- inside

    def _ticks(self, for_s: float, *, merges: bool) -> Self:
        for _ in range(round(for_s / self.pace.tick_s)):
            self.tick(merges=merges)
        return self

    def _inject(
        self,
        fault: str,
        spec: str,
        names: Sequence[str],
        for_s: float | None,
        *,
        takes_away: bool = True,
        brings_in: bool = False,
    ) -> Opened:
        data: dict[str, Json] = {
            "injection": f"injection-{self._injections}",
            "fault": fault,
            "spec": spec,
            "targets": list(names),
        }
        takes_away = takes_away and not brings_in
        does = {"takes_away": takes_away, "brings_in": brings_in}
        self._injections += 1
        when = f"at {self.now_s:g} s"
        self.say(Kind.FAULT_INJECTING, **data, **does, settings={}, trigger=when, for_s=for_s)
        self._open.append(
            Opened(data=data, targets=tuple(names), takes_away=takes_away, brings_in=brings_in)
        )
        return self._open[-1]

    def _evidence(self, opened: Opened, status: str, idle: str = "") -> None:
        for name in opened.targets:
            own = [seq for seq in opened.exits if self.events[seq].data["node"] == name]
            if not own:
                self.say(Kind.NODE_PROBED, name, node=name, incarnation=1, pid=1, state="S",
                         rss_bytes=1, cpu_s=1.0)  # fmt: skip
                own = [len(self.events) - 1]
            self.say(
                Kind.EVIDENCE_MEASURED,
                injection=opened.data["injection"],
                fault=opened.data["fault"],
                target=name,
                status=status,
                requested={"for_s": 6.0},
                measured={"for_s": 6.01},
                text=f"{name} was seen to suffer",
                proof=own,
                **({"idle": idle} if idle else {}),
            )

    def _release(self, name: str) -> None:
        """A held or cut off learner goes on: as a member if it still is one, else it joins again.

        One that does not dial again stays cut off.
        """
        learner = self.learners[name]
        if learner.is_cut and not learner.redials:
            return
        learner.is_held = learner.is_cut = False
        if not learner.is_member:
            self.say(Kind.LEARNER_FENCED, name, **learner.whose, reason="no_progress")
            self.join(learner, "resumed")
        self.published += list(enumerate(self.versions))

    def _node_started(self, name: str, role: str, incarnation: int) -> Self:
        return self.say(
            Kind.NODE_STARTED,
            name,
            node=name,
            role=role,
            incarnation=incarnation,
            pid=1,
            labels={},
        )


def half_killed(*, rejoin_s: float = 1.0) -> Story:
    """The run that most tests want: half of the learners die for six seconds and come back."""
    return again(_half_killed(rejoin_s))


@functools.cache
def _half_killed(rejoin_s: float) -> Story:
    story = Story(rejoin_s=rejoin_s).baseline().kill("learner-1", "learner-3")
    return story.train(6).heal().train(35).settle()


def again(story: Story) -> Story:
    """A copy that goes on by itself. Lines are shared, and so is the twin: nobody changes them."""
    shared = {id(story.events): list(story.events), id(story.twin): story.twin}
    return copy.deepcopy(story, shared)
