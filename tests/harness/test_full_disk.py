"""A record that cannot grow any more: the run is healed and stopped, and says why."""

import sys
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode
from tests.harness.machine import look
from tests.harness.running import Harness, chaoslab, little, nothing_is_left, start_run

pytestmark = [pytest.mark.deep]

_WITH_LIMIT = (
    "import os, resource, sys;"
    "limit = int(sys.argv[1]);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY));"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)
"""No file may become larger: what a user without rights can do to a harness."""


def must_have_stopped(harness: Harness, said: str) -> None:
    """Exit code 4, the reason, and a record that is whole as far as it goes."""
    assert harness.process.returncode == ExitCode.BROKEN, said
    assert "Traceback" not in said
    history = harness.history
    assert history.events
    judged = chaoslab("show", str(harness.record), "--judge", "--json")
    assert judged.exit_code == ExitCode.UNKNOWN, judged.output
    shown = chaoslab("show", str(harness.record))
    assert shown.exit_code == 0, shown.output


def test_a_record_that_may_not_grow_stops_the_run_healed_without_any_rights(
    tmp_path: Path,
) -> None:
    before = look("", tmp_path)
    limited = (sys.executable, "-c", _WITH_LIMIT, str(48 << 10))
    with start_run(tmp_path, little(last="20s", time="1m"), before=limited) as harness:
        _, said = harness.end()
        must_have_stopped(harness, said)
        assert "journal" in said
        nothing_is_left(before, harness)
