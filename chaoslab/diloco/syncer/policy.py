"""Policy: every decision of the syncer, as a deterministic state machine.

    hello, progress, closed, accept, … ─► Policy ─► actions: Welcome, Drop, Donate, …
                                 advance ─► Policy ─► actions: Pull, Merge, Abandon, Drop, Stop, …
                                    carried out by the syncer or a simulator ◄─┘

    Policy ─┬─ Membership   members, suspected members, fenced epochs
            ├─ Tally        counts over the present members
            ├─ Rounds       when a round begins and ends, which contribute
            ├─ Communicators   which members average gradients together, with `data_parallel`
            └─ Transfers    which donor sends a checkpoint to which learner

An input returns only what follows from it at once; `advance` does whatever is due.

No I/O, no clock, standard library only: the same inputs give the same actions. An open round never
waits for a member that has left, and training stops only between rounds.
"""

from collections.abc import Sequence

from chaoslab.core.protocol import LeaveReason, PushRefusal
from chaoslab.diloco.settings import Settings, Source
from chaoslab.diloco.syncer.communicators import Communicators
from chaoslab.diloco.syncer.decisions import (
    Action,
    Contribution,
    Drop,
    Hello,
    Offer,
    Progress,
    SendAll,
    Stop,
    Welcome,
)
from chaoslab.diloco.syncer.membership import Membership
from chaoslab.diloco.syncer.rounds import Rounds
from chaoslab.diloco.syncer.tally import Tally
from chaoslab.diloco.syncer.transfers import Transfers

_MOST = 1 << 53
"""Largest counter accepted: JSON readers represent integers exactly up to here."""

_ADDRESS_MOST = 300
"""Characters of a host:port."""


