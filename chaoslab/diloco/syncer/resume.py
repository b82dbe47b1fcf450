"""How a syncer goes on where an earlier life of it was cut off, from what that left on disk.

    Merge ── tape_line ──► tape ─┐
    numbers that were reserved ──┴─► go_on ──► Policy: versions, numbers, lives, who gave what
                                └──► restated ──► round.merged, once more

No round number and no epoch of an earlier life is given again, no learner's work that was merged
can be merged once more, and the time for which training went on is added up over all lives. Who is
a member is not restored: the streams died with the earlier life, so every learner says hello again,
and for a moment the first round waits for those who took part in the last ones.
"""

from chaoslab.core.events import Json
from chaoslab.diloco.syncer.commit_log import CommitRecord, Given
from chaoslab.diloco.syncer.decisions import Merge
from chaoslab.diloco.syncer.policy import Awaited, Policy
from chaoslab.diloco.syncer.store import Reserved, StoredState


def commit_record(action: Merge, policy: Policy, now_s: float) -> CommitRecord:
    """A merge, and where everything else stands, as the tape keeps it."""
    members = policy.membership
    return CommitRecord(
        round=action.round,
        fragment=action.fragment,
        version=action.base_version + 1,
        begun=policy.begun_rounds,
        contributors=tuple(
            Given(
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


def go_on(policy: Policy, stored: StoredState | None, reserved: Reserved, now_s: float) -> Reserved:
    """Let a fresh policy go on from the disk; which numbers are taken, given or not."""
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
            life = policy.membership.pushed_to(given.learner, given.incarnation)
            life[line.fragment] = given.tokens_to
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
    """Who gave something to the last merges, as many as there are fragments."""
    lines = stored.commit_log[-len(stored.versions) :]
    return frozenset(given.learner for line in lines for given in line.contributors)


def restated(
    line: CommitRecord, policy: Policy, *, digest: str, momentum_digest: str
) -> dict[str, Json]:
    """The last merge of an earlier life, for `round.merged`; how long it took is forgotten."""
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
