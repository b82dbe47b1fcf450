"""Histories of runs that never ran, written as stories, for whoever reads histories.

    Story().baseline().kill("learner-1").train(6).heal().train(12).end().history()

A story is a small model of a training: learners step every quarter of a second, rounds are merged
on two fragments in turn, and all books are kept as the real ones are, so that a story in which
nothing goes wrong passes every check. Then something goes wrong: a verb of the story (`stall`,
`mute`, `strike`, …), or a line changed behind its back (`altered`, `without`).

Time is virtual and passes only in `train` and `stall`. All times come in multiples of TICK_S.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from chaoslab.events import Event, Json, Kind
from chaoslab.journal import History

TICK_S = 0.25
STEPS = 5
TOKENS_PER_STEP = 100
FRAGMENTS = 2
SYNCER = "syncer"


@dataclass(kw_only=True)
class Learner:
    """One learner of a story. `since`: its raw tokens when it adopted each fragment."""

    name: str
    incarnation: int = 1
    epoch: int = 0
    step: int = 0
    tokens: int = 0
    slowdown: float = 1.0
    loss: float | None = None
    is_alive: bool = True
    is_held: bool = False
    is_member: bool = False
    is_mute: bool = False
    joins_s: float | None = None
    held_s: float = 0.0
    versions: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)
    since: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)
    committed: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)
    discarded: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)

    @property
    def steps_now(self) -> bool:
        """Whether it trains in this moment."""
        return self.is_alive and not self.is_held and self.joins_s is None

    @property
    def who(self) -> dict[str, Json]:
        """The keys that each of its events carries."""
        return {"learner": self.name, "incarnation": self.incarnation}

    @property
    def whose(self) -> dict[str, Json]:
        """The same with its membership."""
        return {**self.who, "epoch": self.epoch}


@dataclass(kw_only=True)
class Injection:
    """One open injection of a story."""

    data: dict[str, Json]
    targets: tuple[str, ...]
    holds: bool
    exits: list[int] = field(default_factory=list)


class Story:
    """Write a run by telling what happens. Every verb returns the story."""

    def __init__(
        self,
        *,
        learners: int = 4,
        rejoin_s: float = 1.0,
        control: "Story | None" = None,
    ) -> None:
        self.now_s = 0.0
        self.events: list[Event] = []
        self.rejoin_s = rejoin_s
        self.control = control
        self.learners = {f"learner-{i}": Learner(name=f"learner-{i}") for i in range(learners)}
        self._versions = [0] * FRAGMENTS
        self._published: list[tuple[int, int]] = []
        self._books: dict[tuple[str, int, int], int] = defaultdict(int)
        self._merged_tokens = 0
        self._rounds = 0
        self._epochs = 0
        self._injections = 0
        self._open: list[Injection] = []
        self._silent: set[str] = set()
        self._lines_s = 0.0

    # ---------------------------------------------------------------- how a run goes

    def baseline(self, for_s: float = 5.0, *, is_steady: bool = True) -> Self:
        """Start everybody, train, measure."""
        self.start().train(for_s)
        merged_s = [event.time_s for event in self.events if event.kind is Kind.ROUND_MERGED]
        self.say(
            Kind.BASELINE_MEASURED,
            is_steady=is_steady,
            reason="the rate of rounds varied by 3%" if is_steady else "it varied by 80%",
            gap_s_median=TICK_S,
            gap_s_max=TICK_S,
            tokens_per_s=self.committed / max(self.now_s - merged_s[0], TICK_S) if merged_s else 0,
            variation=0.03 if is_steady else 0.8,
            step_s={name: TICK_S / STEPS for name in self.learners},
        )
        return self.enter("inject")

    def start(self) -> Self:
        """The first lines of a run: everybody starts and joins."""
        self.say(
            Kind.RUN_STARTED, plan="a story", seed=7, fleet="none", algorithm="decoupled",
            learners=list(self.learners), schedule_hash="0", version="0",
        )  # fmt: skip
        self.enter("start")
        self._node_started(SYNCER, "syncer", 1)
        self.say(
            Kind.SYNCER_READY, SYNCER, address="here", rounds=0, committed_tokens=0.0,
            is_recovered=False,
        )  # fmt: skip
        for learner in self.learners.values():
            self._node_started(learner.name, "learner", 1)
            self._join(learner, "initial")
        return self.enter("baseline")

    def train(self, for_s: float) -> Self:
        """Let time go by, with everything that a healthy training does meanwhile."""
        return self._ticks(for_s, merges=True)

    def stall(self, for_s: float) -> Self:
        """Let time go by in which learners step, but nothing is merged."""
        return self._ticks(for_s, merges=False)

    def settle(self) -> Self:
        """The harness saw that everything has converged again."""
        self.enter("settle")
        return self.say(Kind.RUN_SETTLED, is_settled=True, pending=[])

    def end(self, *, losses: Sequence[tuple[int, float]] = (), outcome: str = "completed") -> Self:
        """Training ends by its own rule: final accounts, exits, evaluation, the end of the run."""
        self.enter("stop")
        for learner in self.learners.values():
            if learner.steps_now and learner.is_member:
                self._finish(learner)
        self._syncer_final()
        self.exit(SYNCER, code=0)
        for learner in self.learners.values():
            if learner.is_alive:
                self.exit(learner.name, signal="SIGKILL" if learner.is_held else None)
        for tokens, loss in losses:
            self.say(
                Kind.EVALUATION_MEASURED, "evaluator", committed_tokens=tokens, round=1, loss=loss
            )
        return self.finish(outcome)

    def finish(self, outcome: str = "completed", reason: str = "") -> Self:
        """The last line of a run, without anything before it."""
        return self.say(Kind.RUN_FINISHED, outcome=outcome, reason=reason)

    # ---------------------------------------------------------------- faults and their ends

    def kill(self, *names: str, for_s: float | None = 6.0, spec: str = "die") -> Self:
        """An injection kills them; the syncer sees the sockets close."""
        injection = self._inject("process.kill", spec, names, for_s)
        for name in names:
            self.exit(name, signal="SIGKILL")
            injection.exits.append(len(self.events) - 1)
        return self._injected(injection)

    def pause(self, *names: str, for_s: float | None = 6.0, spec: str = "stop") -> Self:
        """An injection stops them; the syncer drops them after six seconds."""
        injection = self._inject("process.pause", spec, names, for_s, holds=True)
        for name in names:
            self.learners[name].is_held = True
            self.learners[name].held_s = 0.0
        return self._injected(injection)

    def touch(self, *names: str, for_s: float = 6.0, fault: str = "compute.steal") -> Self:
        """An injection that takes nobody away, and of which nobody notices anything."""
        return self._injected(self._inject(fault, "touch", names, for_s, takes_away=False))

    def heal(self, *, status: str = "proved", restarts: bool = True) -> Self:
        """End the oldest open injection: evidence, then the victims start again or go on."""
        injection = self._open.pop(0)
        self._evidence(injection, status)
        self.say(Kind.FAULT_HEALING, **injection.data)
        for name in injection.targets if restarts and injection.data["takes_away"] else ():
            self._release(name) if injection.holds else self.restart(name)
        return self.say(Kind.FAULT_HEALED, **injection.data)

    def prove(self, *, status: str = "proved") -> Self:
        """Evidence of the open injections, without healing them."""
        for injection in self._open:
            self._evidence(injection, status)
        return self

    def skip(self, *names: str, reason: str = "its trigger did not come") -> Self:
        """An injection that was never begun."""
        return self.say(
            Kind.FAULT_SKIPPED, injection=f"injection-{self._injections}", fault="process.kill",
            targets=list(names), spec="late", reason=reason,
        )  # fmt: skip

    def restart(self, name: str) -> Self:
        """Start the next incarnation; it joins after `rejoin_s`."""
        old = self.learners[name]
        new = Learner(
            name=name, incarnation=old.incarnation + 1, is_mute=old.is_mute,
            joins_s=self.now_s + self.rejoin_s,
        )  # fmt: skip
        self.learners[name] = new
        self._node_started(name, "learner", new.incarnation)
        return self

    # ---------------------------------------------------------------- trouble

    def strike(self, name: str, *, signal: str | None = "SIGKILL") -> Self:
        """Somebody else ends the process; no injection asked for it."""
        return self.exit(name, signal=signal)

    def exit(self, name: str, *, signal: str | None = None, code: int | None = None) -> Self:
        """A process ends."""
        learner = self.learners.get(name)
        self.say(
            Kind.NODE_EXITED, name, node=name, incarnation=learner.incarnation if learner else 1,
            pid=1, exit_code=code if signal is None else None, signal=signal, refused_lines=0,
        )  # fmt: skip
        if learner:
            learner.is_alive, learner.joins_s = False, None
        return self

    def mute(self, *names: str) -> Self:
        """From now on they step, but nothing that they push is accepted, or even answered."""
        for name in names:
            self.learners[name].is_mute = True
        return self

    def slow(self, name: str, factor: float) -> Self:
        """Its steps take `factor` times as long from now on."""
        self.learners[name].slowdown = factor
        return self

    def freeze(self, *names: str) -> Self:
        """They stop stepping without any fault, and the syncer is none the wiser."""
        for name in names:
            self._silent.add(name)
        return self

    def drop(self, name: str, reason: str = "no_progress") -> Self:
        """The syncer ends a membership."""
        self.learners[name].is_member = False
        return self.say(
            Kind.MEMBER_LEFT, SYNCER, **self.learners[name].whose, members=1, reason=reason
        )

    def suspect(self, name: str, *, idle_s: float = 2.0) -> Self:
        """The syncer suspects somebody."""
        whose = self.learners[name].whose
        return self.say(Kind.MEMBER_SUSPECTED, SYNCER, **whose, idle_s=idle_s)

    # ---------------------------------------------------------------- the record

    def say(self, kind: Kind, source: str = "harness", /, **data: Json) -> Self:
        """One line of the journal, now."""
        self.events.append(
            Event(
                seq=len(self.events),
                time_s=round(self.now_s, 6),
                source=source,
                kind=kind,
                data=data,
            )  # fmt: skip
        )
        return self

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
                blank = replace(event, kind=Kind.COUNTS_SAMPLED, data={})
                self.events[event.seq] = blank
        return self

    def history(self, until: int | None = None) -> History:
        """The record, or only its first `until` lines, as if the harness had died there."""
        twin = self.control.history() if self.control else None
        return History(self.events[:until], control=twin)

    @property
    def committed(self) -> float:
        """Committed tokens of the run so far."""
        return self._merged_tokens / FRAGMENTS

    # ---------------------------------------------------------------- one tick of training

    def _ticks(self, for_s: float, *, merges: bool) -> Self:
        for _ in range(round(for_s / TICK_S)):
            self.now_s += TICK_S
            self._membership()
            for learner in self.learners.values():
                if learner.steps_now and learner.name not in self._silent:
                    self._step(learner)
                    self._adopt(learner)
            self._published.clear()
            if merges:
                self._round()
        return self

    def _step(self, learner: Learner) -> None:
        steps = max(1, round(STEPS / learner.slowdown))
        learner.step += steps
        learner.tokens += steps * TOKENS_PER_STEP
        self.say(
            Kind.LEARNER_STEP, learner.name, **learner.whose, step=learner.step, steps=steps,
            step_s=TICK_S / steps, tokens=learner.tokens, data_position=learner.step,
            loss=learner.loss if learner.loss is not None else 5.0 / (1 + self.now_s / 50),
        )  # fmt: skip

    def _adopt(self, learner: Learner) -> None:
        """Take over what was published in the last tick; work done since the push is discarded."""
        for fragment, version in self._published:
            if not learner.is_member or version <= learner.versions[fragment]:
                continue
            booked = self._books[learner.name, learner.incarnation, fragment]
            committed = booked - learner.committed[fragment]
            discarded = learner.tokens - learner.since[fragment] - committed
            learner.versions[fragment] = version
            learner.since[fragment] = learner.tokens
            learner.committed[fragment] = booked
            learner.discarded[fragment] += discarded
            self.say(
                Kind.LEARNER_ADOPTED, learner.name, **learner.whose, fragment=fragment,
                version=version, step=learner.step, digest=_digest(fragment, version),
                discarded_tokens=discarded, committed_tokens=committed,
            )  # fmt: skip

    def _round(self) -> None:
        fragment, version = self._rounds % FRAGMENTS, self._versions[self._rounds % FRAGMENTS]
        self._rounds += 1
        parts = []
        for learner in self.learners.values():
            is_ready = learner.versions[fragment] == version and learner.is_member
            if is_ready and learner.steps_now and learner.tokens > learner.since[fragment]:
                part = self._push(learner, fragment, version)
                parts += [part] if part else []
        if not parts:
            return
        self._versions[fragment] = version + 1
        self._published.append((fragment, version + 1))
        self.say(
            Kind.ROUND_MERGED, SYNCER, round=self._rounds, fragment=fragment, version=version + 1,
            base_version=version, contributors=parts, committed_tokens=self.committed,
            digest=_digest(fragment, version + 1), members=len(parts), missed=[], quorum_s=0.01,
            momentum_digest=_digest(fragment, version + 1, "v"), grace_s=0.0, sync_s=0.01,
        )  # fmt: skip

    def _push(self, learner: Learner, fragment: int, version: int) -> dict[str, Json] | None:
        c_tokens = learner.tokens - learner.since[fragment]
        counts: dict[str, Json] = {
            "step": learner.step, "c_steps": c_tokens // TOKENS_PER_STEP, "c_tokens": c_tokens,
            "tokens_from": learner.since[fragment], "tokens_to": learner.tokens,
        }  # fmt: skip
        where: dict[str, Json] = {
            "round": self._rounds, "fragment": fragment, "base_version": version,
        }  # fmt: skip
        contents = {**learner.whose, **where, **counts}
        self.say(Kind.LEARNER_PUSHED, learner.name, **contents)
        if learner.is_mute:
            return None
        self.say(Kind.PUSH_ACCEPTED, SYNCER, **contents)
        self._books[learner.name, learner.incarnation, fragment] += c_tokens
        self._merged_tokens += c_tokens
        return {**learner.whose, **counts, "weight": float(c_tokens * TOKENS_PER_STEP)}

    def _membership(self) -> None:
        """What the syncer notices: closed sockets at once, silence after two and six seconds."""
        for learner in self.learners.values():
            if learner.joins_s is not None and learner.joins_s <= self.now_s:
                self._join(learner, "donor")
            elif learner.is_member and not learner.is_alive:
                self.drop(learner.name, "closed")
            elif learner.is_held:
                learner.held_s += TICK_S
                if learner.held_s == 2.0:
                    self.suspect(learner.name)
                if learner.held_s == 6.0:
                    self.drop(learner.name)

    def _join(self, learner: Learner, source: str) -> None:
        self._epochs += 1
        learner.epoch, learner.is_member, learner.joins_s = self._epochs, True, None
        donor = "learner-0" if source == "donor" else None
        if source == "donor":
            learner.step = max(other.step for other in self.learners.values())
            learner.versions = list(self._versions)
        self.say(Kind.MEMBER_JOINED, SYNCER, **learner.whose, source=source, donor=donor, members=1)
        if source != "resumed":
            self.say(Kind.LEARNER_STARTED, learner.name, **learner.who, devices=1, parameters=10)
        self.say(
            Kind.LEARNER_JOINED, learner.name, **learner.whose, source=source, donor=donor,
            step=learner.step, data_position=learner.step, versions=_by_fragment(learner.versions),
        )  # fmt: skip

    # ---------------------------------------------------------------- one injection

    def _inject(
        self, fault: str, spec: str, names: Sequence[str], for_s: float | None, *,
        holds: bool = False, takes_away: bool = True,
    ) -> Injection:  # fmt: skip
        data: dict[str, Json] = {
            "injection": f"injection-{self._injections}", "fault": fault, "spec": spec,
            "targets": list(names), "takes_away": takes_away,
        }  # fmt: skip
        self._injections += 1
        self.say(
            Kind.FAULT_INJECTING, **data, settings={}, trigger=f"at {self.now_s:g} s", for_s=for_s
        )
        return Injection(data=data, targets=tuple(names), holds=holds)

    def _injected(self, injection: Injection) -> Self:
        self._open.append(injection)
        return self.say(Kind.FAULT_INJECTED, **injection.data)

    def _evidence(self, injection: Injection, status: str) -> None:
        for name in injection.targets:
            own = [seq for seq in injection.exits if self.events[seq].data["node"] == name]
            self.say(
                Kind.EVIDENCE_MEASURED, injection=injection.data["injection"],
                fault=injection.data["fault"], target=name, status=status, requested={"for_s": 6.0},
                measured={"for_s": 6.01}, text=f"{name} was seen to suffer", proof=own,
            )  # fmt: skip

    def _release(self, name: str) -> None:
        """A held learner goes on: as a member if it still is one, else it joins again."""
        learner = self.learners[name]
        learner.is_held = False
        if not learner.is_member:
            self.say(Kind.LEARNER_FENCED, name, **learner.whose, reason="no_progress")
            self._join(learner, "resumed")
        self._published += list(enumerate(self._versions))

    # ---------------------------------------------------------------- the ends of nodes

    def _node_started(self, name: str, role: str, incarnation: int) -> None:
        self.say(
            Kind.NODE_STARTED, name, node=name, role=role, incarnation=incarnation, pid=1,
            start_time=1.0, labels={},
        )  # fmt: skip

    def _finish(self, learner: Learner) -> None:
        for fragment in range(FRAGMENTS):
            self._published = [(fragment, self._versions[fragment])]
            self._adopt(learner)
        in_flight = [learner.tokens - since for since in learner.since]
        self.say(
            Kind.LEARNER_FINAL, learner.name, **learner.who, step=learner.step,
            tokens=learner.tokens, versions=_by_fragment(learner.versions),
            digests=_digests(learner.versions), committed=_by_fragment(learner.committed),
            discarded=_by_fragment(learner.discarded), in_flight=_by_fragment(in_flight),
        )  # fmt: skip
        self.say(
            Kind.LEARNER_LEFT, learner.name, **learner.who, step=learner.step, reason="stopped"
        )
        self.exit(learner.name, code=0)

    def _syncer_final(self) -> None:
        self.say(
            Kind.SYNCER_FINAL, SYNCER, rounds=self._rounds, versions=_by_fragment(self._versions),
            digests=_digests(self._versions), momentum_digests=_digests(self._versions, "v"),
            stored_digests=_digests(self._versions), committed_tokens=self.committed, rejected={},
        )  # fmt: skip


def half_killed(**options: float) -> Story:
    """The run that most tests want: half of the learners die for six seconds and come back."""
    story = Story(**options) if options else Story()
    return story.baseline().kill("learner-1", "learner-3").train(6).heal().train(35).settle()


def _digest(fragment: int, version: int, of: str = "p") -> str:
    return f"{of}{fragment}.{version}"


def _digests(versions: Sequence[int], of: str = "p") -> dict[str, Json]:
    return {str(f): _digest(f, version, of) for f, version in enumerate(versions)}


def _by_fragment(values: Sequence[int]) -> dict[str, Json]:
    return {str(fragment): value for fragment, value in enumerate(values)}