class Policy:
    """State of one training that decisions depend on. Deterministic; time is an argument."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.membership = Membership(settings)
        self.seeder: int | None = None
        """Epoch of the member that was asked for the initial parameters."""
        self.tally = Tally(settings)
        self.rounds = Rounds(settings, self.membership, self.tally)
        self.communicators = Communicators(settings, self.membership)
        self.transfers = Transfers(settings, self.membership)
        self._began_s: float | None = None
        self._awaited: frozenset[str] = frozenset()
        """Learners that took part before the syncer ended, and are waited for."""
        self._awaited_until_s = 0.0
        self.keeps_training = False
        """Whether training continues after a stop rule is met, until `stop` is called."""
        self.met_rule: str | None = None
        """Stop rule that was met first while training is kept going; None before."""
        self._stop_reason: str | None = None
        self._is_stopped = False

    def restart(self, *, began_s: float, awaited: frozenset[str], awaited_until_s: float) -> None:
        """Continue a training that began at `began_s`; `resume` has restored rounds and members.

        The first round waits for the `awaited` learners, so that their work without a syncer is not
        overwritten by a round of only the first one to return.
        """
        self._began_s = began_s
        self._awaited, self._awaited_until_s = awaited, awaited_until_s
        if any(self.versions):
            self.communicators.restart()

    @property
    def versions(self) -> tuple[int, ...]:
        """Version vector; () until the initial parameters are known."""
        return self.tally.versions

    @property
    def committed_tokens(self) -> float:
        """Tokens merged into the global parameters: the mean over the fragments."""
        return self.rounds.fragment_tokens / self.settings.fragments

    def trained_s(self, now_s: float) -> float:
        """Seconds since training began, without times in which no syncer ran."""
        return now_s - self._began_s if self._began_s is not None else 0.0

    # ------------------------------------------------------------ members

    def hello(self, now_s: float, hello: Hello) -> list[Action]:
        """Handle a learner's request to join; raises `membership.Refused`."""
        member, replaced = self.membership.admit(now_s, hello, self.versions)
        actions: list[Action] = []
        if replaced is not None:
            if replaced.epoch == self.seeder:
                self.seeder = None  # the new membership takes its place
            actions += self._end(now_s, Drop(member=replaced, reason=LeaveReason.FENCED))
        if hello.versions:
            actions.append(Welcome(member=member, source=Source.RESUMED, donor=None))
            actions.append(SendAll(receiver=member, known=hello.versions))
        elif self.versions:
            actions += self.transfers.help(now_s, member)
        elif self.seeder is None:
            self.seeder = member.epoch
            actions.append(Welcome(member=member, source=Source.INITIAL, donor=None))
        else:
            actions.append(Welcome(member=member, source=Source.SYNCER, donor=None))
        return actions

    def seeded(self, now_s: float, epoch: int) -> list[Action]:
        """Handle the arrival of the initial parameters.

        They are published to all learners, also to the one that sent them: all begin bit-identical.
        """
        if self.versions or epoch != self.seeder:
            return []
        self.tally.begin([0] * self.settings.fragments)
        self._began_s = now_s
        return [SendAll(receiver=member) for member in self.membership.members]

    def impossible(self, report: Progress) -> str:
        """Why no learner can have sent these counters; empty if they are possible."""
        fragments = self.settings.fragments
        if not len(report.c_steps) == len(report.c_tokens) == len(report.versions) == fragments:
            return f"counters of another number of fragments than {fragments}"
        if report.step > _MOST or report.tokens > _MOST or report.data_position > _MOST:
            return f"a step, tokens or a data position beyond {_MOST}"
        if not 0 <= report.step_s < float("inf"):
            return f"a step time of {report.step_s} s"
        if report.communicator > _MOST or len(report.meeting) > _ADDRESS_MOST:
            return f"communicator {report.communicator}, to meet at {report.meeting[:80]!r}"
        return ""

    def progress(self, now_s: float, epoch: int, report: Progress) -> Sequence[Action]:
        """Handle a learner's counters; ignored if its membership ended or they are impossible."""
        member = self.membership.find(epoch)
        if member is None or self.impossible(report):
            return ()
        if not member.has_reported:
            self.transfers.end(member)  # it holds everything
        recovered = self.membership.record_step(now_s, member, report.step, report.step_s)
        member.tokens, member.loss, member.versions = report.tokens, report.loss, report.versions
        member.c_steps, member.c_tokens = report.c_steps, report.c_tokens
        member.waits = report.waits and self.settings.data_parallel != "off"
        if report.communicator >= member.communicator:  # else it was told to form another since
            member.communicator, member.meeting = report.communicator, report.meeting
        self.membership.data_positions[member.learner] = report.data_position
        if self.tally.blocks(member):
            recovered += self.membership.trust(now_s, member)
        elif member.waits:
            recovered += self.membership.excuse(now_s, member, report.step_s)
        self.tally.update(member)
        return recovered

    def closed(self, now_s: float, epoch: int, reason: LeaveReason) -> list[Action]:
        """Handle the end of a member's stream, or its goodbye."""
        member = self.membership.remove(epoch)
        return self._end(now_s, Drop(member=member, reason=reason)) if member else []

    def _end(self, now_s: float, drop: Drop) -> list[Action]:
        """Remove an ended membership from rounds and transfers: the drop and what follows."""
        member = drop.member
        actions: list[Action] = [drop]
        self.rounds.lose(member)
        if member.epoch == self.seeder and not self.versions:
            successor = next(iter(self.membership.members), None)
            self.seeder = successor.epoch if successor else None
            if successor is not None:
                actions.append(Welcome(member=successor, source=Source.INITIAL, donor=None))
        return actions + self.transfers.lose(now_s, member, drop.reason)

    # ------------------------------------------------------------ pushes

    def offer(self, epoch: int, offer: Offer) -> PushRefusal | None:
        """Why a push is refused, judged by its header before its payload is decoded; None if
        accepted.

        Tokens that the learner has not reported as trained cannot be contributed.
        """
        member = self.membership.find(epoch)
        return PushRefusal.FENCED if member is None else self.rounds.judge(member, offer)

    def accept(self, now_s: float, epoch: int, offer: Offer) -> None:
        """Add a valid push to its round. Call only after `offer` returned None."""
        member = self.membership.find(epoch)
        if member is None:
            raise ValueError(f"epoch {epoch} has ended; `offer` refuses it")
        self.rounds.answer(now_s, member, offer.round, Contribution.of(member, offer))

    def reject_answer(self, now_s: float, epoch: int, round_number: int) -> None:
        """Stop waiting for a learner with an invalid answer to the pull."""
        member = self.membership.find(epoch)
        if member is not None:
            self.rounds.answer(now_s, member, round_number, None)

    def decline(self, now_s: float, epoch: int, offer: Offer) -> None:
        """Handle an answer that declines the pull."""
        self.offer(epoch, offer)  # a late answer ends `is_lagging`
        self.reject_answer(now_s, epoch, offer.round)

    # ------------------------------------------------------------ time

    def advance(self, now_s: float) -> list[Action]:
        """Do whatever is due. To be called after every input, and at `next_s`."""
        actions: list[Action] = []
        if self.transfers.open:
            actions += self.transfers.late(now_s)  # before a receiver is dropped that waited for it
        for change in self.membership.age(now_s):
            if isinstance(change, Drop):
                actions += self._end(now_s, change)
            else:
                self.tally.update(change.member)
                actions.append(change)
        if self.rounds.open:
            actions += self.rounds.close(now_s)
        if self.settings.data_parallel != "off":
            actions += self._communicate(now_s)
        if (reason := self._met_stop(now_s)) is not None:
            if self.keeps_training:
                self.met_rule = reason
                actions.append(Stop(reason=reason, is_over=False))
            else:
                self.stop(reason)
        if self._stop_reason is None:
            if not (self._awaited and self._is_gathering(now_s)):
                actions += self.rounds.begin(now_s)
        elif not self.rounds.open and not self._is_stopped:
            self._is_stopped = True
            actions.append(Stop(reason=self._stop_reason))
        return actions

    def _communicate(self, now_s: float) -> list[Action]:
        """End and form communicators, and let rounds need what they make possible."""
        if self._is_stopped or not self.versions or self._is_gathering(now_s):
            return []
        has_round = bool(self.rounds.open)
        actions: list[Action] = [
            *self.communicators.advance(now_s, self.versions, has_round=has_round)
        ]
        self.rounds.require(self.communicators.quorum, at_once=self.communicators.merges_at_once)
        return actions

    def discount(self, seconds: float) -> None:
        """Do not count this time: the syncer was paused, and has received no message since."""
        self.membership.discount(seconds)
        self.rounds.discount(seconds)
        self.transfers.discount(seconds)
        self._awaited_until_s += seconds

    def next_s(self) -> float:
        """Time at which `advance` must be called even if nothing arrives; may be inf."""
        rounds, is_stopping = self.rounds, self._stop_reason is not None
        times = [self.membership.next_change_s()]
        if self.transfers.open:
            times.append(self.transfers.next_s())
        if rounds.open:
            times.append(rounds.next_end_s())
        if self._awaited:
            times.append(self._awaited_until_s)
        elif not is_stopping:
            times.append(rounds.next_beginning_s())
        is_met = is_stopping or self.met_rule is not None
        if self.settings.stop_time_s is not None and self._began_s is not None and not is_met:
            times.append(self._began_s + self.settings.stop_time_s)
        return min(times)

    def _is_gathering(self, now_s: float) -> bool:
        """Whether learners are still awaited after a restart of the syncer."""
        if not self._awaited:
            return False
        present = {member.learner for member in self.membership.members if member.is_present}
        if self._awaited <= present or now_s >= self._awaited_until_s:
            self._awaited = frozenset()
        return bool(self._awaited)

    def stop(self, reason: str) -> None:
        """End training once the open rounds are closed; the next `advance` does it."""
        if self._stop_reason is None:
            self._stop_reason = reason

    def _met_stop(self, now_s: float) -> str | None:
        """Stop rule that is met now; None if there is none or one was met before."""
        if self._stop_reason is not None or self.met_rule is not None:
            return None
        rules, steps = self.settings, self.membership.furthest_step
        if rules.stop_rounds is not None and self.rounds.merged >= rules.stop_rounds:
            return f"{self.rounds.merged} rounds"
        if rules.stop_tokens is not None and self.committed_tokens >= rules.stop_tokens:
            return f"{self.committed_tokens:.0f} committed tokens"
        if rules.stop_steps is not None and steps >= rules.stop_steps:
            return f"{steps} steps"
        if rules.stop_time_s is not None and self.trained_s(now_s) >= rules.stop_time_s:
            return f"{self.trained_s(now_s):.1f} s"
        if rules.stop_loss is not None and self._loss() <= rules.stop_loss:
            return f"a training loss of {self._loss():.4f}"
        return None

    def _loss(self) -> float:
        """Mean training loss of the present members; infinite if none reported one."""
        members = self.membership.members
        losses = [m.loss for m in members if m.loss is not None and m.is_present]
        return sum(losses) / len(losses) if losses else float("inf")
