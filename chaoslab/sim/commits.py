"""Commits of a simulated syncer: merges on their way to the disk and to the learners, in order.

    add ─► merge ─► write ─► encode ─► Publications, announce   each at its cost, in order
                    ▲ └─ the disk is full: syncer.blocked, tried again; syncer.freed
    restore ◄── SyncerDisk

As `diloco.syncer.commits` and `syncer_state`: only what is on disk is published.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from chaoslab.core.events import Json
from chaoslab.core.payloads import (
    PushBounded,
    RoundMerged,
    RoundStored,
    SyncerBlocked,
    SyncerFreed,
)
from chaoslab.core.protocol import Phase
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved
from chaoslab.diloco.syncer.decisions import Contribution, Member, Merge
from chaoslab.diloco.syncer.norms import Excess, Norms, Size, round_median
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.resume import commit_record, restore_policy
from chaoslab.sim.chance import Chance
from chaoslab.sim.disk import digest
from chaoslab.sim.messages import flat
from chaoslab.sim.process import Process
from chaoslab.sim.publications import Publications
from chaoslab.sim.sessions import identity

AGAIN_S = 0.5
"""Between two attempts to write, as `diloco.syncer.commits` has it."""
RESERVES, LEFT_LEAST = 1000, 100
"""Rounds and epochs that are reserved at a time, as `diloco.syncer.syncer_state` has it."""
_SPREAD = 0.05
"""Spread of the norms of pushes, as a share; no two real ones are alike."""
_ALIKE = 0.2
"""Cosine of two learners' outer gradients: that of `nano` after 250 steps."""
_FULL = "No space left on device"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Push:
    """A push until its merge."""

    scale: float
    norm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """A merge that is under way."""

    merge: Merge
    line: CommitRecord
    given: Sequence[Contribution]
    """Contributions in order of the learners' names."""
    largest: float
    """Largest size of the updates that are merged unchanged, as a multiple of the usual size."""


