"""Debrief of a game-day: what was expected, what happened, and what is to be done about it.

    record, verdict ─► outcomes ─┬─► debrief.md: faults, predictions, timeline, findings, surprises
                                 │     └─► debrief.html: the same for a browser
                                 └─► actions.md: one row for each finding and surprise, to fill in

From the record alone, so it can be written again. Nothing is judged here: the verdict is.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote

from chaoslab.checks.verdict import Verdict
from chaoslab.core.events import MalformedEvent
from chaoslab.core.payloads import GamedayOpened
from chaoslab.core.private_files import replace_file
from chaoslab.core.units import elapsed, plural
from chaoslab.gameday.effects import GAP_FACTOR, GAP_FLOOR_S, bound_s
from chaoslab.gameday.follow_up import Item, findings, surprises
from chaoslab.gameday.markdown import as_html, page, safe, table
from chaoslab.gameday.outcomes import FaultOutcome, outcomes
from chaoslab.gameday.predictions import Question, Score, answers, by_person, happened, score, team
from chaoslab.gameday.reactions import Prediction
from chaoslab.gameday.timeline import timeline
from chaoslab.plan.model import FaultPlan
from chaoslab.record.history import History
from chaoslab.report.web.page import article
from chaoslab.report.wording import answers as first_answers
from chaoslab.report.wording import begun, record_name

DEBRIEF_MD = "debrief.md"
DEBRIEF_HTML = "debrief.html"
ACTIONS_MD = "actions.md"


def write_debrief(
    directory: Path, history: History, verdict: Verdict, plan: FaultPlan
) -> tuple[Path, ...]:
    """Write all files into the directory of the run, each replaced whole; their paths.

    FleetError when the disk refuses.
    """
    debrief = debrief_page(directory, history, verdict, plan)
    pages = {
        DEBRIEF_MD: debrief,
        DEBRIEF_HTML: article(f"Debrief: {begun(history)['plan']}", as_html(debrief)),
        ACTIONS_MD: actions_page(history, verdict, plan),
    }
    for name, text in pages.items():
        replace_file(directory / name, text)
    return tuple(directory / name for name in pages)


def debrief_page(directory: Path, history: History, verdict: Verdict, plan: FaultPlan) -> str:
    """The text of debrief.md; of a record with a broken line only what the verdict says."""
    try:
        found = outcomes(history, verdict, plan)
        told = _told(history, verdict, found)
    except MalformedEvent as error:
        told = (f"A line of the record is broken, so only the findings follow: {safe(str(error))}",)
        told = (*told, "## Findings", _items(findings(verdict), "None."))
    return page(*_first(history, verdict), *told, "## Next: a gate", *_gate(directory))


def actions_page(history: History, verdict: Verdict, plan: FaultPlan) -> str:
    """The text of actions.md."""
    items = _to_follow_up(history, verdict, plan)
    name = safe(begun(history)["plan"])
    if not items:
        return page(
            f"# Actions after the game-day: {name}",
            "Nothing to follow up: no finding, and nothing surprised the room.",
        )
    owner = _owner(history, plan)
    rows = [
        (str(number), f"{item.kind}: {item.text}", "", owner, "")
        for number, item in enumerate(items, start=1)
    ]
    return page(
        f"# Actions after the game-day: {name}",
        "Fill in what is done about each, who does it and by when.",
        table(("number", "finding or surprise", "action", "owner", "due"), rows),
    )


def _to_follow_up(history: History, verdict: Verdict, plan: FaultPlan) -> Sequence[Item]:
    try:
        found = surprises(history, outcomes(history, verdict, plan))
    except MalformedEvent:  # a finding says so
        found = ()
    return [*findings(verdict), *found]


def _owner(history: History, plan: FaultPlan) -> str:
    opened = history.last(GamedayOpened)
    with suppress(MalformedEvent):
        return opened.payload.owner if opened else plan.charter.owner
    return plan.charter.owner


# ---------------------------------------------------------------- sections


def _first(history: History, verdict: Verdict) -> Iterator[str]:
    about = begun(history)
    yield f"# Debrief of a game-day: {safe(about['plan'])}"
    yield (
        f"{verdict.outcome}, exit code {int(verdict.exit_code)}; seed {about['seed']}, fleet "
        f"{safe(about['fleet'])}, {elapsed(history.end_s)}."
    )
    rows = [(one.question, one.word, one.text) for one in first_answers(verdict, history)]
    yield table(("question", "answer", ""), rows)


def _told(history: History, verdict: Verdict, found: Sequence[FaultOutcome]) -> tuple[str, ...]:
    return (
        "## Faults",
        _faults(found),
        "## Predictions",
        *_predictions(history, found),
        "## Time to notice",
        _rule_of_noticing(found),
        table(("fault", "noticed after", "by"), map(_noticed, found)) if found else "No faults.",
        "## Timeline",
        *_timeline(history),
        "## Findings",
        _items(findings(verdict), "None: every check passed."),
        *(f"Not judged: `{one.name}`: {one.reason}." for one in verdict.not_judged),
        "## Surprises",
        _items(surprises(history, found), "None."),
    )


def _rule_of_noticing(found: Sequence[FaultOutcome]) -> str:
    has_sealed = any(one.is_sealed for one in found)
    more = ", of a sealed one also its injection or a node that it hit" if has_sealed else ""
    return f"From the injection to the first note that names the fault{more}."


def _items(items: Sequence[Item], none: str) -> str:
    return "\n".join(f"- {safe(item.text)}" for item in items) or none


def _faults(found: Sequence[FaultOutcome]) -> str:
    if not found:
        return "The plan has no faults."
    head = ("fault", "hypothesis", "waited", "decided by", "injected at", "healed at", "evidence")
    return table(head, map(_fault, found))


def _fault(one: FaultOutcome) -> tuple[str, ...]:
    on = f" on {', '.join(one.hit)}" if one.hit else ""
    injected = "never" if one.injected_s is None else elapsed(one.injected_s)
    healed = "never" if one.healed_s is None else elapsed(one.healed_s)
    return (
        f"{one.spec} ({one.fault}{on})",
        one.hypothesis or ("sealed: not announced" if one.is_sealed else "not written"),
        _waited(one),
        _decided(one),
        injected,
        healed if one.is_injected else "",
        _evidence(one),
    )


def _waited(one: FaultOutcome) -> str:
    if one.held is None:
        return "not at all: its trigger had not come" if one.is_to_wait else "it does not wait"
    return elapsed(one.held.length_s) + ("" if one.held.is_whole else ", to the end of training")


def _decided(one: FaultOutcome) -> str:
    said = [
        f"{each.by}: {each.action}{f' ({each.reason})' if each.reason else ''}"
        for each in one.decisions
    ]
    by_itself = "the draw" if one.is_sealed else "the plan"
    return "; ".join(said) or ("no operator" if one.is_to_wait else by_itself)


def _evidence(one: FaultOutcome) -> str:
    counts: dict[str, int] = {}
    for injected in one.evidence:
        counts[injected.status] = counts.get(injected.status, 0) + 1
    if list(counts.values()) == [1]:
        return next(iter(counts))
    return ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))


# ---------------------------------------------------------------- predictions


def _predictions(history: History, found: Sequence[FaultOutcome]) -> Iterator[str]:
    predicted = [one for one in found if one.predictions]
    if not predicted:
        yield "There are no predictions."
        return
    yield _rules(history)
    for one in predicted:
        yield f"### {safe(one.spec)}"
        yield _of_fault(one)
    yield "### Score"
    yield table(("who", "right"), _scores(found))


def _rules(history: History) -> str:
    limit_s = bound_s(history)
    here = "" if limit_s is None else f", here {elapsed(limit_s)}"
    return (
        "Training goes on if, from the beginning of the fault until its victims are back, no gap "
        f"between two merged rounds is longer than {GAP_FACTOR:g} times the median gap of the "
        f"baseline and than {GAP_FLOOR_S:g} s{here}. A time is right within a factor of 2 either "
        "way, or if both are below 1 s. Back is counted from the heal until all victims had a "
        "contribution accepted. Only what was said before the first injection counts. Open: the "
        "record does not decide it, and it is not counted. Right in part counts as wrong."
    )


def _of_fault(one: FaultOutcome) -> str:
    real, together = happened(one), team(one)
    rows = [
        ("what happened", *(real[question] for question in Question), ""),
        *(_of_person(one, prediction) for prediction in one.predictions),
        ("team", *(str(together[question]) for question in Question), str(_sum(together))),
    ]
    return table(("who", *(question.value for question in Question), "right"), rows)


def _of_person(one: FaultOutcome, prediction: Prediction) -> tuple[str, ...]:
    said = answers(prediction, one)
    cells = (str(said[question]) if question in said else "" for question in Question)
    return (prediction.by, *cells, str(score(said.values())))


def _sum(scores: Mapping[Question, Score]) -> Score:
    return Score(
        right=sum(one.right for one in scores.values()),
        answered=sum(one.answered for one in scores.values()),
    )


def _scores(found: Sequence[FaultOutcome]) -> Iterator[tuple[str, str]]:
    """Scores of each person over all faults, then of all together."""
    people = by_person(found)
    for by, one in people.items():
        yield by, str(one) or "nothing is decided"
    right = sum(one.right for one in people.values())
    answered = sum(one.answered for one in people.values())
    yield "team", str(Score(right=right, answered=answered)) or "nothing is decided"


def _noticed(one: FaultOutcome) -> tuple[str, str, str]:
    if not one.is_injected:
        return one.spec, "not injected", ""
    if one.noticed_s is None:
        return one.spec, "never", "none"
    return one.spec, elapsed(one.noticed_s), one.noticed_by


# ---------------------------------------------------------------- timeline, gate


def _timeline(history: History) -> Iterator[str]:
    shown = timeline(history)
    yield table(("time", "what"), ((f"{one.time_s:.2f} s", one.text) for one in shown.lines))
    if shown.left_out:
        yield f"Left out: {safe(', '.join(shown.left_out))}."
    total = len(history.events)
    yield f"Members are listed from the baseline on; the journal has all {plural(total, 'event')}."


def _gate(directory: Path) -> Iterator[str]:
    run = quote(record_name(directory))
    yield (
        "What was done, as a plan in which nothing waits: without what was skipped, each fault as "
        "strong and as long as it was, in the same order, and without the time that people took."
    )
    yield (
        f"```sh\nchaoslab gameday {run} --as-plan gate.yaml\n"
        "chaoslab run gate.yaml --fail-on unknown\n```"
    )
