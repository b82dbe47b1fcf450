"""A verdict and a record as a page to read: the answers first, then what they rest on.

Verdict + History ─► verdict_page (after a run)
                  └─► run_page (`chaoslab show`: with the timeline, what is behind it, hints)
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.units import plural
from chaoslab.record.history import History
from chaoslab.record.run_directory import RunDirectory
from chaoslab.report.console import beside
from chaoslab.report.excerpt import (
    AROUND_S,
    TimelineLine,
    excerpt,
    journal_lines,
    nodes_behind,
    problems,
    timeline_lines,
)
from chaoslab.report.files import REPORT_HTML
from chaoslab.report.hints import Record, hint
from chaoslab.report.sentences import Tone, seconds
from chaoslab.report.wording import (
    OUTCOME_TONES,
    answers,
    begun,
    counted,
    is_known_script,
    margin,
    worst_first,
)

STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.FAULT: "magenta",
}
_LONG_COMMAND = re.compile("`((?:chaoslab|grep) [^`]{25,})`")
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
        Text.assemble(("record  ", "dim"), str(directory), no_wrap=True, overflow="ignore"),
        *_drawn(directory),
        _digest(verdict),
    )


def _digest(verdict: Verdict) -> Text:
    if verdict.journal is None:
        text = "digest  none: the journal has no hash chain, so that edits of it do not show"
        return Text(text, style=STYLES[Tone.FAULT])
    return Text(f"digest  {verdict.journal.digest}", style="dim")


def run_page(
    verdict: Verdict | None, history: History, path: Path, *, record: Record, whole: bool = False
) -> RenderableType:
    """The same page of an old run, then its timeline and what the findings rest on.

    Of the timeline only what is near the findings, or after a PASS what faults did and who came
    back, unless `whole`. After a FAIL or UNKNOWN also the lines of the journal and of standard
    error behind them, and what to try.
    """
    if verdict is None:
        first: RenderableType = Text(
            f"not judged yet; the record lies in {path}", style=STYLES[Tone.FAULT]
        )
        return Group(first, Text(), *_timeline(timeline_lines(history)))
    lines = timeline_lines(history, verdict)
    shown = lines if whole else list(excerpt(lines))
    directory = RunDirectory(path=path.absolute())
    nodes = nodes_behind(problems(verdict), directory)
    stderr = {node: directory.stderr_tail(node) for node in nodes}
    return Group(
        verdict_page(verdict, history, path),
        Text(),
        *_timeline(shown),
        *_behind(verdict, history, stderr),
        *_hints(verdict, record, stderr),
    )


def _timeline(lines: Sequence[TimelineLine | int]) -> Iterator[RenderableType]:
    yield Text("Timeline", style="bold")
    is_cut = any(isinstance(line, int) for line in lines)
    if any(isinstance(line, TimelineLine) and line.is_marked for line in lines):
        near = f"; {AROUND_S:.0f} s around each, --all shows the rest" if is_cut else ""
        yield Text(f"▶ marks what the findings rest on{near}", style="dim")
    elif is_cut:
        yield Text("what faults did, and who came back; --all shows the rest", style="dim")
    for line in lines:
        yield _left_out(line) if isinstance(line, int) else _line(line)


def _left_out(count: int) -> Text:
    return Text(f"         …  {plural(count, 'line')} left out", style="dim")


def _line(line: TimelineLine) -> Table:
    said = line.sentence
    style = f"{STYLES[said.tone]} {'bold' if line.is_marked else ''}".strip()
    mark = "▶" if line.is_marked else " "
    return beside(f"{mark}{said.time_s:8.2f} s", said.text, style)


def _behind(verdict: Verdict, history: History, stderr: Mapping[str, str]) -> Iterator[Text]:
    for finding in problems(verdict):
        quoted = list(journal_lines(finding, history))
        if quoted:
            more = len(set(finding.evidence)) - len(quoted)
            rest = f", and {plural(more, 'more line')}" if more > 0 else ""
            yield Text(f"\nJournal lines of {finding.check}{rest}", style="bold")
            for number, line in quoted:
                yield Text.assemble((f"journal.jsonl:{number}  ", "dim"), line, overflow="fold")
    what = "Output" if is_known_script(verdict, history) else "Standard error"
    for node, tail in stderr.items():
        yield Text(f"\n{what} of {node}, the last lines", style="bold")
        yield Text(tail or "it wrote nothing", style="" if tail else "dim", overflow="fold")


def _hints(verdict: Verdict, record: Record, stderr: Mapping[str, str]) -> Iterator[RenderableType]:
    doubtful = [one for one in verdict.findings if one.outcome is not Outcome.PASS]
    if not doubtful:
        return
    yield Text("\nWhat to try", style="bold")
    tried: dict[str, list[str]] = {}
    for finding in doubtful:
        tried.setdefault(hint(finding, record, stderr), []).append(finding.check)
    for text, checks in tried.items():
        yield Text(", ".join(dict.fromkeys(checks)))
        yield from _pasteable(text)


def _pasteable(text: str) -> Iterator[RenderableType]:
    """A hint with each long command on a line of its own, which is never broken or cut."""
    for at, part in enumerate(_LONG_COMMAND.split(text)):
        if at % 2:
            yield Text(f"    {part}", no_wrap=True, overflow="ignore")
        elif said := part.strip(" ,;.:"):
            yield Padding(Text(f"{said}{':' if part.endswith(': ') else ''}"), (0, 0, 0, 2))


def _drawn(directory: Path) -> Iterator[Text]:
    """Path of report.html, once it is written."""
    page = directory / REPORT_HTML
    if page.is_file():
        yield Text.assemble(("report  ", "dim"), str(page), no_wrap=True, overflow="ignore")


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
    table.add_column("why", ratio=1, overflow="fold")
    table.add_column("margin", justify="right", no_wrap=True)
    for finding in worst_first(verdict):
        style = STYLES[OUTCOME_TONES[finding.outcome]]
        outcome = Text(finding.outcome.value, style=style)
        table.add_row(outcome, finding.check, Text(finding.reason), margin(finding))
    for left in verdict.not_judged:
        table.add_row(Text("not judged", style="dim"), left.name, Text(left.reason, style="dim"))
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
    table.add_column("what shows it", ratio=1, overflow="fold")
    for one in verdict.injections:
        status = Text(one.status, style=_STATUS_STYLES.get(one.status, ""))
        targets = Text(", ".join(one.targets))
        table.add_row(one.id, one.fault, status, targets, Text(one.reason))
    return table


def _residue(verdict: Verdict) -> Iterable[Text]:
    for left in verdict.residue:
        text = f"left over: {left.get('what')} in {left.get('where')}; {left.get('remedy')}"
        yield Text(text, style=STYLES[Tone.BAD])
