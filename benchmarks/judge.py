"""Judging: processor time from the record of an hour to its verdict and reports.

    tests.histories, one seed ─┬─► an hour, 4 learners, 50 kills ───────────┐
                               ├─► an hour, 16 learners, 50 kills ──────────┼─► journal ─► read
                               └─► a quarter of it, 16 learners, 12 kills ──┘    ─► every check
                                                                                  ─► reports

The journal has what a real training of that length writes: a line for each step, push, acceptance,
adoption, round and measurement of a link, with the clocks of the nodes, chained by hash. It is
judged by every check of the catalogue with its defaults, and reported by every report. Four
learners are what most plans of `fault_plans/` have. The quarter shows whether the time grows faster
than the record.

    python benchmarks/judge.py [--json] [--no-fail]

Exit code 1 above 2 s for four learners, or if a line of the hour of 16 takes more than 1.2 times as
long as one of the quarter.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Self

from figures import Cell, Figure, MachineLoad, Result, add_options, finish

sys.path.insert(0, str(Path(__file__).parent.parent))

from chaoslab.checks.base import Outcome
from chaoslab.checks.catalogue import CHECKS
from chaoslab.checks.verdict import Verdict
from chaoslab.core.events import Event, Kind
from chaoslab.record.journal_file import JOURNAL, JournalFile
from chaoslab.record.run_directory import RunDirectory
from chaoslab.run.judged_run import judge_and_report
from tests.histories import Story
from tests.model_training import Pace

TARGET_S = 2.0
GROWTH_MOST = 1.2
"""Largest time for a line of the hour, in those for a line of its quarter."""
HOUR_S = 3600
PARTS = 4
LEARNERS, MANY_LEARNERS = 4, 16
BASELINE_S, SETTLE_S = 120, 120
PACE = Pace(tick_s=1.0, steps=1, ticks=4)
"""Steps of a second, and a round after every four: 6 fragments that are due after 24 steps each."""


def main() -> int:
    """Make both journals, judge them some times in turn, print the medians."""
    options = _options()
    load = MachineLoad()
    with TemporaryDirectory() as folder:
        home, seed, kills = Path(folder), options.seed, options.kills
        small = Record(home / "small", KillStory(LEARNERS, seed), kills, HOUR_S)
        hour = Record(home / "hour", KillStory(MANY_LEARNERS, seed), kills, HOUR_S)
        quarter = Record(
            home / "quarter",
            KillStory(MANY_LEARNERS, seed),
            max(1, kills // PARTS),
            HOUR_S // PARTS,
        )
        for _ in range(options.repeats):
            small.judge()
            hour.judge()
            quarter.judge()
        parsing_s = _parsing_s(hour.directory.path / JOURNAL)
    return finish([_result(small, hour, quarter, parsing_s, load.place())], options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--kills", type=int, default=50, help="default 50")
    parser.add_argument("--seed", type=int, default=7, help="whom they hit, and when (default 7)")
    parser.add_argument("--repeats", type=int, default=5, help="default 5")
    add_options(parser)
    return parser.parse_args()


class Record:
    """The record of one story, and how long it took to judge."""

    def __init__(self, folder: Path, story: "KillStory", kills: int, length_s: int) -> None:
        folder.mkdir()
        self.directory = RunDirectory(path=folder)
        self.kills = kills
        self.lines = story.told(kills, length_s).write(folder)
        self.times_s: list[float] = []

    @property
    def time_s(self) -> float:
        """Median processor time from the record to its reports."""
        return median(self.times_s)

    @property
    def line_us(self) -> float:
        """The same of each line."""
        return 1e6 * self.time_s / self.lines

    def judge(self) -> None:
        """Once more. RuntimeError if the verdict is not as it must be."""
        began_s = process_time()
        judged = judge_and_report(self.directory, [check() for check in CHECKS.values()])
        self.times_s.append(process_time() - began_s)
        _refuse_wrong(judged.verdict, self.kills)


def _result(
    small: Record, hour: Record, quarter: Record, parsing_s: float, place: Mapping[str, Cell]
) -> Result:
    return Result(
        number=12,
        name="judging",
        what=f"processor time to judge the record of an hour with {hour.kills} kills, from the "
        f"journal to its reports: {LEARNERS} learners, {small.lines:,} lines; {MANY_LEARNERS} "
        f"learners, {hour.lines:,} lines; and of a quarter of an hour with {quarter.kills} kills: "
        f"{MANY_LEARNERS} learners, {quarter.lines:,} lines",
        command="python benchmarks/judge.py",
        figures=(
            Figure(name=f"an hour of {LEARNERS} learners: median", observed=small.time_s, unit="s",
                   at_most=TARGET_S, samples=len(small.times_s)),
            Figure(name=f"an hour of {MANY_LEARNERS} learners: median", observed=hour.time_s,
                   unit="s", samples=len(hour.times_s)),
            Figure(name="a line of the hour, in times of a line of the quarter",
                   observed=hour.line_us / quarter.line_us, at_most=GROWTH_MOST,
                   samples=len(quarter.times_s)),
            Figure(name="of each line", observed=hour.line_us, unit="us", samples=hour.lines),
            Figure(name=f"for comparison: json.loads of each line of {MANY_LEARNERS} learners",
                   observed=parsing_s, unit="s"),
        ),
        rows=tuple(
            {"run": run, f"{LEARNERS} learners (s)": small_s,
             f"{MANY_LEARNERS} learners (s)": whole_s, "quarter (s)": part_s}
            for run, (small_s, whole_s, part_s) in enumerate(
                zip(small.times_s, hour.times_s, quarter.times_s, strict=True), 1
            )
        ),
        notes=("Without the start of Python and its imports.",),
        place=place,
    )  # fmt: skip


class KillStory(Story):
    """The story of a run in which learners are killed, one after the other."""

    def __init__(self, learners: int, seed: int) -> None:
        super().__init__(learners=learners, rejoin_s=2.0, pace=PACE)
        self._chance = random.Random(seed)

    def told(self, kills: int, length_s: int) -> Self:
        """Kills at random times, each healed before the next begins."""
        self.baseline(BASELINE_S)
        every_s = (length_s - BASELINE_S - SETTLE_S) // kills
        for _ in range(kills):
            outage_s = self._chance.randint(5, every_s // 3)
            wait_s = self._chance.randint(0, every_s // 3)
            victim = self._chance.choice(list(self.learners))
            self.train(wait_s).kill(victim, for_s=outage_s).train(outage_s).heal()
            self.train(every_s - wait_s - outage_s)
        return self.settle().train(length_s - self.now_s).end()

    def tick(self, *, merges: bool) -> None:
        """A second, with what the harness samples in it."""
        super().tick(merges=merges)
        alive = sum(learner.is_up for learner in self.learners.values())
        self.say(
            Kind.COUNTS_SAMPLED, alive=alive, members=alive, stepping=alive, contributing=alive
        )
        self.say(
            Kind.MACHINE_SAMPLED, window_s=1.0, cores=64, load_1m=32.5, own_cores=32.0,
            others_cores=0.2, stolen_cores=0.0, idle_cores=31.8, waited_s=0.0001, throttled_s=0.0,
            cpu_pressure=0.01, io_pressure=0.002, memory_pressure=0.0,
        )  # fmt: skip

    def write(self, directory: Path) -> int:
        """journal.jsonl; how many lines it has."""
        journal = JournalFile(directory)
        for event in self._stamped():
            journal.append(event.to_line())
        journal.close()
        return journal.seal.lines

    def _stamped(self) -> Iterator[Event]:
        """The events with the time of day, and with the clocks of the nodes, heard a bit later."""
        started_s: dict[str, float] = {}
        for event in self.events:
            minutes, seconds = divmod(event.time_s, 60)
            stamp = f"2026-11-22T{minutes // 60 + 9:02.0f}:{minutes % 60:02.0f}:{seconds:06.3f}Z"
            if event.kind is Kind.NODE_STARTED:
                started_s[str(event.data["node"])] = event.time_s
            node_s = None
            if event.source in started_s and event.kind is not Kind.NODE_STARTED:
                late_s = self._chance.uniform(0.0002, 0.003)
                node_s = event.time_s - started_s[event.source] - late_s
            yield replace(event, wall=stamp, node_s=node_s)


def _refuse_wrong(verdict: Verdict, kills: int) -> None:
    """What is fast and finds something else than what is there has not judged."""
    failed = [finding for finding in verdict.findings if finding.outcome is Outcome.FAIL]
    proved = verdict.injection_counts["proved"]
    if failed or proved != kills or not all(b.rejoined for b in verdict.learners_rejoined.values()):
        raise RuntimeError(f"{proved} of {kills} kills are proved: {verdict.explain()}")


def _parsing_s(journal: Path) -> float:
    """Processor time of `json.loads` for all its lines."""
    lines = journal.read_bytes().splitlines()
    began_s = process_time()
    for line in lines:
        json.loads(line)
    return process_time() - began_s


if __name__ == "__main__":
    sys.exit(main())
