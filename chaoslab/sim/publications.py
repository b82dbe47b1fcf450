"""Publications of one life of a simulated syncer: the newest version of each fragment.

Only what is on disk is published. A learner with another version than the newest is sent that
again.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from chaoslab.core.events import Json
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Member, Merge
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.disk import Snapshot, SyncerDisk
from chaoslab.sim.messages import Published
from chaoslab.sim.snapshots import Snapshots


class Publications:
    """The newest version of each fragment, and the snapshots kept for evaluation."""

    def __init__(
        self,
        disk: SyncerDisk,
        policy: Policy,
        settings: Settings,
        send: Callable[[int, Published], None],
    ) -> None:
        """`send` gets an epoch and a version."""
        self._disk, self._policy, self._send = disk, policy, send
        self._damage = Damage(settings.fragments)
        self._snapshots = Snapshots(
            disk.snapshots, every=settings.evaluate_every, kept=settings.snapshots_kept
        )
        self._newest: dict[int, tuple[int, int, str]] = {}
        """Version, round and digest of each fragment."""
        self._committed: Counter[tuple[str, int, int]] = Counter()
        """Tokens by learner, incarnation and fragment."""

    def restore(self) -> None:
        """All that is on disk is published."""
        for line in self._disk.commit_log:
            self._count(line.fragment, line.contributors)
            self._newest[line.fragment] = (line.version, 0, self._disk.digests[line.fragment])
        for fragment, largest in self._disk.damage:
            self._damage.merge(fragment, largest)

    def seed(self, fragment: int) -> None:
        """Publish the initial parameters of a fragment."""
        self._newest[fragment] = (0, 0, self._disk.digests[fragment])

    def add(self, merge: Merge, largest: float) -> None:
        """Publish what a merge made; `largest` is how much too large an update of it was."""
        version, fragment = merge.base_version + 1, merge.fragment
        self._newest[fragment] = (version, merge.round, self._disk.digests[fragment])
        self._count(fragment, merge.contributions)
        self._damage.merge(fragment, largest)

    def state_data(self) -> dict[str, Json]:
        """Data of syncer.ready and syncer.final: what it holds."""
        digests: dict[str, Json] = {
            str(fragment): said[2] for fragment, said in sorted(self._newest.items())
        }
        return {
            "versions": {str(f): version for f, version in enumerate(self._policy.versions)},
            "digests": digests,
            "momentum_digests": _texts(self._disk.momentum_digests),
        }

    def stored(self) -> dict[str, Json]:
        """Data of syncer.final: what is on disk."""
        return {
            "stored_digests": _texts(self._disk.digests),
            "stored_momentum_digests": _texts(self._disk.momentum_digests),
        }

    @property
    def versions(self) -> tuple[int, ...]:
        """Published versions; the policy may be ahead of them."""
        return tuple(self._newest[fragment][0] for fragment in sorted(self._newest))

    def send(self, member: Member, fragment: int) -> None:
        """Send a member the newest version of a fragment."""
        version, round_, found = self._newest[fragment]
        published = Published(
            fragment=fragment,
            version=version,
            round=round_,
            digest=found,
            committed_tokens=self._committed[member.learner, member.incarnation, fragment],
            loss=self._damage.loss(self._policy.committed_tokens),
        )
        self._send(member.epoch, published)

    def newer_than(self, known: Sequence[int]) -> Iterator[int]:
        """Fragments whose newest version is not `known`; () knows none."""
        for fragment, (version, _, _) in sorted(self._newest.items()):
            if not known or known[fragment] != version:
                yield fragment

    def snapshot(self, tokens: float, round_: int, *, is_last: bool = False) -> None:
        """Keep a snapshot for evaluation if one is due, or the last one."""
        if is_last or self._snapshots.is_due(tokens):
            loss = self._damage.loss(tokens)
            self._snapshots.add(Snapshot(committed_tokens=int(tokens), round=round_, loss=loss))

    def _count(self, fragment: int, given: Iterable[Contribution]) -> None:
        for one in given:
            self._committed[one.learner, one.incarnation, fragment] += one.c_tokens


def _texts(digests: dict[int, str]) -> dict[str, Json]:
    return {str(fragment): digests[fragment] for fragment in sorted(digests)}


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
