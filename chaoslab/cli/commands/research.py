"""`chaoslab research`: studies on simulations, and of the harness itself."""

import click

from chaoslab.cli.commands.output import examples
from chaoslab.cli.lazy import LazyGroup

SUMMARIES = {
    "experiment": "Simulate or run a matrix of settings with seeds; write tables and a figure.",
    "envelope": "Simulate a plan with ever harsher settings, up to where it no longer passes.",
    "advise": "Choose learners, quorum and rounds for given chips, failures and links.",
    "calibrate": "Read what work took in real runs, for a simulation (`--costs FILE`).",
    "fuzz": "Simulate random plans of overlapping faults; judge them by invariants.",
    "crash-points": "Kill a script before each file operation of a save; start it again.",
    "selftest": "Check that chaoslab detects deliberate defects.",
}


@click.group(
    name="research",
    cls=LazyGroup,
    package="chaoslab.cli.research",
    summaries=SUMMARIES,
    epilog=examples(
        "chaoslab research envelope kill_half",
        "chaoslab research experiment experiments/goodput.yaml",
        "chaoslab research crash-points my_script.yaml",
        "chaoslab research selftest --list",
    ),
)
def command() -> None:
    """Simulation studies: matrices, limits, advice, fuzzing; crash points; the selftest."""
