"""`chaoslab doctor`: what this machine can do, and what earlier runs left on it.

    examine ─► abilities: what every run needs, and what fleets and links say (`Maintenance`)
            └► residue:   what outlived its run (`leftovers`), each with the command that removes it

Examining changes nothing, starts no node, imports no accelerator library and takes a few seconds at
most; `repair` obtains what can be had.
"""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.cli.commands.output import examples, grouped, json_option, out_option, print_result
from chaoslab.cli.lazy import LazyGroup
from chaoslab.core.errors import AbilityError, ExitCode
from chaoslab.core.realtime import is_realtime_permitted
from chaoslab.fleet.remote.inventory import load
from chaoslab.prepare.disk_room import nearest
from chaoslab.prepare.launch import compilation_cache
from chaoslab.record.provenance import cores
from chaoslab.trainers.file_calls import why_not
from chaoslab.undo import leftovers as residue
from chaoslab.undo.catalogue import maintenance
from chaoslab.undo.verbs import Examined, Leftover, State, limited, missing, ok

_DISK_BYTES = 2 << 30
_MEMORY_BYTES = 3 << 30
"""Four nano learners, a syncer and the harness, with room to breathe."""
_STYLES = {State.OK: "green", State.LIMITED: "yellow", State.MISSING: "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything found."""

    abilities: tuple[Examined, ...]
    residue: tuple[Leftover, ...]


SUMMARIES = {
    "images": "Build and list the container images of the Docker fleet.",
    "systems": "Install or remove the systems of others that plans can train with.",
    "slices": "Bring up, show and take down the cloud slices of an inventory.",
    "rights": "Print the Role with exactly the rights that a fleet uses in a cluster.",
    "gc": "Remove old runs; keep the failing ones.",
}


@click.group(
    name="doctor",
    cls=LazyGroup,
    package="chaoslab.cli.upkeep",
    summaries=SUMMARIES,
    invoke_without_command=True,
    epilog=examples(
        "chaoslab doctor",
        "chaoslab doctor --fix",
        "chaoslab doctor --json",
        "chaoslab doctor images build",
        "chaoslab doctor gc --older-than 30d",
    ),
)
@click.option("--fix", "is_fixing", is_flag=True, help="Install a missing Toxiproxy server, built "
              "with Go or downloaded.")  # fmt: skip
@click.option("--inventory", type=click.Path(path_type=Path), metavar="FILE",
              help="Also ask the hosts of a fleet, by ssh.")  # fmt: skip
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context, *, is_fixing: bool, inventory: Path | None, out: Path, as_json: bool
) -> None:
    """Show what this machine supports and what earlier runs left; set it up.

    With --inventory, the same of each of its hosts: chaoslab's code is brought there to look.
    Without a command it changes nothing, but for --fix. A missing ability matters only to plans
    that need it, which `chaoslab plan` shows. Exit code 4 if an earlier run left something behind,
    or if --fix failed.
    """
    if (below := context.invoked_subcommand) is not None:
        if is_fixing or inventory is not None or as_json:
            raise click.UsageError(
                f"write options after `{below}`: those before it are of `doctor`"
            )
        return
    found = examine(out)
    if is_fixing:
        for done in repair(found):
            click.echo(done, err=True)
        found = examine(out)
    if inventory is not None:
        found = _with_hosts(found, inventory)
    value = {
        "abilities": [{**asdict(one), "state": one.state.value} for one in found.abilities],
        "residue": [one.told() for one in found.residue],
    }
    then = ("chaoslab run kill_half", "break something")
    if found.residue:
        then = ("chaoslab heal --all", "undo what dead runs left")
    print_result(value, _page(found), as_json=as_json, then=then)
    context.exit(ExitCode.BROKEN if found.residue else ExitCode.PASS)


