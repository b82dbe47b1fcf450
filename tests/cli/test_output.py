"""What every command prints alike."""

import io
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from chaoslab.cli.commands.output import print_result, table
from chaoslab.core.errors import ExitCode, FleetError

FULL = Path("/dev/full")


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
