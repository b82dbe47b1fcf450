"""A syncer that comes back from its disk without the outer momentum."""

import numpy as np

from chaoslab.diloco import syncer
from chaoslab.diloco.books import Books
from chaoslab.diloco.merge import OuterState
from chaoslab.diloco.policy import Policy
from chaoslab.events import Json
from chaoslab.selftest.mutants import Mutant, Part


class ForgetfulBooks(Books):
    """Takes up parameters, versions and counts, and begins with no momentum."""

    def restore(self, policy: Policy, now_s: float) -> dict[str, Json] | None:
        """As it should be, but for the momentum."""
        restated = super().restore(policy, now_s)
        for index, state in self._states.items():
            self._states[index] = OuterState(state.theta, np.zeros_like(state.momentum))
        return restated


MUTANT = Mutant(program=syncer, parts=(Part(module=syncer, name="Books", wrong=ForgetfulBooks),))

if __name__ == "__main__":
    MUTANT.start()
