"""A janitor that is killed in mid-run: another one takes its place."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from chaoslab.core.events import Kind
from chaoslab.undo.log import open_undos
from tests.harness.machine import look
from tests.harness.running import Harness, begun, little, nothing_is_left, start_run

pytestmark = [pytest.mark.deep]


def janitors(harness: Harness) -> Iterator[psutil.Process]:
    for child in psutil.Process(harness.process.pid).children():
        with suppress(psutil.NoSuchProcess):  # a zombie counts as one
            if "chaoslab.undo.janitor" in child.cmdline():
                yield child


@pytest.mark.gate
def test_its_successor_undoes_what_a_harness_leaves_that_is_killed_next(tmp_path: Path) -> None:
    before = look("", tmp_path)
    with start_run(tmp_path, little(last="50s", time="1m")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 4))
        (janitor,) = janitors(harness)
        janitor.kill()
        assert harness.until(begun(Kind.JANITOR_DIED))
        (successor,) = janitors(harness)
        died = harness.history.of(Kind.JANITOR_DIED)[-1].payload
        assert (died.pid, died.how, died.successor) == (janitor.pid, "signal 9", successor.pid)
        harness.end(signal.SIGKILL)
        successor.wait(30.0)
        assert harness.record is not None
        assert not open_undos(harness.record)
        nothing_is_left(before, harness)
