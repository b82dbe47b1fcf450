"""`chaoslab research advise`: learners, quorum and rounds for given chips, failures and links."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaoslab.cli.commands.options import count, duration
from chaoslab.cli.commands.output import examples, json_option, print_result, progress, table
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.units import DURATION
from chaoslab.experiments.advice import (
    MOST_LEARNERS,
    Advice,
    Learners,
    Pace,
    Question,
    Rounds,
    advise,
    to_json,
)
from chaoslab.sim.renewal.failure_models import MODELS, YEAR_S, FailureModel, Fleet
from chaoslab.sim.timeline.training import GBIT

_PARAMETERS, _STEP_S = "12B", 4.0
"""Of the published training in four regions, whose steps took 2.9 to 7.3 s by its bandwidths."""
_LOW_GOODPUT, _SMALL = 0.5, 0.1
_YEARS: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)y")
_UNKNOWN: Final = {
    "loss": "what many learners cost: the scores are those of one published training (1.2M chips, "
    "one interruption per chip and year); and what a longer period (H), more overlap (tau) and "
    "fewer bits cost, beyond the published: 4 bits are free, 2 are not",
    "steps": "a step is taken to be as long for every number of learners, which share the batch",
    "quorum": "rounds wait for learners that are ready again, so that with a quorum above 1 they "
    "come less often than the uptime says (experiments/tiers, experiments/quorum_map)",
    "syncer": "its failures (experiments/syncer), and its bandwidth, which must be that of all "
    "links",
}


def _gbps(_context: click.Context, _option: click.Parameter, text: str) -> float:
    try:
        rate = float(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number of Gbit/s: write 3") from error
    if not 0 < rate < math.inf:
        raise click.BadParameter(f"must be above 0 and finite, got {text}: write 3")
    return rate


@click.command(
    name="advise",
    epilog=examples(
        "chaoslab research advise --chips 200000 --mtbi 1y --gbps 3",
        "chaoslab research advise --chips 16k --failures llama_3 --gbps 10 --step 8s",
        "chaoslab research advise --chips 2.4M --mtbi 90d --gbps 2 --json",
    ),
)
@click.option("--chips", required=True, metavar="COUNT", callback=count,
              help="All chips of the training: 200000, 200k.")  # fmt: skip
@click.option("--mtbi", metavar="TIME",
              help="Mean time between interruptions of one chip: 1y, 90d, 5000h.")  # fmt: skip
@click.option("--failures", type=click.Choice([one.value for one in Fleet]), metavar="FLEET",
              help="Instead of --mtbi: a published fleet, see docs/simulation.md.")  # fmt: skip
@click.option("--gbps", required=True, metavar="GBIT", callback=_gbps,
              help="Link of each learner to the syncer in Gbit/s, each way: 3.")  # fmt: skip
@click.option("--parameters", default=_PARAMETERS, show_default=True, metavar="COUNT",
              callback=count, help="Of the model: 12B, 70B.")  # fmt: skip
@click.option("--step", "step_s", default=f"{_STEP_S:g}s", show_default=True, metavar="TIME",
              callback=duration, help="Time of one step of a learner.")  # fmt: skip
@click.option("--most-learners", type=click.IntRange(1), default=MOST_LEARNERS, show_default=True,
              metavar="M", help="Learners that are advised at most; the published score of 16 is "
              "lower than that of 8.")  # fmt: skip
@click.option("--slice", "slice_chips", type=click.IntRange(1), default=256, show_default=True,
              metavar="CHIPS", help="Chips that leave with a failed one.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1), default=4, show_default=True, metavar="N",
              help="Simulations of each number of learners.")  # fmt: skip
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each part of the question
    context: click.Context, *, chips: int, mtbi: str | None, failures: str | None, gbps: float,
    parameters: int, step_s: float, most_learners: int, slice_chips: int, seeds: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Choose learners, quorum and rounds for given chips, failures and links.

    It says why, and how sensitive the choice is.

    Goodput and uptime come from simulated failures (`renewal`), rounds from simulated links with
    the real policy (`timeline`). More learners always have more goodput; how many are advised is
    bounded by --most-learners, because of their loss, which nothing here can know.

    Exit codes: 0; 1 if no setting keeps pace with the links.
    """
    question = Question(
        chips=chips, model=_model(mtbi, failures), rate_bytes_per_s=gbps * GBIT,
        parameters=parameters, step_s=step_s, most_learners=most_learners,
        slice_chips=slice_chips, seeds=seeds,
    )  # fmt: skip
    advice = advise(question, on_progress=progress("advise"))
    print_result(to_json(advice), _page(question, advice), as_json=as_json)
    context.exit(ExitCode.PASS if advice.keeps_pace else ExitCode.FAIL)


def _model(mtbi: str | None, failures: str | None) -> FailureModel:
    if (mtbi is None) == (failures is None):
        said = "not both" if mtbi else "one of them is needed"
        raise PlanError(
            f"either --mtbi 1y, or --failures llama_3, says how often chips fail: {said}",
            key="--mtbi",
        )
    if failures is not None:
        return MODELS[Fleet(failures)]
    return FailureModel(mtbi_s=_interval_s(str(mtbi)), source="--mtbi")