def _with_hosts(found: Diagnosis, inventory: Path) -> Diagnosis:
    """Abilities of this machine, and of the hosts of an inventory."""
    try:
        from chaoslab.fleet.remote import doctor  # noqa: PLC0415  # needs asyncssh
    except ImportError as error:
        raise AbilityError("asking hosts needs asyncssh: pip install 'chaoslab[ssh]'") from error
    abilities, residue = doctor.examine(load(inventory))
    return Diagnosis(abilities=(*found.abilities, *abilities), residue=(*found.residue, *residue))


def _page(found: Diagnosis) -> RenderableType:
    abilities = {
        state.value: [(one.name, _told(one)) for one in found.abilities if one.state is state]
        for state in State
    }
    left = [
        Text(f"left over: {one.what}, {one.where}; {one.remedy}", style="bold red")
        for one in found.residue
    ]
    return Group(
        grouped(abilities),
        *(left or [Text("nothing is left over from earlier runs")]),
    )


def _told(one: Examined) -> Text:
    """State of each ability, and what to do about it."""
    remedy = (f"; {one.remedy}", _STYLES[one.state]) if one.remedy else ""
    return Text.assemble(one.detail, remedy)


# ---------------------------------------------------------------- this machine


def repair(found: Diagnosis) -> tuple[str, ...]:
    """Obtain what is missing and can be had; what was done. FleetError says what was in the way."""
    absent = {one.name for one in found.abilities if one.state is State.MISSING}
    repairs = {name: do for one in maintenance().values() for name, do in one.repairs.items()}
    return tuple(do() for name, do in repairs.items() if name in absent)


def examine(runs_root: Path) -> Diagnosis:
    """Look at this machine and at the runs below `runs_root`, which need not exist."""
    sources = (line for source in maintenance().values() for line in source.diagnose())
    return Diagnosis(
        abilities=(
            *_resources(runs_root),
            _priority(),
            _crash_points(),
            *sources,
            _accelerators(),
        ),
        residue=residue.find(runs_root),
    )


def _resources(runs_root: Path) -> Iterator[Examined]:
    """Resources that every run needs."""
    yield ok("python", f"{platform.python_version()} at {sys.executable}")
    memory, disk = psutil.virtual_memory().available, shutil.disk_usage(nearest(runs_root)).free
    cache = compilation_cache()
    cached = f"{cache}{'' if cache.exists() else ' (made by the first run)'}"
    for is_enough, name, detail, remedy in (
        (cores() >= 2, "cores", f"{cores()}", "use fewer learners: --set training.learners=2"),
        (memory >= _MEMORY_BYTES, "memory", f"{memory / 1e9:.1f} GB available",
         "a learner takes about 0.4 GB: use fewer"),
        (disk >= _DISK_BYTES, "disk", f"{disk / 1e9:.1f} GB free for {runs_root}",
         "remove old runs (`chaoslab doctor gc`), or write elsewhere with --out"),
        (os.access(nearest(cache), os.W_OK), "compilation cache", cached,
         "set CHAOSLAB_CACHE to a folder you may write"),
    ):  # fmt: skip
        yield ok(name, detail) if is_enough else limited(name, detail, remedy)


def _priority() -> Examined:
    name = "real-time priority"
    if is_realtime_permitted():
        return ok(name, "taken by the harness for the moments around a fault")
    detail = "not permitted: while all cores are busy, faults may come late"
    return limited(name, detail, "allow it (`ulimit -r 1`), or run as root")


def _crash_points() -> Examined:
    name, use = "crash points", "`chaoslab research crash-points`"
    if reason := why_not():
        why, _, remedy = reason.partition(": ")
        return missing(name, f"{use}: {why}", remedy)
    return ok(name, f"{use} can trace processes")


def _accelerators() -> Examined:
    """Accelerators by their device files: asking JAX would take the devices from a run."""
    devices = Path("/dev")
    found = (*devices.glob("accel*"), *devices.glob("vfio/[0-9]*"), *devices.glob("nvidia[0-9]*"))
    if not found:
        return missing("accelerators", "none: learners compute on the CPU")
    return ok("accelerators", ", ".join(sorted(map(str, found))))
