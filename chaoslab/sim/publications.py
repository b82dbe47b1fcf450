"""Publications of one life of a simulated syncer: the newest version of each fragment.

Only what is on disk is published. A learner with another version than the newest is sent that
again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from chaoslab.core.events import Json
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Member, Merge
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.sim.disk import Snapshot, SyncerDisk
from chaoslab.sim.loss import Damage
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
        """By fragment: version, round and digest."""
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
        """Those that are published; the policy may be ahead of them."""
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
