"""Faults that slow a chip or starve a learner: their contract, their courses, their evidence."""

import pytest

from chaoslab.core.events import Json, Kind
from chaoslab.faults.base import Fault
from chaoslab.faults.compute import ComputeJitter, ComputeSlow, ComputeThermal
from chaoslab.faults.evidence.base import Evidence
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.starvation import ComputeSteal, Killer, MemoryPressure, ProcessOom
from chaoslab.fleet.base import Ability
from chaoslab.fleet.stressors import Mechanism
from tests.contracts.fault_kit import injection_of
from tests.faults.fault_record import Case, FaultRecord, case, each_of

approx = pytest.approx

# ---------------------------------------------------------------- courses and abilities


@pytest.mark.parametrize(
    ("mechanism", "ability"),
    [
        (Mechanism.AUTO, Ability.SLOW),
        (Mechanism.CGROUP, Ability.QUOTA),
        (Mechanism.DUTY_CYCLE, Ability.DUTY_CYCLE),
        (Mechanism.HOOK, Ability.HOOKS),
    ],
)
def test_a_mechanism_that_is_named_is_needed(mechanism: Mechanism, ability: Ability) -> None:
    assert ability in ComputeSlow(mechanism=mechanism).needs


def test_a_kill_by_the_kernel_needs_a_limit_of_memory_and_an_imitation_does_not() -> None:
    assert Ability.MEMORY_LIMIT in ProcessOom().needs
    assert Ability.MEMORY_LIMIT not in ProcessOom(by=Killer.IMITATION).needs


def factors(fault: ComputeSlow | ComputeJitter | ComputeThermal) -> list[float]:
    return [round(stage.factor, 3) for stage in fault.stages(injection_of(fault))]


def test_a_ramp_ends_at_the_factor_after_its_time() -> None:
    fault = ComputeSlow(factor=3, ramp_s=4.0, ramp_steps=4)
    assert factors(fault) == [1.5, 2.0, 2.5, 3.0]
    assert fault.steps() == (1.0, 2.0, 3.0)
    assert factors(ComputeSlow(factor=3)) == [3.0]


def test_jitter_is_the_same_in_every_run_and_another_by_another_seed() -> None:
    fault = ComputeJitter(times=5)
    assert factors(fault) == factors(ComputeJitter(times=5))
    assert factors(fault) != factors(ComputeJitter(times=5, seed=1))
    assert all(1 <= factor <= fault.factor for factor in factors(fault))


def test_a_chip_that_gets_hot_ramps_up_swings_and_cools_down() -> None:
    fault = ComputeThermal(factor=3, ramp_s=3, plateau_s=8, tooth_s=2, tooth_share=0.5)
    assert factors(fault) == [1.5, 2.0, 2.5, 3.0, 2.0, 3.0, 2.0, 2.5, 2.0, 1.5]
    assert fault.steps() == (1.0, 2.0, 3.0, 5.0, 7.0, 9.0, 11.0, 12.0, 13.0)


# ---------------------------------------------------------------- evidence from written records


class Record(FaultRecord):
    """A journal made by hand: learner-1 under a fault from second 20 to 32, learner-0 beside it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault, "learner-1", "learner-3", for_s=12.0)
        self.say(0.0, Kind.RUN_STARTED, "harness", learners=["learner-0", "learner-1"])
        self.say(1.0, Kind.NODE_STARTED, "learner-1", node="learner-1", incarnation=1)

    def steps(self, from_s: float, to_s: float, step_s: float, who: str = "learner-1") -> "Record":
        """A sample every quarter of a second, or for each step if it takes longer."""
        each = max(1, round(0.25 / step_s))
        time_s = from_s + each * step_s
        while time_s <= to_s:
            self.say(time_s, Kind.LEARNER_STEP, who, learner=who, incarnation=1, step=1,
                     steps=each, step_s=step_s)  # fmt: skip
            time_s += each * step_s
        return self

    def begin(self) -> "Record":
        return super().begin(20.0)

    def counted(self, **counts: Json) -> "Record":
        who: dict[str, Json] = {"node": "learner-1", "injection": "injection-0"}
        return self.say(32.0, Kind.NODE_COUNTED, "harness", **who, **counts)

    def exit(self, **how: Json) -> "Record":
        who: dict[str, Json] = {"node": "learner-1", "incarnation": 1}
        return self.say(22.0, Kind.NODE_EXITED, "learner-1", **who, **how)

    @property
    def evidence(self) -> Evidence:
        return next(piece for piece in self.pieces if piece.target == "learner-1")


def slowed(
    fault: Fault, during_s: float, *, others_s: float = 0.05, until_s: float = 32.0
) -> Record:
    """Calm steps of 50 ms, then such ones; the other learner's may change, too."""
    record = Record(fault).steps(4, 20, 0.05).steps(4, 20, 0.05, "learner-0").begin()
    record.steps(20, until_s, during_s).steps(20, 32, others_s, "learner-0")
    return record.steps(until_s, 32.0, 0.05)


def burst() -> Record:
    """A quota lets a node run in bursts: its pace is what it made in all that time."""
    record = Record(ComputeSlow(factor=2)).steps(4, 20, 0.05).begin()
    for begin_s in range(20, 32, 2):
        record.steps(begin_s, begin_s + 1, 0.0667).steps(begin_s + 1, begin_s + 2, 0.2)
    return record


def halved() -> Record:
    return Record(ComputeSlow(factor=2)).steps(4, 20, 0.05).begin().steps(20, 32, 0.1)


