"""Rejoin times of killed learners in one real run, and pauses of the survivors.

    kill ──── outage ────► started ─► up ─► joined ─► first step ─► first accepted contribution
         └─► a bare start, in its place       what its libraries and one compiled step take
    marks of survivors: |·|·|·|·|·|·|·|·|·|·|   the longest pause around kills, and away from them

Three learners of a nano model, paced as in the plans (`step_time: auto`), so that a returning
learner finds the share of the cores that the survivors leave on chips of their own. The compilation
cache is warm: every learner was started before, and so was the bare start (`bare_start.py`), which
is made while the victim is away.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeVar

from figures import Cell, Figure, MachineLoad, Result
from trainings import BenchmarkError, run_plan, workplace

from chaoslab.checks.absence import Absence, absences
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import (
    LearnerAdopted,
    LearnerJoined,
    LearnerStarted,
    LearnerStep,
    NodeStarted,
)
from chaoslab.record.history import FaultStory, History

REJOIN_AT_MOST = 1.8
"""Times a bare start. The aim was 1.3, which the start alone takes, up to the first step: the state
of all fragments comes before it, and a contribution waits for its round."""
NOISE_STEPS = 1.0
"""Steps by which a pause around a kill may exceed the longest one away from kills."""
KILLS = 10
OUTAGE_S = 4.0
EVERY_S = 9.0
WINDOW_S = 1.5
"""Seconds after a kill in which a survivor's pause counts as around it."""
BEFORE_S = 0.1
SETTLED_S = 0.5
"""After a kill the kernel has freed the memory of the victim, and the bare start begins."""
WITHIN_S = 300.0
LEAST_KILLS = 5
"""Least number of kills that were carried out and healed."""

_KILLS_S = ", ".join(f"{5 + n * EVERY_S:g}s" for n in range(KILLS))
PLAN = f"""
version: 1
name: kills
training: {{learners: 3, model: nano, step_time: auto, stop: {{time: {30 + KILLS * EVERY_S:g}s}}}}
baseline: {{warmup: 4 rounds, window: 8 rounds, max_variation: 1000%}}
faults:
  - id: one-after-the-other
    fault: process.kill
    target: {{learners: 1}}
    arrivals: {{per: fleet, dist: trace, trace: [{_KILLS_S}]}}
    for: {OUTAGE_S}s
"""


def measure() -> list[Result]:
    """One run; the results for rejoining and for survivors."""
    load = MachineLoad()
    with workplace() as folder:
        run_plan(folder / "warm-up", _WARM_UP, within_s=WITHIN_S)
        bare = BareStarts(folder / "jax")
        history = run_plan(folder / "kills", PLAN, within_s=WITHIN_S, beside=bare.see)
    place = load.place()
    return [rejoin(history, bare.took_s, place), survivors(history, place)]


@dataclass(slots=True)
class BareStarts:
    """One after each kill of a run, while the victim is away."""

    cache: Path
    took_s: list[float] = field(default_factory=list)
    _kills: int = 0

    def __post_init__(self) -> None:
        self._start()  # compiles

    def see(self, journal: Path) -> None:
        """Start one if there was another kill since the last call."""
        kills = journal.read_bytes().count(f'"{Kind.FAULT_INJECTED}"'.encode())
        if kills > self._kills:
            time.sleep(SETTLED_S)
            self.took_s.append(self._start())
        else:
            time.sleep(SETTLED_S / 10)
        self._kills = kills

    def _start(self) -> float:
        """Seconds from its start to its first step."""
        command = [sys.executable, str(Path(__file__).with_name("bare_start.py")), str(self.cache)]
        began_s = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise BenchmarkError("the bare start made no step")
            return time.monotonic() - began_s


_WARM_UP = """
version: 1
name: warm_up
training: {learners: 3, model: nano, stop: {rounds: 20}}
baseline: {warmup: 1 rounds, window: 4 rounds, max_variation: 1000%}
faults: []
"""


