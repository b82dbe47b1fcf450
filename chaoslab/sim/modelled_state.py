"""State of a simulated syncer: what `SyncerState` computes with arrays, by a model, on its disk.

    pushes ─ examine ─► merge ─► store ─► publication     norms, cosines, digests, damage, sizes
                                   └─► SyncerDisk, Snapshots

Nothing is trained; `Damage` says what the model of the loss is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chaoslab.core.protocol import PushRefusal
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.node.snapshot_schedule import SnapshotSchedule
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.commit_log import CommitRecord, Reserved
from chaoslab.diloco.syncer.decisions import Contribution
from chaoslab.diloco.syncer.training_state import (
    KeptPushes,
    MergeInput,
    Publication,
    TrainingState,
    Update,
)
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.sim.chance import Chance
from chaoslab.sim.disk import Snapshot, SyncerDisk, digest
from chaoslab.sim.messages import FragmentValues, PushValues, as_bytes, values_of
from chaoslab.sim.model import Sizes
from chaoslab.sim.world import World

_SPREAD = 0.05
"""Spread of the norms of pushes, as a share; no two real ones are alike."""
_ALIKE = 0.2
"""Cosine of two learners' outer gradients: that of `nano` after 250 steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledUpdate(Update):
    """An outer gradient by its size."""

    scale: float
    """Times as large as it should be."""


class _Merged(NamedTuple):
    digest: str
    largest: float
    """Largest size of the updates that are merged unchanged, as a multiple of the usual size."""


class ModelledState(TrainingState):
    """State of one life of the syncer."""

    def __init__(self, settings: Settings, world: World) -> None:
        disk, every, kept = world.syncer_disk, settings.evaluate_every, settings.snapshots_kept
        super().__init__(
            settings,
            DiskStore(disk),
            pushes=KeptPushes[ScaledUpdate](settings),
            snapshots=SnapshotSchedule(disk, every=every, kept=kept),
        )
        self._world, self._values = world, disk
        self._sizes = Sizes(
            world.costs, fragments=settings.fragments, compression=settings.compression
        )
        self._initial: set[int] = set()
        self._damage = Damage(settings.fragments)
        self._fragment_tokens = 0
        """Sum of the contributors' c_tokens over all merges on disk."""

    @property
    def is_seeded(self) -> bool:
        """See `TrainingState.is_seeded`."""
        return bool(self._values.digests)

    @property
    def payload_bytes_max(self) -> int:
        """See `TrainingState.payload_bytes_max`."""
        return self._sizes.checkpoint_bytes

    def parse_specs(self, specs_json: str) -> int:
        """Number of parameters."""
        return int(specs_json)

    def set_specs(self, specs: int) -> None:
        """See `TrainingState.set_specs`."""
        self._sizes.parameters = specs

    def take_initial(self, index: int, payload: memoryview | None) -> bool:  # noqa: ARG002 - has no values
        """See `TrainingState.take_initial`."""
        self._initial.add(index)
        return len(self._initial) == self.settings.fragments

    def begin(self) -> None:
        """See `TrainingState.begin`."""
        disk = self._values
        disk.refuse_if_full()
        for fragment in sorted(self._initial):
            disk.digests[fragment] = digest(self._world.seed, fragment, 0)
            disk.commit_log.append(CommitRecord(round=0, fragment=fragment, version=0, begun=0))

    def examine(self, push: pb.Push, payload: memoryview | None) -> ScaledUpdate | PushRefusal:
        """See `TrainingState.examine`."""
        values = values_of(payload, PushValues)
        if math.isnan(values.scale):
            return PushRefusal.NOT_FINITE
        chance = Chance(self._world.seed, "norm", push.round, values.life)
        usual = self._world.costs.norm * math.sqrt(push.c_steps) * abs(values.scale)
        norm = chance.spread(usual, _SPREAD)
        return ScaledUpdate(norm=norm, payload_bytes=len(values), scale=values.scale)

    def merge(
        self, index: int, given: MergeInput[ScaledUpdate]
    ) -> tuple[_Merged, Mapping[int, float | None]]:
        """See `TrainingState.merge`."""
        scales = [update.scale for update in given.updates]
        unchanged = zip(scales, given.excesses, strict=True)
        largest = max((abs(scale) for scale, excess in unchanged if excess is None), default=1.0)
        work = [(c.learner, c.incarnation, c.tokens_from, c.tokens_to) for c in given.contributions]
        epochs = [contribution.epoch for contribution in given.contributions]
        cosines = dict(zip(epochs, _cosines(given.contributions, scales), strict=True))
        return _Merged(digest(self._values.digests[index], work), largest), cosines

    def store(self, line: CommitRecord, state: _Merged) -> None:
        """See `TrainingState.store`."""
        disk = self._values
        disk.refuse_if_full()
        disk.digests[line.fragment] = state.digest
        disk.damage.append((line.fragment, state.largest))
        disk.commit_log.append(line)
        self._adopt(line, state.largest)

    def publication(self, index: int, *, version: int, round_: int) -> Publication:
        """See `TrainingState.publication`."""
        size_bytes = self._sizes.published_bytes
        found, momentum = self._values.digests[index], self._momentum_digests()[str(index)]
        return Publication(
            fragment=index,
            version=version,
            round=round_,
            codec=Codec.BF16.value,
            payload=as_bytes(FragmentValues(size_bytes=size_bytes, loss=self._loss(self._tokens))),
            digest=found,
            momentum_digest=momentum,
        )

    def _restore_values(self, stored: SyncerDisk) -> None:
        merges = [line for line in stored.commit_log if line.version]
        for line, (_, largest) in zip(merges, stored.damage, strict=True):
            self._adopt(line, largest)

    def _adopt(self, line: CommitRecord, largest: float) -> None:
        self._damage.merge(line.fragment, largest)
        self._fragment_tokens += sum(given.c_tokens for given in line.contributors)

    @property
    def _tokens(self) -> float:
        return self._fragment_tokens / self.settings.fragments

    def _loss(self, tokens: float) -> float:
        return self._damage.loss(tokens)

    def _momentum_digests(self) -> dict[str, str]:
        found = sorted(self._values.digests.items())
        return {str(fragment): digest("momentum", one) for fragment, one in found}

    def _stored_digests(self) -> tuple[dict[str, str], dict[str, str]]:
        digests = {str(f): one for f, one in sorted(self._values.digests.items())}
        return digests, self._momentum_digests()

    def _write_snapshot(self, *, committed_tokens: int, round_: int) -> None:
        self._values.keep_snapshot(
            Snapshot(
                committed_tokens=committed_tokens,
                round=round_,
                loss=self._loss(committed_tokens),
            )
        )