class Commits:
    """Merges and publications of one life of the syncer."""

    def __init__(
        self,
        process: Process,
        policy: Policy,
        settings: Settings,
        *,
        published: Publications,
        announced: Callable[[], None],
    ) -> None:
        """`announced` is called after each merge."""
        self._process, self._policy, self._settings = process, policy, settings
        self._published, self._announced = published, announced
        self._costs, self._disk = process.world.costs, process.world.syncer_disk
        self._norms = Norms(limit=settings.norm_limit, rounds_min=settings.norm_rounds)
        self._pushes: dict[tuple[int, int], _Push] = {}
        """Pushes that wait for their merge, by round and epoch."""
        self._waiting: deque[Merge] = deque()
        self._blocked_s: float | None = None

    # ---------------------------------------------------------------- from the disk

    def restore(self) -> bool:
        """Continue from the disk; whether there was anything on it."""
        disk = self._disk
        stored = disk if disk.commit_log else None
        disk.reserved = restore_policy(self._policy, stored, disk.reserved, self._process.now_s)
        self.reserve()
        for line in disk.commit_log:
            self._norms.learn(line.fragment, line.usual)
        self._published.restore()
        return stored is not None

    def restate(self) -> None:
        """Report the last merge once more: it may not have been heard of."""
        line = self._disk.commit_log[-1] if self._disk.commit_log else None
        if line is not None and line.version:
            tokens = self._policy.rounds.fragment_tokens
            merged = self._data(line.round, line.fragment, line.version, line.contributors, tokens)
            self._process.say(RoundMerged, **merged, is_restated=True)

    def reserve(self) -> None:
        """Reserve rounds and epochs on disk, so that none is given twice."""
        rounds, epochs = self._policy.rounds.begun, self._policy.membership.last_epoch
        reserved = self._disk.reserved
        left = min(reserved.rounds - rounds, reserved.epochs - epochs)
        if left < LEFT_LEAST and not self._disk.is_full:
            self._disk.reserved = Reserved(rounds=rounds + RESERVES, epochs=epochs + RESERVES)

    def seed(self) -> None:
        """The initial parameters are on disk."""
        disk = self._disk
        for fragment in range(self._settings.fragments):
            found = digest(self._process.world.seed, fragment, 0)
            disk.digests[fragment] = found
            disk.momentum_digests[fragment] = digest("momentum", found)
            disk.commit_log.append(CommitRecord(round=0, fragment=fragment, version=0, begun=0))
            self._published.seed(fragment)
        self._published.snapshot(0.0, 0)

    # ---------------------------------------------------------------- one by one

    @property
    def is_empty(self) -> bool:
        """Whether everything that was merged is published."""
        return not self._waiting

    def keep(self, round_: int, epoch: int, *, steps: int, scale: float) -> float:
        """Keep a push of this many steps for its round; its modelled norm."""
        chance = Chance(self._process.world.seed, "norm", round_, epoch)
        usual = self._costs.norm * math.sqrt(steps) * abs(scale)
        push = _Push(scale=scale, norm=chance.spread(usual, _SPREAD))
        self._pushes[round_, epoch] = push
        return push.norm

    def forget(self, round_: int) -> None:
        """Drop the pushes of a round that is over."""
        for key in [key for key in self._pushes if key[0] == round_]:
            del self._pushes[key]

    def add(self, merge: Merge) -> None:
        """Merge these contributions, after those before."""
        self._waiting.append(merge)
        if len(self._waiting) == 1:
            self._begin(merge)

    def _begin(self, merge: Merge) -> None:
        given = sorted(merge.contributions, key=lambda one: one.learner)
        pushes = [self._pushes[merge.round, one.epoch] for one in given]
        scales = [push.scale for push in pushes]
        self.forget(merge.round)
        sizes = [
            Size(norm=push.norm, steps=one.c_steps) for one, push in zip(given, pushes, strict=True)
        ]
        excesses = self._norms.judge(merge.fragment, sizes)
        cosines = dict(zip((one.epoch for one in given), _cosines(given, scales), strict=True))
        compared = tuple(replace(one, cosine=cosines[one.epoch]) for one in merge.contributions)
        merge = replace(merge, contributions=compared)
        line = commit_record(
            merge, self._policy, self._process.now_s, usual=round_median(sizes, excesses)
        )
        pairs = zip(scales, excesses, strict=True)
        largest = max([abs(scale) for scale, excess in pairs if excess is None], default=1.0)
        commit = _Commit(merge=merge, line=line, given=given, largest=largest)
        self._reach(
            Phase.QUORUM, merge,
            lambda: self._work("merge_s", lambda: self._bound(commit, excesses)),
        )  # fmt: skip

    def _bound(self, commit: _Commit, excesses: Sequence[Excess | None]) -> None:
        """Merge in memory, and scale down updates that are too large."""
        merge = commit.merge
        for one, excess in zip(commit.given, excesses, strict=True):
            if excess is not None:
                self._process.say(
                    PushBounded,
                    **identity(one),
                    round=merge.round,
                    fragment=merge.fragment,
                    **flat(excess),
                )
        self._reach(Phase.BEFORE_WRITE, merge, lambda: self._write(commit))

    def _write(self, commit: _Commit) -> None:
        """Write to disk, again while it refuses."""
        if not self._disk.is_full:
            took_s = self._process.round_work_s("store_s")
            self._later(took_s, lambda: self._written(commit, took_s))
            return
        if self._blocked_s is None:
            self._blocked_s = self._process.now_s
            self._process.say(SyncerBlocked, waiting=len(self._waiting), reason=_FULL)
        self._later(AGAIN_S, lambda: self._write(commit))

    def _written(self, commit: _Commit, took_s: float) -> None:
        disk, merge, fragment = self._disk, commit.merge, commit.merge.fragment
        if disk.is_full:
            self._write(commit)
            return
        if self._blocked_s is not None:
            blocked_s, self._blocked_s = self._process.now_s - self._blocked_s, None
            self._process.say(SyncerFreed, waiting=len(self._waiting), blocked_s=blocked_s)
        work = [
            (one.learner, one.incarnation, one.tokens_from, one.tokens_to) for one in commit.given
        ]
        disk.digests[fragment] = digest(disk.digests[fragment], merge.round, work)
        disk.momentum_digests[fragment] = digest("momentum", disk.digests[fragment])
        disk.damage.append((fragment, commit.largest))
        disk.commit_log.append(commit.line)
        self._process.say(RoundStored, **merge.place, took_s=took_s)
        self._reach(
            Phase.WRITTEN, merge,
            lambda: self._work("publish_s", lambda: self._publish_to_first(commit)),
        )  # fmt: skip

    def _publish_to_first(self, commit: _Commit) -> None:
        merge, fragment = commit.merge, commit.merge.fragment
        self._published.add(merge, commit.largest)
        first = next(iter(self._policy.membership.members), None)
        if first is None:
            self._announce(commit, None)
            return
        self._published.send(first, fragment)
        self._process.reach_on_main(
            Phase.PUBLISH, lambda: self._announce(commit, first), **merge.place
        )

    def _announce(self, commit: _Commit, first: Member | None) -> None:
        """Publish to all others, and report."""
        merge, tokens = commit.merge, commit.merge.fragment_tokens
        members = self._policy.membership.members
        for member in members:
            if member is not first:
                self._published.send(member, merge.fragment)
        now_s = self._process.now_s
        self._policy.rounds.published(now_s, merge)
        version = merge.base_version + 1
        self._process.say(
            RoundMerged,
            **self._data(merge.round, merge.fragment, version, merge.contributions, tokens),
            members=len(members),
            missed=merge.missed,
            quorum_s=merge.quorum_s,
            grace_s=merge.grace_s,
            sync_s=now_s - merge.pulled_s,
        )
        self._published.snapshot(tokens / self._settings.fragments, merge.round)
        self._waiting.popleft()
        if self._waiting:
            self._begin(self._waiting[0])
        self._announced()

    def _data(
        self,
        round_: int,
        fragment: int,
        version: int,
        given: Iterable[Contribution],
        fragment_tokens: int,
    ) -> dict[str, Json]:
        return {
            "round": round_,
            "fragment": fragment,
            "version": version,
            "base_version": version - 1,
            "contributors": [flat(one) for one in given],
            "committed_tokens": fragment_tokens / self._settings.fragments,
            "digest": self._disk.digests[fragment],
            "momentum_digest": self._disk.momentum_digests[fragment],
        }

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._process.later(delay_s, act)

    def _work(self, cost: str, act: Callable[[], None]) -> None:
        self._process.work(self._process.round_work_s(cost), act)

    def _reach(self, phase: Phase, merge: Merge, then: Callable[[], None]) -> None:
        self._process.reach(phase, then, **merge.place)


def _cosines(given: Sequence[Contribution], scales: Sequence[float]) -> list[float | None]:
    """Modelled cosine of each contribution with the others: any two sound updates have `_ALIKE`.

    Merged by rda, each counts by its weight and its sign, whatever its size.
    """
    signed = [math.copysign(one.weight, scale) for one, scale in zip(given, scales, strict=True)]
    whole, squares = sum(signed), sum(one * one for one in signed)
    found: list[float | None] = []
    for own in signed:
        others, square = whole - own, squares - own * own
        length = math.sqrt(max(0.0, (1 - _ALIKE) * square + _ALIKE * others * others))
        found.append(math.copysign(_ALIKE, own) * others / length if own and length else None)
    return found