def _interval_s(text: str) -> float:
    """A duration, also in years."""
    match = _YEARS.fullmatch(text)
    try:
        found_s = float(match[1]) * YEAR_S if match else DURATION.parse(text)
    except PlanError as error:
        raise PlanError(f"{error.message}; or 1y", key="--mtbi") from error
    if found_s <= 0:
        raise PlanError(f"must be above 0, got {text}: write 1y", key="--mtbi")
    return found_s


# ---------------------------------------------------------------- the page


def _page(question: Question, advice: Advice) -> Group:
    return Group(
        Text("choose", style="bold"),
        _named(_choices(question, advice)),
        Text("\nwhy: learners", style="bold"),
        _learners_table(advice),
        Text("why: quorum", style="bold"),
        _quorum_table(advice),
        Text("why: rounds", style="bold"),
        _rounds_table(advice),
        Text("how sensitive", style="bold"),
        *_sensitivities(advice),
        Text("\nnot known", style="bold"),
        _named(_UNKNOWN.items()),
    )


def _item(text: str) -> Padding:
    return Padding(Text(text), (0, 0, 0, 2))


def _named(lines: Iterable[tuple[str, str]]) -> Padding:
    """Names, with what is said of each beside it."""
    grid = Table.grid(padding=(0, 4, 0, 0))
    for name, text in lines:
        grid.add_row(name, Text(text))
    return Padding(grid, (0, 0, 0, 2))


def _choices(question: Question, advice: Advice) -> Iterator[tuple[str, str]]:
    best = advice.learners
    yield (
        "learners",
        (
            f"M = {best.learners}, of {question.chips // best.learners:,} chips: goodput "
            f"{best.goodput:.1%}, the most with at most {question.most_learners} learners"
        ),
    )
    if best.goodput < _LOW_GOODPUT:
        yield "", "most of the chip time is lost in pauses; more learners stop less at a failure"
    if (fewest := advice.fewest).learners < best.learners:
        yield "", f"M = {fewest.learners} has as much, to a tenth of a point: failures ask no more"
    yield (
        "quorum",
        ("K = 1, with the grace window: goodput is the same with any quorum, uptime is highest"),
    )
    yield (
        "rounds",
        (
            f"{_said(advice.pace.rounds)}: {_percent(advice.pace.made)} of the planned rounds over "
            f"{question.rate_bytes_per_s / GBIT:g} Gbit/s"
        ),
    )
    if not advice.keeps_pace:
        needed = f"{advice.least_bytes_per_s / GBIT:.2g} Gbit/s"
        yield (
            "",
            (
                "no setting that was tried keeps pace with this link; these rounds need "
                f"{needed}. Fewer parameters or longer steps need less."
            ),
        )


def _said(rounds: Rounds) -> str:
    return (
        f"P = {rounds.fragments} fragments, H = {rounds.sync_every}, tau = {rounds.overlap}, "
        f"{rounds.bits} bits"
    )


def _percent(share: float) -> str:
    """Percentage; of a small share with two digits: 0.39%."""
    return f"{share:.0%}" if share >= _SMALL or not share else f"{100 * share:.2g}%"


def _learners_table(advice: Advice) -> Padding:
    shown = table("M", "goodput", "3x failures", "uptime, K=1", "published text score")
    for one in advice.by_learners:
        shown.add_row(
            _marked(one, advice.learners), f"{one.goodput:.1%}",
            f"{one.goodput_faster_failures:.1%}", f"{one.uptime:.1%}",
            "not published" if one.score is None else f"{one.score:g}",
        )  # fmt: skip
    return Padding(shown, (0, 0, 0, 2))


def _marked(one: Learners, best: Learners) -> str:
    mark = "◄" if one.learners == best.learners else ""
    data_parallel = "elastic data parallel" if one.learners == 1 else ""
    return " ".join(filter(None, (str(one.learners), mark, data_parallel)))


def _quorum_table(advice: Advice) -> Padding:
    shown = table("K", f"uptime, M={advice.learners.learners}")
    for one in advice.by_quorum:
        shown.add_row(f"{one.quorum}{' ◄' if one.quorum == 1 else ''}", f"{one.uptime:.2%}")
    return Padding(shown, (0, 0, 0, 2))


def _rounds_table(advice: Advice) -> Padding:
    shown = table("P", "H", "tau", "bits", "rounds made", "with half the link")
    rows: Sequence[tuple[str, Pace]] = [
        (" ◄", advice.pace), *(("", one) for one in advice.neighbours)
    ]  # fmt: skip
    for mark, one in rows:
        values = one.rounds
        shown.add_row(
            f"{values.fragments}{mark}", str(values.sync_every), str(values.overlap),
            str(values.bits), f"{_percent(one.made)}", f"{_percent(one.made_thinner)}",
        )  # fmt: skip
    return Padding(shown, (0, 0, 0, 2))


def _sensitivities(advice: Advice) -> Iterator[Padding]:
    best, thinner = advice.learners, advice.at_thinner_link
    lost = 100 * (best.goodput - best.goodput_faster_failures)
    yield _item(f"three times as many failures cost {lost:.1f} points of goodput")
    yield _item(
        f"these rounds need a link of {advice.least_bytes_per_s / GBIT:.2g} Gbit/s; over half of "
        f"the given one {_percent(advice.pace.made_thinner)} of them are made"
    )
    if thinner is not None:
        yield _item(f"for half of the link choose {_said(thinner)}")
    else:
        yield _item("for half of the link no setting that was tried keeps pace")
