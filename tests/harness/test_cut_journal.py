"""The record of a real run, cut off at any byte of its last lines, is read, judged and shown."""

import json
from pathlib import Path

import pytest

from chaoslab.checks.verdict import judge
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL
from chaoslab.record.run_directory import RUN_JSON, RunDirectory
from chaoslab.run.judged_run import recorded_checks
from tests.harness.running import chaoslab, little, start_run

LAST = 3
"""So many lines."""


@pytest.mark.deep
def test_a_journal_cut_at_every_byte_of_its_last_lines_is_read_and_judged(tmp_path: Path) -> None:
    with start_run(tmp_path, little(last="200ms", time="1s")) as harness:
        harness.end()
    assert harness.record is not None
    path, checks = harness.record / JOURNAL, recorded_checks(RunDirectory(path=harness.record))
    facts = RunDirectory(path=harness.record).facts  # it dies before it can say how it ended
    begun = {key: said for key, said in facts.items() if key not in ("journal", "outcome")}
    (harness.record / RUN_JSON).write_text(json.dumps(begun))
    written = path.read_bytes()
    lines = written.splitlines(keepends=True)
    assert len(lines) > 100
    begin = len(written) - sum(map(len, lines[-LAST:]))

    for end in range(begin, len(written)):
        path.write_bytes(written[:end])
        history = History.read(harness.record)
        assert len(history.events) == written[: end + 1].count(b"\n")
        is_whole = bool(history.of(Kind.RUN_FINISHED))
        assert is_whole == (end == len(written) - 1)
        if end % 10 == 0 and not is_whole:
            assert judge(history, checks).exit_code is ExitCode.UNKNOWN

    for end in range(begin, len(written) - 1, (len(written) - begin) // 4):
        path.write_bytes(written[:end])
        judged = chaoslab("show", str(harness.record), "--judge", "--json")
        assert judged.exit_code == ExitCode.UNKNOWN, judged.output
        shown = chaoslab("show", str(harness.record))
        assert shown.exit_code == ExitCode.PASS, shown.output


@pytest.mark.parametrize(
    ("outcome", "exit_code"), [(None, ExitCode.UNKNOWN), ("completed", ExitCode.BROKEN)]
)
def test_without_a_journal_a_run_that_died_is_unknown_and_a_finished_one_is_refused(
    tmp_path: Path, outcome: str | None, exit_code: ExitCode
) -> None:
    record = tmp_path / "little" / "20261120T000000Z-abcdef"
    record.mkdir(parents=True)
    (record / RUN_JSON).write_text(json.dumps({"plan": "little", "outcome": outcome}))
    if outcome:
        (record / "plan.resolved.yaml").write_text(little())
    judged = chaoslab("show", "abcdef", "--judge", "--out", str(tmp_path))
    assert judged.exit_code == exit_code
    if outcome:
        assert JOURNAL in judged.output
    else:
        assert chaoslab("show", "abcdef", "--out", str(tmp_path)).exit_code == ExitCode.PASS
