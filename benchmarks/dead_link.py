"""Does a learner notice the state of its link? Step time under a dead one against a healthy one.

    syncer ◄── embedded proxy ◄── learner        one real learner, one process each
                   ▲ healthy, frozen, healthy, blackhole, healthy, refused, healthy, half open, …

Dead and healthy phases take turns, so that a busy machine slows both; each dead phase is compared
with the healthy ones on both sides of it. Dead phases last longer than it takes both ends to give a
silent connection up, so dialling in vain is part of them. Rounds are rare, because adopting costs a
healthy learner time that a cut off one saves.

All threads of the learner share one core, so whatever its link does costs it steps. Others that use
that core cost it steps as well: the kernel says how much they did, and phases in which they took
more than 5 % are left out. Processor time per step, memory and what waits to be sent stand beside.

    python benchmarks/dead_link.py [--json]
    exit code 0: at most 3 % longer; 1: longer; 3: too much else was going on to tell
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from chaoslab.links.base import Blackhole, Direction, Effect, Freeze, HalfOpen, Link, Refuse
from chaoslab.links.embedded import EmbeddedLinks

TARGET_RATIO = 1.03
OTHERS_MOST = 0.05
STATES: dict[str, Effect] = {
    "frozen": Freeze(), "blackhole": Blackhole(), "refused": Refuse(), "half open": HalfOpen(),
}  # fmt: skip
SETTLE_S = 1.5
"""Left out at the beginning of each phase."""
RULES = {"learners": ["learner-0"], "sync_every": 480}


@dataclass
class Phase:
    """One stretch in one state of the link, and the samples that fell into it."""

    state: str
    began_s: float
    ended_s: float = 0.0
    steps: int = 0
    samples: list[float] = field(default_factory=list)
    cpu_ms: float = 0.0
    """Processor time of the whole process for each step."""
    others: float = 0.0
    """Share of the learner's core that others used."""
    rss_mib: float = 0.0
    queued: int = 0
    queued_bytes: int = 0

    @property
    def step_s(self) -> float:
        return statistics.median(self.samples)


