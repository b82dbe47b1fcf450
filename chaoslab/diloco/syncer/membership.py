"""Memberships: joining, progress, suspicion, dropping, fencing, and the choice of donors.

    hello ─► member (epoch n) ─► no step for a while ─► suspected ─► dropped: epoch n is fenced
                 ▲                                          │ steps again: recovered
                 └───────── hello again: epoch n + k ◄──────┘

Liveness is measured by training progress: only a higher step counts, so a learner that hangs while
its heartbeats continue is dropped like a dead one. While a member waits for a round, as `blocking`
demands, only reports are due from it. Processes of a learner are ordered by
incarnation, its memberships by epoch; messages of older ones are refused.

Part of the policy: no I/O, no clock, standard library only.
"""

from collections.abc import Container

from chaoslab.core.protocol import LeaveReason
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Drop, Hello, Member, SuspicionChange

_PACES = 8


class Refused(ValueError):
    """A hello that is not accepted; the message is for the learner."""


class Membership:
    """All memberships. Deterministic; time is an argument."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_epoch: dict[int, Member] = {}
        self._processes: dict[str, int] = {}
        self._pushed_to: dict[tuple[str, int], dict[int, int]] = {}
        self._unchanged_until_s = float("inf")
        """No member is to be suspected or dropped before; as long as nothing arrives, at least."""
        self.last_epoch = 0
        """Highest assigned epoch."""
        self.incarnations: dict[str, int] = {}
        """Highest incarnation seen of each learner."""
        self.data_positions: dict[str, int] = {}
        """Position of each learner in its data at its last report; kept after it leaves."""
        self.furthest_step = 0
        """Highest step that any learner has reported; kept after it leaves."""

    @property
    def members(self) -> tuple[Member, ...]:
        """Current memberships in the order of joining."""
        return tuple(self._by_epoch.values())

    def find(self, epoch: int) -> Member | None:
        """The membership with this epoch; None if it has ended."""
        return self._by_epoch.get(epoch)

    def admit(
        self, now_s: float, hello: Hello, current: tuple[int, ...]
    ) -> tuple[Member, Member | None]:
        """Admit a learner or raise Refused: its membership, and an older one that this ended.

        `current`: version vector, () before seeding.
        """
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
        self.last_epoch += 1
        member = Member(
            learner=hello.learner,
            incarnation=hello.incarnation,
            epoch=self.last_epoch,
            joined_s=now_s,
            last_step_s=now_s,
            stepped_s=now_s,
            pushed_to=self.pushed_to(hello.learner, hello.incarnation),
        )
        self._by_epoch[member.epoch] = member
        self._expect(now_s + self._limits_s(member)[0])
        self.incarnations[hello.learner] = hello.incarnation
        self._processes[hello.learner] = hello.process
        return member, replaced

    def _refuse_impostors(self, hello: Hello) -> None:
        """Refuse learners not on the roster, older incarnations, and second processes of one."""
        name, roster = hello.learner, self._settings.learners
        if name not in roster:
            raise Refused(f"{name!r} is not on the roster {', '.join(roster)}")
        known = self.incarnations.get(name, 0)
        if hello.incarnation < known:
            raise Refused(f"incarnation {hello.incarnation} of {name} has ended; {known} is known")
        process = self._processes.get(name, hello.process)
        if hello.incarnation == known and hello.process != process:
            raise Refused(
                f"incarnation {known} of {name} was another process; "
                f"a new process takes incarnation {known + 1}"
            )

    def pushed_to(self, learner: str, incarnation: int) -> dict[int, int]:
        """End of the last accepted contribution of that incarnation by fragment, in raw tokens."""
        return self._pushed_to.setdefault((learner, incarnation), {})

    def remove(self, epoch: int) -> Member | None:
        """End a membership: its epoch is fenced from now on."""
        return self._by_epoch.pop(epoch, None)

    def record_step(
        self, now_s: float, member: Member, step: int, step_s: float
    ) -> list[SuspicionChange]:
        """Record a report; the end of the member's suspicion if the step advanced.

        The step time decides how long the member is waited for, so a report is limited to the
        slowest of the last observed ones (a link may delay some of them). The first report only
        sets the starting point; progress is measured from there.
        """
        self.furthest_step = max(self.furthest_step, step)
        if not member.has_reported:
            member.has_reported, member.reported_s = True, now_s
            member.step = member.reported_step = step
        if step <= member.step:
            return []
        pace_s = (now_s - max(member.stepped_s, member.reported_s)) / (step - member.step)
        member.paces_s = (*member.paces_s, pace_s)[-_PACES:]
        member.step, member.step_s = step, min(step_s, max(member.paces_s))
        mean_s = (now_s - member.joined_s) / (step - member.reported_step)
        member.own_step_s = min(step_s, mean_s)
        return self.trust(now_s, member)

    def trust(self, now_s: float, member: Member) -> list[SuspicionChange]:
        """Count its time without a step from now on; the end of the member's suspicion, if any.

        For a step, and for a report of a member that waits for a round, so that no step is due.
        """
        member.stepped_s, member.has_stepped = now_s, True
        return self.excuse(now_s, member, member.step_s)

    def excuse(self, now_s: float, member: Member, step_s: float) -> list[SuspicionChange]:
        """The same for one that waits for other learners, and has made a step if it has work.

        `step_s` is its own word, and counts for no more than it has been a member.
        """
        if any(member.c_steps):
            confirmed_s = min(step_s, now_s - member.joined_s)
            member.has_stepped, member.step_s = True, member.step_s or confirmed_s
        idle_s, was_suspected = now_s - member.last_step_s, member.is_suspected
        member.last_step_s, member.is_suspected = now_s, False
        self._expect(now_s + self._settings.suspect_after_s)
        return (
            [SuspicionChange(member=member, is_over=True, idle_s=idle_s)] if was_suspected else []
        )

    def begin_anew(self, now_s: float, member: Member) -> None:
        """Count the time until its first step from now on: it has begun to get its parameters."""
        member.last_step_s = now_s

    def discount(self, seconds: float) -> None:
        """Do not count this long against any member: the syncer was paused."""
        for member in self._by_epoch.values():
            member.last_step_s += seconds
            member.stepped_s += seconds
            member.reported_s += seconds

    def age(self, now_s: float) -> list[SuspicionChange | Drop]:
        """Suspect and drop the members that have not stepped for too long."""
        changes: list[SuspicionChange | Drop] = []
        if now_s < self._unchanged_until_s:
            return changes
        for member in self.members:
            idle_s = now_s - member.last_step_s
            suspect_after_s, drop_after_s = self._limits_s(member)
            if idle_s >= drop_after_s:
                self.remove(member.epoch)
                changes.append(Drop(member=member, reason=LeaveReason.NO_PROGRESS))
            elif idle_s >= suspect_after_s and not member.is_suspected:
                member.is_suspected = True
                changes.append(SuspicionChange(member=member, is_over=False, idle_s=idle_s))
        self._unchanged_until_s = float("inf")
        for member in self._by_epoch.values():
            self._expect(member.last_step_s + self._limits_s(member)[member.is_suspected])
        return changes

    def next_change_s(self) -> float:
        """Time before which `age` changes nothing if nothing arrives; inf without members.

        The members' own times are looked at only then, so it may be earlier than the next change.
        """
        return self._unchanged_until_s

    def _expect(self, change_s: float) -> None:
        self._unchanged_until_s = min(self._unchanged_until_s, change_s)

    def choose_donor(self, without: Container[int] = ()) -> Member | None:
        """The best learner to copy a checkpoint from; None if there is none.

        It must be present, which excludes learners that are rejoining. Preferred are those with the
        fewest requests, so that many rejoins are spread over donors; then the highest step; then by
        name.
        """
        fit = [m for m in self._by_epoch.values() if m.is_present and m.epoch not in without]
        return max(fit, key=lambda m: (-m.giving, m.step, m.learner), default=None)

    def _limits_s(self, member: Member) -> tuple[float, float]:
        """Seconds without a step after which the member is suspected, and dropped."""
        rules, step_s = self._settings, member.step_s
        if not member.has_stepped and not member.waits:
            return rules.start_patience_s / 2, rules.start_patience_s
        return max(rules.suspect_after_s, 20 * step_s), max(rules.drop_after_s, 60 * step_s)
