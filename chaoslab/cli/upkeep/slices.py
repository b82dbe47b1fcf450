"""`chaoslab doctor slices`: cloud slices of an inventory brought up, shown and taken down."""

import math
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.cli.commands.options import duration
from chaoslab.cli.commands.output import examples, json_option, print_result, table
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.events import Json
from chaoslab.core.units import show_duration
from chaoslab.fleet.remote.inventory import Inventory, load
from chaoslab.fleet.tpu.lifecycle import bring_up, claim, take_down
from chaoslab.fleet.tpu.provider import TpuProvider, open_provider
from chaoslab.fleet.tpu.states import LOST, Condition, SliceReport

_DELETE_S = 600.0
_DOWN = "run `chaoslab doctor slices down`"
_AWAITED = (Condition.WAITING, Condition.COMING)
_STAYS = (
    "what was requested stays requested, and costs when it comes: `chaoslab doctor slices down` "
    "deletes it"
)
_inventory = click.argument("inventory", type=click.Path(path_type=Path), default="fleet.yaml")
_yes = click.option(
    "--yes", "is_agreed", is_flag=True, help="Do not ask; needed without a terminal."
)


@click.group(
    name="slices",
    epilog=examples(
        "chaoslab doctor slices up fleet.yaml", "chaoslab doctor slices status fleet.yaml",
        "chaoslab doctor slices down fleet.yaml",
    ),
)  # fmt: skip
def command() -> None:
    """Bring up, show and take down the cloud slices of an inventory."""


@command.command(
    name="up",
    epilog=examples(
        "chaoslab doctor slices up fleet.yaml",
        "chaoslab doctor slices up fleet.yaml --yes --wait 1h",
    ),
)
@_inventory
@click.option("--wait", callback=duration, metavar="TIME", help="How long to wait until all are "
              "up. Default: `repair.wait` of the inventory.")  # fmt: skip
@_yes
@json_option
@click.pass_context
def up(
    context: click.Context,
    *,
    inventory: Path,
    wait: float | None,
    is_agreed: bool,
    as_json: bool,
) -> None:
    """Create the slices of INVENTORY that are missing, and wait for them.

    Shows what it creates, and asks. Slices that are there are left as they are; stopped ones are
    started. The slices have the label chaoslab-fleet, by which `down` knows them.

    Exit code 4 if not all are up in time, or one is of another type than the inventory says.
    Requests stay in the queue until `repair.wait` is over.
    Only one process of a machine may bring a fleet up or down, or run on it.
    """
    with _opened(inventory, claims=True) as provider:
        before = provider.look()
        missing = [one.node for one in before if one.condition is not Condition.UP]
        if why := provider.why_not():
            raise PlanError(f"{why}: {_DOWN} first", key="lifetime")
        if missing:
            click.echo(_offered(provider.inventory), err=True)
            _agree(f"Create or start {', '.join(missing)}?", is_agreed=is_agreed)
        try:
            within_s = wait or provider.inventory.repair.wait_s
            reports = bring_up(provider, within_s=within_s, told=_say)
        except KeyboardInterrupt:
            click.echo(f"chaoslab: {_STAYS}", err=True)
            raise
    again = f"chaoslab run PLAN --fleet tpu-vm --inventory {shlex.quote(str(inventory))}"
    late = [one for one in reports if one.condition is not Condition.UP]
    wrong = late + [one for one in reports if one not in late and one.difference]
    print_result(
        {"slices": [_report_json(one) for one in reports]},
        _reports_page(reports),
        as_json=as_json,
        then=None if wrong else (again, "train on it"),
    )
    for one in wrong:
        click.echo(f"chaoslab: {_sentence(one)}", err=True)
    if any(one.condition in _AWAITED for one in late):
        click.echo(
            f"chaoslab: {_STAYS}; another `chaoslab doctor slices up` waits for it", err=True
        )
    context.exit(ExitCode.BROKEN if wrong else ExitCode.PASS)


@command.command(
    name="status",
    epilog=examples(
        "chaoslab doctor slices status fleet.yaml",
        "chaoslab doctor slices status fleet.yaml --json",
    ),
)
@_inventory
@json_option
@click.pass_context
def status(context: click.Context, *, inventory: Path, as_json: bool) -> None:
    """Show the slices of INVENTORY, and until when they may exist.

    Exit code 1 if one of them is not up or not as the inventory says, if the fleet has others than
    these, or if their time is over.
    """
    with _opened(inventory) as provider:
        owned, reports = provider.owned(), provider.look()
    expired = _expired(owned)
    ends_s = min((one.ends_s for one in owned), default=math.inf)
    strays = _strays(owned, reports)
    lines: list[RenderableType] = [_reports_page(reports)]
    lines += [Text(_sentence(one), style="yellow") for one in reports if one.detail]
    lines += [Text(f"{one.resource} in {one.zone} is not the slice of any learner in the "
                   f"inventory: {_DOWN}", style="yellow") for one in strays]  # fmt: skip
    if math.isfinite(ends_s):
        lines.append(Text(time.strftime("they may exist until %F %R UTC", time.gmtime(ends_s))))
    lines += [Text(f"the time of {one.resource} is over: {_DOWN}", style="yellow")
              for one in expired]  # fmt: skip
    value: Mapping[str, Json] = {
        "slices": [_report_json(one) for one in reports],
        "until": ends_s if math.isfinite(ends_s) else None,
        "expired": [one.resource for one in expired],
        "strays": [one.resource for one in strays],
    }
    print_result(value, Group(*lines), as_json=as_json)
    is_right = all(one.condition is Condition.UP and not one.difference for one in reports)
    is_well = is_right and not (expired or strays)
    context.exit(ExitCode.PASS if is_well else ExitCode.FAIL)