# ---------------------------------------------------------------- rejoin


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Return of one learner, in seconds since the planned end of its outage."""

    learner: str
    started_s: float
    """Start of its process."""
    up_s: float
    """Its first event: interpreter and libraries are loaded."""
    joined_s: float
    """It holds every fragment."""
    stepped_s: float
    contributed_s: float


def rejoin(history: History, bare_s: Sequence[float], place: Mapping[str, Cell]) -> Result:
    """Time from the end of the outage to the first accepted contribution, by its parts, beside that
    of bare starts.
    """
    found = list(returns(history))
    if len(found) < LEAST_KILLS or len(bare_s) < LEAST_KILLS:
        came = f"{len(found)} killed learners came back, and {len(bare_s)} bare starts were made"
        raise BenchmarkError(f"of {KILLS} only {came}")
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {
            "learner": one.learner,
            "process started (s)": one.started_s,
            "up (s)": one.up_s - one.started_s,
            "joined (s)": one.joined_s - one.up_s,
            "first step (s)": one.stepped_s - one.joined_s,
            "contribution (s)": one.contributed_s - one.stepped_s,
            "in all (s)": one.contributed_s,
        }
        for one in found
    )
    return Result(
        number=5,
        name="rejoin",
        what="how long a killed nano learner takes to contribute again once it may start, beside a "
        "bare start: its libraries, and one compiled step",
        command="python benchmarks/harness.py --only 5",
        figures=tuple(_figures(found, bare_s)),
        rows=rows,
        place=place,
    )


def _figures(found: Sequence[Return], bare_s: Sequence[float]) -> Iterator[Figure]:
    """The total and the start in times of a bare start, and the parts of both."""
    total_s = [one.contributed_s for one in found]
    yield Figure(
        name="kill to first accepted contribution, minus the outage / a bare start: medians",
        observed=median(total_s) / median(bare_s),
        unit="",
        at_most=REJOIN_AT_MOST,
        samples=len(found),
    )
    yield Figure(name="the slowest", observed=max(total_s), unit="s", samples=len(found))
    yield Figure(
        name="kill to first step, minus the outage / a bare start: medians",
        observed=median(one.stepped_s for one in found) / median(bare_s),
        unit="",
        samples=len(found),
    )
    parts = {
        "bare start": bare_s,
        "kill to first accepted contribution, minus the outage": total_s,
        "process up": [one.up_s for one in found],
        "from there to the first step": [one.stepped_s - one.up_s for one in found],
        "from there to the first contribution": [
            one.contributed_s - one.stepped_s for one in found
        ],
    }
    for name, values in parts.items():
        yield Figure(name=f"{name}: median", observed=median(values), unit="s", samples=len(values))


def returns(history: History) -> Iterator[Return]:
    """Every killed learner that contributed again, in the order of the kills."""
    for absence in absences(history):
        story = absence.stories[0]
        outage_s = story.injecting.payload.for_s
        if outage_s is None:
            continue
        planned_s = story.injecting.time_s + outage_s
        started = _first(history, NodeStarted, absence)
        up = _first(history, LearnerStarted, absence)
        joined = _first(history, LearnerJoined, absence)
        if absence.accepted is None or absence.stepped is None:
            continue
        if started is None or up is None or joined is None:
            continue
        yield Return(
            learner=absence.learner,
            started_s=started.time_s - planned_s,
            up_s=up.time_s - planned_s,
            joined_s=joined.time_s - planned_s,
            stepped_s=_first_step_s(absence.stepped) - planned_s,
            contributed_s=absence.accepted.time_s - planned_s,
        )


_T = TypeVar("_T", NodeStarted, LearnerStarted, LearnerJoined)


def _first(history: History, kind: type[_T], absence: Absence) -> Event[_T] | None:
    """The first such event of the incarnation that returned."""
    for event in history.of(kind):
        said = event.payload
        who = said.node if isinstance(said, NodeStarted) else said.learner
        if (who, said.incarnation) == (absence.learner, absence.incarnation):
            return event
    return None


def _first_step_s(report: Event) -> float:
    """Time at which the first step of a report was done."""
    said = report.payload
    if not isinstance(said, LearnerStep):
        raise BenchmarkError(f"{report} reports no steps")
    return report.time_s - (said.steps - 1) * said.step_s


# ---------------------------------------------------------------- survivors


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Time between two marks of one learner, as the number of steps it made less than usual."""

    start_s: float
    end_s: float
    steps: float


