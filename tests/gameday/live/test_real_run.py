"""A real game-day in two browsers: real processes behind the page.

chaoslab gameday --serve ─► links ─► Ann, operator · Cy, viewer ─► orders
     └─► learners, syncer ─► journal: when it happened, and who was obeyed
"""

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.core.payloads import (
    FaultHealed,
    FaultInjected,
    OperatorActed,
    OperatorRefused,
    RunFinished,
)
from tests.chromium import Browser, Page
from tests.gameday.live.browsing import ABORT, AGAIN_S, PHASE, card, entered, printed_link, text
from tests.harness.machine import look
from tests.harness.running import Harness, begun, environment, nothing_is_left

pytestmark = [pytest.mark.deep, pytest.mark.alone]

PLAN = """
version: 1
name: half_dies
seed: 1
training: {learners: 4, model: nano, sync_every: 12, stop: {rounds: 200}}
control: none
baseline: {warmup: 4 rounds, window: 8 rounds, max_variation: 300%}
settle: 12s
limits: {min_alive: 2, timeout: 10m}
faults:
  - {id: half-dies, fault: process.kill, target: {learners: 50%}, at: {round: 16}, for: 60s}
gameday: {owner: Training, facilitator: Ann, responders: [Cy]}
expect: [{check: continuity, max_gap: 10s}]
"""
CARD = card("half-dies")
STAGE = f"{CARD}?.dataset.stage"
START_S = 60.0
ACT = """fetch("/act", {method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({action: "heal", fault: "half-dies", reason: ""})})
    .then((answer) => answer.status)"""


@dataclass(slots=True, kw_only=True)
class GameDay(Harness):
    """One that is under way, and where its page is."""

    said: Path
    """What it writes to stderr."""


@contextmanager
def game_day(root: Path) -> Iterator[GameDay]:
    (root / "tmp").mkdir()
    (root / "plan.yaml").write_text(PLAN)
    mark, said = secrets.token_hex(8), root / "stderr"
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "chaoslab", "gameday", str(root / "plan.yaml"), "--serve", "0",
             "--yes", "--operator", "Ann"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=root,
            env=environment(mark, root),
        ) as process,
    ):  # fmt: skip
        try:
            yield GameDay(process=process, root=root, mark=mark, said=said)
        finally:
            process.kill()


def saw(pages: Sequence[Page], expression: str, wanted: str) -> list[float]:
    """Calendar time at which each page first had this value."""
    found: dict[int, float] = {}
    end_s = time.monotonic() + START_S
    while len(found) < len(pages):
        assert time.monotonic() < end_s, f"{expression} is not {wanted!r} on all pages"
        for number, page in enumerate(pages):
            if number not in found and page.js(expression) == wanted:
                found[number] = time.time()
    return [found[number] for number in range(len(pages))]


def test_two_browsers_and_an_abort_in_a_real_run(tmp_path: Path) -> None:
    before = look("none", tmp_path)
    with Browser() as one, Browser() as other, game_day(tmp_path) as run:
        ann = entered(one, printed_link(run.said, "operator Ann"))
        cy = entered(other, printed_link(run.said, "viewers"), "Cy")
        for page in (ann, cy):
            page.until(STAGE, "waits", within_s=START_S)

        ann.js(f"{CARD}.querySelector('[data-action=go]').click()")
        seen_s = saw([ann, cy], STAGE, "open")
        assert run.until(begun(Kind.FAULT_INJECTED))
        (injected,) = run.history.of(FaultInjected)
        injected_s = datetime.fromisoformat(injected.wall).timestamp()
        assert max(seen_s) - injected_s < 1.0, "both see it within a second of the event"

        assert cy.js(ACT) == 403
        assert not run.history.of(FaultHealed)

        ann.js(f"{ABORT}.click()")
        time.sleep(AGAIN_S)
        ann.js(f"{ABORT}.click()")
        for page in (ann, cy):
            page.until(f"{PHASE}.startsWith('aborted')", within_s=START_S)
            page.until(STAGE, "over")
            assert "Ann aborted it" in text(page)
        assert sentences(ann) == sentences(cy)
        run.end()

    assert run.process.returncode == ExitCode.UNKNOWN, run.said.read_text()
    is_healed_by_the_abort_of(run, injected.payload.targets)
    nothing_is_left(before, run)


def is_healed_by_the_abort_of(run: Harness, targets: Sequence[str]) -> None:
    """What the record says of it."""
    history = run.history
    acted = [(event.payload.by, event.payload.action) for event in history.of(OperatorActed)]
    assert acted == [("Ann", "go"), ("Ann", "abort")]
    assert not history.of(OperatorRefused), "what a viewer asks for does not reach the run"
    (healed,) = history.of(FaultHealed)
    assert list(healed.payload.targets) == list(targets)
    asked_s = history.of(OperatorActed)[-1].time_s
    assert asked_s <= healed.time_s < asked_s + 10.0
    (finished,) = history.of(RunFinished)
    assert (finished.payload.outcome, "Ann aborted it" in finished.payload.reason) == (
        "aborted", True,
    )  # fmt: skip


def sentences(page: Page) -> str:
    said: str = page.js("document.getElementById('sentences').innerText")
    return said
