"""A verdict and a record as a page to read: the answers first, then what they rest on.

Verdict + History ─► verdict_page (after a run) · run_page (`chaoslab show`: with the timeline)
"""

from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaoslab.checks.verdict import Verdict
from chaoslab.record.journal import History
from chaoslab.report.sentences import Sentence, Tone, seconds
from chaoslab.report.view import ViewModel
from chaoslab.report.wording import OUTCOME_TONES, answers, begun, counted, margin

STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.FAULT: "magenta",
}
_STATUS_STYLES = {"proved": "green", "weak": "yellow", "failed": "bold red", "moot": "cyan"}


def verdict_page(verdict: Verdict, history: History, directory: Path) -> RenderableType:
    """The two answers, the findings, the injections, and where the record lies."""
    return Group(
        Text(),
        _title(verdict, history),
        _answers(verdict, history),
        _findings(verdict),
        *([_injections(verdict)] if verdict.injections else []),
        *(_residue(verdict)),
        Text.assemble(("record  ", "dim"), str(directory)),
        *([Text(f"digest  {verdict.journal.digest}", style="dim")] if verdict.journal else []),
    )


def run_page(verdict: Verdict | None, history: History, directory: Path) -> RenderableType:
    """The same page of an old run, with its timeline; without a verdict, the timeline alone."""
    parts: list[RenderableType] = []
    if verdict is not None:
        parts.append(verdict_page(verdict, history, directory))
    else:
        parts.append(Text(f"not judged yet; the record lies in {directory}", style="magenta"))
    return Group(*parts, Text(), Text("Timeline", style="bold"), *map(_line, timeline(history)))


def timeline(history: History) -> Iterable[Sentence]:
    """Every notable event of a run, in order, and who contributed again when."""
    view = ViewModel()
    return [sentence for event in history.events for sentence in view.see(event)]


def _line(sentence: Sentence) -> Text:
    return Text(f"{sentence.time_s:8.2f} s  {sentence.text}", style=STYLES[sentence.tone])


def _title(verdict: Verdict, history: History) -> Text:
    about = begun(history)
    tone = OUTCOME_TONES[verdict.outcome]
    return Text.assemble(
        (f" {verdict.outcome} ", f"reverse {STYLES[tone]}"),
        f"  {about['plan']} · seed {about['seed']} · fleet {about['fleet']} · "
        f"{seconds(history.end_s)} · exit code {int(verdict.exit_code)}",
    )


def _answers(verdict: Verdict, history: History) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for answer in answers(verdict, history):
        word = Text(answer.word, style=f"bold {STYLES[answer.tone]}".strip())
        table.add_row(Text(answer.question, style="bold"), word, answer.text)
    return table


def _findings(verdict: Verdict) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("outcome")
    table.add_column("check", no_wrap=True)
    table.add_column("why", ratio=1)
    table.add_column("margin", justify="right", no_wrap=True)
    for finding in verdict.findings:
        style = STYLES[OUTCOME_TONES[finding.outcome]]
        outcome = Text(finding.outcome.value, style=style)
        table.add_row(outcome, finding.check, Text(finding.reason), margin(finding))
    return table


def _injections(verdict: Verdict) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=counted(verdict),
        title_justify="left",
        title_style="",
    )
    table.add_column("injection", no_wrap=True)
    table.add_column("fault", no_wrap=True)
    table.add_column("evidence")
    table.add_column("on")
    table.add_column("what shows it", ratio=1)
    for one in verdict.injections:
        status = Text(one.status, style=_STATUS_STYLES.get(one.status, ""))
        targets = Text(", ".join(one.targets))
        table.add_row(one.id, one.fault, status, targets, Text(one.reason))
    return table


def _residue(verdict: Verdict) -> Iterable[Text]:
    for left in verdict.residue:
        text = f"left over: {left.get('what')} in {left.get('where')}; {left.get('remedy')}"
        yield Text(text, style=STYLES[Tone.BAD])