class DiskStore:
    """What a simulated syncer has on disk: `training_state.Store`."""

    def __init__(self, disk: SyncerDisk) -> None:
        self._disk = disk

    def load(self) -> SyncerDisk | None:
        """See `Store`."""
        return self._disk if self._disk.commit_log else None

    def reserved(self) -> Reserved:
        """See `Store`."""
        return self._disk.reserved

    def reserve(self, numbers: Reserved) -> None:
        """See `Store`."""
        self._disk.refuse_if_full()
        self._disk.reserved = numbers

    def close(self) -> None:
        """See `Store`."""


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


_INITIAL, _FLOOR = 4.965, 0.98
"""Losses in nats per byte."""
_SCALE_TOKENS = 27_000.0
_USUAL = 8.0
"""An update of this many times the usual size still trains."""
_RECOVERS = 0.5
"""Remaining share of the damage after each further merge of the fragment."""


def curve(tokens: float) -> float:
    """Loss after this many committed tokens, in nats; square roots are alike on all machines."""
    return _FLOOR + (_INITIAL - _FLOOR) / math.sqrt(1.0 + tokens / _SCALE_TOKENS)


class Damage:
    """Modelled loss of a simulated training: a curve of the committed tokens, and what damages it.

        loss(T) = floor + (initial - floor) / sqrt(1 + T / scale)

    Nothing is trained. The curve was fitted by eye to the ten snapshots of one real run of
    kill_half (4.97 nats before training, 1.62 at 1.2M committed tokens, 1.33 at 3.2M) and is within
    8 % of each. It knows no learning rate, no number of learners and no age of contributions, so it
    says nothing about quality. What it can tell is whether damage reached the global parameters: an
    update far beyond the usual size that is merged as it came sets its fragment back, and later
    merges halve that.
    """

    def __init__(self, fragments: int) -> None:
        self._shares = [0.0] * fragments

    def merge(self, fragment: int, largest: float) -> None:
        """Merge updates, the largest of `largest` times the usual size; NaN destroys everything."""
        share = self._shares[fragment] * _RECOVERS
        if not largest <= _USUAL:
            share = 1.0 if not math.isfinite(largest) else max(share, 1.0 - _USUAL / largest)
        self._shares[fragment] = share

    def loss(self, tokens: float) -> float:
        """Loss of the global parameters after this many committed tokens, in nats."""
        trained, share = curve(tokens), sum(self._shares) / len(self._shares)
        return round(trained + (_INITIAL - trained) * share, 6)
