"""The same run again: plan and schedule of a record, exactly.

    RUN/plan.resolved.yaml ─► prepare ─┐
    RUN/schedule.jsonl ────────────────┴─► Prepared, with no chance drawn anew

`chaoslab run plan.resolved.yaml` draws the schedule again from the seed, which is the same as long
as this version draws as the one of the record did; here it is read.
"""

from collections.abc import Sequence
from dataclasses import replace

from chaoslab.core.errors import PlanError
from chaoslab.core.regular_files import read_regular
from chaoslab.plan.schedule import Schedule, from_lines
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory, fingerprint
from chaoslab.run.experiment import GAMEDAY

SCHEDULE = "schedule.jsonl"
REPLAY_OF = "replay_of"
"""Key of run.json: the id of the run whose schedule it has."""


def prepare_again(directory: RunDirectory, *, settings: Sequence[str] = ()) -> Prepared:
    """The plan and the schedule of a run on record; `settings` are overrides of the plan.

    PlanError if the record lacks one of them, or the schedule is not what was carried out.
    """
    plan = directory.path / RESOLVED_PLAN
    if not plan.is_file():
        raise PlanError(f"{directory.path} has no {RESOLVED_PLAN} to repeat")
    if directory.facts.get(GAMEDAY):
        raise PlanError(
            f"{directory.path} is of a game-day, in which people decided: write what they did as a "
            f"plan, with `chaoslab gameday {directory.id} --as-plan FILE`"
        )
    prepared = prepare(Asked(plan=str(plan), settings=settings))
    return replace(prepared, schedule=recorded_schedule(directory))


def recorded_schedule(directory: RunDirectory) -> Schedule:
    """Schedule of a recorded run; PlanError if it is missing, or was changed."""
    path = directory.path / SCHEDULE
    try:
        lines = read_regular(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} cannot be read, so it cannot be repeated: {error}") from error
    schedule = from_lines(lines, kinds().faults)
    if fingerprint(schedule.injections) != directory.facts.get("schedule_hash"):
        raise PlanError(
            f"{path} does not match the hash in run.json: the file was changed, or is of a "
            f"version whose faults had other settings; draw a new one with `chaoslab run "
            f"{directory.path / RESOLVED_PLAN}`"
        )
    return schedule