def survivors(history: History, place: Mapping[str, Cell]) -> Result:
    """The longest pauses of surviving learners, around kills and away from them."""
    around: list[float] = []
    back: list[float] = []
    away: list[float] = []
    for learner in history.learners:
        pauses = list(pauses_of(learner, history))
        around += longest_in(pauses, list(_kill_windows(learner, history)))
        back += longest_in(pauses, list(_return_windows(learner, history)))
        away += longest_in(pauses, list(_quiet_windows(learner, history)))
    if len(around) < LEAST_KILLS or len(away) < LEAST_KILLS:
        raise BenchmarkError(f"only {len(around)} windows around kills, {len(away)} away from them")
    return Result(
        number=6,
        name="survivors",
        what="the longest time between two signs of progress of a learner that lives on, beyond "
        f"its own median step, in windows of {BEFORE_S + WINDOW_S:g} s",
        command="python benchmarks/harness.py --only 6",
        figures=tuple(
            Figure(name=name, observed=steps, unit="steps", at_most=at_most, samples=len(windows))
            for name, steps, at_most, windows in (
                ("longest pause around a kill", max(around), max(away) + NOISE_STEPS, around),
                (
                    "usual longest pause around a kill",
                    median(around),
                    median(away) + NOISE_STEPS,
                    around,
                ),
                ("longest pause away from kills", max(away), None, away),
                ("usual longest pause away from kills", median(away), None, away),
                (
                    "usual longest pause while the victim starts again",
                    median(back),
                    None,
                    back,
                ),
            )
        ),
        notes=(f"The bounds are the pauses away from kills, and {NOISE_STEPS:g} step more.",),
        place=place,
    )


def pauses_of(learner: str, history: History) -> Iterator[Pause]:
    """Pauses between signs of progress of one incarnation, by the learner's own clock."""
    marks = [
        event
        for event in history.of(LearnerStep, LearnerAdopted)
        if event.payload.learner == learner
    ]
    lives = [
        (before, after)
        for before, after in pairwise(marks)
        if before.payload.incarnation == after.payload.incarnation
        and before.payload.epoch == after.payload.epoch
    ]
    usual_s = median(e.payload.step_s for e in marks if isinstance(e.payload, LearnerStep))
    for before, after in lives:
        seconds = (after.node_s or 0.0) - (before.node_s or 0.0)
        made = after.payload.step - before.payload.step
        yield Pause(
            start_s=before.time_s, end_s=after.time_s, steps=max(0.0, seconds / usual_s - made)
        )


def longest_in(pauses: Sequence[Pause], windows: Sequence[tuple[float, float]]) -> list[float]:
    """The longest pause that overlaps each window; windows without marks are left out."""
    found = []
    for start_s, end_s in windows:
        inside = [p.steps for p in pauses if p.end_s > start_s and p.start_s < end_s]
        if inside:
            found.append(max(inside))
    return found


def _kill_windows(learner: str, history: History) -> Iterator[tuple[float, float]]:
    """Windows around each kill of another learner, while this one was training."""
    away = [(a.gone_s, a.back_s) for a in absences(history) if a.learner == learner]
    for story in history.faults:
        start_s, end_s = story.injecting.time_s - BEFORE_S, story.injecting.time_s + WINDOW_S
        if learner not in story.targets and not _overlaps(start_s, end_s, away):
            yield start_s, end_s


def _return_windows(learner: str, history: History) -> Iterator[tuple[float, float]]:
    """From each restart of another learner to its first contribution."""
    own = [(a.gone_s, a.back_s) for a in absences(history) if a.learner == learner]
    for absence in absences(history):
        if absence.learner != learner and absence.since is not None:
            start_s, end_s = absence.since.time_s, absence.back_s
            if not _overlaps(start_s, end_s, own):
                yield start_s, end_s


def _quiet_windows(learner: str, history: History) -> Iterator[tuple[float, float]]:
    """Windows as long as those around a kill, while no learner was away."""
    busy = [(a.gone_s - BEFORE_S, a.back_s) for a in absences(history)]
    reports = [e for e in history.of(LearnerStep) if e.payload.learner == learner]
    start_s, until_s = reports[0].time_s + 1.0, _last_kill_s(history.faults, reports)
    while start_s + BEFORE_S + WINDOW_S < until_s:
        end_s = start_s + BEFORE_S + WINDOW_S
        if not _overlaps(start_s, end_s, busy):
            yield start_s, end_s
        start_s = end_s


def _last_kill_s(stories: Sequence[FaultStory], reports: Sequence[Event]) -> float:
    return max([reports[-1].time_s, *(story.injecting.time_s for story in stories)])


def _overlaps(start_s: float, end_s: float, stretches: Sequence[tuple[float, float]]) -> bool:
    return any(start < end_s and start_s < end for start, end in stretches)
