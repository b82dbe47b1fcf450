"""A syncer that comes back from its disk without the outer momentum."""

import numpy as np

from chaoslab.core.events import Json
from chaoslab.diloco.syncer import program
from chaoslab.diloco.syncer.merge import OuterState
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.selftest.mutants import Mutant, Part


class ForgetfulBooks(SyncerState):
    """Takes up parameters, versions and counts, and begins with no momentum."""

    def restore(self, policy: Policy, now_s: float) -> dict[str, Json] | None:
        """As it should be, but for the momentum."""
        restated = super().restore(policy, now_s)
        for index, state in self._states.items():
            self._states[index] = OuterState(state.theta, np.zeros_like(state.momentum))
        return restated


MUTANT = Mutant(
    program=program, parts=(Part(module=program, name="SyncerState", wrong=ForgetfulBooks),)
)

if __name__ == "__main__":
    MUTANT.start()
