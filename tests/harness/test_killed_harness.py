"""SIGKILL to `chaoslab run` at any moment leaves nothing on its place but a readable record.

And a run works that is started there at once.

    seed ─► which plan, which moment, how long after it ─► SIGKILL ─► another run at once: PASS
                                                               └─► place as before? record?

The moment is seen in the journal as it is written; a further delay is drawn, so that in the long
run every line of the harness is hit. Each kill is told, with the seed that repeats it:

    python -m pytest -s tests/harness/test_killed_harness.py -k many-ssh --kills 20 --kills-seed 7

A simulation is no place of these tests: it starts nothing, and has no janitor.
"""

import random
import re
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.links.netem import netfilter
from chaoslab.links.ports import ReservedPort
from chaoslab.links.proxied.process import Server
from chaoslab.links.toxiproxy import server_binary
from chaoslab.record.history import History
from chaoslab.record.journal_file import JOURNAL
from chaoslab.record.run_directory import RUN_JSON
from chaoslab.undo.base import NoUndoLog
from chaoslab.undo.janitor import find_runs
from chaoslab.undo.log import open_undos
from tests.harness.machine import look
from tests.harness.running import (
    begun,
    chaoslab,
    in_phase,
    little,
    nothing_is_left,
    start_run,
)
from tests.places import MARKS, PLACES, Place
from tests.tiers import is_disturbed

pytestmark = [pytest.mark.deep, pytest.mark.alone]

MOMENTS: Mapping[str, Callable[[History], bool]] = {
    "before the record": lambda _: True,
    "start": in_phase("start"),
    "baseline": in_phase("baseline"),
    "injecting": begun(Kind.FAULT_INJECTING),
    "faults are in": begun(Kind.FAULT_INJECTED, 3),
    "healing": begun(Kind.FAULT_HEALING),
    "settling": in_phase("settle"),
    "stopping": in_phase("stop"),
    "judging": begun(Kind.RUN_FINISHED),
}
LATER_S: Mapping[str, float] = {
    "before the record": 1.5,
    "start": 0.6,
    "faults are in": 0.6,
    "healing": 0.05,
}
"""How long after the moment the kill comes at the latest, where it is not a fifth of a second."""
LATER_ELSEWHERE_S: Mapping[str, float] = {
    "before the record": 4.0,
    "start": 8.0,
    "faults are in": 2.0,
}
"""The same where true programs start, and hosts, containers or pods before them."""
REAL = """
version: 1
name: real
seed: 1
training: {{learners: 3, sync_every: 12, stop: {{time: 6s}}}}
twin: false
baseline: {{warmup: 2 rounds, window: 6 rounds, max_variation: 150%}}
settle: 1m
limits: {{min_alive: 0, max_affected: 100%, timeout: 4m}}
faults:
  - {{id: dies, fault: process.kill, {common}, target: {{learners: [learner-0]}}}}
  - {{id: stops, fault: process.pause, {common}, target: {{learners: [learner-1]}}}}
  - {{id: other, fault: {other}, {common}, target: {{learners: [learner-2]}}}}
expect:
  - {{check: continuity, max_gap: 60s}}
  - {{check: rejoin, within: 60s}}
  - {{check: cleanup}}
"""
"""The true programs: slower to start, more to leave behind."""
FAULTS = {
    "latency": "network.latency, mean: 30ms",
    "slow": "compute.slow, factor: 2x",
    "pressure": "memory.pressure, size: 16MiB",
    "loss": "network.packets, how: loss, share: 20%",
}
"""The third of them: an effect on a link, a cgroup or a quota, a process or a container beside the
learner, rules for packets.
"""
ON: Mapping[str, tuple[str, ...]] = {
    "local": ("latency", "slow", "pressure", "loss"),
    "ssh": ("latency", "slow", "pressure"),
    "docker": ("latency", "slow", "pressure", "loss"),
    "kubernetes": ("latency", "slow"),
}
"""The places, and which of these there are."""
SOME = 3
"""Kills of a test that is not long, on any place but this machine."""


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


def draw(
    seed: int, count: int, plans: Mapping[str, str], latest_s: Mapping[str, float]
) -> Iterator[Kill]:
    """So many kills, all moments in turns whose order is drawn; every plan gets its turn at each.

    `latest_s`: how long after a moment at the latest.
    """
    chance, names = random.Random(seed), list(plans)
    order: list[str] = []
    for number in range(count):
        order = order or chance.sample(list(MOMENTS), len(MOMENTS))
        moment, turn = order.pop(), number // len(MOMENTS)
        name = names[(turn + list(MOMENTS).index(moment)) % len(names)]
        later_s = chance.uniform(0.0, latest_s.get(moment, 0.2))
        yield Kill(number=number, moment=moment, later_s=later_s, plan=plans[name], name=name)


