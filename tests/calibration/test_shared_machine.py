"""What nodes need of one core, from runs in which they shared the cores of a machine."""

import pytest

from chaoslab.calibration.samples import samples_of
from chaoslab.core.events import Event, Json, Kind
from chaoslab.record.history import History
from chaoslab.sim.costs import FLOP

PARAMETERS, TOKENS = 1000, 64


class Machine:
    """Journal of learners on one machine, made by hand."""

    def __init__(self, *, fleet: str = "local", platform: str = "cpu") -> None:
        self._platform = platform
        self._events: list[tuple[float, str, Kind, dict[str, Json]]] = []
        self.say(
            0.0, "harness", Kind.RUN_STARTED, plan="p", seed=1, fleet=fleet, algorithm="decoupled",
            learners=["a", "b", "c", "d"], reserve=[], entries=[], version="",
            record=2,
        )  # fmt: skip

    def say(self, time_s: float, source: str, kind: Kind, **data: Json) -> None:
        self._events.append((time_s, source, kind, data))

    def start(self, name: str, at_s: float, until_s: float, compiles_s: float = 0.0) -> None:
        life = {"incarnation": 1}
        self.say(at_s, "harness", Kind.NODE_STARTED, node=name, role="learner", pid=1, labels={},
                 **life)  # fmt: skip
        self.say(until_s, name, Kind.LEARNER_STARTED, learner=name, devices=1,
                 platform=self._platform, parameters=PARAMETERS, **life)  # fmt: skip
        self.say(until_s + compiles_s, name, Kind.LEARNER_COMPILED, learner=name, loaded=6,
                 compiled=0, took_s=compiles_s, **life)  # fmt: skip

    def sample(self, time_s: float, *, own: float) -> None:
        self.say(
            time_s, "harness", Kind.MACHINE_SAMPLED, window_s=1.0, cores=2, load_1m=1.0,
            own_cores=own, harness_cores=0.2, others_cores=0.0, stolen_cores=0.0, idle_cores=0.0,
            waited_s=0.0, throttled_s=0.0, cpu_pressure=0.0, io_pressure=0.0, memory_pressure=0.0,
        )  # fmt: skip

    def step(
        self, name: str, time_s: float, step: int, step_s: float = 0.1,
        period_s: float | None = 0.1,
    ) -> None:  # fmt: skip
        self.say(
            time_s, name, Kind.LEARNER_STEP, learner=name, incarnation=1, epoch=1, step=step,
            steps=5, step_s=step_s, period_s=period_s, overruns=0, loss=4.0, tokens=step * TOKENS,
            data_position=step, waited_s=0.0,
        )  # fmt: skip

    @property
    def history(self) -> History:
        ordered = sorted(self._events, key=lambda event: event[0])
        return History(
            [
                Event(seq=seq, time_s=time_s, source=source, kind=kind, data=data)
                for seq, (time_s, source, kind, data) in enumerate(ordered)
            ]
        )


@pytest.mark.parametrize(("fleet", "share"), [("local", 0.5), ("ssh", 1.0)])
def test_a_start_beside_three_others_on_two_cores_is_half_of_what_it_took(
    fleet: str, share: float
) -> None:
    """Nodes with machines of their own share nothing."""
    machine = Machine(fleet=fleet)
    machine.sample(1.0, own=2.0)
    for name in "abcd":
        machine.start(name, 0.0, 1.6, compiles_s=0.8)
    found = samples_of(machine.history)
    assert found["start_s"] == pytest.approx([1.6 * share] * 4)
    assert found["compile_s"] == pytest.approx([0.8 * share] * 4)
    assert found.get("cores") == ([2.0] if fleet == "local" else None)


def test_a_start_counts_in_full_while_there_is_a_core_for_it() -> None:
    machine = Machine()
    machine.sample(1.0, own=2.0)
    machine.start("a", 0.0, 0.9)
    machine.start("b", 0.1, 1.0)
    machine.start("c", 0.5, 1.5)
    found = samples_of(machine.history)["start_s"]
    assert found == pytest.approx([0.5 + 0.4 * 2 / 3, 0.4 + 0.4 * 2 / 3 + 0.1, 0.5 * 2 / 3 + 0.5],
                                  abs=0.04)  # fmt: skip


@pytest.mark.parametrize(("platform", "is_measured"), [("cpu", True), ("tpu", False)])
def test_the_work_of_a_step_is_the_processor_time_by_the_steps(
    platform: str, *, is_measured: bool
) -> None:
    machine = Machine(platform=platform)
    machine.start("a", 0.0, 1.0)
    machine.start("b", 0.0, 1.0)
    machine.sample(1.0, own=2.0)
    for number in range(1, 11):
        machine.step("a", 1.0 + 0.5 * number, 5 * number)
        machine.step("b", 1.01 + 0.5 * number, 5 * number)
    for number in range(2, 6):
        machine.sample(number + 0.1, own=0.8)
    found = samples_of(machine.history).get("flops_per_s", [])
    work_s = (0.8 - 0.2) / 20
    expected = [FLOP * PARAMETERS * TOKENS / work_s] * 2 if is_measured else []
    assert found == pytest.approx(expected)
