"""Policy: every decision of the syncer, as a deterministic state machine.

    hello, progress, push, closed ──► Policy ──► actions: Pull, Merge, Abandon, Drop, Donate, …
                          now_s ───────┘             └─► carried out by the syncer or a simulator

    Policy ─┬─ Membership   members, suspected members, fenced epochs
            ├─ Rounds       when a round begins and ends, who contributes
            └─ Transfers    which donor sends a checkpoint to whom

No I/O, no clock, standard library only: the same inputs give the same actions. An open round never
waits for a member that has left, and training stops only between rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.syncer.decisions import (
    Action,
    Contribution,
    Drop,
    Hold,
    Merge,
    Offer,
    Progress,
    Recover,
    Refusal,
    SendAll,
    Stop,
    Suspect,
    Welcome,
)
from chaoslab.diloco.syncer.membership import Hello, LeaveReason, Member, Membership
from chaoslab.diloco.syncer.rounds import Round, Rounds
from chaoslab.diloco.syncer.transfers import Transfers

_MOST = 1 << 53
"""Largest counter accepted: JSON readers represent integers exactly up to here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """Learners that took part before the syncer ended, and until when they are waited for."""

    learners: frozenset[str] = frozenset()
    until_s: float = 0.0


class Policy:
    """The syncer's decisions. Each input returns actions."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.membership = Membership(settings)
        self.seeder: int | None = None
        """Epoch of the member that was asked for the initial parameters."""
        self._rounds = Rounds(settings, self.membership)
        self._transfers = Transfers(self.membership)
        self._began_s: float | None = None
        self._awaited = Awaited()
        self.is_held = False
        """Whether training continues after a stop rule is met, until `stop` is called."""
        self.held_reason: str | None = None
        """Stop rule that was met first while training is held; None before."""
        self._stop_reason: str | None = None
        self._is_stopped = False

    def restore(
        self,
        *,
        versions: Sequence[int],
        rounds: int,
        merged_rounds: int,
        fragment_tokens: int,
        began_s: float,
        awaited: Awaited,
    ) -> None:
        """Continue from stored state; `membership.restore` does the same for the members.

        The first round waits for the `awaited` learners, so that their work without a syncer is not
        overwritten by a round of only the first one to return.
        """
        self._rounds.versions = list(versions)
        self._rounds.begun, self._rounds.merged = rounds, merged_rounds
        self._rounds.fragment_tokens = fragment_tokens
        self._began_s = began_s
        self._awaited = awaited

    @property
    def versions(self) -> tuple[int, ...]:
        """Version vector; () until the initial parameters are known."""
        return tuple(self._rounds.versions)

    @property
    def open_rounds(self) -> tuple[Round, ...]:
        """Rounds that were pulled and are neither merged nor abandoned."""
        return self._rounds.open

    @property
    def begun_rounds(self) -> int:
        """Number of rounds begun so far."""
        return self._rounds.begun

    @property
    def merged_rounds(self) -> int:
        """Number of rounds merged so far."""
        return self._rounds.merged

    @property
    def fragment_tokens(self) -> int:
        """Sum over all merges of the contributors' c_tokens."""
        return self._rounds.fragment_tokens

    @property
    def committed_tokens(self) -> float:
        """Tokens merged into the global parameters: the mean over the fragments."""
        return self.fragment_tokens / self.settings.fragments

    def trained_s(self, now_s: float) -> float:
        """Seconds since training began, without times in which no syncer ran."""
        return now_s - self._began_s if self._began_s is not None else 0.0

    # ------------------------------------------------------------ members

    def hello(self, now_s: float, hello: Hello) -> list[Action]:
        """Handle a learner's request to join; raises `membership.Refused`."""
        admission = self.membership.admit(now_s, hello, self.versions)
        actions: list[Action] = []
        if admission.replaced is not None:
            actions += self._forget(now_s, admission.replaced, LeaveReason.FENCED)
        source, donor, member = admission.source, admission.donor, admission.member
        if source is Source.INITIAL:
            if self.seeder is None:
                self.seeder = member.epoch
            else:
                source = Source.SYNCER
        actions.append(Welcome(member=member, source=source, donor=donor))
        if donor is not None:
            actions.append(self._transfers.ask(now_s, donor, member))
        elif source in (Source.SYNCER, Source.RESUMED) and self.versions:
            actions.append(SendAll(receiver=member))
        return actions + self.advance(now_s)

    def seeded(self, now_s: float, epoch: int) -> list[Action]:
        """Handle the arrival of the initial parameters.

        They are published to all learners, also to the one that sent them: all begin bit-identical.
        """
        if self.versions or epoch != self.seeder:
            return []
        self._rounds.versions = [0] * self.settings.fragments
        self._began_s = now_s
        return [SendAll(receiver=member) for member in self.membership.members]

    def impossible(self, report: Progress) -> str:
        """Why no learner can have sent these counters; empty if they are possible."""
        counts = (report.c_steps, report.c_tokens, report.versions)
        if any(len(count) != self.settings.fragments for count in counts):
            return f"counters of another number of fragments than {self.settings.fragments}"
        if max(report.step, report.tokens, report.data_position) > _MOST:
            return f"a step, tokens or a data position beyond {_MOST}"
        if not 0 <= report.step_s < float("inf"):
            return f"a step time of {report.step_s} s"
        return ""

    def progress(self, now_s: float, epoch: int, report: Progress) -> list[Action]:
        """Handle a learner's counters; ignored if its membership ended or they are impossible."""
        member = self.membership.find(epoch)
        counts = (report.c_steps, report.c_tokens, report.versions)
        if member is None or self.impossible(report):
            return []
        idle_s = self.membership.record_step(now_s, member, report.step, report.step_s)
        member.tokens, member.loss = report.tokens, report.loss
        member.c_steps, member.c_tokens, member.versions = counts
        self.membership.data_positions[member.learner] = report.data_position
        recovered: list[Action] = []
        if idle_s is not None:
            recovered.append(Recover(member=member, idle_s=idle_s))
        return recovered + self.advance(now_s)

    def closed(self, now_s: float, epoch: int, reason: LeaveReason) -> list[Action]:
        """Handle the end of a member's stream, or its goodbye."""
        member = self.membership.remove(epoch)
        if member is None:
            return []
        return self._forget(now_s, member, reason) + self.advance(now_s)

    def _forget(self, now_s: float, member: Member, reason: LeaveReason) -> list[Action]:
        """Remove an ended membership from rounds and transfers."""
        self._rounds.lose(member)
        actions: list[Action] = [Drop(member=member, reason=reason)]
        if member.epoch == self.seeder and not self.versions:
            heir = next(iter(self.membership.members), None)
            self.seeder = heir.epoch if heir else None
            if heir is not None:
                actions.append(Welcome(member=heir, source=Source.INITIAL, donor=None))
        return actions + self._transfers.lose(now_s, member)

    # ------------------------------------------------------------ pushes

    def offer(self, epoch: int, offer: Offer) -> Refusal | None:
        """Why a push is refused, judged by its header before its payload is decoded; None if
        accepted.

        Tokens that the learner has not reported as trained cannot be contributed.
        """
        member = self.membership.find(epoch)
        return Refusal.FENCED if member is None else self._rounds.judge(member, offer)

    def accept(self, now_s: float, epoch: int, offer: Offer) -> list[Action]:
        """Add a valid push to its round. Call only after `offer` returned None."""
        member = self.membership.find(epoch)
        if member is None:
            raise ValueError(f"epoch {epoch} has ended; `offer` refuses it")
        contribution = Contribution(
            learner=member.learner, incarnation=member.incarnation, epoch=epoch, offer=offer
        )
        self._rounds.answer(now_s, member, offer.round, contribution)
        return self.advance(now_s)

    def reject_answer(self, now_s: float, epoch: int, round_number: int) -> list[Action]:
        """Stop waiting for a learner whose answer to the pull was invalid."""
        member = self.membership.find(epoch)
        if member is None:
            return []
        self._rounds.answer(now_s, member, round_number, None)
        return self.advance(now_s)

    def decline(self, now_s: float, epoch: int, offer: Offer) -> list[Action]:
        """Handle an answer that declines the pull."""
        self.offer(epoch, offer)  # a late answer ends `is_lagging`
        return self.reject_answer(now_s, epoch, offer.round)

    def published(self, now_s: float, merge: Merge) -> list[Action]:
        """Handle the completion of a merge that is being published."""
        self._rounds.published(now_s, merge)
        return self.advance(now_s)

    def transferred(self, request: int) -> Member | None:
        """Receiver of a donor's checkpoint that has arrived; None if it is no longer wanted."""
        return self._transfers.done(request)

    # ------------------------------------------------------------ time

    def paused(self, seconds: float) -> None:
        """Handle a pause of the syncer itself; messages sent meanwhile are still to be read."""
        self.membership.discount(seconds)

    def advance(self, now_s: float) -> list[Action]:
        """Do whatever is due. Called after every input, and at `next_s`."""
        actions: list[Action] = []
        for change in self.membership.age(now_s):
            if change.is_dropped:
                actions += self._forget(now_s, change.member, LeaveReason.NO_PROGRESS)
            else:
                actions.append(Suspect(member=change.member, idle_s=change.idle_s))
        actions += self._transfers.late(now_s)
        actions += self._rounds.close(now_s)
        if (reason := self._met_stop(now_s)) is not None:
            if self.is_held:
                self.held_reason = reason
                actions.append(Hold(reason=reason))
            else:
                self.stop(reason)
        if self._stop_reason is None:
            if not self._is_gathering(now_s):
                actions += self._rounds.begin(now_s)
        elif not self._rounds.open and not self._is_stopped:
            self._is_stopped = True
            actions.append(Stop(reason=self._stop_reason))
        return actions

    def next_s(self) -> float:
        """Time at which `advance` must be called even if nothing arrives; may be inf."""
        times = [self.membership.next_change_s(), self._rounds.next_s(), self._transfers.next_s()]
        if self._awaited.learners:
            times.append(self._awaited.until_s)
        stop_time_s = self.settings.stop_time_s if self.held_reason is None else None
        if stop_time_s is not None and self._began_s is not None:
            times.append(self._began_s + stop_time_s)
        return min(times)

    def _is_gathering(self, now_s: float) -> bool:
        """Whether learners are still awaited after a restart of the syncer."""
        present = {member.learner for member in self.membership.members if member.is_present}
        if self._awaited.learners <= present or now_s >= self._awaited.until_s:
            self._awaited = Awaited()
        return bool(self._awaited.learners)

    def stop(self, reason: str) -> None:
        """End training once the open rounds are closed; the next `advance` does it."""
        if self._stop_reason is None:
            self._stop_reason = reason

    def _met_stop(self, now_s: float) -> str | None:
        """Stop rule that is met now; None if there is none or one was met before."""
        if self._stop_reason is not None or self.held_reason is not None:
            return None
        rules, members = self.settings, self.membership.members
        steps = max((m.step for m in members), default=0)
        losses = [m.loss for m in members if m.loss is not None and m.is_present]
        trained_s = self.trained_s(now_s)
        if rules.stop_rounds is not None and self.merged_rounds >= rules.stop_rounds:
            return f"{self.merged_rounds} rounds"
        if rules.stop_tokens is not None and self.committed_tokens >= rules.stop_tokens:
            return f"{self.committed_tokens:.0f} committed tokens"
        if rules.stop_steps is not None and steps >= rules.stop_steps:
            return f"{steps} steps"
        if rules.stop_time_s is not None and trained_s >= rules.stop_time_s:
            return f"{trained_s:.1f} s"
        if rules.stop_loss is not None and losses and _mean(losses) <= rules.stop_loss:
            return f"a training loss of {_mean(losses):.4f}"
        return None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
