"""Syncers with one defect each: `python -m chaoslab.selftest.mutants.syncer NAME` and its flags."""

from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from chaoslab.core.payloads import RoundMerged
from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.arrays.threads import INLINE, Threads
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer import (
    options,
    policy,
    program,
    syncer,
    syncer_state,
    training_state,
)
from chaoslab.diloco.syncer.action_executor import ActionExecutor
from chaoslab.diloco.syncer.commit_log import Reserved
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Contribution,
    Drop,
    Member,
    Merge,
    Offer,
    Pull,
    SuspicionChange,
)
from chaoslab.diloco.syncer.membership import Membership
from chaoslab.diloco.syncer.merge import Merged, OuterState, outer_step
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.resume import restore_policy
from chaoslab.diloco.syncer.rounds import Rounds
from chaoslab.diloco.syncer.sessions import Sessions
from chaoslab.diloco.syncer.store import StoredState, SyncerStore
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.diloco.syncer.tally import Tally
from chaoslab.diloco.syncer.training_state import Publication
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.identity import Tokens, claimed_by
from chaoslab.selftest.mutants import VICTIM, Part, flag, start_named

_UNFAIR_SHARE = 0.1
_UPHILL_FACTOR = -4.0
_AS_USUAL_ROUNDS = 30
"""Merged before the defect shows: the baseline is as it should be."""
_RARELY_S = 1.4

# ---------------------------------------------------------------- membership


class AnyTokens(Tokens):
    """Every token is valid for the learner that it names."""

    def owner(self, token: str) -> str | None:
        return claimed_by(token)


class BlindMembership(Membership):
    """Never suspects and never drops: an open stream counts as training."""

    def age(self, now_s: float) -> list[SuspicionChange | Drop]:  # noqa: ARG002 - the real method's parameter
        return []

    def next_change_s(self) -> float:
        return float("inf")


class KeepingMembership(Membership):
    """A member that was reported as dropped stays a member."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._kept: set[int] = set()

    def age(self, now_s: float) -> list[SuspicionChange | Drop]:
        changes = super().age(now_s)
        dropped = {c.member.epoch: c.member for c in changes if isinstance(c, Drop)}
        self._by_epoch |= dropped
        reported = [c for c in changes if c.member.epoch not in self._kept]
        self._kept |= dropped.keys()
        return reported


class KeepingSessions(Sessions):
    """Keeps the stream of a dropped member open."""

    def close(self, epoch: int, last_message: pb.ToLearner) -> None:
        pass


# ---------------------------------------------------------------- rounds


class PatientRounds(Rounds):
    """Begins no round while a learner of the roster is away."""

    def begin(self, now_s: float) -> list[Pull]:
        if len(self._membership.members) < len(self._settings.learners):
            return []
        return super().begin(now_s)


class RareRounds(Rounds):
    """After a while it begins a round every 1.4 s at most."""

    def begin(self, now_s: float) -> list[Pull]:
        if self.merged > _AS_USUAL_ROUNDS and now_s < self._begun_s + _RARELY_S:
            return []
        return super().begin(now_s)


class PartialRounds(Rounds):
    """After a while it merges fragment 0 no more."""

    def _wait(self, now_s: float, fragment: int) -> None:
        if fragment != 0 or self.merged <= _AS_USUAL_ROUNDS:
            super()._wait(now_s, fragment)
        else:
            self._waits.pop(fragment, None)


class LosingRounds(Rounds):
    """A later process of the syncer never begins a round of fragment 1."""

    def _wait(self, now_s: float, fragment: int) -> None:
        if fragment != 1 or flag("--incarnation") in {"", "1"}:
            super()._wait(now_s, fragment)
        else:
            self._waits.pop(fragment, None)


class HastyPolicy(Policy):
    """Says that the stop rule is met, long before it is."""

    def _met_stop(self, now_s: float) -> str | None:
        if self.rounds.merged > _AS_USUAL_ROUNDS:
            return f"{self.settings.stop_rounds} rounds"
        return super()._met_stop(now_s)


class DoubleRounds(Rounds):
    """Merges each contribution of the victim twice in one round, and records it twice."""

    def close(self, now_s: float) -> list[Merge | Abandon]:
        return [_doubled(end) if isinstance(end, Merge) else end for end in super().close(now_s)]


def _doubled(merge: Merge) -> Merge:
    again = tuple(c for c in merge.contributions if c.learner == VICTIM)
    return replace(merge, contributions=merge.contributions + again)


class PaddedRounds(Rounds):
    """Adds the tokens of every merge twice to the committed tokens."""

    def close(self, now_s: float) -> list[Merge | Abandon]:
        ends = super().close(now_s)
        for number, end in enumerate(ends):
            if isinstance(end, Merge):
                self.fragment_tokens += sum(c.c_tokens for c in end.contributions)
                ends[number] = replace(end, fragment_tokens=self.fragment_tokens)
        return ends


class ReplayingRounds(Rounds):
    """Accepts a push again that it has accepted before."""

    def __init__(self, settings: Settings, membership: Membership, tally: Tally) -> None:
        super().__init__(settings, membership, tally)
        self._taken: set[tuple[int, int]] = set()

    def judge(self, member: Member, offer: Offer) -> PushRefusal | None:
        refusal = super().judge(member, offer)
        push = member.epoch, offer.round
        if refusal in (PushRefusal.REPLAY, PushRefusal.LATE) and push in self._taken:
            return None
        if refusal is None:
            self._taken.add(push)
        return refusal


class BurstingRounds(Rounds):
    """Begins rounds without a pause between two of them."""

    def _spaced_s(self) -> float:
        return self._begun_s


class DeafPolicy(Policy):
    """Reports the victim's pushes as accepted, and never merges them."""

    def accept(self, now_s: float, epoch: int, offer: Offer) -> None:
        member = self.membership.find(epoch)
        if member is not None and member.learner == VICTIM:
            self.reject_answer(now_s, epoch, offer.round)
        else:
            super().accept(now_s, epoch, offer)


