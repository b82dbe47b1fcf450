"""`chaoslab research selftest`: runs whose right answer is not PASS."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.checks.base import Outcome
from chaoslab.cli import completing
from chaoslab.cli.commands.output import examples, json_option, print_result, table, typed_path
from chaoslab.cli.invocation import Invocation
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.plan.file.document import nearest
from chaoslab.selftest.catalogue import TRIALS
from chaoslab.selftest.trial import Answer, Result, Trial, carry_out_trial

_SENTENCE_CHARACTERS = 150
_WRONG = "what is wrong"
_STYLES = {Answer.CAUGHT: "green", Answer.PASSED: "green", Answer.INTERRUPTED: "yellow"}


@click.command(
    name="selftest",
    epilog=examples(
        "chaoslab research selftest",
        "chaoslab research selftest --list",
        "chaoslab research selftest --only deaf_syncer --only idle_kill",
    ),
)
@click.option("--only", "names", multiple=True, metavar="NAME", help="Run only this trial; "
              "repeatable.", shell_complete=lambda _context, _option, begun: completing.that_begin(
                  begun, [trial.name for trial in TRIALS]))  # fmt: skip
@click.option("--list", "is_listing", is_flag=True, help="List all trials; run none.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/selftest"),
    show_default=True,
    help="Folder for the records of the trials.",
)
@json_option
@click.pass_context
def command(
    context: click.Context, *, names: tuple[str, ...], is_listing: bool, out: Path, as_json: bool
) -> None:
    """Check that chaoslab detects deliberate defects.

    Each trial is a short real run with one defect: a syncer that loses pushes, a learner that
    rejoins with old weights, a kill that has no effect. It is caught if the verdict is not PASS and
    the finding of the intended check names the defect. The last trials are controls without a
    defect; their verdict must be PASS. Ctrl-C heals the current run.

    Exit codes: 0 all defects caught and all controls passed, 1 something was missed, 3 a control
    was UNKNOWN (perhaps a busy machine) or a trial cannot run on this machine, 4 the harness
    failed, 130 interrupted.
    """
    trials = _chosen(names)
    if is_listing:
        _list(trials, as_json=as_json)
        return
    remember = context.ensure_object(Invocation).remember
    results: list[Result] = []
    code = ExitCode.INTERRUPTED
    try:
        results.extend(_run(trials, out, remember))  # those before an interrupt stay
        code = exit_code(results)
    except KeyboardInterrupt:  # between two trials: one that goes on answers that it was
        click.echo(f"interrupted after {plural(len(results), 'trial')}", err=True)
    value: Json = {"exit_code": int(code), "trials": [*map(_json, results)]}
    print_result(value, _page(results), as_json=as_json, then=_next(results, out))
    context.exit(code)


def _chosen(names: Sequence[str]) -> Sequence[Trial]:
    known = {trial.name: trial for trial in TRIALS}
    for name in names:
        if name not in known:
            raise PlanError(nearest(name, known, noun="trial"))
    return [known[name] for name in dict.fromkeys(names)] or TRIALS


def _run(
    trials: Sequence[Trial], out: Path, remember: Callable[[Path], object]
) -> Iterator[Result]:
    """Run the trials one after the other; an interrupt ends the current one, and all."""
    for number, trial in enumerate(trials, start=1):
        title = f"{number}/{len(trials)} {trial.name}: {trial.wrong or 'nothing is wrong'}"
        click.echo(title, err=True)
        result = carry_out_trial(trial, out, remember=remember)
        click.echo(f"  {result.answer.value} after {result.took_s:.0f} s", err=True)
        yield result
        if result.answer is Answer.INTERRUPTED:
            return


# ---------------------------------------------------------------- what came of it


def exit_code(results: Sequence[Result]) -> ExitCode:
    """The worst comes first; a trial that could not be judged is UNKNOWN, as everywhere."""
    answers = {result.answer for result in results}
    alarms = {result.verdict for result in results if result.answer is Answer.ALARM}
    if Answer.INTERRUPTED in answers:
        return ExitCode.INTERRUPTED
    if Answer.BROKEN in answers:
        return ExitCode.BROKEN
    if answers & {Answer.MISSED, Answer.MISTAKEN} or Outcome.FAIL in alarms:
        return ExitCode.FAIL
    return ExitCode.UNKNOWN if alarms or Answer.UNABLE in answers else ExitCode.PASS


def _page(results: Sequence[Result]) -> RenderableType:
    answers = table("trial", _WRONG, "answer", "verdict", "said by", "s", wraps=(_WRONG,))
    for result in results:
        answers.add_row(
            result.trial.name,
            result.trial.wrong or Text("nothing", style="dim"),
            Text(result.answer.value, style=_STYLES.get(result.answer, "bold red")),
            result.verdict.value if result.verdict else "-",
            result.check or "-",
            f"{result.took_s:>3.0f}",
        )
    return Group(answers, *map(_told, results), _summary(results))


def _told(result: Result) -> Text:
    """The verdict on one trial, cut to a line or two, and the finding that was expected."""
    trial, said = result.trial, result.sentence
    if len(said) > _SENTENCE_CHARACTERS:
        said = f"{said[:_SENTENCE_CHARACTERS].rstrip()} …"
    if result.answer in {Answer.MISSED, Answer.MISTAKEN}:
        said += f" (meant was {trial.check}: {', '.join(trial.codes)})"
    style = "bold red" if not result.answer.is_right else "dim" if trial.is_control else ""
    return Text.assemble((f"{trial.name}: ", "bold"), (said, style))


def _summary(results: Sequence[Result]) -> Text:
    wrong = [result for result in results if not result.trial.is_control]
    controls = [result for result in results if result.trial.is_control]
    caught = sum(result.answer.is_right for result in wrong)
    passed = sum(result.answer.is_right for result in controls)
    is_right = all(result.answer.is_right for result in results)
    return Text(
        f"\n{caught} of {len(wrong)} caught, {passed} of {len(controls)} controls passed",
        style="bold green" if is_right else "bold red",
    )


def _next(results: Sequence[Result], out: Path) -> tuple[str, str]:
    if any(result.answer is Answer.BROKEN for result in results):
        heal = f"chaoslab heal --all --out {typed_path(out)}"
        return heal, "undo what was left behind, if anything was"
    for result in results:
        if not result.answer.is_right and result.directory is not None:
            path = typed_path(result.directory)
            return f"chaoslab show {path}", f"the record of {result.trial.name}"
    return "chaoslab run kill_half", "break something, and believe the answer"


def _list(trials: Sequence[Trial], *, as_json: bool) -> None:
    page = table("trial", _WRONG, "plan", "must be said by", wraps=(_WRONG,))
    for trial in trials:
        page.add_row(
            trial.name, trial.wrong or Text("nothing", style="dim"), trial.plan, trial.check or "-"
        )
    then = ("chaoslab research selftest", "run all of them; some minutes")
    print_result([*map(asdict, trials)], page, as_json=as_json, then=then)


def _json(result: Result) -> Mapping[str, Json]:
    return {
        **asdict(result.trial),
        "answer": result.answer.value,
        "is_right": result.answer.is_right,
        "verdict": result.verdict.value if result.verdict else None,
        "said_by": result.check,
        "sentence": result.sentence,
        "took_s": round(result.took_s, 1),
        "record": str(result.directory) if result.directory else None,
    }
