"""Trial of a plan's own task before anything starts, in the place where learners would run it.

training.task ─► python -m chaoslab.diloco.task_trial, in a process of its own ─► a mistake
                                                                   └► it can be trained
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache

import click

from chaoslab.fleet.task_trial import TRIAL_S, problem_in
from chaoslab.plan.file import Mistake
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.launch import task_trial


def untrainable(plan: FaultPlan) -> Iterator[Mistake]:
    """Why a local process cannot train the plan's task, if it has one and cannot."""
    command = task_trial(plan)
    if command is None:
        return
    click.echo(f"trying the task {plan.training.task} …", err=True)
    problem = _tried_here(command.argv, tuple(command.environment.items()))
    if problem is not None:
        yield ("training", "task"), problem


@cache
def _tried_here(argv: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> str | None:
    variables: Mapping[str, str] = {**os.environ, **dict(environment)}
    try:
        done = subprocess.run(
            argv, env=variables, capture_output=True, text=True, timeout=TRIAL_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"trying it took longer than {TRIAL_S:g} s: make `batches` and `evaluate` return"
    if done.returncode not in (0, 1):
        how = f"by signal {-done.returncode}" if done.returncode < 0 else f"{done.returncode}"
        words = " ".join(done.stderr.split())[-300:]
        return f"trying it ended the process ({how}){f': {words}' if words else ''}"
    return problem_in(done.stdout, done.stderr)