# ---------------------------------------------------------------- the plans


def crowded(plan: str) -> str:
    """The same with processes that compute without end beside one more learner."""
    crowds = "id: crowds, fault: compute.steal, at: {round: 10}, for: 600ms"
    more = f"  - {{{crowds}, target: {{learners: [learner-4]}}}}\n"
    return plan.replace("learners: 4", "learners: 5").replace("expect:", f"{more}expect:")


def with_its_kill_alone(plan: str) -> str:
    """The same without what a busy machine, or a little program, may leave unproved."""
    lines = [one for one in plan.splitlines() if "{id: " not in one or "process.kill" in one]
    return re.sub(r"for: \w+", "for: 5s", "\n".join(lines))


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


def plans_for(place: str, api: str | None, *, is_long: bool) -> Mapping[str, str]:
    """By name. On this machine little programs, which are killed more often in the same time."""
    common = "at: {round: 8}, for: 3s"
    real = {name: REAL.format(common=common, other=FAULTS[name]) for name in ON[place]}
    if place != "local":
        return real
    if not netfilter.is_available()[0]:
        del real["loss"]
    by_others = {} if api is None else {"toxiproxy": by_somebodys(api)}
    return {"little": crowded(little()), **(real | by_others if is_long else {})}


# ---------------------------------------------------------------- one kill


def strike(kill: Kill, place: Place, root: Path, api: str | None) -> str:
    """Carry it out, run again at once, and look at what is left; what came of both."""
    before = look("", root, toxiproxy=api)
    flags = place.words("")[1:]
    with start_run(root, kill.plan, *flags) as harness:
        came = harness.until(MOMENTS[kill.moment])
        assert came, f"{kill} never came: {harness.end()}"
        time.sleep(kill.later_s)
        told = harness.end(signal.SIGKILL)
        hit = harness.process.returncode == -signal.SIGKILL
        assert hit or kill.moment in ("stopping", "judging"), f"{kill} came too late: {told}"
    record = harness.record
    with start_run(root, with_its_kill_alone(kill.plan), *flags) as again:
        told = again.end()
    (other,) = {*again.records} - {record}
    verdict = ExitCode(again.process.returncode).name
    assert verdict == "PASS" or is_disturbed(other), f"after {kill}: {' '.join(told)}"
    for one in (harness, again):
        nothing_is_left(before, one, api, elsewhere=place.left)
    assert not find_runs(harness.runs)
    if record is None or not (record / RUN_JSON).exists():
        return f"no record yet; next run {verdict}"
    assert not open_undos(record)
    return f"{judged(record)}; next run {verdict}"


def judged(record: Path) -> str:
    """UNKNOWN, unless the run had been recorded to its end before the kill."""
    code = chaoslab("show", str(record), "--judge", "--json")
    if (record / JOURNAL).exists() and History.read(record).of(Kind.RUN_FINISHED):
        assert code.exit_code in (ExitCode.PASS, ExitCode.FAIL, ExitCode.UNKNOWN), code.output
        return "judged by its whole record"
    assert code.exit_code == ExitCode.UNKNOWN, code.output
    shown = chaoslab("show", str(record))
    assert shown.exit_code == 0, shown.output
    return "UNKNOWN"


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in ON])
@pytest.mark.parametrize(
    "is_long",
    [False, pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])],
    ids=["some", "many"],
)
def test_a_harness_that_is_killed_leaves_nothing(
    tmp_path: Path, pytestconfig: pytest.Config, toxiproxy: str | None, name: str, is_long: bool
) -> None:
    """Each kill is told, at once with -s and on failure, so that it can be repeated."""
    asked = pytestconfig.getoption("--kills-seed")
    seed = secrets.randbelow(1_000_000) if asked is None else int(asked)
    is_here = name == "local"
    api = toxiproxy if is_here and is_long else None
    count = len(MOMENTS) if is_here else SOME
    if is_long:
        count = pytestconfig.getoption("--kills")
    hits: Counter[str] = Counter()
    with PLACES[name](tmp_path, (1, 1, 1)) as place:
        plans = plans_for(name, api, is_long=is_long)
        for kill in draw(seed, count, plans, LATER_S | ({} if is_here else LATER_ELSEWHERE_S)):
            said = strike(kill, place, tmp_path / str(kill.number), api)
            tell(f"{name}, seed {seed}, {kill}: {said}; nothing left")
            hits[kill.moment] += 1
    moments = ", ".join(f"{moment} {hits[moment]}" for moment in MOMENTS if hits[moment])
    tell(f"{name}, seed {seed}: {count} kills, nothing left: {moments}")


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
