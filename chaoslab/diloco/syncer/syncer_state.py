"""State of the syncer: global fragments, outer momentum, publications, committed tokens.

    initial fragments ─► seeded ─┐
    pushes ──────────────────────┴─► merge ─► store ─► Publication ─► publish ─► all learners
                                                └─► snapshots for evaluation

A version is on disk, with its line of the commit log, before it is published, so that no published
version is lost or used again. When and what to merge is decided by `policy`.

Two threads use it. What takes long (`take_initial`, `merge`, `store`, `publication`, `snapshot`)
belongs to the thread of `work` that keeps the order, with the fragments; the rest belongs to the
main thread, with what is published.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from chaoslab.core.events import Json
from chaoslab.diloco.arrays.threads import Threads
from chaoslab.diloco.model.codec import decode, digest, digest_decoded, encode
from chaoslab.diloco.model.encodings import Codec, MalformedPayload
from chaoslab.diloco.model.fragments import (
    Fragment,
    Layout,
    TensorSpec,
    specs_from_json,
    specs_to_json,
)
from chaoslab.diloco.node.snapshots import SnapshotSchedule, write_snapshot
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved
from chaoslab.diloco.syncer.decisions import Contribution
from chaoslab.diloco.syncer.merge import Method, OuterState, merge, outer_step
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.pushes import MergeInput, Pushes
from chaoslab.diloco.syncer.resume import restore_policy
from chaoslab.diloco.syncer.store import SyncerStore, Tensors

_RESERVES = 1000
"""Rounds and epochs reserved at a time, by one write."""
_LEFT_LEAST = 100
"""More are reserved when fewer than this many are left."""
_FLOATS_MAX = 2**34
_CHECKPOINT_COPIES = 16
"""Largest checkpoint, in copies of the parameters: parameters and optimizer state."""
_BASE_BYTES = 16 << 20
"""Allowance for the rest of a checkpoint."""


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


class SyncerState:
    """State of one training at the syncer."""

    def __init__(self, settings: Settings, store: SyncerStore, *, snapshots: Path | None) -> None:
        self._settings = settings
        self._store = store
        self._codec = Codec.F32 if settings.compression == "f32" else Codec.BF16
        self._specs: tuple[TensorSpec, ...] = ()
        self._layout = Layout(())
        self._initial: dict[int, OuterState] = {}
        """Fragments of the initial parameters, until all are there and on disk."""
        self._states: dict[int, OuterState] = {}
        self._published: dict[int, Publication] = {}
        self._threads = Threads()
        self._sums = np.empty(0, np.float32)
        """Memory for the sums of a merge, as large as the largest merge."""
        self._spares: dict[int, OuterState] = {}
        """State before the present one by fragment: memory for the next one."""
        self.pushes = Pushes(settings)
        self.committed: Counter[tuple[str, int, int]] = Counter()
        """(learner, incarnation, fragment) -> raw tokens merged"""
        self._reserved = Reserved()
        every, kept = settings.evaluate_every, settings.snapshots_kept
        self._snapshots = SnapshotSchedule(snapshots, every=every, kept=kept) if snapshots else None

    # ------------------------------------------------------------ before the first round

    @property
    def is_seeded(self) -> bool:
        """Whether every fragment has values."""
        return bool(self._layout.fragments) and len(self._states) == len(self._layout.fragments)

    @property
    def payload_bytes_max(self) -> int:
        """Largest payload of a learner with these tensors, in bytes: its checkpoint."""
        return _BASE_BYTES + _CHECKPOINT_COPIES * 4 * sum(spec.size for spec in self._specs)

    def parse_specs(self, specs_json: str) -> tuple[TensorSpec, ...]:
        """The tensors of a learner; ValueError if invalid or different from those in training."""
        specs = specs_from_json(specs_json)
        if sum(spec.size for spec in specs) > _FLOATS_MAX:
            raise ValueError(f"more than {_FLOATS_MAX:,} parameters are not for one syncer")
        if not self._specs:
            Layout.balance(specs, self._settings.fragments)
        elif specs != self._specs:
            raise ValueError("this learner's tensors are not those of the running training")
        return specs

    def set_specs(self, specs: tuple[TensorSpec, ...]) -> None:
        """Fix the tensors of the training: those of the first learner that is admitted."""
        if not self._specs:
            self._layout = Layout.balance(specs, self._settings.fragments)
            self._specs = specs

    def take_initial(
        self,
        index: int,
        payload: memoryview | None,
        write: Callable[[Callable[[], None]], object] = lambda begin: begin(),
    ) -> Sequence[Publication]:
        """Keep one fragment of the initial parameters, f32; MalformedPayload if it does not fit.

        Returns all publications once every fragment is there and on disk, before that none. `write`
        calls what writes them, which may raise OSError and then be called again.
        """
        fragment = self.fragment(index)
        if self.is_seeded:
            raise MalformedPayload("the initial parameters are complete")
        theta = decode(payload if payload is not None else b"", fragment.size, Codec.F32)
        self._initial[index] = OuterState(theta, np.zeros_like(theta))
        fragments = self._layout.fragments
        if len(self._initial) < len(fragments):
            return ()
        tensors = {f.index: _tensors(f, self._initial[f.index]) for f in fragments}
        write(lambda: self._store.begin(specs_to_json(self._specs), tensors))
        self._states, self._initial = self._initial, {}
        return [self.publication(f.index, version=0, round_=0) for f in fragments]

    def restore(self, policy: Policy, now_s: float) -> dict[str, Json] | None:
        """Continue from the state that an earlier process committed, if there is any. CorruptState.

        Returns the data of `round.merged` for the last merge, if there is one: the earlier process
        may have ended before it reported it.
        """
        stored = self._store.load()
        self._reserved = restore_policy(policy, stored, self._store.reserved(), now_s)
        if (numbers := self.due_reservation(policy)) is not None:
            self.reserve(numbers)
        if stored is None:
            return None
        self.set_specs(self.parse_specs(stored.specs_json))
        for line in stored.commit_log:
            self._count(line.fragment, line.contributors)
            self.pushes.remember(line.fragment, line.usual)
        for fragment, version in zip(self._layout.fragments, stored.versions, strict=True):
            tensors = stored.fragments[fragment.index]
            self._states[fragment.index] = OuterState(
                fragment.flatten(tensors.theta), fragment.flatten(tensors.momentum)
            )
            self.publish(self.publication(fragment.index, version=version, round_=0))
        last = stored.commit_log[-1]
        if not last.version:
            return None
        publication = replace(self._published[last.fragment], round=last.round)
        merged = self.merge_data(publication, last.contributors, policy.rounds.fragment_tokens)
        return {**merged, "is_restated": True}

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
        self._store.reserve(numbers)
        self._reserved = numbers

    def state_data(self, policy: Policy) -> dict[str, Json]:
        """Data of `syncer.ready`: versions and digests of its state; empty for a new training."""
        return {
            "versions": {str(index): version for index, version in enumerate(policy.versions)},
            "digests": {str(p.fragment): p.digest for p in self.publications()},
            "momentum_digests": {
                str(index): digest(state.momentum) for index, state in sorted(self._states.items())
            },
        }

    def merge_data(
        self, publication: Publication, contributions: Iterable[Contribution], fragment_tokens: int
    ) -> dict[str, Json]:
        """Data of `round.merged`, without what only the process that merged knows.

        `fragment_tokens`: sum of the contributors' c_tokens over all merges up to this one.
        """
        return {
            "round": publication.round,
            "fragment": publication.fragment,
            "version": publication.version,
            "base_version": publication.version - 1,
            "contributors": [asdict(contribution) for contribution in contributions],
            "committed_tokens": fragment_tokens / self._settings.fragments,
            "digest": publication.digest,
            "momentum_digest": publication.momentum_digest,
        }

    def fragment(self, index: int) -> Fragment:
        """A fragment of the training; MalformedPayload if there is none of that number."""
        if index >= len(self._layout.fragments):
            raise MalformedPayload(f"there is no fragment {index}")
        return self._layout.fragments[index]

    # ------------------------------------------------------------ rounds

    def merge(self, index: int, given: MergeInput) -> tuple[OuterState, Mapping[int, float | None]]:
        """Combine the contributions and compute the outer step; changes no state.

        Returns also, by epoch, the cosine of each contribution with the others. One at a time: the
        memory of large arrays is used again, because the kernel zeroes every page of new ones.
        """
        fragment, rules = self._layout.fragments[index], self._settings
        if len(self._sums) < fragment.size:
            self._sums = np.empty(fragment.size, np.float32)
        updates = [
            update if excess is None else update.scaled(excess.factor, fragment)
            for update, excess in zip(given.updates, given.excesses, strict=True)
        ]
        merged = merge(
            [update.delta for update in updates],
            [contribution.weight for contribution in given.contributions],
            fragment,
            Method(rules.merge),
            squares_by_delta=[update.squares for update in updates],
            out=self._sums[: fragment.size],
            threads=self._threads,
        )
        state = outer_step(
            self._states[index],
            merged,
            rules.outer_lr,
            rules.outer_momentum,
            out=self._spares.pop(index, None),
            threads=self._threads,
        )
        epochs = [contribution.epoch for contribution in given.contributions]
        return state, dict(zip(epochs, merged.cosines, strict=True))

    def store(self, line: CommitRecord, state: OuterState) -> None:
        """Write a merge to disk, then adopt it. After an OSError nothing has changed; try again."""
        self._store.save_round(line, _tensors(self._layout.fragments[line.fragment], state))
        self.adopt(line.fragment, state)

    def adopt(self, index: int, state: OuterState) -> None:
        """Make it the state of a fragment; in a training, `store` does when it is on disk.

        The one before may be overwritten by the next `merge` of the fragment.
        """
        self._spares[index], self._states[index] = self._states[index], state

    def publication(self, index: int, *, version: int, round_: int) -> Publication:
        """Encode the present state of a fragment once, for all learners."""
        theta, momentum = self._states[index]
        payload = encode(theta, self._codec, self._threads)
        digests: Sequence[Callable[[], str]] = (
            partial(digest_decoded, payload, theta.size, self._codec),
            partial(digest, momentum),
        )
        of_theta, of_momentum = self._threads.each(lambda compute: compute(), digests)
        return Publication(
            fragment=index,
            version=version,
            round=round_,
            codec=self._codec.value,
            payload=payload,
            digest=of_theta,
            momentum_digest=of_momentum,
        )

    def publish(self, publication: Publication, contributions: Iterable[Contribution] = ()) -> None:
        """Make it the current version of its fragment, with the work that it contains."""
        self._published[publication.fragment] = publication
        self._count(publication.fragment, contributions)

    def snapshot(self, *, committed_tokens: float, round_: int, is_last: bool = False) -> None:
        """Write a snapshot for evaluation if one is due, or the last one.

        After an OSError it stays due.
        """
        schedule = self._snapshots
        if schedule is None or not self.is_seeded:
            return
        if not (is_last or schedule.is_due(committed_tokens)):
            return
        tensors = {
            name: view
            for fragment in self._layout.fragments
            for name, view in fragment.unflatten(self._states[fragment.index].theta).items()
        }
        write_snapshot(
            schedule.directory,
            tensors=tensors,
            round=round_,
            committed_tokens=int(committed_tokens),
        )
        schedule.written(committed_tokens)

    def publications(self) -> Iterator[Publication]:
        """Current publications, in order of fragments."""
        return (self._published[index] for index in sorted(self._published))

    @property
    def versions(self) -> tuple[int, ...]:
        """Versions that are on disk and may be published; the policy may be ahead of them."""
        return tuple(publication.version for publication in self.publications())

    def last_snapshot(self, policy: Policy) -> None:
        """Write a snapshot of what the training came to; OSError if the disk refuses."""
        self.snapshot(
            committed_tokens=policy.committed_tokens, round_=policy.rounds.merged, is_last=True
        )

    def final(self, policy: Policy) -> dict[str, Json]:
        """Data of `syncer.final`; the stored digests are of what is read back from disk."""
        return {
            "rounds": policy.rounds.merged,
            **self.state_data(policy),
            **self._stored(),
            "committed_tokens": policy.committed_tokens,
        }

    def _stored(self) -> dict[str, Json]:
        """Digests of what is on disk: publications and momentum."""
        stored = self._store.load()
        digests: dict[str, Json] = {}
        momenta: dict[str, Json] = {}
        for index, tensors in stored.fragments.items() if stored else ():
            fragment = self._layout.fragments[index]
            theta = fragment.flatten(tensors.theta)
            digests[str(index)] = digest_decoded(
                encode(theta, self._codec), fragment.size, self._codec
            )
            momenta[str(index)] = digest(fragment.flatten(tensors.momentum))
        return {"stored_digests": digests, "stored_momentum_digests": momenta}

    def close(self) -> None:
        """Release the lock of the state directory."""
        self._store.close()

    # ------------------------------------------------------------ inside

    def _count(self, fragment: int, contributions: Iterable[Contribution]) -> None:
        for given in contributions:
            self.committed[given.learner, given.incarnation, fragment] += given.c_tokens


def _tensors(fragment: Fragment, state: OuterState) -> Tensors:
    return Tensors(
        theta=fragment.unflatten(state.theta), momentum=fragment.unflatten(state.momentum)
    )
