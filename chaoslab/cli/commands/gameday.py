"""`chaoslab gameday`: a run that people watch, decide about and learn from.

plan ─► questions ─► charter ─► run with an input line or a script ─► verdict page
                        │                    │
                   charter.md      debrief.md and .html, actions.md
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from chaoslab.cli.commands.attach import attached_to, confirm, target_of
from chaoslab.cli.commands.listener_options import Listening, listener_options
from chaoslab.cli.commands.live_options import Serving, live_options, login
from chaoslab.cli.commands.options import (
    bundled,
    pattern_option,
    plan_options,
    selector_option,
    service_option,
)
from chaoslab.cli.commands.output import (
    advise,
    examples,
    json_option,
    named,
    out_option,
    print_json,
    print_result,
    typed,
    typed_path,
    warn,
)
from chaoslab.cli.commands.run import run_told
from chaoslab.cli.invocation import Invocation
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.private_files import replace_file
from chaoslab.core.regular_files import read_written
from chaoslab.core.secrets import Secrets
from chaoslab.core.terminal import harmless, shown_path
from chaoslab.core.units import plural, show_duration
from chaoslab.gameday.as_plan import as_plan as as_plan_of
from chaoslab.gameday.as_plan import unplanned
from chaoslab.gameday.charter import charter_page, without_victims
from chaoslab.gameday.debrief import write_debrief
from chaoslab.gameday.orders import Names, OperatorConsole
from chaoslab.gameday.script import Line, Script, is_ended_by, read_script
from chaoslab.gameday.sealing import draw, drawn_from
from chaoslab.gameday.terminal import Printed, is_at_hand
from chaoslab.plan.file import resolved_yaml
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.prepare.attach import Target
from chaoslab.prepare.kinds import faults
from chaoslab.prepare.plans import Asked, Prepared, decode, prepare
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.replay.again import recorded_schedule
from chaoslab.replay.trials import recorded_plan
from chaoslab.report.page import verdict_page
from chaoslab.report.story import RunStory
from chaoslab.run.judged_run import JudgedRun
from chaoslab.run.operators import Inbox

CHARTER_MD = "charter.md"


@click.command(
    name="gameday",
    epilog=examples(
        "chaoslab gameday kill_half",
        "chaoslab gameday kill_half --charter > charter.md",
        "chaoslab gameday my_plan.yaml --by Ann --set gameday.length=1h",
        "chaoslab gameday kill_half --serve 8080 --operator Ann --operator Bo",
        "chaoslab gameday my_plan.yaml --script rehearsal.txt --fleet sim",
        "chaoslab gameday kill_half --fleet sim --set fleet.speed=2x --serve",
        "chaoslab gameday kill_half --attach compose:chaoslab-training",
        "chaoslab gameday my_plan.yaml --set gameday.sealed.faults=2",
        "chaoslab gameday latest --as-plan gate.yaml",
    ),
)
@plan_options
@click.option("--by", metavar="NAME", default=None,
              help="Who types the orders; default: the login name. A line that begins with "
                   "`NAME>` is of that person.")  # fmt: skip
@click.option("--charter", "is_charter", is_flag=True,
              help="Print the charter as Markdown; start nothing.")  # fmt: skip
@click.option("--script", metavar="FILE", default=None, type=click.Path(allow_dash=True),
              help="Orders and waits from a file, or from stdin (`-`).")  # fmt: skip
@click.option("--as-plan", metavar="FILE", default=None, type=click.Path(path_type=Path),
              help="Write what was done in a game-day on record as a plan; start nothing. PLAN is "
                   "its run: a path, `latest`, or the beginning of its id.")  # fmt: skip
@bundled(
    "target",
    target_of,
    click.option("--attach", "target", metavar="TARGET", default=None,
                 help="On a training that runs already, and goes on afterwards: a TARGET of "
                      "`chaoslab attach`."),
    service_option,
    selector_option,
    pattern_option,
)  # fmt: skip
@click.option("--yes", "is_begun", is_flag=True, help="Begin without a question.")
@live_options
@listener_options
@out_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each option
    context: click.Context,
    *,
    asked: Asked,
    by: str | None,
    is_charter: bool,
    script: str | None,
    as_plan: Path | None,
    target: Target | None,
    is_begun: bool,
    serving: Serving,
    listening: Listening,
    out: Path,
    as_json: bool,
) -> None:
    """Run a fault plan with people who watch, decide and predict.

    Faults of the plan wait for an operator, who types orders: go, skip, milder, stronger, repeat,
    heal, predict, note, end, abort. `help` explains them. Training goes on meanwhile, at most for
    `gameday.length` of the plan. Ctrl-C heals all faults and ends the run.

    Without a terminal, orders are read from stdin, line by line. A script also has lines such as
    `wait half-dies held`, `wait inject` and `wait 5s`; once it is over, faults that still wait are
    left out. A simulated fleet needs a script, because its time does not wait for people, or a
    speed: --set fleet.speed=1x is real time.

    --serve adds a live page: operators act on it by links that can be used once, and many viewers
    look, predict and take notes.

    With `gameday.sealed` of the plan, faults also come that no participant sees before.

    The record holds charter.md, debrief.md, debrief.html and actions.md. No fault-free twin is run:
    checks that compare with one are not judged.

    Exit codes are those of `chaoslab run`.
    """
    if as_plan is not None:
        _write_plan(asked.plan, out, as_plan, as_json=as_json)
        return
    is_asked = not is_begun and not is_charter and _has_people()
    asked, nodes = attached_to(target, asked)
    if nodes and not (is_begun or is_charter or is_asked):
        confirm(context, nodes, asked.plan)
    with _interrupted():
        asked = _completed(asked, is_asked=is_asked)
    prepared = prepare(asked)
    context.ensure_object(Invocation).secrets = prepared.text.secrets
    secrets = prepared.text.secrets
    shown = _without_secrets(prepared.plan, secrets)  # before any of it is escaped
    kinds = drawn_from(prepared)
    sealed = draw(prepared, kinds)
    charter = secrets.text(charter_page(shown, prepared.schedule, kinds=kinds))
    if is_charter:
        _print_charter(charter, as_json=as_json)
        return
    room, lines = _room(
        prepared, shown, by or login(), script, is_served=serving.serve is not None, sealed=sealed
    )
    for text in prepared.warnings:
        warn(text)
    if is_asked:
        click.echo(f"{harmless(without_victims(charter))}\n", err=True)
        with _interrupted():
            if not click.confirm("Begin?", err=True):
                click.echo("chaoslab: nothing was started", err=True)
                context.exit(ExitCode.REFUSED)
    has_people = _has_people() or serving.serve is not None
    is_alone = script is not None and (prepared.fleet_setup.speed is None or not has_people)
    invocation = context.ensure_object(Invocation)
    with listening.begin() as listeners, serving.begin(room.inbox, shown) as pages:
        given = Script(
            room.inbox, lines, by=room.by, holds=prepared.plan.held, has_others=bool(pages)
        )

        with _screen(room, given, is_alone=is_alone) as watching:
            judged = run_told(
                prepared,
                out,
                [watching, given, *pages],
                invocation=invocation,
                listeners=listeners,
                made=lambda directory: replace_file(directory / CHARTER_MD, charter),
                inbox=room.inbox,
            )
    for line in given.left():
        warn(f"not carried out: {harmless(str(line))}")
    _finish(judged, shown, out, as_json=as_json)
    if judged.error is not None:
        raise judged.error
    context.exit(judged.verdict.exit_code)


# ---------------------------------------------------------------- before it


def _has_people() -> bool:
    """Whether questions can be asked and read."""
    try:
        return is_at_hand(sys.stdin.fileno()) and sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):  # closed, or none at all
        return False


@contextmanager
def _interrupted() -> Iterator[None]:
    """Ctrl-C at a question is an interrupt, not a failed run."""
    try:
        yield
    except click.Abort as abort:
        raise KeyboardInterrupt from abort


def _completed(asked: Asked, *, is_asked: bool) -> Asked:
    """The plan with its length written out, and with the answers that the charter needs."""
    plan, _ = decode(asked)
    settings = [
        f"gameday.length={show_duration(plan.charter.length_s)}",
        *(_answers(plan) if is_asked else ()),
    ]
    return replace(asked, settings=(*asked.settings, *settings))


def _answers(plan: FaultPlan) -> Iterator[str]:
    """An owner and hypotheses, where the plan has none and they are typed, as settings."""
    charter = plan.charter
    if not charter.owner and (owner := _answer("Owner of the game-day")):
        yield f"gameday.owner={_yaml(owner)}"
    found = {
        fault.id: answer
        for fault in plan.faults
        if not charter.hypotheses.get(fault.id)
        and (answer := _answer(f"What should happen when {fault.id} ({fault.fault}) is injected"))
    }
    if found:
        yield f"gameday.hypotheses={_yaml({**charter.hypotheses, **found})}"


def _answer(question: str) -> str:
    answer: str = click.prompt(
        f"{harmless(question)}? (Enter leaves it open)", default="", show_default=False, err=True
    )
    return answer.strip()


def _yaml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_charter(charter: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"charter": charter})
    else:
        click.echo(harmless(charter))


def _without_secrets(plan: FaultPlan, secrets: Secrets) -> FaultPlan:
    """The plan as people may see it: what they wrote in it, without the values of its secrets."""
    charter = plan.charter
    hidden = replace(
        charter,
        owner=secrets.text(charter.owner),
        facilitator=secrets.text(charter.facilitator),
        scribe=secrets.text(charter.scribe),
        responders=tuple(map(secrets.text, charter.responders)),
        hypotheses={key: secrets.text(text) for key, text in charter.hypotheses.items()},
    )
    return replace(plan, gameday=hidden, description=secrets.text(plan.description))


def _room(
    prepared: Prepared,
    shown: FaultPlan,
    by: str,
    script: str | None,
    *,
    is_served: bool,
    sealed: Sequence[Injection],
) -> tuple[OperatorConsole, Sequence[Line]]:
    """Who gives orders, and those of the script; PlanError as of its lines."""
    if not by.strip() or not by.isprintable():
        raise PlanError("--by: write a name")
    if prepared.fleet_setup.speed is None and (script is None or is_served):
        raise PlanError(
            "a simulated fleet does not wait for people, because its time passes in a moment: give "
            "it a speed with --set fleet.speed=1x (10x: ten times as fast), or write the orders to "
            "a file and use --script FILE without --serve"
        )
    names = Names.of(prepared.plan)
    source = "stdin" if script == "-" else script or ""
    text = _text_of(script) if script else ""
    lines = read_script(text, source=source, by=by, names=names)
    keep = is_served or (is_ended_by(lines) if script else _has_people())
    return OperatorConsole(plan=shown, by=by, inbox=Inbox(keep=keep, sealed=sealed)), lines


def _text_of(script: str) -> str:
    try:
        if script == "-":
            return sys.stdin.read()
        return read_written(Path(script)).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"the script cannot be read: {error}", where=script) from error


# ---------------------------------------------------------------- afterwards


def _write_plan(run: str, out: Path, path: Path, *, as_json: bool) -> None:
    """Write what was done in a run on record as a plan."""
    directory = RunDirectory.open(run, root=out)
    plan, history = recorded_plan(directory), History.read(directory.path)
    injections = (*recorded_schedule(directory).injections, *unplanned(plan, history, faults()))
    done = as_plan_of(plan, injections, history)
    if path.exists():
        raise PlanError(f"{path} is there already: choose another name")
    replace_file(path, resolved_yaml(done))
    try:
        prepare(Asked(plan=str(path)))
    except PlanError:
        path.unlink()  # it is no plan that can be run
        raise
    if as_json:
        print_json({"plan": str(path), "faults": [fault.id for fault in done.faults]})
    else:
        click.echo(f"{path}: {plural(len(done.faults), 'fault')} as in {named(directory, out)}")
    advise(f"chaoslab run {typed_path(path)} --fail-on unknown", "the gate that it makes")


# ---------------------------------------------------------------- the run


def _screen(room: OperatorConsole, script: Script, *, is_alone: bool) -> Printed:
    """What happens, in lines; of a script that is not alone, with those that people type."""
    if is_alone:
        script.end()
    view = RunStory(room.plan.training.stop)
    return Printed(None if is_alone else sys.stdin, sys.stderr, view, room, script)


def _finish(judged: JudgedRun, plan: FaultPlan, out: Path, *, as_json: bool) -> None:
    """The verdict, and where the files of the game-day are."""
    directory = judged.directory.path
    print_result(
        judged.verdict.to_json(),
        verdict_page(judged.verdict, judged.history, shown_path(directory)),
        as_json=as_json,
    )
    written = write_debrief(directory, judged.history, judged.verdict, plan)
    for path in (directory / CHARTER_MD, *written):
        click.echo(f"{path.stem}: {shown_path(path)}", err=True)
    run = typed(judged.directory, out)
    if judged.verdict.residue:
        advise(f"chaoslab heal {run}", "undo what was left behind")
    else:
        advise(f"chaoslab show {run}", "the whole story of this run")
