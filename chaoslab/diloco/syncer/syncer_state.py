"""Values of the syncer: global fragments and outer momentum as arrays.

    initial fragments ─► begin ─┐
    pushes ─ examine ───────────┴─► merge ─► store ─► publication: encoded, with digests
                                               └─► snapshots for evaluation

The rest of the state, and when its parts are used, is `training_state`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.arrays.threads import Threads
from chaoslab.diloco.model.codec import decode, digest, digest_decoded, encode
from chaoslab.diloco.model.encodings import Codec, MalformedPayload, NotFinite
from chaoslab.diloco.model.fragments import (
    Fragment,
    Layout,
    TensorSpec,
    specs_from_json,
    specs_to_json,
)
from chaoslab.diloco.node.snapshot_schedule import SnapshotSchedule
from chaoslab.diloco.node.snapshots import SnapshotFiles, write_snapshot
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord
from chaoslab.diloco.syncer.merge import Method, OuterState, merge, outer_step
from chaoslab.diloco.syncer.pushes import DecodedUpdate, Pushes
from chaoslab.diloco.syncer.store import StoredState, SyncerStore, Tensors
from chaoslab.diloco.syncer.training_state import MergeInput, Publication, TrainingState
from chaoslab.diloco.wire import wire_pb2 as pb

_FLOATS_MAX = 2**34
_CHECKPOINT_COPIES = 16
"""Largest checkpoint, in copies of the parameters: parameters and optimizer state."""
_BASE_BYTES = 16 << 20
"""Allowance for the rest of a checkpoint."""


class SyncerState(TrainingState):
    """State of one training at the syncer."""

    pushes: Pushes

    def __init__(
        self, settings: Settings, store: SyncerStore, *, snapshots: Path | None = None
    ) -> None:
        """`snapshots`: folder for those for evaluation."""
        every, kept = settings.evaluate_every, settings.snapshots_kept
        schedule = snapshots and SnapshotSchedule(SnapshotFiles(snapshots), every=every, kept=kept)
        super().__init__(settings, store, pushes=Pushes(settings), snapshots=schedule or None)
        self._store = store
        self._folder = snapshots
        self._codec = Codec.F32 if settings.compression == "f32" else Codec.BF16
        self._specs: tuple[TensorSpec, ...] = ()
        self._layout = Layout(())
        self._initial: dict[int, OuterState] = {}
        """Fragments of the initial parameters, until all are there and on disk."""
        self._states: dict[int, OuterState] = {}
        self._threads = Threads()
        self._sums = np.empty(0, np.float32)
        """Memory for the sums of a merge, as large as the largest merge."""
        self._spares: dict[int, OuterState] = {}
        """State before the present one by fragment: memory for the next one."""

    # ------------------------------------------------------------ before the first round

    @property
    def is_seeded(self) -> bool:
        """See `TrainingState.is_seeded`."""
        return bool(self._layout.fragments) and len(self._states) == len(self._layout.fragments)

    @property
    def payload_bytes_max(self) -> int:
        """See `TrainingState.payload_bytes_max`."""
        return _BASE_BYTES + _CHECKPOINT_COPIES * 4 * sum(spec.size for spec in self._specs)

    def parse_specs(self, specs_json: str) -> tuple[TensorSpec, ...]:
        """See `TrainingState.parse_specs`."""
        specs = specs_from_json(specs_json)
        if sum(spec.size for spec in specs) > _FLOATS_MAX:
            raise ValueError(f"more than {_FLOATS_MAX:,} parameters are not for one syncer")
        if not self._specs:
            Layout.balance(specs, self.settings.fragments)
        elif specs != self._specs:
            raise ValueError("this learner's tensors are not those of the running training")
        return specs

    def set_specs(self, specs: tuple[TensorSpec, ...]) -> None:
        """See `TrainingState.set_specs`."""
        if not self._specs:
            self._layout = Layout.balance(specs, self.settings.fragments)
            self._specs = specs

    def take_initial(self, index: int, payload: memoryview | None) -> bool:
        """See `TrainingState.take_initial`."""
        fragment = self.fragment(index)
        if self.is_seeded:
            raise MalformedPayload("the initial parameters are complete")
        theta = decode(payload if payload is not None else b"", fragment.size, Codec.F32)
        self._initial[index] = OuterState(theta, np.zeros_like(theta))
        return len(self._initial) == len(self._layout.fragments)

    def begin(self) -> None:
        """See `TrainingState.begin`."""
        tensors = {f.index: _tensors(f, self._initial[f.index]) for f in self._layout.fragments}
        self._store.begin(specs_to_json(self._specs), tensors)
        self._states, self._initial = self._initial, {}

    def _restore_values(self, stored: StoredState) -> None:
        self.set_specs(self.parse_specs(stored.specs_json))
        for fragment in self._layout.fragments:
            tensors = stored.fragments[fragment.index]
            self._states[fragment.index] = OuterState(
                fragment.flatten(tensors.theta), fragment.flatten(tensors.momentum)
            )

    def fragment(self, index: int) -> Fragment:
        """A fragment of the training; MalformedPayload if there is none of that number."""
        if index >= len(self._layout.fragments):
            raise MalformedPayload(f"there is no fragment {index}")
        return self._layout.fragments[index]

    # ------------------------------------------------------------ rounds

    def examine(self, push: pb.Push, payload: memoryview | None) -> DecodedUpdate | PushRefusal:
        """See `TrainingState.examine`."""
        try:
            return self.pushes.examine(self.fragment(push.fragment), push.codec, payload)
        except NotFinite:
            return PushRefusal.NOT_FINITE
        except MalformedPayload:
            return PushRefusal.MALFORMED

    def merge(
        self, index: int, given: MergeInput[DecodedUpdate]
    ) -> tuple[OuterState, Mapping[int, float | None]]:
        """See `TrainingState.merge`.

        The memory of large arrays is used again, because the kernel zeroes every page of new ones.
        """
        fragment, rules = self._layout.fragments[index], self.settings
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
        """See `TrainingState.store`."""
        self._store.save_round(line, _tensors(self._layout.fragments[line.fragment], state))
        self.adopt(line.fragment, state)

    def adopt(self, index: int, state: OuterState) -> None:
        """Make it the state of a fragment; in a training, `store` does when it is on disk.

        The one before may be overwritten by the next `merge` of the fragment.
        """
        self._spares[index], self._states[index] = self._states[index], state

    def publication(self, index: int, *, version: int, round_: int) -> Publication:
        """See `TrainingState.publication`."""
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

    def _write_snapshot(self, *, committed_tokens: int, round_: int) -> None:
        if self._folder is not None:
            tensors = {
                name: view
                for fragment in self._layout.fragments
                for name, view in fragment.unflatten(self._states[fragment.index].theta).items()
            }
            write_snapshot(
                self._folder, tensors=tensors, round=round_, committed_tokens=committed_tokens
            )

    def _momentum_digests(self) -> dict[str, str]:
        states = sorted(self._states.items())
        return {str(index): digest(state.momentum) for index, state in states}

    def _stored_digests(self) -> tuple[dict[str, str], dict[str, str]]:
        stored = self._store.load()
        digests: dict[str, str] = {}
        momenta: dict[str, str] = {}
        for index, tensors in stored.fragments.items() if stored else ():
            fragment = self._layout.fragments[index]
            theta = fragment.flatten(tensors.theta)
            digests[str(index)] = digest_decoded(
                encode(theta, self._codec), fragment.size, self._codec
            )
            momenta[str(index)] = digest(fragment.flatten(tensors.momentum))
        return digests, momenta


def _tensors(fragment: Fragment, state: OuterState) -> Tensors:
    return Tensors(
        theta=fragment.unflatten(state.theta), momentum=fragment.unflatten(state.momentum)
    )
