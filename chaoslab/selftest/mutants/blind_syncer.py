"""A syncer that misses nobody: whoever has an open stream counts as being at work."""

from chaoslab.diloco.syncer import policy, program
from chaoslab.diloco.syncer.membership import Change, Membership
from chaoslab.selftest.mutants import Mutant, Part


class BlindMembership(Membership):
    """Never suspects and never drops."""

    def age(self, now_s: float) -> list[Change]:  # noqa: ARG002 - it has no eye for it
        """Nothing ever changes by time."""
        return []

    def next_change_s(self) -> float:
        """Never."""
        return float("inf")


MUTANT = Mutant(
    program=program, parts=(Part(module=policy, name="Membership", wrong=BlindMembership),)
)

if __name__ == "__main__":
    MUTANT.start()