@command.command(
    name="down",
    epilog=examples(
        "chaoslab doctor slices down fleet.yaml",
        "chaoslab doctor slices down fleet.yaml --expired --yes",
    ),
)
@_inventory
@click.option("--expired", "is_expired_only", is_flag=True, help="Only slices whose time is over: "
              "for a timer.")  # fmt: skip
@_yes
@json_option
@click.pass_context
def down(
    context: click.Context,
    *,
    inventory: Path,
    is_expired_only: bool,
    is_agreed: bool,
    as_json: bool,
) -> None:
    """Delete all slices and requests with the label of this fleet, and wait until they are gone.

    Looks in the zones of INVENTORY. What lacks the label chaoslab-fleet with the name of the fleet
    is not touched, whatever it is called. Exit code 4 if something is still there.
    """
    with _opened(inventory, claims=True) as provider:
        owned = provider.owned()
        doomed = _expired(owned) if is_expired_only else owned
        left: list[tuple[SliceReport, str]] = []
        if doomed:
            names = ", ".join(one.resource for one in doomed)
            _agree(f"Delete {names} in {provider.inventory.project}?", is_agreed=is_agreed)
            left = take_down(provider, doomed, within_s=_DELETE_S)
    still_there = [one.resource for one, _ in left]
    gone = [one.resource for one in doomed if one.resource not in still_there]
    told = f"deleted: {', '.join(gone)}" if gone else "nothing to delete"
    print_result({"deleted": gone, "left": still_there}, Text(told), as_json=as_json)
    for one, why in left:
        words = f"{one.resource} in {one.zone} is still {one.condition.value}{why and f' ({why})'}"
        click.echo(f"chaoslab: {words}", err=True)
    context.exit(ExitCode.BROKEN if left else ExitCode.PASS)


@contextmanager
def _opened(path: Path, *, claims: bool = False) -> Iterator[TpuProvider]:
    """The provider of an inventory, which is named by each PlanError that names a key of it."""
    try:
        inventory = load(path)
        with closing(open_provider(inventory)) as provider:
            if claims:
                claim(inventory)
            yield provider
    except PlanError as error:
        if error.where or not error.key:
            raise
        raise PlanError(error.message, where=str(path), key=error.key) from error


def _agree(question: str, *, is_agreed: bool) -> None:
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise PlanError(f"{question} There is no terminal to ask on: add --yes")
    if not click.confirm(question, err=True):
        raise PlanError("nothing was changed")


def _strays(owned: Sequence[SliceReport], reports: Sequence[SliceReport]) -> list[SliceReport]:
    """Slices of the fleet that belong to no learner, and cost or may cost something."""
    known = {one.resource for one in reports}
    return [one for one in owned if one.resource not in known and one.condition not in LOST]


def _expired(owned: Sequence[SliceReport]) -> list[SliceReport]:
    now_s = time.time()
    return [one for one in owned if one.ends_s <= now_s]


# ---------------------------------------------------------------- what is shown


def _offered(inventory: Inventory) -> str:
    lines = [
        f"{node}: {entry.type} in {entry.zone}, {entry.accelerator.chips} chips"
        f"{', spot' if entry.spot else ''}"
        for node, entry in inventory.slices.items()
    ]
    lines.append(f"for at most {show_duration(inventory.lifetime_s)}, at the prices of the cloud")
    return "\n".join(lines)


def _reports_page(reports: Sequence[SliceReport]) -> RenderableType:
    page = table("learner", "slice", "condition", "state", "health", "request", wraps=["slice"])
    for one in reports:
        page.add_row(
            one.node, one.resource, one.condition.value, one.state, one.health, one.request
        )
    return page


def _say(report: SliceReport) -> None:
    click.echo(_sentence(report), err=True)


def _sentence(report: SliceReport) -> str:
    words = filter(None, (report.state, report.health, report.request, report.detail))
    return f"{report.node}: {report.condition.value} ({', '.join(words)})"


def _report_json(report: SliceReport) -> Mapping[str, Json]:
    return {
        "learner": report.node,
        "slice": report.resource,
        "condition": report.condition.value,
        "state": report.state,
        "health": report.health,
        "request": report.request,
        "detail": report.detail,
    }
