"""Continuation of a syncer from the state that an earlier process left on disk.

    Merge ── commit_record ──► commit log ─┐
    reserved numbers ──────────────────────┴─► restore ──► Policy: versions, numbers, incarnations

Round numbers and epochs are never assigned twice, merged work is never merged again, and training
time is summed over all processes. Memberships are not restored: the streams ended with the process,
so every learner says hello again, and the first round waits briefly for those that took part in the
last ones.
"""

from collections.abc import Sequence
from typing import Protocol

from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved
from chaoslab.diloco.syncer.decisions import Merge
from chaoslab.diloco.syncer.policy import Policy


class Committed(Protocol):
    """State on disk without the values of fragments: of a store, or of a simulated disk."""

    @property
    def commit_log(self) -> Sequence[CommitRecord]:
        """All merges, version 0 of each fragment included."""
        ...

    @property
    def versions(self) -> Sequence[int]:
        """Version of each fragment, in order."""
        ...


def commit_record(action: Merge, policy: Policy, now_s: float, *, usual: float) -> CommitRecord:
    """Line of the commit log for a merge, whose median size was `usual`."""
    members = policy.membership
    return CommitRecord(
        round=action.round,
        fragment=action.fragment,
        version=action.base_version + 1,
        begun=policy.rounds.begun,
        contributors=action.contributions,
        last_epoch=members.last_epoch,
        incarnations=dict(members.incarnations),
        data_positions=dict(members.data_positions),
        trained_s=policy.trained_s(now_s),
        usual=usual,
    )


def restore_policy(
    policy: Policy, stored: Committed | None, reserved: Reserved, now_s: float
) -> Reserved:
    """Restore a new policy from disk; return the numbers that count as assigned."""
    members, rounds = policy.membership, policy.rounds
    members.last_epoch = reserved.epochs
    if stored is None:
        return reserved
    last = stored.commit_log[-1]
    taken = Reserved(
        rounds=max(reserved.rounds, last.begun), epochs=max(reserved.epochs, last.last_epoch)
    )
    members.last_epoch = taken.epochs
    members.incarnations = dict(last.incarnations)
    members.data_positions = dict(last.data_positions)
    policy.tally.begin(stored.versions)
    rounds.begun = taken.rounds
    for line in stored.commit_log:
        rounds.merged += line.version > 0
        for given in line.contributors:
            rounds.fragment_tokens += given.c_tokens
            pushed_to = members.pushed_to(given.learner, given.incarnation)
            pushed_to[line.fragment] = given.tokens_to
            members.furthest_step = max(members.furthest_step, given.step)
    recent = stored.commit_log[-len(stored.versions) :]  # as many merges as fragments
    policy.restart(
        began_s=now_s - last.trained_s,
        awaited=frozenset(given.learner for line in recent for given in line.contributors),
        awaited_until_s=now_s + policy.settings.suspect_after_s,
    )
    return taken
