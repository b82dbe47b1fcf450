"""Cost of the harness for a learner: step time under `chaoslab run` and without it.

    turn 1: harness ─► syncer, learner        turn 2: syncer, learner        turn 3: harness ─► …

Same plan, same command lines, one learner, so that it has a core to itself. The two alternate, so
that a busy machine slows both. Each report of the learner covers a quarter of a second; the ratio
is that of the medians of all reports, the first second of each turn left out. Beside it: the
processor time that the harness used for each step of the learner.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from figures import Cell, Figure, MachineLoad, Result
from trainings import by_hand, run_plan, workplace

from chaoslab.core.events import Event
from chaoslab.core.payloads import LearnerStep, MachineSampled
from chaoslab.record.history import History

AT_MOST = 1.01
TURNS = 10
TRAIN_S = 8
WARM_UP_S = 1.0
WITHIN_S = 120.0

PLAN = f"""
version: 1
name: step_time
training: {{learners: 1, model: nano, stop: {{time: {TRAIN_S}s}}}}
baseline: {{warmup: 1 rounds, window: 4 rounds}}
faults: []
"""


def measure(turns: int = TURNS) -> Result:
    """Measure both in turns; the ratio of the medians."""
    load = MachineLoad()
    inside: list[list[float]] = []
    alone: list[list[float]] = []
    cores: list[float] = []
    with workplace() as folder:
        by_hand(folder / "warm-up", PLAN, within_s=WITHIN_S)
        for turn in range(turns):
            here = folder / str(turn)
            if turn % 2:
                alone.append(_alone(here / "alone"))
            history = run_plan(here / "inside", PLAN, within_s=WITHIN_S)
            inside.append(step_times_s(history.of(LearnerStep)))
            cores += harness_cores(history)
            if turn % 2 == 0:
                alone.append(_alone(here / "alone"))
    return _result(inside, alone, cores, load.place())


def harness_cores(history: History) -> list[float]:
    """CPU time per second of the harness while its learner trained, in samples of a second."""
    steps = history.of(LearnerStep)
    samples = history.between(steps[0].time_s + WARM_UP_S, steps[-1].time_s, MachineSampled)
    found = (event.payload.harness_cores for event in samples)
    return [cores for cores in found if cores is not None]


def _alone(folder: Path) -> list[float]:
    return step_times_s(by_hand(folder, PLAN, within_s=WITHIN_S)["learner-0"])


def step_times_s(events: Sequence[Event]) -> list[float]:
    """Mean step time of each report, after the warm-up, by the learner's own clock."""
    reports = [
        (_stamp_s(event), said.step_s)
        for event in events
        if isinstance(said := event.payload, LearnerStep) and _stamp_s(event)
    ]
    began_s = reports[0][0] if reports else 0.0
    return [step_s for stamp_s, step_s in reports if stamp_s > began_s + WARM_UP_S]


def _stamp_s(event: Event) -> float:
    return event.node_s or 0.0


def _result(
    inside: Sequence[Sequence[float]],
    alone: Sequence[Sequence[float]],
    cores: Sequence[float],
    place: Mapping[str, Cell],
) -> Result:
    every_inside = [step_s for turn in inside for step_s in turn]
    every_alone = [step_s for turn in alone for step_s in turn]
    ratio = median(every_inside) / median(every_alone)
    rows: list[Mapping[str, Cell]] = [
        {
            "turn": turn,
            "in the harness (ms)": 1e3 * median(mine),
            "alone (ms)": 1e3 * median(its),
            "ratio": median(mine) / median(its),
        }
        for turn, (mine, its) in enumerate(zip(inside, alone, strict=True), 1)
    ]
    return Result(
        number=3,
        name="step time",
        what="a nano learner's step time inside the harness, against the same learner without it",
        command="python benchmarks/harness.py --only 3",
        figures=(
            Figure(
                name="step time inside / alone",
                observed=ratio,
                at_most=AT_MOST,
                samples=len(every_inside) + len(every_alone),
            ),
            *(
                Figure(name=name, observed=1e3 * median(all_s), unit="ms", samples=len(all_s))
                for name, all_s in (("step inside", every_inside), ("step alone", every_alone))
            ),
            Figure(
                name="processor time of the harness per step",
                observed=1e3 * fmean(cores) * fmean(every_inside),
                unit="ms",
                samples=len(cores),
            ),
        ),
        rows=tuple(rows),
        place=place,
    )
