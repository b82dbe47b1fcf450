"""`chaoslab halt`: the end of every run on this machine, healed."""

from collections.abc import Sequence
from pathlib import Path

import click

from chaoslab.commands.output import advise, examples, json_option, out_option, print_json
from chaoslab.errors import ExitCode
from chaoslab.halt import Halted, find_runs, halt
from chaoslab.record import RunDirectory
from chaoslab.residue import strays


@click.command(
    name="halt",
    epilog=examples("chaoslab halt", "chaoslab halt kill_half", "chaoslab halt --within 5 --json"),
)
@click.argument("run", required=False)
@click.option("--within", "within_s", type=click.FloatRange(min=0), default=60.0, show_default=True,
              help="Seconds that a run may take to heal and end before it is killed.")  # fmt: skip
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context, *, run: str | None, within_s: float, out: Path, as_json: bool
) -> None:
    """Stop every run on this machine, healed.

    Each is asked to end as Ctrl-C does; one that does not is killed, and what it leaves is undone.
    What dead runs under --out left is undone, too. RUN (a path, `latest`, a plan's name or the
    beginning of an id) stops that one alone. Only processes of this user are touched, and none that
    merely got the pid of one of ours. Exit code 0 when nothing is left, 4 otherwise.
    """
    runs = find_runs(out) if run is None else (RunDirectory.open(run, root=out).path,)
    halted = halt(runs, within_s=within_s, tell=lambda words: click.echo(words, err=True))
    lost = [] if run is not None else [f"{one.what}; {one.remedy}" for one in strays()]
    if as_json:
        print_json({"runs": [_to_json(one) for one in halted], "remaining": lost})
    else:
        _print(halted, lost)
        advise("chaoslab doctor", "what this machine has left over")
    is_left = bool(lost) or any(one.remaining for one in halted)
    context.exit(ExitCode.BROKEN if is_left else ExitCode.PASS)


def _to_json(one: Halted) -> dict[str, str | Sequence[str]]:
    return {
        "run": str(one.run), "how": one.how, "actions": one.actions, "remaining": one.remaining
    }  # fmt: skip


def _print(halted: Sequence[Halted], lost: Sequence[str]) -> None:
    for one in halted:
        click.echo(f"{one.run}: {one.how}")
        for sentence in one.actions:
            click.echo(f"  {sentence}")
        for sentence in one.remaining:
            click.echo(f"  NOT undone: {sentence}")
    for sentence in lost:
        click.echo(f"NOT undone: {sentence}")
    if not halted:
        click.echo("no run was going on, and nothing was owed")
