"""A small model of a training that keeps the books as the real one does. No processes, no time.

    tick ─► who joins, who is missed ─► everybody steps, adopts ─► one round: push, accept, merge
      └──────────────────────── every line of it in `events` ───────────────────────┘

Learners make five steps a tick, or as the `Pace` says; rounds take two fragments in turn; what was
published is adopted in the next tick, so the work of one tick is discarded, as the real overlap
discards it. A push and a publication are `TRANSFER_BYTES` each, and both ends of every link say
once a second what arrived. Lines have every field that nodes write.
`histories.Story` tells runs with it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from chaoslab.core.events import Event, Json, Kind

TICK_S = 0.25
STEPS = 5
TOKENS_PER_STEP = 100
FRAGMENTS = 2
PARAMETERS = 10
TRANSFER_BYTES = 20
RATE_BYTES_PER_S = 1e6
RTT_S = 0.001
NORM = 0.05
"""About that of each push: no two of a learner are alike."""
SYNCER = "syncer"
_DIAL_S = 1.0
"""Between two dials of a learner whose link is cut."""
_SUSPECT_S, _DROP_S = 2.0, 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a training goes. Faults and reports of links need ticks that divide a second."""

    tick_s: float = TICK_S
    steps: int = STEPS
    """Steps of a learner in one tick."""
    ticks: int = 1
    """Ticks from one round to the next."""

    @property
    def step_s(self) -> float:
        """One step of a learner that nothing slows."""
        return self.tick_s / self.steps

    @property
    def round_s(self) -> float:
        """From one round to the next."""
        return self.tick_s * self.ticks


@dataclass(kw_only=True)
class End:
    """What one end of a link has seen of it, in the life of whoever reports it."""

    bytes: int = 0
    payload_bytes: int = 0
    arrived_s: float = 0.0


@dataclass(kw_only=True)
class Learner:
    """One life of a learner. `since`: its raw tokens when it adopted each fragment."""

    name: str
    incarnation: int = 1
    epoch: int = 0
    step: int = 0
    position: int = 0
    """In its data."""
    tokens: int = 0
    slowdown: float = 1.0
    overruns: int = 0
    """Periods that it loses for each report of its steps."""
    is_alive: bool = True
    is_held: bool = False
    is_frozen: bool = False
    is_member: bool = False
    is_mute: bool = False
    is_cut: bool = False
    redials: bool = True
    attempts: int = 1
    joins_s: float | None = None
    held_s: float = 0.0
    """For how long the syncer has seen nothing of it."""
    versions: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)
    since: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)
    committed: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)
    discarded: list[int] = field(default_factory=lambda: [0] * FRAGMENTS)
    down: End = field(default_factory=End)

    @property
    def is_up(self) -> bool:
        """Whether it is alive, not held and has joined."""
        return self.is_alive and not self.is_held and self.joins_s is None

    @property
    def is_heard(self) -> bool:
        """Whether it is up and bytes travel between it and the syncer."""
        return self.is_up and not self.is_cut

    @property
    def moments(self) -> str:
        """What stands for the digest of its optimizer's moments."""
        return f"m{self.name}.{self.step}" if self.step else "fresh"

    @property
    def who(self) -> dict[str, Json]:
        """The keys that each of its events carries."""
        return {"learner": self.name, "incarnation": self.incarnation}

    @property
    def whose(self) -> dict[str, Json]:
        """The same with its membership."""
        return {**self.who, "epoch": self.epoch}


