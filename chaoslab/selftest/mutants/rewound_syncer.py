"""A syncer that comes back from its disk one version behind what it had published."""

from dataclasses import replace

from chaoslab.diloco.syncer import program, syncer_state
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.resume import go_on
from chaoslab.diloco.syncer.store import Reserved, StoredState
from chaoslab.selftest.mutants import Mutant, Part


def go_back(
    policy: Policy, stored: StoredState | None, reserved: Reserved, now_s: float
) -> Reserved:
    """In place of going on: as if the last round had never been."""
    if stored is not None:
        stored = replace(stored, commit_log=stored.commit_log[:-1])
    return go_on(policy, stored, reserved, now_s)


MUTANT = Mutant(program=program, parts=(Part(module=syncer_state, name="go_on", wrong=go_back),))

if __name__ == "__main__":
    MUTANT.start()
