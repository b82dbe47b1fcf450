"""Records of a run whose files are damaged, cut, out of order, or of a writer who lies.

    seed ─► a record ─┬─ bytes changed, run.json as it was ─► read ─► judge: refused, or no PASS
                      └─ events changed, and chained again ─► read ─► judge: any verdict, or refused
                                                                └─► reports, `list`, `show`

The way is that of `chaoslab show --judge` and `list`. Refused is a ChaoslabError, nothing else.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console

from chaoslab.checks.base import Check, Outcome
from chaoslab.checks.catalogue import CHECKS
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.errors import ChaoslabError
from chaoslab.core.events import Event, Kind, encode
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL, RUN_JSON, JournalFile
from chaoslab.record.run_directory import RunDirectory, list_runs
from chaoslab.report import hints
from chaoslab.report.excerpt import timeline_lines
from chaoslab.report.files import VERDICT_JSON, junit_xml, read_verdict, report_md, verdict_json
from chaoslab.report.page import run_page
from chaoslab.report.web.page import page, page_data, record_facts
from chaoslab.run.experiment import was_interrupted
from chaoslab.run.records import history_of, run_json
from chaoslab.undo.log import UNDO_LOG
from tests.fuzz.damage import HUGE, damaged_bytes, damaged_value
from tests.histories import Story
from tests.memory_folder import in_memory

_EVERY_CHECK: Final = tuple(check() for check in CHECKS.values())
_BOOK: Final = b"".join(
    encode(entry).encode() + b"\n"
    for entry in (
        {"harness": None},
        {"open": 0, "do": "signal", "pid": 1, "boot_id": "x", "start_ticks": 1, "node": "n"},
        {"open": 1, "do": "remove_path", "path": "/tmp/x", "until_s": 3.0},
        {"close": 0},
        {"close": 1},
    )
)
_DIED: Final = b'{"open": 7, "do": "signal", "pid": 1}\n'


class Record(NamedTuple):
    """A run that passes, as events and as the files of its directory."""

    events: tuple[Event, ...]
    lines: tuple[str, ...]
    """The same."""
    checks: tuple[Check, ...]
    files: Mapping[str, bytes]


def one(seed: int) -> None:
    """One record of a run and what all commands that read one make of it."""
    chance = random.Random(seed)
    record = chance.choice(_records())
    must_not_pass = False
    with in_memory() as folder:
        directory = RunDirectory(path=folder / "fuzz" / "20261120T050742Z-3f9a1c")
        (directory.path / "twin").mkdir(parents=True)
        if chance.random() < 0.6:
            files = _damaged(chance, record)
            must_not_pass = _is_journal_changed(record.files, files)
            for name, content in files.items():
                (directory.path / name).write_bytes(content)
        else:
            _write_lies(chance, record, directory.path)
        verdict = _judged(directory, record.checks if chance.random() < 0.5 else _EVERY_CHECK)
        assert not (must_not_pass and verdict and verdict.outcome is Outcome.PASS)
        _listed(directory)
        if verdict and chance.random() < 0.1:
            _shown(directory)


def _is_journal_changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Whether a journal differs from what its run.json says of it."""
    return any(
        before.get(f"{folder}{JOURNAL}") != after.get(f"{folder}{JOURNAL}")
        and b'"digest"' in before[f"{folder}{RUN_JSON}"]
        and before[f"{folder}{RUN_JSON}"] == after.get(f"{folder}{RUN_JSON}")
        for folder in ("", "twin/")
        if f"{folder}{JOURNAL}" in before
    )


def _judged(directory: RunDirectory, checks: Sequence[Check]) -> Verdict | None:
    """As `judge_and_report`, and what it would write; None if the record was refused."""
    try:
        history = history_of(directory)
        verdict = judge(history, checks)
        was_interrupted(directory)
    except ChaoslabError as error:
        str(error).encode()
        return None
    for sentence in (line.sentence for line in timeline_lines(history)):
        sentence.text.encode()
    for text in (
        junit_xml(verdict, history, directory.path),
        report_md(verdict, history, directory.path),
        page(page_data(verdict, history, record_facts(directory.path))),
    ):
        text.encode()
    text = verdict_json(verdict)
    (directory.path / VERDICT_JSON).write_text(text, encoding="utf-8")
    assert read_verdict(directory.path) == Verdict.from_json(json.loads(text))
    return verdict


def _listed(directory: RunDirectory) -> None:
    try:
        for run in list_runs(directory.path.parent.parent):
            encode(run_json(run)).encode()
    except ChaoslabError as error:
        str(error).encode()


def _shown(directory: RunDirectory) -> None:
    record = hints.Record.of(directory, run="latest", path=directory.path)
    history = history_of(directory)
    shown = run_page(read_verdict(directory.path), history, directory.path, record=record)
    Console(file=StringIO(), width=100).print(shown)


# ---------------------------------------------------------------- the records


