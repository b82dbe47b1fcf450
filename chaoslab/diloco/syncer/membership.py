"""Who takes part: joining, progress, suspicion, dropping, fencing, and who helps a rejoiner.

    hello ─► member (epoch n) ─► no step for a while ─► suspected ─► dropped: epoch n is fenced
                 ▲                                          │ steps again: recovered
                 └───────── hello again: epoch n + k ◄──────┘

Liveness comes from training progress: only a higher step counts, so a learner that is wedged while
its heartbeats go on is dropped like a dead one. A learner's lives are ordered by incarnation, its
memberships by epoch; whatever comes from an older one is refused.

Part of the policy: no input or output, no clock, standard library only.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from chaoslab.diloco.settings import Settings, Source

_PACES = 8


class Leaving(StrEnum):
    """Why a membership ended."""

    CLOSED = "closed"
    NO_PROGRESS = "no_progress"
    SAID_GOODBYE = "said_goodbye"
    FENCED = "fenced"


@dataclass(slots=True, kw_only=True)
class Member:
    """One membership of one learner, as the syncer believes it."""

    learner: str
    incarnation: int
    epoch: int
    joined_s: float
    last_step_s: float
    """When its step last advanced; at first, when it joined."""
    has_stepped: bool = False
    is_suspected: bool = False
    is_lagging: bool = False
    """It missed the end of a round, and its late answer has not arrived."""
    has_reported: bool = False
    step: int = 0
    tokens: int = 0
    loss: float | None = None
    step_s: float = 0.0
    """Its own report of its mean step time, as far as it is believed; 0 until it has stepped."""
    reported_s: float = 0.0
    """When it was first heard of its step."""
    paces_s: tuple[float, ...] = ()
    """Seconds a step between its last reports that showed a higher one, by the syncer's clock."""
    versions: tuple[int, ...] = ()
    c_steps: tuple[int, ...] = ()
    c_tokens: tuple[int, ...] = ()
    giving: int = 0
    """Checkpoints that it is asked for and has not given yet."""
    pushed_to: dict[int, int] = field(default_factory=dict)
    """By fragment: where its last accepted contribution ended, in the raw tokens of this life.
    Shared by all memberships of one life, so that joining again cannot replay old work."""

    @property
    def is_present(self) -> bool:
        """Whether anybody should wait for it."""
        return self.has_stepped and not self.is_suspected and not self.is_lagging

    def can_contribute(self, fragment: int, version: int) -> bool:
        """Whether it has own work on top of `version` of the fragment."""
        return (
            self.is_present
            and len(self.versions) > fragment
            and self.versions[fragment] == version
            and self.c_steps[fragment] > 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A learner asks to join."""

    learner: str
    incarnation: int
    process: int = 0
    """A number that the process drew; two that claim the same life are told apart by it."""
    versions: tuple[int, ...] = ()
    """What it holds, by fragment; () for a fresh process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A hello was accepted. `replaced` is the epoch of an older membership that it ended."""

    member: Member
    source: Source
    donor: Member | None
    replaced: Member | None


class Refused(ValueError):
    """A hello that cannot be accepted; the message tells the learner why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A membership changed by the passing of time."""

    member: Member
    is_dropped: bool
    """False: suspected."""
    idle_s: float


class Membership:
    """All memberships. Deterministic; time is an argument."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_epoch: dict[int, Member] = {}
        self._incarnations: dict[str, int] = {}
        self._processes: dict[str, int] = {}
        self._pushed_to: dict[tuple[str, int], dict[int, int]] = {}
        self._last_epoch = 0
        self.data_positions: dict[str, int] = {}
        """Where each learner's data stood at its last report: it survives the learner."""

    def restore(
        self, *, last_epoch: int, incarnations: dict[str, int], data_positions: dict[str, int]
    ) -> None:
        """Go on after the syncer itself was restarted: older epochs and lives stay fenced."""
        self._last_epoch = last_epoch
        self._incarnations = dict(incarnations)
        self.data_positions = dict(data_positions)

    @property
    def members(self) -> tuple[Member, ...]:
        """Present memberships in the order of joining."""
        return tuple(self._by_epoch.values())

    @property
    def last_epoch(self) -> int:
        """The highest epoch ever given."""
        return self._last_epoch

    @property
    def incarnations(self) -> dict[str, int]:
        """The highest life seen of each learner."""
        return dict(self._incarnations)

    def find(self, epoch: int) -> Member | None:
        """The membership with this epoch; None once it has ended."""
        return self._by_epoch.get(epoch)

    def admit(self, now_s: float, hello: Hello, current: tuple[int, ...]) -> Admission:
        """Let a learner in, or raise Refused. `current`: the version vector, () before seeding."""
        self._refuse_impostors(hello)
        if hello.versions and len(hello.versions) != len(current):
            raise Refused(
                f"{hello.learner} holds {len(hello.versions)} fragments, "
                f"this training {len(current)}"
            )
        if any(mine > theirs for mine, theirs in zip(hello.versions, current, strict=False)):
            raise Refused(f"{hello.learner} holds versions that this training has not reached")
        replaced = next((m for m in self._by_epoch.values() if m.learner == hello.learner), None)
        if replaced is not None:
            self.remove(replaced.epoch)
        source, donor = self._source(hello.versions, current)
        self._last_epoch += 1
        member = Member(
            learner=hello.learner,
            incarnation=hello.incarnation,
            epoch=self._last_epoch,
            joined_s=now_s,
            last_step_s=now_s,
            pushed_to=self.pushed_to(hello.learner, hello.incarnation),
        )
        self._by_epoch[member.epoch] = member
        self._incarnations[hello.learner] = hello.incarnation
        self._processes[hello.learner] = hello.process
        return Admission(member=member, source=source, donor=donor, replaced=replaced)

    def _refuse_impostors(self, hello: Hello) -> None:
        """Only the newest life of a learner on the roster may join, and only one process of it."""
        name, roster = hello.learner, self._settings.learners
        if name not in roster:
            raise Refused(f"{name!r} is not on the roster {', '.join(roster)}")
        known = self._incarnations.get(name, 0)
        if hello.incarnation < known:
            raise Refused(f"incarnation {hello.incarnation} of {name} has ended; {known} is known")
        process = self._processes.get(name, hello.process)
        if hello.incarnation == known and hello.process != process:
            raise Refused(
                f"incarnation {known} of {name} was another process; "
                f"a new process takes incarnation {known + 1}"
            )

    def pushed_to(self, learner: str, incarnation: int) -> dict[int, int]:
        """By fragment: where the last accepted contribution of that life ended, in raw tokens."""
        return self._pushed_to.setdefault((learner, incarnation), {})

    def remove(self, epoch: int) -> Member | None:
        """End a membership: its epoch is fenced from now on."""
        return self._by_epoch.pop(epoch, None)

    def saw_step(self, now_s: float, member: Member, step: int, step_s: float) -> float | None:
        """Note a report; the idle seconds if the step advanced and it had been suspected.

        Its step time decides how long it is waited for, so it is believed no slower than it was
        seen to be: the slowest of its last reports counts, because a link may delay some of them.
        The first report only says where the learner stands: what comes after it is progress.
        """
        if not member.has_reported:
            member.has_reported, member.step, member.reported_s = True, step, now_s
        if step <= member.step:
            return None
        idle_s = now_s - member.last_step_s
        was_suspected = member.is_suspected
        pace_s = (now_s - max(member.last_step_s, member.reported_s)) / (step - member.step)
        member.paces_s = (*member.paces_s, pace_s)[-_PACES:]
        member.step, member.step_s = step, min(step_s, max(member.paces_s))
        member.last_step_s, member.has_stepped = now_s, True
        member.is_suspected = False
        return idle_s if was_suspected else None

    def excuse(self, seconds: float) -> None:
        """Nobody was listened to for so long: it counts against no member."""
        for member in self._by_epoch.values():
            member.last_step_s += seconds
            member.reported_s += seconds

    def age(self, now_s: float) -> list[Change]:
        """Suspect and drop the members that have not stepped for too long."""
        changes = []
        for member in self.members:
            idle_s = now_s - member.last_step_s
            if idle_s >= self._drop_after_s(member):
                self.remove(member.epoch)
                changes.append(Change(member=member, is_dropped=True, idle_s=idle_s))
            elif idle_s >= self._suspect_after_s(member) and not member.is_suspected:
                member.is_suspected = True
                changes.append(Change(member=member, is_dropped=False, idle_s=idle_s))
        return changes

    def next_change_s(self) -> float:
        """When `age` may next change something, if nobody steps meanwhile; inf without members."""
        limits = [
            member.last_step_s
            + (self._drop_after_s if member.is_suspected else self._suspect_after_s)(member)
            for member in self._by_epoch.values()
        ]
        return min(limits, default=float("inf"))

    def choose_donor(self, without: set[int]) -> Member | None:
        """The healthiest learner to copy from; None if nobody is fit.

        Present, which a learner that is itself on its way back is not; then the one that gives the
        fewest others a checkpoint, so that many returns at once do not pile on one donor; then the
        furthest; ties by name.
        """
        fit = [m for m in self._by_epoch.values() if m.is_present and m.epoch not in without]
        return max(fit, key=lambda m: (-m.giving, m.step, m.learner), default=None)

    def step_s(self) -> float:
        """xi_step: the mean step time of those present; 0 while nobody has stepped."""
        times = [m.step_s for m in self._by_epoch.values() if m.is_present and m.step_s > 0]
        return sum(times) / len(times) if times else 0.0

    def _source(
        self, versions: tuple[int, ...], current: tuple[int, ...]
    ) -> tuple[Source, Member | None]:
        if not current:
            return Source.INITIAL, None
        if versions:
            return Source.RESUMED, None
        donor = self.choose_donor(set())
        return (Source.DONOR, donor) if donor else (Source.SYNCER, None)

    def _suspect_after_s(self, member: Member) -> float:
        if not member.has_stepped:
            return self._settings.start_patience_s / 2
        return max(self._settings.suspect_after_s, 20 * member.step_s)

    def _drop_after_s(self, member: Member) -> float:
        if not member.has_stepped:
            return self._settings.start_patience_s
        return max(self._settings.drop_after_s, 60 * member.step_s)
