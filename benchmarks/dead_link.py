"""Step time of a learner under a dead link, compared with a healthy one.

    syncer ◄── embedded proxy ◄── learner        one real learner, one process each
                   ▲ healthy, frozen, healthy, blackhole, healthy, refused, healthy, half open, …

Dead and healthy phases alternate, so that a busy machine slows both; each dead phase is compared
with the healthy ones before and after it. Dead phases last longer than both ends take to give up a
silent connection, so they include failing reconnects. Rounds are rare, because adopting costs a
healthy learner time that a disconnected one saves.

All threads of the learner share one core, so whatever its link does costs steps. Other users of
that core cost steps as well: the kernel reports how much they used, and phases with more than 5 %
are left out. Processor time per step, memory and queued messages are shown too.

    python benchmarks/dead_link.py [--json] [--no-fail]

Exit code 1 if steps take more than 3 % longer, 3 if others kept the core too busy for a result.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any

from figures import Cell, Figure, MachineLoad, Result, add_options, finish

from chaoslab.links.base import Link
from chaoslab.links.effects import Blackhole, Direction, Effect, Freeze, HalfOpen, Refuse
from chaoslab.links.proxied.embedded import EmbeddedLinks

TARGET_RATIO = 1.03
OTHERS_MOST = 0.05
STATES: dict[str, Effect] = {
    "frozen": Freeze(), "blackhole": Blackhole(), "refused": Refuse(), "half open": HalfOpen(),
}  # fmt: skip
SETTLE_S = 1.5
"""Seconds left out at the beginning of each phase."""
REPORT_S = 0.25
"""Seconds between two reports of a learner."""
RULES = {"learners": ["learner-0"], "sync_every": 480}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A period in one state of the link."""

    step_s: float
    """Median of the learner's reports."""
    cpu_s: float
    """Processor time of the whole process for each step."""
    others: float
    """Share of the learner's core that others used."""
    rss_mib: float
    queued: int
    queued_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A dead phase, and the healthy ones before and after it."""

    state: str
    before: Phase
    dead: Phase
    after: Phase

    @property
    def healthy_s(self) -> float:
        return (self.before.step_s + self.after.step_s) / 2

    @property
    def ratio(self) -> float:
        return self.dead.step_s / self.healthy_s

    @property
    def others(self) -> float:
        return max(phase.others for phase in (self.before, self.dead, self.after))

    @property
    def is_quiet(self) -> bool:
        return self.others <= OTHERS_MOST


def main() -> int:
    """Run all phases and print the results; the exit code says whether the target is met."""
    options = _options()
    load = MachineLoad()
    with tempfile.TemporaryDirectory() as folder:
        found, ended = _measure(Path(folder), options)
    result = _result(options.model, found, ended, load.place())
    is_complete = len(result.figures) == len(STATES)
    return finish([result], options) or (0 if is_complete or options.no_fail else 3)


def _result(
    model: str, found: Sequence[Comparison], ended: int, place: Mapping[str, Cell]
) -> Result:
    ratios = {
        state: [c.ratio for c in found if c.state == state and c.is_quiet] for state in STATES
    }
    notes = [
        f"Rows in which others used more than {OTHERS_MOST:.0%} of the core do not count.",
        f"{ended} streams and connection attempts ended meanwhile.",
    ]
    if missing := [state for state, values in ratios.items() if not values]:
        notes.append(f"Others kept the core too busy for: {', '.join(missing)}.")
    return Result(
        number=7,
        name="dead link",
        what=f"a {model} learner's step time while its link is dead, against a healthy link "
        "before and after",
        command="python benchmarks/dead_link.py",
        figures=tuple(
            Figure(
                name=f"step time {state} / healthy",
                observed=median(values),
                at_most=TARGET_RATIO,
                samples=len(values),
            )
            for state, values in ratios.items()
            if values
        ),
        rows=tuple(_row(comparison) for comparison in found),
        notes=tuple(notes),
        place=place,
    )


def _row(found: Comparison) -> Mapping[str, Cell]:
    return {
        "state": found.state,
        "step (ms)": 1e3 * found.dead.step_s,
        "healthy (ms)": 1e3 * found.healthy_s,
        "ratio": found.ratio,
        "processor (ms a step)": 1e3 * found.dead.cpu_s,
        "healthy processor (ms a step)": 1e3 * (found.before.cpu_s + found.after.cpu_s) / 2,
        "others (% of the core)": 100 * found.others,
        "counts": "yes" if found.is_quiet else "no",
        "memory (MiB)": found.dead.rss_mib,
        "grown by (MiB)": found.dead.rss_mib - found.before.rss_mib,
        "messages waiting": found.dead.queued,
        "bytes waiting": found.dead.queued_bytes,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=2, help="quiet ones a state (default 2)")
    parser.add_argument("--tries", type=int, default=4, help="to find them (default 4)")
    parser.add_argument("--dead-s", type=float, default=16.0, help="of a dead phase (default 16)")
    parser.add_argument("--healthy-s", type=float, default=8.0, help="of a healthy one (default 8)")
    parser.add_argument("--model", default="nano", help="of the learner (default nano)")
    add_options(parser)
    options = parser.parse_args()
    if min(options.repeats, options.tries) < 1:
        parser.error("--repeats and --tries are at least 1")
    if min(options.dead_s, options.healthy_s) < SETTLE_S + 2 * REPORT_S:
        parser.error(f"--dead-s and --healthy-s are at least {SETTLE_S + 2 * REPORT_S:g}")
    return options


class Watched:
    """Output of a learner, read line by line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: list[tuple[float, dict[str, Any]]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            if line.startswith('{"kind":'):
                self._lines.append((time.monotonic(), json.loads(line)))

    def wait(self, kind: str, count: int = 1, within_s: float = 120.0) -> None:
        deadline_s = time.monotonic() + within_s
        while self.count(kind) < count:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"no {kind} within {within_s:g} s")
            time.sleep(0.05)

    def count(self, kind: str) -> int:
        return sum(line["kind"] == kind for _, line in list(self._lines))

    def since(self, began_s: float, kind: str) -> list[dict[str, Any]]:
        """Data of the events of that kind since a time."""
        return [
            line["data"]
            for at_s, line in list(self._lines)
            if at_s >= began_s and line["kind"] == kind
        ]


