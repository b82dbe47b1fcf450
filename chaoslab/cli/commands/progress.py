"""Progress of a calculation on stderr: a bar on a terminal, a line for each tenth elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from chaoslab.core.units import plural, show_duration

_SAID_EVERY = 10
"""Percent between two lines of progress where there is no terminal."""


@contextmanager
def progress(name: str, noun: str = "simulation") -> Iterator[Callable[[int, int], None]]:
    """On a terminal a bar with the time left; elsewhere a line for each tenth.

    `noun`: what is counted.
    """
    console = Console(file=sys.stderr, emoji=False, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        since_s = time.monotonic()
        yield lambda done, every: _say(name, noun, done, every, time.monotonic() - since_s)
        return
    columns = (TextColumn(escape(name)), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name)
        yield lambda done, every: bar.update(task, completed=done, total=every)


def _say(name: str, noun: str, done: int, every: int, took_s: float) -> None:
    if not done:
        click.echo(f"{name}: {plural(every, noun)} to do", err=True)
        return
    percent, before = 100 * done // every, 100 * (done - 1) // every
    if percent // _SAID_EVERY > before // _SAID_EVERY:
        left_s = took_s * (every - done) / done
        left = f", about {show_duration(max(1.0, round(left_s)))} left" if done < every else ""
        click.echo(f"{name}: {percent} %{left}", err=True)