class ModelTraining:
    """Learners, a syncer, and the lines that they and the harness write."""

    def __init__(self, learners: int, rejoin_s: float, pace: Pace) -> None:
        self.now_s = 0.0
        self.pace = pace
        self._ticks_done = 0
        self.period_s: float | None = None
        """Step time that every learner keeps."""
        self.events: list[Event] = []
        self.rejoin_s = rejoin_s
        self.learners = {f"learner-{i}": Learner(name=f"learner-{i}") for i in range(learners)}
        self.versions = [0] * FRAGMENTS
        self.published: list[tuple[int, int]] = []
        self._syncer_state: dict[tuple[str, int, int], int] = defaultdict(int)
        self._merged_tokens = 0
        self._rounds = 0
        self._epochs = 0
        self._up: dict[str, End] = {}

    @property
    def committed(self) -> float:
        """Committed tokens of the run so far."""
        return self._merged_tokens / FRAGMENTS

    def say(self, kind: Kind, source: str = "harness", /, **data: Json) -> Self:
        """One line of the journal, now."""
        now_s, seq = round(self.now_s, 6), len(self.events)
        self.events.append(Event(seq=seq, time_s=now_s, source=source, kind=kind, data=data))
        return self

    # ---------------------------------------------------------------- one tick

    def tick(self, *, merges: bool) -> None:
        """A quarter of a second, or as the pace says."""
        self.now_s += self.pace.tick_s
        self._ticks_done += 1
        for learner in list(self.learners.values()):
            self._run_loop(learner)
        for learner in self.learners.values():
            if learner.is_up and not learner.is_frozen:
                self._step(learner)
                if not learner.is_cut:
                    self.adopt(learner)
        self.published.clear()
        if merges and self._ticks_done % self.pace.ticks == 0:
            self._round()
        if self.now_s % 1 == 0:
            self._measure()

    def _run_loop(self, learner: Learner) -> None:
        """What the syncer notices: who comes, closed sockets, silence."""
        if learner.joins_s is not None and learner.joins_s <= self.now_s:
            self.join(learner, "donor")
        elif learner.is_member and not learner.is_alive:
            self.drop(learner.name, "closed")
        elif learner.is_held or learner.is_cut:
            learner.held_s += self.pace.tick_s
            if learner.held_s == _SUSPECT_S:
                self.suspect(learner.name)
            if learner.held_s == _DROP_S:
                self.drop(learner.name)
            if learner.is_cut and learner.redials and learner.held_s % _DIAL_S == 0:
                self._dial_in_vain(learner)

    def _dial_in_vain(self, learner: Learner) -> None:
        how: dict[str, Json] = {"was_open": learner.attempts == 0, "open_s": 0.0}
        said: dict[str, Json] = {"attempts": learner.attempts, "reason": "unavailable"}
        self.say(Kind.LINK_CLOSED, learner.name, **learner.who, **how, **said)
        learner.attempts += 1

    def _measure(self) -> None:
        """Both ends of every link say what arrived."""
        for learner in self.learners.values():
            if learner.is_alive and not learner.is_held and learner.joins_s is None:
                self._report(learner, learner.name, "down", learner.down)
            if learner.name in self._up:
                self._report(learner, SYNCER, "up", self._up[learner.name])

    def _report(self, learner: Learner, source: str, direction: str, end: End) -> None:
        if learner.is_heard:
            end.arrived_s = self.now_s
        rtt_s = RTT_S if learner.is_heard else None
        probe_rtt_s = rtt_s if direction == "down" else None  # learners have such a connection
        timed_s = round(end.payload_bytes / RATE_BYTES_PER_S, 6)
        self.say(
            Kind.LINK_MEASURED,
            source,
            **learner.who,
            direction=direction,
            window_s=1.0,
            silent_s=round(self.now_s - end.arrived_s, 6),
            rtt_s=rtt_s,
            rtt_s_min=rtt_s,
            pings_sent=4,
            pings_answered=4 if learner.is_heard else 0,
            probe_rtt_s=probe_rtt_s,
            probe_rtt_s_min=probe_rtt_s,
            probes_answered=0 if probe_rtt_s is None else 4,
            bytes=end.bytes,
            payload_bytes=end.payload_bytes,
            bytes_per_s=RATE_BYTES_PER_S if end.payload_bytes else None,
            timed_bytes=end.payload_bytes,
            timed_s=timed_s,
            queued=0,
            queued_bytes=0,
            unused_s=None,
            connections=None,
        )
        end.payload_bytes = 0

    def _arrive(self, end: End) -> None:
        end.bytes += TRANSFER_BYTES
        end.payload_bytes += TRANSFER_BYTES

    def _step(self, learner: Learner) -> None:
        steps = max(1, round(self.pace.steps / learner.slowdown))
        learner.step += steps
        learner.position += steps
        learner.tokens += steps * TOKENS_PER_STEP
        self.say(
            Kind.LEARNER_STEP,
            learner.name,
            **learner.whose,
            step=learner.step,
            steps=steps,
            step_s=self.pace.tick_s / steps,
            period_s=self.period_s,
            overruns=learner.overruns,
            tokens=learner.tokens,
            data_position=learner.position,
            learning_rate=learning_rate(learner.step),
            loss=5.0 / (1 + self.now_s / 50),
            waited_s=0.0,
            peer_bytes=None,
            is_inferred=False,
        )

    def adopt(self, learner: Learner) -> None:
        """Take over what was published; work done since the push is discarded."""
        for fragment, version in self.published:
            if not learner.is_member or version <= learner.versions[fragment]:
                continue
            booked = self._syncer_state[learner.name, learner.incarnation, fragment]
            committed = booked - learner.committed[fragment]
            discarded = learner.tokens - learner.since[fragment] - committed
            self._arrive(learner.down)
            learner.versions[fragment] = version
            learner.since[fragment] = learner.tokens
            learner.committed[fragment] = booked
            learner.discarded[fragment] += discarded
            self.say(
                Kind.LEARNER_ADOPTED,
                learner.name,
                **learner.whose,
                fragment=fragment,
                version=version,
                step=learner.step,
                digest=digest(fragment, version),
                discarded_tokens=discarded,
                committed_tokens=committed,
            )

    # ---------------------------------------------------------------- one round

    def _round(self) -> None:
        fragment = self._rounds % FRAGMENTS
        version = self.versions[fragment]
        self._rounds += 1
        parts = [
            self._push(learner, fragment, version)
            for learner in self.learners.values()
            if learner.is_heard and learner.is_member and learner.versions[fragment] == version
            if learner.tokens > learner.since[fragment]
        ]
        taken = [part for part in parts if part is not None]
        if not taken:
            return
        self.versions[fragment] = version + 1
        self.published.append((fragment, version + 1))
        self.say(
            Kind.ROUND_MERGED,
            SYNCER,
            round=self._rounds,
            fragment=fragment,
            version=version + 1,
            base_version=version,
            contributors=taken,
            committed_tokens=self.committed,
            digest=digest(fragment, version + 1),
            momentum_digest=digest(fragment, version + 1, "v"),
            members=len(taken),
            missed=[],
            quorum_s=0.01,
            grace_s=0.0,
            sync_s=0.01,
        )

    def _push(self, learner: Learner, fragment: int, version: int) -> dict[str, Json] | None:
        c_tokens = learner.tokens - learner.since[fragment]
        counts: dict[str, Json] = {
            "step": learner.step,
            "c_steps": c_tokens // TOKENS_PER_STEP,
            "c_tokens": c_tokens,
            "tokens_from": learner.since[fragment],
            "tokens_to": learner.tokens,
        }
        where: dict[str, Json] = {
            "round": self._rounds,
            "fragment": fragment,
            "base_version": version,
        }
        self._arrive(self._up[learner.name])
        self.say(Kind.LEARNER_PUSHED, learner.name, **learner.whose, **where, **counts)
        if learner.is_mute:
            return None
        sized = {**counts, "norm": NORM * (1 + learner.step / 1e6), "payload_bytes": TRANSFER_BYTES}
        self.say(Kind.PUSH_ACCEPTED, SYNCER, **learner.whose, **where, **sized)
        self._syncer_state[learner.name, learner.incarnation, fragment] += c_tokens
        self._merged_tokens += c_tokens
        return {**learner.whose, **counts, "weight": float(c_tokens * TOKENS_PER_STEP)}

    # ---------------------------------------------------------------- membership

    def join(self, learner: Learner, source: str) -> None:
        """A membership begins; `source` says where the parameters come from."""
        self._epochs += 1
        learner.epoch, learner.is_member, learner.joins_s = self._epochs, True, None
        self._up.setdefault(learner.name, End()).arrived_s = self.now_s
        learner.down.arrived_s = self.now_s
        donor, moments = None, learner.moments
        if source == "donor":
            others = [other for other in self.learners.values() if other is not learner]
            giver = max(others or [learner], key=lambda other: (other.is_heard, other.step))
            donor, moments = giver.name, giver.moments
            learner.step = giver.step
            learner.versions = list(self.versions)
        how: dict[str, Json] = {"source": source, "donor": donor}
        self.say(Kind.MEMBER_JOINED, SYNCER, **learner.whose, **how, members=1)
        if source != "resumed":
            self.say(
                Kind.LEARNER_STARTED,
                learner.name,
                **learner.who,
                devices=1,
                platform="cpu",
                parameters=PARAMETERS,
            )
        dials: dict[str, Json] = {"attempts": max(1, learner.attempts), "after_s": 0.1}
        self.say(Kind.LINK_OPENED, learner.name, **learner.who, **dials)
        learner.attempts = 0
        if source == "donor":
            given: dict[str, Json] = {"step": giver.step, "moments": moments}
            self.say(Kind.CHECKPOINT_GIVEN, giver.name, **giver.who, **given)
        self.say(
            Kind.LEARNER_JOINED,
            learner.name,
            **learner.whose,
            **how,
            step=learner.step,
            data_position=learner.position,
            versions=by_fragment(learner.versions),
            digests={} if source == "resumed" else digests(learner.versions),
            shard=int(learner.name.removeprefix("learner-")),
            learning_rate=learning_rate(learner.step),
            moments=None if source == "resumed" else moments,
        )

    def drop(self, name: str, reason: str = "no_progress") -> Self:
        """The syncer ends a membership."""
        learner = self.learners[name]
        learner.is_member = False
        return self.say(Kind.MEMBER_LEFT, SYNCER, **learner.whose, members=1, reason=reason)

    def suspect(self, name: str, *, idle_s: float = _SUSPECT_S) -> Self:
        """The syncer suspects somebody."""
        return self.say(Kind.MEMBER_SUSPECTED, SYNCER, **self.learners[name].whose, idle_s=idle_s)

    # ---------------------------------------------------------------- the end

    def finish_learner(self, learner: Learner) -> None:
        """It adopts the last versions, gives its account and leaves."""
        self.published = list(enumerate(self.versions))
        self.adopt(learner)
        self.say(
            Kind.LEARNER_FINAL,
            learner.name,
            **learner.who,
            step=learner.step,
            tokens=learner.tokens,
            versions=by_fragment(learner.versions),
            digests=digests(learner.versions),
            committed=by_fragment(learner.committed),
            discarded=by_fragment(learner.discarded),
            in_flight=by_fragment([learner.tokens - since for since in learner.since]),
        )
        self.say(
            Kind.LEARNER_LEFT, learner.name, **learner.who, step=learner.step, reason="stopped"
        )

    def stop_training(self) -> Self:
        """The syncer says that training has ended, before it tells anybody."""
        return self.say(Kind.SYNCER_STOPPED, SYNCER, reason=f"{self._rounds} rounds")

    def finish_syncer(self) -> None:
        """Its final account, with what it read back from its disk."""
        self.say(
            Kind.SYNCER_FINAL,
            SYNCER,
            rounds=self._rounds,
            versions=by_fragment(self.versions),
            digests=digests(self.versions),
            momentum_digests=digests(self.versions, "v"),
            stored_digests=digests(self.versions),
            stored_momentum_digests=digests(self.versions, "v"),
            committed_tokens=self.committed,
            rejected={},
            reason=f"{self._rounds} rounds",
            was_asked=False,
        )


def learning_rate(step: int) -> float:
    """A warm-up of 50 steps, and a decay."""
    return 0.012 * min(step / 50, 50 / max(step, 50))


def digest(fragment: int, version: int, of: str = "p") -> str:
    """What stands for the digest of one version of one fragment."""
    return f"{of}{fragment}.{version}"


def digests(versions: Sequence[int], of: str = "p") -> dict[str, Json]:
    """The digests of a version vector."""
    return {str(f): digest(f, version, of) for f, version in enumerate(versions)}


def by_fragment(values: Sequence[int]) -> dict[str, Json]:
    """A list with one value for each fragment as an object."""
    return {str(fragment): value for fragment, value in enumerate(values)}
