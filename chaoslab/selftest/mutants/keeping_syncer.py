"""A syncer that says that it dropped a member, and keeps it: its former self still contributes."""

from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer import policy, program
from chaoslab.diloco.syncer.membership import Change, Membership
from chaoslab.diloco.syncer.sessions import Sessions
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.selftest.mutants import Mutant, Part


class KeepingMembership(Membership):
    """Whoever is dropped for standing still is a member as before, once it was said."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._kept: set[int] = set()

    def age(self, now_s: float) -> list[Change]:
        """As it should be, and then everything is back as it was."""
        changes = super().age(now_s)
        dropped = {change.member.epoch: change.member for change in changes if change.is_dropped}
        self._by_epoch |= dropped
        recorder = [c for c in changes if c.member.epoch not in self._kept]
        self._kept |= dropped.keys()
        return recorder

    def next_change_s(self) -> float:
        """Those that were kept are not due for anything."""
        kept = {epoch: self._by_epoch.pop(epoch) for epoch in self._kept & self._by_epoch.keys()}
        due_s = super().next_change_s()
        self._by_epoch |= kept
        return due_s


class KeepingListeners(Sessions):
    """No stream is closed because of it."""

    def close(self, epoch: int, farewell: pb.ToLearner) -> None:
        """Say nothing."""


MUTANT = Mutant(
    program=program,
    parts=(
        Part(module=policy, name="Membership", wrong=KeepingMembership),
        Part(module=program, name="Sessions", wrong=KeepingListeners),
    ),
)

if __name__ == "__main__":
    MUTANT.start()
