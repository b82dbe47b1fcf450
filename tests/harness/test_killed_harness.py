"""SIGKILL to `chaoslab run` at any moment leaves nothing behind but a record that can be read.

    seed ─► which plan, which moment, how long after it ─► SIGKILL ─► machine as before? record?

The moment is seen in the journal as it is written; a further delay is drawn, so that in the long
run every line of the harness is hit.
"""

import random
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.process import Server
from chaoslab.links.toxiproxy import server_binary
from chaoslab.record.history import History
from chaoslab.record.run_directory import RUN_JSON
from chaoslab.undo.base import NoUndoLog
from chaoslab.undo.janitor import find_runs
from chaoslab.undo.log import open_undos
from tests.harness.machine import look
from tests.harness.running import (
    Harness,
    begun,
    chaoslab,
    in_phase,
    little,
    nothing_is_left,
    start_run,
)

pytestmark = [pytest.mark.deep]

MOMENTS: Mapping[str, Callable[[History], bool]] = {
    "before the record": lambda _: True,
    "start": in_phase("start"),
    "baseline": in_phase("baseline"),
    "injecting": begun(Kind.FAULT_INJECTING),
    "faults are in": begun(Kind.FAULT_INJECTED, 4),
    "healing": begun(Kind.FAULT_HEALING),
    "settling": in_phase("settle"),
    "stopping": in_phase("stop"),
    "judging": begun(Kind.RUN_FINISHED),
}
LATER_S = {"before the record": 1.5, "start": 0.6, "faults are in": 0.6, "healing": 0.05}
"""How long after the moment the kill comes at the latest, where it is not a fifth of a second."""
REAL = """
version: 1
name: real
seed: 1
fleet: {links: embedded}
training: {learners: 2, sync_every: 12, stop: {time: 6s}}
twin: false
baseline: {warmup: 2 rounds, window: 6 rounds, max_variation: 300%}
settle: 3s
limits: {min_alive: 0, max_affected: 100%, timeout: 2m}
faults:
  - {id: dies, fault: process.kill, target: {learners: [learner-0]}, at: {round: 8}, for: 1s}
  - {id: far, fault: network.latency, mean: 30ms, target: {learners: [learner-1]}, at: {round: 8},
     for: 1s}
  - {id: other, fault: process.pause, target: {learners: [learner-1]}, at: {after: far}, for: 1s}
  - {id: again, fault: compute.slow, factor: 2x, target: {learners: [learner-1]},
     at: {after: other}, for: 1s}
expect: [{check: continuity, max_gap: 20s}]
"""
"""The true programs: slower to start, more to leave behind; the slow chip is a cgroup, if it can
be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One draw."""

    number: int
    moment: str
    later_s: float
    plan: str
    name: str

    def __str__(self) -> str:
        return f"kill {self.number}: {self.name}, {self.moment} + {1e3 * self.later_s:.0f} ms"


def draw(seed: int, count: int, plans: Mapping[str, str]) -> Iterator[Kill]:
    """So many kills, all moments in turn; every plan gets its turn at each of them."""
    moments, names = list(MOMENTS), list(plans)
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        moment = moments[number % len(moments)]
        name = names[(number // len(moments) + number) % len(names)]
        later_s = chance.uniform(0.0, LATER_S.get(moment, 0.2))
        yield Kill(number=number, moment=moment, later_s=later_s, plan=plans[name], name=name)


# ---------------------------------------------------------------- the plans


def crowded(plan: str) -> str:
    """The same with processes that compute without end beside one more learner."""
    more = (
        "  - {id: crowds, fault: compute.steal, at: {round: 10}, for: 600ms,\n"
        "     target: {learners: [learner-4]}}\n"
    )
    return plan.replace("learners: 4", "learners: 5").replace("expect:", f"{more}expect:")


@pytest.fixture(scope="module")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """The API of a Toxiproxy server that belongs to somebody else; None without one."""
    binary = server_binary.find()
    if binary is None:
        yield None
        return

    def command(port: ReservedPort) -> tuple[str, ...]:
        return str(binary), "-host", port.host, "-port", str(port.number)

    folder = tmp_path_factory.mktemp("somebody")
    server = Server("somebodys-toxiproxy", command, folder, NoUndoLog())
    server.open()
    yield server.api.address
    server.close()


def by_somebodys(api: str) -> str:
    """The little plan by links of a server that must be left as it was."""
    return little(links="toxiproxy").replace(
        "links: toxiproxy", f"links: toxiproxy\n  toxiproxy: {api}"
    )


# ---------------------------------------------------------------- one kill


def strike(kill: Kill, root: Path, api: str | None) -> str:
    """Carry it out and look at what is left; how the record was judged."""
    before = look("", root, toxiproxy=api)
    with start_run(root, kill.plan) as harness:
        came = harness.until(MOMENTS[kill.moment])
        assert came, f"{kill} never came: {harness.end()}"
        time.sleep(kill.later_s)
        told = harness.end(signal.SIGKILL)
        hit = harness.process.returncode == -signal.SIGKILL
        assert hit or kill.moment in ("stopping", "judging"), f"{kill} came too late: {told}"
        nothing_is_left(before, harness, api)
    record = harness.record
    if record is None or not (record / RUN_JSON).exists():
        return "no record yet"
    assert not open_undos(record)
    assert not find_runs(harness.runs)
    return judged(harness, record)


def judged(harness: Harness, record: Path) -> str:
    """UNKNOWN, unless the run had been recorded to its end before the kill."""
    code = chaoslab("show", str(record), "--judge", "--json")
    was_whole = bool(harness.history.of(Kind.RUN_FINISHED))
    if was_whole:
        assert code.exit_code in (ExitCode.PASS, ExitCode.FAIL, ExitCode.UNKNOWN), code.output
        return "judged by its whole record"
    assert code.exit_code == ExitCode.UNKNOWN, code.output
    shown = chaoslab("show", str(record))
    assert shown.exit_code == 0, shown.output
    return "UNKNOWN"


@pytest.mark.parametrize(
    "is_long",
    [
        False,
        pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
    ids=["at each moment once", "however often"],
)
def test_a_harness_that_is_killed_leaves_nothing(
    tmp_path: Path, pytestconfig: pytest.Config, toxiproxy: str | None, is_long: bool
) -> None:
    """Each kill is told, at once with -s and on failure, so that it can be repeated."""
    asked = pytestconfig.getoption("--kills-seed")
    seed = secrets.randbelow(1_000_000) if asked is None else int(asked)
    plans = {"little": crowded(little())}
    if is_long:
        plans["real"] = REAL
        plans |= {} if toxiproxy is None else {"toxiproxy": by_somebodys(toxiproxy)}
    count = pytestconfig.getoption("--kills") if is_long else len(MOMENTS)
    for kill in draw(seed, count, plans):
        said = strike(kill, tmp_path / str(kill.number), toxiproxy if is_long else None)
        sys.stdout.write(f"seed {seed}, {kill}: {said}\n")
        sys.stdout.flush()
