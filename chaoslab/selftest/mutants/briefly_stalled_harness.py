"""A harness that stands still for a moment of a pause of training that is too long without it."""

from chaoslab.selftest.mutants.stalled_harness import StalledHarness


class BrieflyStalledHarness(StalledHarness):
    """For less time than would explain the pause."""

    stalls_s = 1.5


FLEET = BrieflyStalledHarness
