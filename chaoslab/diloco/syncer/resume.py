"""Continuation of a syncer from the state that an earlier process left on disk.

    Merge ── commit_record ──► commit log ─┐
    reserved numbers ──────────────────────┴─► restore ──► Policy: versions, numbers, incarnations
                                               └──► last_merge ──► round.merged, once more

Round numbers and epochs are never assigned twice, merged work is never merged again, and training
time is summed over all processes. Memberships are not restored: the streams ended with the process,
so every learner says hello again, and the first round waits briefly for those that took part in the
last ones.
"""

from chaoslab.core.events import Json
from chaoslab.diloco.syncer.commit_log import CommitRecord, ContributionRecord
from chaoslab.diloco.syncer.decisions import Merge
from chaoslab.diloco.syncer.policy import Awaited, Policy
from chaoslab.diloco.syncer.store import Reserved, StoredState


def commit_record(action: Merge, policy: Policy, now_s: float) -> CommitRecord:
    """Line of the commit log for a merge."""
    members = policy.membership
    return CommitRecord(
        round=action.round,
        fragment=action.fragment,
        version=action.base_version + 1,
        begun=policy.begun_rounds,
        contributors=tuple(
            ContributionRecord(
                learner=c.learner,
                incarnation=c.incarnation,
                epoch=c.epoch,
                step=c.offer.step,
                c_steps=c.offer.c_steps,
                c_tokens=c.offer.c_tokens,
                weight=c.weight,
                tokens_from=c.offer.tokens_from,
                tokens_to=c.offer.tokens_to,
            )
            for c in action.contributions
        ),
        last_epoch=members.last_epoch,
        incarnations=members.incarnations,
        data_positions=dict(members.data_positions),
        trained_s=policy.trained_s(now_s),
    )


def restore_policy(
    policy: Policy, stored: StoredState | None, reserved: Reserved, now_s: float
) -> Reserved:
    """Restore a new policy from disk; return the numbers that count as assigned."""
    last = stored.commit_log[-1] if stored else None
    taken = Reserved(
        rounds=max(reserved.rounds, last.begun if last else 0),
        epochs=max(reserved.epochs, last.last_epoch if last else 0),
    )
    policy.membership.restore(
        last_epoch=taken.epochs,
        incarnations=dict(last.incarnations) if last else {},
        data_positions=dict(last.data_positions) if last else {},
    )
    if stored is None or last is None:
        return taken
    for line in stored.commit_log:
        for given in line.contributors:
            pushed_to = policy.membership.pushed_to(given.learner, given.incarnation)
            pushed_to[line.fragment] = given.tokens_to
    policy.restore(
        versions=stored.versions,
        rounds=taken.rounds,
        merged_rounds=sum(line.version > 0 for line in stored.commit_log),
        fragment_tokens=sum(
            given.c_tokens for line in stored.commit_log for given in line.contributors
        ),
        began_s=now_s - last.trained_s,
        awaited=Awaited(learners=_recent(stored), until_s=now_s + policy.settings.suspect_after_s),
    )
    return taken


def _recent(stored: StoredState) -> frozenset[str]:
    """Learners that contributed to the last merges, as many merges as there are fragments."""
    lines = stored.commit_log[-len(stored.versions) :]
    return frozenset(given.learner for line in lines for given in line.contributors)


def last_merge(
    line: CommitRecord, policy: Policy, *, digest: str, momentum_digest: str
) -> dict[str, Json]:
    """Data of `round.merged` for the last merge of an earlier process, without its duration."""
    return {
        "round": line.round,
        "fragment": line.fragment,
        "version": line.version,
        "base_version": line.version - 1,
        "contributors": [
            {
                "learner": given.learner,
                "incarnation": given.incarnation,
                "epoch": given.epoch,
                "weight": given.weight,
                "step": given.step,
                "c_steps": given.c_steps,
                "c_tokens": given.c_tokens,
                "tokens_from": given.tokens_from,
                "tokens_to": given.tokens_to,
            }
            for given in line.contributors
        ],
        "committed_tokens": policy.committed_tokens,
        "digest": digest,
        "momentum_digest": momentum_digest,
        "is_restated": True,
    }
