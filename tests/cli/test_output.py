"""What every command prints alike."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from chaoslab.cli.commands import doctor
from chaoslab.cli.commands.output import grouped, print_result, table
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.undo.verbs import missing, ok

FULL = Path("/dev/full")
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("length", [1, 100_000])
def test_a_full_disk_behind_stdout_is_one_line_and_no_crash(
    monkeypatch: pytest.MonkeyPatch, as_json: bool, length: int
) -> None:
    text = "x" * length
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(FleetError, match="stdout cannot be written: No space") as refused:
            print_result(text, Text(text), as_json=as_json)
        assert os.readlink(f"/proc/self/fd/{full.fileno()}") == os.devnull, "nor again at the exit"
    assert refused.value.exit_code is ExitCode.BROKEN


def with_closed(streams: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What `chaoslab` does if a shell has closed these streams, such as `>&- 2>&-`."""
    given = (sys.executable, "-m", "chaoslab", *words)
    line = ("sh", "-c", f'exec "$@" {streams}', "sh", *given)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        line, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_takes_nothing_from_the_others(streams: str, tmp_path: Path) -> None:
    done = with_closed(streams, "list", cwd=tmp_path)
    assert done.returncode == ExitCode.PASS, done.stderr
    assert ("no runs" in done.stdout) is (">&-" not in streams.split())
    assert done.stderr.startswith("next: ") is ("2>&-" not in streams)


def test_an_error_that_nobody_reads_is_still_the_exit_code(tmp_path: Path) -> None:
    done = with_closed("2>&-", "--no-such-option", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.REFUSED, "")


def without_readers(streams: Collection[str], *words: str, cwd: Path) -> int:
    """The exit code of `chaoslab` if nobody reads what these streams carry (`| true`)."""
    reading, writing = os.pipe()
    os.close(reading)
    ends = {name: writing if name in streams else subprocess.DEVNULL for name in BOTH}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    given = (sys.executable, "-m", "chaoslab", *words)
    try:
        done = subprocess.run(given, cwd=cwd, env=environment, **ends, check=False)
    finally:
        os.close(writing)
    return done.returncode


BOTH = ("stdout", "stderr")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--help",), ExitCode.PASS),
        (("catalog", "faults", "--json"), ExitCode.PASS),
        (("--no-such-option",), ExitCode.REFUSED),
        (("list", "--status"), ExitCode.UNKNOWN),
    ],
)
def test_without_a_reader_a_command_ends_with_its_own_exit_code(
    words: tuple[str, ...], code: ExitCode, tmp_path: Path
) -> None:
    assert without_readers(BOTH, *words, cwd=tmp_path) == code


RUN = ("run", str(ROOT / "chaoslab/selftest/plans/killed.yaml"), "--fleet=sim", "--no-twin")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("streams", "more"),
    [(("stdout",), ()), (("stderr",), ()), (BOTH, ("--json",)), (BOTH, ("--repeat", "2"))],
)
def test_a_run_goes_on_to_its_verdict_without_a_reader(
    streams: tuple[str, ...], more: tuple[str, ...], tmp_path: Path
) -> None:
    assert without_readers(streams, *RUN, *more, cwd=tmp_path) == ExitCode.PASS
    assert json.loads((tmp_path / "runs/latest/run.json").read_text())["verdict"] == "PASS"


@pytest.mark.gate
@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_behind_stderr_takes_nothing_from_a_run(tmp_path: Path) -> None:
    done = with_closed("2>/dev/full", *RUN, cwd=tmp_path)
    assert (done.returncode, "PASS" in done.stdout) == (ExitCode.PASS, True)


@pytest.mark.gate
def test_a_verdict_that_nobody_reads_is_still_the_exit_code(tmp_path: Path) -> None:
    words = ("run", "kill_one", "--fleet", "sim", "--quiet")
    done = with_closed("<&- >&- 2>&-", *words, cwd=tmp_path)
    assert done.returncode == ExitCode.PASS, done.stderr


def test_a_question_to_a_closed_stdin_is_not_answered(tmp_path: Path) -> None:
    done = with_closed("<&-", "init", cwd=tmp_path)
    assert done.returncode == ExitCode.REFUSED, done.stderr
    assert "--trains" in done.stderr


def test_a_long_word_in_a_column_that_may_wrap_is_never_cut() -> None:
    made = table("what", "where", wraps=("where",))
    made.add_row("python", "/a/long/path" * 9)
    console = Console(file=io.StringIO(), width=40)
    with console.capture() as capture:
        console.print(made)
    assert "".join(capture.get().split()).endswith("python" + "/a/long/path" * 9)


def test_words_between_colons_stay_words(capsys: pytest.CaptureFixture[str]) -> None:
    made = table("learner")
    made.add_row("host:fire:8080")
    print_result({}, made, as_json=False)
    assert "host:fire:8080" in capsys.readouterr().out


def printed(page: RenderableType, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(page)
    return capture.get().splitlines()


def test_a_group_without_rows_is_left_out_and_no_text_is_cut() -> None:
    said = "word " * 30
    lines = printed(grouped({"none": [], "some": [("a name", said)]}), width=40)
    assert not any("none" in line for line in lines)
    assert " ".join(lines).split() == ["some", "a", "name", *said.split()]
    assert max(map(len, lines)) <= 40


def test_a_remedy_stands_beside_the_ability_that_lacks_it() -> None:
    abilities = (missing("tool", "not there", "install it"), ok("cores", "2"))
    lines = printed(doctor._page(doctor.Diagnosis(abilities=abilities, residue=())))
    (tool,) = (line for line in lines if "tool" in line)
    assert tool.split() == ["tool", "not", "there;", "install", "it"]