class UnfairContribution(Contribution):
    """The victim's work weighs a tenth of what its tokens are worth."""

    @classmethod
    def of(cls, member: Member, offer: Offer) -> Self:
        fair = super().of(member, offer)
        is_victim = member.learner == VICTIM
        return replace(fair, weight=_UNFAIR_SHARE * fair.weight) if is_victim else fair


# ---------------------------------------------------------------- merging and publishing


def no_outer_step(
    state: OuterState,
    merged: Merged,  # noqa: ARG001 - the real function's parameters
    lr: float,  # noqa: ARG001
    momentum: float,  # noqa: ARG001
    *,
    out: OuterState | None = None,  # noqa: ARG001
    threads: Threads = INLINE,  # noqa: ARG001
) -> OuterState:
    """Every version repeats the one before it."""
    return state


def uphill(
    state: OuterState,
    merged: Merged,
    lr: float,
    momentum: float,
    *,
    out: OuterState | None = None,
    threads: Threads = INLINE,
) -> OuterState:
    """A step away from where the learners went, so that the loss grows."""
    return outer_step(state, merged, _UPHILL_FACTOR * lr, momentum, out=out, threads=threads)


class TwoFacedExecutor(ActionExecutor):
    """Flips the lowest bit of every fragment that goes to the victim."""

    def _publish(self, member: Member, publication: Publication) -> None:
        if member.learner == VICTIM:
            first, *others = publication.payload
            other = memoryview(bytes([first ^ 1, *others]))
            publication = replace(publication, payload=other)
        super()._publish(member, publication)


# ---------------------------------------------------------------- durability


class ForgetfulState(SyncerState):
    """Restores everything but the outer momentum."""

    def restore(self, policy: Policy, now_s: float) -> RoundMerged | None:
        last_merge = super().restore(policy, now_s)
        for index, state in self._states.items():
            self._states[index] = OuterState(state.theta, np.zeros_like(state.momentum))
        return last_merge


def go_back(
    policy: Policy, stored: StoredState | None, reserved: Reserved, now_s: float
) -> Reserved:
    """Resume one version behind what was published."""
    if stored is not None:
        stored = replace(stored, commit_log=stored.commit_log[:-1])
    return restore_policy(policy, stored, reserved, now_s)


class CarelessStore(SyncerStore):
    """Writes in the right order and never waits for the disk."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:  # noqa: ARG002 - the real parameter
        super().__init__(directory, durable=False)


MUTANTS = {
    "unauthenticating_syncer": [Part(options, "Tokens", AnyTokens)],
    "blind_syncer": [Part(policy, "Membership", BlindMembership)],
    "bursting_syncer": [Part(policy, "Rounds", BurstingRounds)],
    "careless_syncer": [Part(program, "SyncerStore", CarelessStore)],
    "deaf_syncer": [Part(syncer, "Policy", DeafPolicy)],
    "double_merger": [Part(policy, "Rounds", DoubleRounds)],
    "forgetful_syncer": [Part(program, "SyncerState", ForgetfulState)],
    "hasty_syncer": [Part(syncer, "Policy", HastyPolicy)],
    "idle_syncer": [Part(syncer_state, "outer_step", no_outer_step)],
    "keeping_syncer": [
        Part(policy, "Membership", KeepingMembership),
        Part(syncer, "Sessions", KeepingSessions),
    ],
    "losing_syncer": [Part(policy, "Rounds", LosingRounds)],
    "padded_syncer": [Part(policy, "Rounds", PaddedRounds)],
    "partial_syncer": [Part(policy, "Rounds", PartialRounds)],
    "patient_syncer": [Part(policy, "Rounds", PatientRounds)],
    "rare_syncer": [Part(policy, "Rounds", RareRounds)],
    "replaying_syncer": [Part(policy, "Rounds", ReplayingRounds)],
    "rewound_syncer": [Part(training_state, "restore_policy", go_back)],
    "two_faced_syncer": [Part(syncer, "ActionExecutor", TwoFacedExecutor)],
    "unfair_syncer": [Part(policy, "Contribution", UnfairContribution)],
    "uphill_syncer": [Part(syncer_state, "outer_step", uphill)],
}

if __name__ == "__main__":
    start_named(program, MUTANTS)