# ---------------------------------------------------------------- the phases


def _measure(folder: Path, options: argparse.Namespace) -> tuple[list[Comparison], int]:
    """The comparisons, and the number of streams and connection attempts that ended."""
    found: list[Comparison] = []
    with _syncer(folder) as address, EmbeddedLinks(folder) as links:
        link = links.create("learner-0", address)
        with _learner(folder, link.address, options.model) as learner:
            output = Watched(_output(learner))
            output.wait("learner.step", 12)
            before = _healthy(output, learner.pid, options, reopened=1)
            for state, effect in _turns(found, options):
                opened = output.count("link.opened")
                dead = _dead(output, learner.pid, link, effect, options.dead_s)
                reopened = opened + (output.count("link.closed") > 0)
                after = _healthy(output, learner.pid, options, reopened=reopened)
                found.append(Comparison(state=state, before=before, dead=dead, after=after))
                before = after
            return found, output.count("link.closed")


def _turns(
    found: Sequence[Comparison], options: argparse.Namespace
) -> Iterator[tuple[str, Effect]]:
    """States of the link in turn, each until `enough` samples on a quiet core or `tries` tries."""
    for _ in range(options.tries):
        for state, effect in STATES.items():
            if sum(c.state == state and c.is_quiet for c in found) < options.repeats:
                yield state, effect


def _healthy(output: Watched, pid: int, options: argparse.Namespace, *, reopened: int) -> Phase:
    output.wait("link.opened", reopened)
    return _phase(output, pid, options.healthy_s)


def _dead(output: Watched, pid: int, link: Link, effect: Effect, seconds: float) -> Phase:
    link.shape("benchmark", Direction.BOTH, effect)
    if isinstance(effect, HalfOpen):  # new connections work: refuse them
        link.shape("benchmark", Direction.BOTH, Blackhole())
    phase = _phase(output, pid, seconds)
    link.clear("benchmark")
    return phase


def _phase(output: Watched, pid: int, seconds: float) -> Phase:
    time.sleep(SETTLE_S)
    began_s, own_s, all_s = time.monotonic(), _cpu_s(pid), _core_s(pid)
    time.sleep(seconds - SETTLE_S)
    own_s, all_s = _cpu_s(pid) - own_s, _core_s(pid) - all_s
    steps = [report for report in output.since(began_s, "learner.step") if report["steps"]]
    if not steps:
        raise RuntimeError(f"the learner made no step in {seconds - SETTLE_S:g} s")
    measured = output.since(began_s, "link.measured")
    return Phase(
        step_s=median(report["step_s"] for report in steps),
        cpu_s=own_s / sum(report["steps"] for report in steps),
        others=max(0.0, all_s - own_s) / (seconds - SETTLE_S),
        rss_mib=_rss_mib(pid),
        queued=max((report["queued"] for report in measured), default=0),
        queued_bytes=max((report["queued_bytes"] for report in measured), default=0),
    )


def _cpu_s(pid: int) -> float:
    """Processor time of all threads of a process so far, in s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _core_s(pid: int) -> float:
    """Busy time of the core of that process, by all users, in s."""
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
        output = _output(process)
        for line in output:
            if '"syncer.ready"' in line:
                break
        threading.Thread(target=lambda: [None for _ in output], daemon=True).start()
        yield json.loads(line)["data"]["address"]


@contextmanager
def _learner(folder: Path, address: str, model: str) -> Iterator[subprocess.Popen[str]]:
    everything = os.sched_getaffinity(0)
    own = {max(everything)} if len(everything) > 1 else everything
    with _process(
        "learner", "--syncer", address, "--name", "learner-0", "--model", model,
        "--token-file", str(folder / "syncer" / "tokens" / "learner-0"),
        "--directory", str(folder / "learner"), "--save-every", "3600",
    ) as process:  # fmt: skip
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), own)
        os.sched_setaffinity(0, everything - own or everything)
        try:
            yield process
        finally:
            os.sched_setaffinity(0, everything)


def _output(process: subprocess.Popen[str]) -> IO[str]:
    """Its standard output, which `_process` reads through a pipe."""
    if process.stdout is None:
        raise RuntimeError("the process was started without a pipe for its output")
    return process.stdout


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


if __name__ == "__main__":
    sys.exit(main())