def hot(*step_s: float) -> Record:
    """A chip in four stages of three seconds each."""
    record = Record(ComputeSlow(factor=3, ramp_s=12.0, ramp_steps=4)).steps(4, 20, 0.05).begin()
    for stage, one_s in enumerate(step_s):
        record.steps(20 + 3 * stage, 23 + 3 * stage, one_s)
    return record


def crowded(step_s: float, cpu_s: float) -> Record:
    record = Record(ComputeSteal()).steps(4, 20, 0.05).begin().steps(20, 32, step_s)
    return record.counted(cpu_s=cpu_s, rss_bytes=1, available_bytes=1)


@each_of(
    case(
        "steps as slow as asked are proof",
        slowed(ComputeSlow(factor=2), 0.1),
        Code.AS_ASKED,
        requested={"factor": 2},
        step_ratio=approx(2.0, abs=0.01),
    ),
    *(
        case(
            f"a quota that held a node up for {throttled_s} s",
            halved().counted(throttled_s=throttled_s, cores=0.5),
            code,
        )
        for throttled_s, code in (
            (9.0, Code.AS_ASKED),
            (0.1, Code.DOUBTFUL_CAUSE),
            (0.0, Code.DOUBTFUL_CAUSE),
        )
    ),
    case(
        "a stressor that ended by itself is weak even if steps stay slow",
        halved().say(
            24.0,
            Kind.NODE_RELIEVED,
            "harness",
            node="learner-1",
            injection="injection-0",
            because="the stressor ended by itself",
        ),
        Code.DOUBTFUL_CAUSE,
    ),
    case(
        "one long step among many counts as one step",
        burst(),
        Code.AS_ASKED,
        step_ratio=approx(2.0, abs=0.2),
    ),
    case("steps as before are none", slowed(ComputeSlow(factor=2), 0.052), Code.NO_EFFECT),
    case(
        "steps that are a little slower are weak",
        slowed(ComputeSlow(factor=3), 0.085),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "steps that are far too slow are weak",
        slowed(ComputeSlow(factor=2), 0.2),
        Code.OUT_OF_TOLERANCE,
    ),
    case(
        "what slowed everybody is no doing of the fault",
        slowed(ComputeSlow(factor=2), 0.1, others_s=0.1),
        Code.NO_EFFECT,
    ),
    case(
        "a chip that was fast again half way is weak",
        slowed(ComputeSlow(factor=2), 0.1, until_s=26.0),
        Code.NOT_THROUGHOUT,
    ),
    case(
        "a learner that was as slow just before proves nothing",
        Record(ComputeSlow(factor=2))
        .steps(4, 16, 0.05)
        .steps(16, 20, 0.1)
        .begin()
        .steps(20, 32, 0.1),
        Code.NO_EFFECT,
    ),
    case(
        "a learner that stalled before proves nothing",
        Record(ComputeSlow(factor=2)).steps(4, 12, 0.05).begin().steps(20, 32, 0.1),
        Code.NOT_STEPPING,
    ),
    case(
        "a learner that died is not slow",
        Record(ComputeSlow(factor=2))
        .steps(4, 20, 0.05)
        .begin()
        .steps(20, 22, 0.1)
        .exit(signal="SIGKILL"),
        Code.EXITED_INSTEAD,
    ),
    case(
        "stages in the order that was asked are proof",
        hot(0.075, 0.1, 0.125, 0.15),
        Code.AS_ASKED,
        in_order_share=1.0,
    ),
    case("stages in another order are weak", hot(0.15, 0.125, 0.1, 0.085), Code.WRONG_ORDER),
    *(
        case(f"neighbours: steps of {step_s} s, {cpu_s} s of CPU", crowded(step_s, cpu_s), code)
        for step_s, cpu_s, code in (
            (0.08, 10.0, Code.AS_ASKED),
            (0.05, 10.0, Code.OUT_OF_TOLERANCE),
            (0.08, 0.1, Code.NOT_APPLIED),
        )
    ),
    *(
        case(
            f"pressure is what is really held: {share:.0%}",
            Record(MemoryPressure())
            .begin()
            .counted(
                cpu_s=1.0,
                rss_bytes=round(share * MemoryPressure().size_bytes),
                available_bytes=10**9,
            ),
            code,
        )
        for share, code in (
            (1.0, Code.AS_ASKED),
            (0.6, Code.OUT_OF_TOLERANCE),
            (0.1, Code.NOT_APPLIED),
        )
    ),
    case(
        "the kernel itself says that it killed out of memory",
        Record(ProcessOom()).begin().exit(signal="SIGKILL").counted(oom_kills=5),
        Code.AS_ASKED,
    ),
    case(
        "a kill that the kernel does not count is not out of memory",
        Record(ProcessOom()).begin().exit(signal="SIGKILL").counted(oom_kills=0),
        Code.OTHER_CAUSE,
    ),
    case(
        "an imitation is called one",
        Record(ProcessOom(by=Killer.IMITATION))
        .begin()
        .exit(signal="SIGKILL")
        .say(32.0, Kind.NODE_PROBED, "learner-1", node="learner-1", state="gone"),
        Code.AS_ASKED,
    ),
    case(
        "a learner that outlived it was not killed",
        Record(ProcessOom()).begin().counted(oom_kills=4),
        Code.STILL_RUNNING,
    ),
)
def test_the_record_shows_slow_steps_and_short_memory(case: Case) -> None:
    case.require()