@cache
def _records() -> tuple[Record, ...]:
    """With a digest in run.json, without one, with a twin, and from before there were chains."""
    story = Story(learners=2, rejoin_s=0.25, twin=Story(learners=2, is_twin=True).baseline(5).end())
    paused = Story(learners=2, rejoin_s=0.25).baseline(1).pause("learner-1", for_s=0.5)
    paused.train(0.5).heal().train(4).settle().end()
    killed = Story(learners=2, rejoin_s=0.25).baseline(1).kill("learner-1", for_s=0.5)
    killed.train(0.5).heal().train(4).settle().end()
    story.baseline(1).touch("learner-1", for_s=0.5).train(0.5).heal().train(4).settle().end()
    return tuple(_record(one) for one in (killed, paused, story))


def _record(story: Story) -> Record:
    """What the writer of a run leaves, and the checks of which it passes all."""
    history = story.history()
    checks = tuple(check for check in _EVERY_CHECK if check.judge(history).outcome is Outcome.PASS)
    with in_memory() as path:
        lines = tuple(event.to_line() for event in history.events)
        _write_run(path, lines)
        if story.twin:
            (path / "twin").mkdir()
            twin = [event.to_line() for event in story.twin.events]
            _write_run(path / "twin", twin)
        files = {
            str(file.relative_to(path)): file.read_bytes()
            for file in path.rglob("*")
            if file.is_file()
        }
        assert judge(History.read(path), checks).outcome is Outcome.PASS
    return Record(tuple(history.events), lines, checks, files)


def _write_run(path: Path, lines: Sequence[str]) -> None:
    """journal.jsonl, run.json, undo_log.jsonl."""
    facts: dict[str, Any] = {
        "plan": "fuzz", "seed": 1, "fleet": "local", "outcome": "completed",
        "started": "2026-11-20T05:07:42.123Z", "ended": "2026-11-20T05:08:42.123Z",
        "verdict": "PASS", "exit_code": 0, "training_continued": True,
        "learners_rejoined": {"learner-1": {"rejoined": True, "after_s": 1.0, "was_asked": True}},
        "twin": {"outcome": "completed"},
    }  # fmt: skip
    file = JournalFile(path)
    for line in lines:
        file.append(line)
    file.close()
    facts["journal"] = file.seal.to_json()
    (path / RUN_JSON).write_text(json.dumps(facts, indent=2), encoding="utf-8")
    (path / UNDO_LOG).write_bytes(_BOOK)
    (path / UNDO_LOG).chmod(0o600)


# ---------------------------------------------------------------- and what becomes of them


def _damaged(chance: random.Random, record: Record) -> dict[str, bytes]:
    """The files, one to three times damaged."""
    files = dict(record.files)
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = JOURNAL if chance.random() < 0.5 else chance.choice(list(files))
        content = files.get(name, b"")
        if name.endswith(RUN_JSON) and chance.random() < 0.7:
            files[name] = _damaged_json(chance, content)
        elif name.endswith("jsonl") and chance.random() < 0.3:
            files[name] = _damaged_line(chance, content)
        elif name.endswith(UNDO_LOG) and chance.random() < 0.2:
            files[name] = content + _DIED
        elif chance.random() < 0.02:
            files.pop(name, None)
        else:
            files[name] = damaged_bytes(chance, content)
    return files


def _damaged_line(chance: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    lines[at] = _damaged_json(chance, lines[at])
    return b"\n".join(lines)


def _damaged_json(chance: random.Random, content: bytes) -> bytes:
    try:
        return json.dumps(damaged_value(chance, json.loads(content))).encode()
    except (ValueError, RecursionError):
        return damaged_bytes(chance, content)


def _write_lies(chance: random.Random, record: Record, path: Path) -> None:
    """A journal whose lines say what they should not, each whole and chained."""
    lines = list(record.lines)
    for _ in range(chance.choice((1, 1, 2, 4, 30))):
        at = chance.randrange(len(lines))
        lines[at] = _lie(chance, record.events[at]).to_line()
    if chance.random() < 0.1:
        one, other = sorted(chance.choices(range(len(lines)), k=2))
        moved = [*lines[:one], *lines[other:], *lines[one:other]]
        lines = [f'{{"seq":{n},{line.partition(",")[2]}' for n, line in enumerate(moved)]
    lines = [line.encode(errors="backslashreplace").decode() for line in lines]
    _write_run(path, lines)


def _lie(chance: random.Random, event: Event) -> Event:
    draw = chance.random()
    if draw < 0.05:
        return replace(event, kind=chance.choice(list(Kind)))
    if draw < 0.1:
        return replace(event, time_s=chance.choice((-1e9, -1.0, 0.0, 1e9, 1e300, 1.7e308)))
    if draw < 0.13:
        return replace(event, source=chance.choice(("", "harness", "syncer", "\ud800", "x" * 999)))
    if draw < 0.16:
        return replace(event, node_s=chance.choice((-1e300, 0.0, float("nan"), 1e308)))
    if draw < 0.18:
        return replace(event, wall=chance.choice(("", "x", "\ud800", "<&>")))
    data = damaged_value(chance, event.data)
    return replace(event, data=data if isinstance(data, dict) else {"is": data, "huge": HUGE})