class Watched:
    """A learner's output, line by line as it comes."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: list[tuple[float, dict]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            if line.startswith('{"kind":'):
                self._lines.append((time.monotonic(), json.loads(line)))

    def wait(self, kind: str, count: int = 1, within_s: float = 120.0) -> None:
        deadline_s = time.monotonic() + within_s
        while sum(line["kind"] == kind for _, line in list(self._lines)) < count:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"no {kind} within {within_s:g} s")
            time.sleep(0.05)

    def count(self, kind: str) -> int:
        return sum(line["kind"] == kind for _, line in list(self._lines))

    def fill(self, phase: Phase) -> None:
        for at_s, line in list(self._lines):
            if not phase.began_s + SETTLE_S <= at_s <= phase.ended_s:
                continue
            data = line["data"]
            if line["kind"] == "learner.step" and data["steps"]:
                phase.samples.append(data["step_s"])
                phase.steps += data["steps"]
            elif line["kind"] == "link.measured":
                phase.queued = max(phase.queued, data["queued"])
                phase.queued_bytes = max(phase.queued_bytes, data["queued_bytes"])


def main() -> int:
    """Run all phases and print the table."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        phases, redials = _measure(Path(folder), options)
    result = _result(phases, redials)
    print(json.dumps(result) if options.json else _table(result, options))
    return {True: 0, False: 1, None: 3}[result["is_met"]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=2, help="quiet ones a state (default 2)")
    parser.add_argument("--tries", type=int, default=4, help="to find them (default 4)")
    parser.add_argument("--dead-s", type=float, default=16.0, help="of a dead phase (default 16)")
    parser.add_argument("--healthy-s", type=float, default=8.0, help="of a healthy one (default 8)")
    parser.add_argument("--model", default="nano", help="of the learner (default nano)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


# ---------------------------------------------------------------- the phases


def _measure(folder: Path, options: argparse.Namespace) -> tuple[list[Phase], int]:
    with _syncer(folder) as address, EmbeddedLinks(folder) as links:
        link = links.create("learner-0", address)
        with _learner(folder, link.address, options.model) as learner:
            output = Watched(learner.stdout)
            output.wait("learner.step", 12)
            phases = [_healthy(output, learner.pid, options, reopened=1)]
            for state, effect in _until_told(phases, options):
                opened = output.count("link.opened")
                phases.append(_dead(output, learner.pid, link, state, effect, options.dead_s))
                reopened = opened + (output.count("link.closed") > 0)
                phases.append(_healthy(output, learner.pid, options, reopened=reopened))
            return phases, output.count("link.closed")


def _until_told(phases: list[Phase], options: argparse.Namespace) -> Iterator[tuple[str, Effect]]:
    """States in turn, each until it was seen often enough on a quiet core, or `tries` times."""
    for _ in range(options.tries):
        for state, effect in STATES.items():
            quiet = sum(row["state"] == state and row["is_quiet"] for row in _rows(phases))
            if quiet < options.repeats:
                yield state, effect


def _healthy(output: Watched, pid: int, options: argparse.Namespace, *, reopened: int) -> Phase:
    output.wait("link.opened", reopened)
    return _phase("healthy", output, pid, options.healthy_s)


def _dead(
    output: Watched, pid: int, link: Link, state: str, effect: Effect, seconds: float
) -> Phase:
    link.shape("benchmark", Direction.BOTH, effect)
    if isinstance(effect, HalfOpen):  # new connections work: let them not
        link.shape("benchmark", Direction.BOTH, Blackhole())
    phase = _phase(state, output, pid, seconds)
    link.clear("benchmark")
    return phase


def _phase(state: str, output: Watched, pid: int, seconds: float) -> Phase:
    phase = Phase(state, time.monotonic())
    time.sleep(SETTLE_S)
    own_s, all_s = _cpu_s(pid), _core_s(pid)
    time.sleep(seconds - SETTLE_S)
    phase.ended_s = time.monotonic()
    own_s, all_s = _cpu_s(pid) - own_s, _core_s(pid) - all_s
    phase.rss_mib = _rss_mib(pid)
    output.fill(phase)
    phase.cpu_ms = 1000 * own_s / max(1, phase.steps)
    phase.others = max(0.0, all_s - own_s) / (seconds - SETTLE_S)
    return phase


def _cpu_s(pid: int) -> float:
    """Processor time of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _core_s(pid: int) -> float:
    """For how long the core of that process has been busy, whoever used it."""
    core = f"cpu{min(os.sched_getaffinity(pid))} "
    (line,) = [
        line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(core)
    ]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status says nothing of its memory")


# ---------------------------------------------------------------- the processes


@contextmanager
def _syncer(folder: Path) -> Iterator[str]:
    with _process(
        "syncer", "--directory", str(folder / "syncer"), "--settings-json", json.dumps(RULES)
    ) as process:
        for line in process.stdout:
            if '"syncer.ready"' in line:
                break
        threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True).start()
        yield json.loads(line)["data"]["address"]


@contextmanager
def _learner(folder: Path, address: str, model: str) -> Iterator[subprocess.Popen[str]]:
    everything = os.sched_getaffinity(0)
    own = {max(everything)} if len(everything) > 1 else everything
    with _process(
        "learner", "--syncer", address, "--name", "learner-0", "--model", model,
        "--directory", str(folder / "learner"), "--save-every", "3600",
    ) as process:  # fmt: skip
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), own)
        os.sched_setaffinity(0, everything - own or everything)
        yield process


@contextmanager
def _process(module: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", f"chaoslab.diloco.{module}", *words],
        env={**os.environ, "NPROC": "1"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# ---------------------------------------------------------------- the result


def _result(phases: list[Phase], redials: int) -> dict:
    rows = _rows(phases)
    quiet = {
        state: [row["ratio"] for row in rows if row["state"] == state and row["is_quiet"]]
        for state in STATES
    }
    ratios = {state: statistics.median(found) for state, found in quiet.items() if found}
    is_known = len(ratios) == len(STATES)
    return {
        "rows": rows,
        "ratio_by_state": ratios,
        "ended_streams_and_dials": redials,
        "target_ratio": TARGET_RATIO,
        "is_met": max(ratios.values()) <= TARGET_RATIO if is_known else None,
    }


def _rows(phases: list[Phase]) -> list[dict]:
    neighbours = zip(phases[::2], phases[1::2], phases[2::2], strict=False)
    return [_row(before, dead, after) for before, dead, after in neighbours]


def _row(before: Phase, dead: Phase, after: Phase) -> dict:
    healthy_s = (before.step_s + after.step_s) / 2
    return {
        "state": dead.state,
        "step_ms": 1000 * dead.step_s,
        "healthy_step_ms": 1000 * healthy_s,
        "ratio": dead.step_s / healthy_s,
        "cpu_ms": dead.cpu_ms,
        "healthy_cpu_ms": (before.cpu_ms + after.cpu_ms) / 2,
        "others": max(phase.others for phase in (before, dead, after)),
        "is_quiet": all(phase.others <= OTHERS_MOST for phase in (before, dead, after)),
        "rss_mib": dead.rss_mib,
        "rss_growth_mib": dead.rss_mib - before.rss_mib,
        "queued": dead.queued,
        "queued_bytes": dead.queued_bytes,
    }


def _table(result: dict, options: argparse.Namespace) -> str:
    lines = [
        f"one {options.model} learner; step time in ms, median of samples a quarter second long;",
        "processor time in ms for each step; others: the share of its core that others used",
        "",
        "state       |  step healthy  ratio |   cpu healthy | others |   RSS  growth |queued bytes",
    ]
    lines += [
        f"{row['state']:11s} | {row['step_ms']:5.2f}   {row['healthy_step_ms']:5.2f}  "
        f"{row['ratio']:5.3f} | {row['cpu_ms']:5.2f}   {row['healthy_cpu_ms']:5.2f} |"
        f"{row['others']:6.1%}{' ' if row['is_quiet'] else '*'} | {row['rss_mib']:3.0f} M "
        f"{row['rss_growth_mib']:+5.1f} M |{row['queued']:6d} {row['queued_bytes']:5d}"
        for row in result["rows"]
    ]
    states = ", ".join(f"{state} {ratio:.3f}" for state, ratio in result["ratio_by_state"].items())
    verdict = {True: "met", False: "MISSED", None: "unknown: too much else was going on"}
    lines += ["", "* left out: others used more than 5 % of its core"]
    lines += [f"median: {states or 'none'}; target at most {TARGET_RATIO}: "]
    lines[-1] += verdict[result["is_met"]]
    lines += [f"{result['ended_streams_and_dials']} streams and dials ended meanwhile"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
