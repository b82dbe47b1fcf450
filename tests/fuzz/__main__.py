"""`python -m tests.fuzz [TARGET …] --seeds 1000000`: a long fuzzing campaign, with progress."""

import sys
import time

import click

from tests.fuzz import TARGETS
from tests.fuzz.campaign import campaign

_BLOCK = 1000
"""Seeds between two lines of progress."""


@click.command()
@click.argument("targets", nargs=-1, type=click.Choice(TARGETS))
@click.option("--seeds", default=1_000_000, show_default=True, help="How many for each target.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
def fuzz(targets: tuple[str, ...], seeds: int, first: int) -> None:
    """Feed TARGETS (all without any) with bad input. Exit code 1 at the first defect."""
    for name in targets or TARGETS:
        began_s = time.monotonic()
        for start in range(first, first + seeds, _BLOCK):
            block = min(_BLOCK, first + seeds - start)
            if (defect := campaign(name, start, block)) is not None:
                click.echo(f"\n{defect}")
                sys.exit(1)
            done = start + block - first
            rate = done / (time.monotonic() - began_s)
            click.echo(f"\r{name}: {done} of {seeds} seeds, {rate:.0f} per second", nl=False)
        click.echo(f"\n{name}: no defect in seeds {first} to {first + seeds - 1}")


if __name__ == "__main__":
    fuzz()
