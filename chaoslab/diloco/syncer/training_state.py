"""State of a training at the syncer, without its values: pushes, publications, tokens, numbers.

    pushes ─ keep, by (round, epoch) ─► of(merge) ─► MergeInput ─► merge ─► store ─┐
    restore ◄── disk ◄─ reserve ────────────────────────────────────────────────── │ ─ numbers
                        all learners ◄── publish ◄── Publication ◄─────────────────┘

A version is on disk, with its line of the commit log, before it is published, so that no published
version is lost or used again. `syncer_state` has the values as arrays, and a simulation its model
of them. When and what to merge is decided by `policy`, and `norms` knows the usual size of a push.

Two threads use it. What takes long (`take_initial`, `begin`, `merge`, `store`, `publication`,
`snapshot`) belongs to jobs of `work` in order, with the values; the rest belongs to the main
thread, with what is published.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from chaoslab.core.payloads import Contributor, RoundMerged, SyncerFinal, SyncerReady, by_fragment
from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.node.snapshot_schedule import SnapshotSchedule
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.norms import Excess, Norms, Size, round_median
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.resume import Committed, restore_policy
from chaoslab.diloco.wire import wire_pb2 as pb

_RESERVES = 1000
"""Rounds and epochs reserved at a time, by one write."""
_LEFT_LEAST = 100
"""More are reserved when fewer than this many are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An outer gradient that may be merged, without its values."""

    norm: float
    """L2 norm over the fragment."""
    payload_bytes: int
    """Size of the push on the wire."""


U = TypeVar("U", bound=Update)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInput(Generic[U]):
    """Everything that is merged in one round, in the order of its merge."""

    contributions: Sequence[Contribution]
    updates: Sequence[U]
    """Updates in the order of arrival."""
    excesses: Sequence[Excess | None]
    """Excess of each update that is scaled down, with the reason."""
    median: float
    """Median size of the round; see `norms`."""


class KeptPushes(Generic[U]):
    """Pushes that are not merged yet."""

    def __init__(self, settings: Settings) -> None:
        self._kept: dict[tuple[int, int], U] = {}
        """Updates by round and epoch."""
        self._norms = Norms(limit=settings.norm_limit, rounds_min=settings.norm_rounds)

    def keep(self, round_: int, epoch: int, update: U) -> None:
        """Keep an update for its round."""
        self._kept[round_, epoch] = update

    def of(self, action: Merge) -> MergeInput[U]:
        """Remove and return the updates of a merge, in order of the learners' names."""
        ordered = sorted(action.contributions, key=lambda c: c.learner)
        updates = [self._kept[action.round, c.epoch] for c in ordered]
        sizes = [
            Size(norm=update.norm, steps=c.c_steps)
            for update, c in zip(updates, ordered, strict=True)
        ]
        excesses = self._norms.judge(action.fragment, sizes)
        self.forget(action.round)
        return MergeInput(
            contributions=ordered,
            updates=updates,
            excesses=excesses,
            median=round_median(sizes, excesses),
        )

    def remember(self, fragment: int, usual: float) -> None:
        """Learn the median size of an earlier round of the fragment, from the commit log."""
        self._norms.learn(fragment, usual)

    def forget(self, round_: int) -> None:
        """Drop the pushes of a round that is over."""
        for key in [key for key in self._kept if key[0] == round_]:
            del self._kept[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One version of one fragment as it is sent: the same bytes to every learner."""

    fragment: int
    version: int
    round: int
    codec: str
    payload: memoryview
    digest: str
    """Digest of the float32 values that a learner holds after adopting it."""
    momentum_digest: str
    """Digest of the outer momentum that belongs to it."""


class Published:
    """What is published of a training, and the work that it contains."""

    def __init__(self) -> None:
        self.now: dict[int, Publication] = {}
        """Current version of each fragment."""
        self.committed: Counter[tuple[str, int, int]] = Counter()
        """(learner, incarnation, fragment) -> raw tokens merged"""

    def __iter__(self) -> Iterator[Publication]:
        """Current versions, in order of fragments."""
        return (self.now[index] for index in sorted(self.now))

    def put(self, publication: Publication, contributions: Iterable[Contribution] = ()) -> None:
        """Make it the current version of its fragment, with the work that it contains."""
        self.now[publication.fragment] = publication
        self.count(publication.fragment, contributions)

    def count(self, fragment: int, contributions: Iterable[Contribution]) -> None:
        """Count the tokens of these as merged."""
        for given in contributions:
            self.committed[given.learner, given.incarnation, fragment] += given.c_tokens

    @property
    def versions(self) -> tuple[int, ...]:
        """Versions that are on disk and may be published; the policy may be ahead of them."""
        return tuple(publication.version for publication in self)

    @property
    def digests(self) -> dict[str, str]:
        """Digest of each fragment."""
        return {str(one.fragment): one.digest for one in self}


class Store(Protocol):
    """What a training has on disk: `SyncerStore`, or that of a simulation."""

    def load(self) -> Committed | None: ...
    def reserved(self) -> Reserved: ...
    def reserve(self, numbers: Reserved) -> None: ...
    def close(self) -> None: ...


class TrainingState(ABC):
    """State of one training at the syncer."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        pushes: KeptPushes[Any],
        snapshots: SnapshotSchedule | None,
    ) -> None:
        self.settings = settings
        self._disk = store
        self.pushes = pushes
        self.published = Published()
        self._reserved = Reserved()
        self._snapshots = snapshots

    # ------------------------------------------------------------ values

    @property
    @abstractmethod
    def is_seeded(self) -> bool:
        """Whether every fragment has values."""

    @property
    @abstractmethod
    def payload_bytes_max(self) -> int:
        """Largest payload of a learner with these tensors, in bytes: its checkpoint."""

    @abstractmethod
    def parse_specs(self, specs_json: str) -> Any:
        """The tensors of a learner; ValueError if invalid or different from those in training."""

    @abstractmethod
    def set_specs(self, specs: Any) -> None:
        """Fix the tensors of the training: those of the first learner that is admitted."""

    @abstractmethod
    def take_initial(self, index: int, payload: memoryview | None) -> bool:
        """Keep one fragment of the initial parameters, f32; MalformedPayload if it does not fit.

        Whether all are there: then `begin` is due.
        """

    @abstractmethod
    def begin(self) -> None:
        """Write the initial parameters. OSError if the disk refuses; try again."""

    @abstractmethod
    def examine(self, push: pb.Push, payload: memoryview | None) -> Update | PushRefusal:
        """The outer gradient of a push, or why it is refused; on any thread."""

    @abstractmethod
    def merge(self, index: int, given: MergeInput[Any]) -> tuple[Any, Mapping[int, float | None]]:
        """Combine the contributions and compute the outer step; changes no state.

        Returns also, by epoch, the cosine of each contribution with the others. One at a time.
        """

    @abstractmethod
    def store(self, line: CommitRecord, state: Any) -> None:
        """Write a merge to disk, then adopt it. After an OSError nothing has changed; try again."""

    @abstractmethod
    def publication(self, index: int, *, version: int, round_: int) -> Publication:
        """Encode the present state of a fragment once, for all learners."""

    @abstractmethod
    def _restore_values(self, stored: Any) -> None:
        """Take up the values of an earlier process."""

    @abstractmethod
    def _momentum_digests(self) -> dict[str, str]:
        """Digest of each fragment's outer momentum."""

    @abstractmethod
    def _stored_digests(self) -> tuple[dict[str, str], dict[str, str]]:
        """Digests of what is on disk: of each fragment, and of its momentum."""

    @abstractmethod
    def _write_snapshot(self, *, committed_tokens: int, round_: int) -> None:
        """Write a snapshot for evaluation. OSError."""

    # ------------------------------------------------------------ the disk

    def restore(self, policy: Policy, now_s: float) -> RoundMerged | None:
        """Continue from the state that an earlier process committed, if there is any. CorruptState.

        Returns the report of the last merge, if there is one: the earlier process may have ended
        before it made it.
        """
        stored = self._disk.load()
        self._reserved = restore_policy(policy, stored, self._disk.reserved(), now_s)
        if (numbers := self.due_reservation(policy)) is not None:
            self.reserve(numbers)
        if stored is None:
            return None
        for line in stored.commit_log:
            self.published.count(line.fragment, line.contributors)
            self.pushes.remember(line.fragment, line.usual)
        self._restore_values(stored)
        for fragment, version in enumerate(stored.versions):
            self.published.put(self.publication(fragment, version=version, round_=0))
        last = stored.commit_log[-1]
        if not last.version:
            return None
        publication = replace(self.published.now[last.fragment], round=last.round)
        merged = self.merged(publication, last.contributors, policy.rounds.fragment_tokens)
        return replace(merged, is_restated=True)

    def due_reservation(self, policy: Policy) -> Reserved | None:
        """Numbers to reserve now, so that none is assigned twice; None while enough are left."""
        rounds, epochs = policy.rounds.begun, policy.membership.last_epoch
        left = min(self._reserved.rounds - rounds, self._reserved.epochs - epochs)
        if left >= _LEFT_LEAST:
            return None
        return Reserved(rounds=rounds + _RESERVES, epochs=epochs + _RESERVES)

    def reserve(self, numbers: Reserved) -> None:
        """Reserve rounds and epochs on disk before they are assigned.

        OSError if the disk refuses; earlier reservations stay valid.
        """
        self._disk.reserve(numbers)
        self._reserved = numbers

    def snapshot(self, *, committed_tokens: float, round_: int, is_last: bool = False) -> None:
        """Write a snapshot for evaluation if one is due, or the last one.

        After an OSError it stays due.
        """
        schedule = self._snapshots
        if schedule is None or not self.is_seeded:
            return
        if is_last or schedule.is_due(committed_tokens):
            self._write_snapshot(committed_tokens=int(committed_tokens), round_=round_)
            schedule.written(committed_tokens)

    def last_snapshot(self, policy: Policy) -> None:
        """Write a snapshot of what the training came to; OSError if the disk refuses."""
        self.snapshot(
            committed_tokens=policy.committed_tokens, round_=policy.rounds.merged, is_last=True
        )

    def close(self) -> None:
        """Release the lock of the state directory."""
        self._disk.close()

    def first_publications(self) -> Sequence[Publication]:
        """The initial parameters, encoded."""
        fragments = range(self.settings.fragments)
        return [self.publication(fragment, version=0, round_=0) for fragment in fragments]

    # ------------------------------------------------------------ events

    def ready(self, policy: Policy, address: str) -> SyncerReady:
        """Report of the state that it starts with."""
        return SyncerReady(
            address=address,
            rounds=policy.rounds.merged,
            committed_tokens=policy.committed_tokens,
            is_recovered=self.is_seeded,
            last_epoch=policy.membership.last_epoch,
            versions=by_fragment(policy.versions),
            digests=self.published.digests,
            momentum_digests=self._momentum_digests(),
        )

    def merged(
        self, publication: Publication, contributions: Iterable[Contribution], fragment_tokens: int
    ) -> RoundMerged:
        """Report of a merge, without what only the process that merged knows.

        `fragment_tokens`: sum of the contributors' c_tokens over all merges up to this one.
        """
        return RoundMerged(
            round=publication.round,
            fragment=publication.fragment,
            version=publication.version,
            base_version=publication.version - 1,
            contributors=tuple(map(_contributor, contributions)),
            committed_tokens=fragment_tokens / self.settings.fragments,
            digest=publication.digest,
            momentum_digest=publication.momentum_digest,
        )

    def final(
        self,
        policy: Policy,
        *,
        rejected: Mapping[str, int],
        turned_away: Mapping[str, int],
        reason: str,
        was_asked: bool,
    ) -> SyncerFinal:
        """Final account; the stored digests are of what is read back from disk."""
        stored, stored_momentum = self._stored_digests()
        return SyncerFinal(
            rounds=policy.rounds.merged,
            versions=by_fragment(policy.versions),
            digests=self.published.digests,
            momentum_digests=self._momentum_digests(),
            stored_digests=stored,
            stored_momentum_digests=stored_momentum,
            committed_tokens=policy.committed_tokens,
            rejected=rejected,
            turned_away=turned_away,
            reason=reason,
            was_asked=was_asked,
        )


def _contributor(given: Contribution) -> Contributor:
    return Contributor(
        learner=given.learner,
        incarnation=given.incarnation,
        epoch=given.epoch,
        step=given.step,
        c_steps=given.c_steps,
        c_tokens=given.c_tokens,
        weight=given.weight,
        tokens_from=given.tokens_from,
        tokens_to=given.tokens_to,
        cosine=given.cosine,
    )
