"""Room on the disk of the records: what a run takes of it, roughly, and whether it is there.

    learners: checkpoints ─────────┐   where nodes run on this machine
    syncer: its state, snapshots ──┤
    journal and output, by steps ──┴─► bytes, twice with a twin ─► AbilityError if fewer are free

What a model of the user's own takes is not known and not counted.
"""

import shutil
from math import inf
from pathlib import Path
from typing import Final

from chaoslab.core.errors import AbilityError
from chaoslab.core.units import Pacing
from chaoslab.fleet.settings import BringsClock
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.duration import guessed_step_s
from chaoslab.prepare.kinds import fleet_of
from chaoslab.prepare.launch import expected_steps
from chaoslab.record.provenance import cores
from chaoslab.sim.costs import Costs
from chaoslab.sim.model import PARAMETERS

_CHECKPOINTS: Final = 3
"""Files of a learner: two are kept while the next one is written."""
_STATE_BYTES: Final = 16
"""Bytes for each parameter: values and momentum, each in two versions."""
_SNAPSHOTS, _SNAPSHOT_BYTES = 10, 4
"""Number of the syncer's snapshots, about, and their bytes for each parameter."""
_RECORD_BYTES, _SIMULATED_BYTES = 1_500, 400
"""Bytes of journal and output for each step of each learner; measured with `nano`."""
_STEP_S: Final = 0.1
"""Duration of a step of a task, which is not known beforehand."""
_REPORTS_BYTES: Final = 2_000_000


def refuse_full_disk(plan: FaultPlan, root: Path) -> None:
    """AbilityError if fewer bytes are free for the records than the run takes, roughly."""
    needed, free = needed_bytes(plan), shutil.disk_usage(nearest(root)).free
    if free < needed:
        raise AbilityError(
            f"{free / 1e6:,.1f} MB are free for the record in {root}, and this run takes about "
            f"{needed / 1e6:,.1f} MB: make room, or write elsewhere with --out"
        )


def needed_bytes(plan: FaultPlan) -> int:
    """Approximate bytes of a run, with its twin."""
    training, fleet = plan.training, fleet_of(plan)
    steps = len(training.roster) * _steps(plan)
    step_bytes = _SIMULATED_BYTES if isinstance(fleet, BringsClock) else _RECORD_BYTES
    record = _REPORTS_BYTES + steps * step_bytes
    kept = 0.0
    if fleet.runs_here and training.task is None:
        checkpoints = _CHECKPOINTS * Costs().checkpoint_bytes * len(training.roster)
        snapshots = _SNAPSHOTS * _SNAPSHOT_BYTES if plan.is_evaluated else 0
        kept = (checkpoints + _STATE_BYTES + snapshots) * PARAMETERS[training.model]
    runs = 2 if plan.twin else 1
    return int(runs * (record + kept))


def _steps(plan: FaultPlan) -> float:
    """Steps of each learner, by the stop rule, and at most until the time of the run is over."""
    training = plan.training
    step_s = training.step_time
    if isinstance(step_s, Pacing):
        step_s = guessed_step_s(training, cores()) or _STEP_S
    most_s = min(plan.limits.timeout_s, training.stop.time_s or inf)
    return min(expected_steps(training) or inf, most_s / step_s)


def nearest(place: Path) -> Path:
    """The folder itself, or the one above it that exists."""
    place = place.absolute()
    return place if place.exists() else nearest(place.parent)
