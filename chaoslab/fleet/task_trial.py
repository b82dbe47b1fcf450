"""Trial of a plan's own task, run where its learners are to run; what it says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from chaoslab.core.errors import FleetError

TRIAL_S = 120.0
"""How long a trial may take: two compilations, some batches and two evaluations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTrial:
    """The program to run, and what its environment has in addition."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def problem_in(output: str, errors: str) -> str | None:
    """What the last line of a trial says; FleetError if it is no answer."""
    last = next(iter(reversed(output.strip().splitlines())), "")
    try:
        said = json.loads(last)
    except ValueError:
        said = None
    if not isinstance(said, dict) or "problem" not in said:
        raise FleetError(f"the trial of the task gave no answer: {(errors or output)[-500:]}")
    problem = said["problem"]
    return None if problem is None else str(problem)
