"""Cores that nodes share: everybody gets an equal part, and nobody more than one core."""

import pytest

from chaoslab.core.payloads import LearnerJoined, NodeStarted
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.history import History
from chaoslab.run.judged_run import run_and_judge
from chaoslab.sim.clock import EventQueue, SimClock
from chaoslab.sim.cores import Cores


class Machine:
    """Cores, and who was done when."""

    def __init__(self, cores: float) -> None:
        self.agenda = EventQueue(SimClock())
        self.cores = Cores(self.agenda, cores)
        self.done: dict[str, float] = {}

    def begin(self, name: str, work_s: float, *, at_s: float = 0.0) -> None:
        def note() -> None:
            self.done[name] = self.agenda.now_s

        self.agenda.at(at_s, lambda: self.cores.begin(name, work_s, note))

    def run(self) -> dict[str, float]:
        while self.agenda.next_s < float("inf"):
            self.agenda.run_next()
        return self.done


@pytest.mark.parametrize(
    ("cores", "begun", "done_s"),
    [
        (2, {"alone": (0.8, 0.0)}, [0.8]),
        (2, {"as many": (0.8, 0.0), "as cores": (0.5, 0.1)}, [0.8, 0.6]),
        (2, {str(number): (0.8, 0.0) for number in range(4)}, [1.6] * 4),
        (1, {"first": (1.0, 0.0), "slows the others": (1.0, 0.5)}, [1.5, 2.0]),
    ],
    ids=["alone", "two on two", "four on two", "one after the other"],
)
def test_everybody_gets_an_equal_part(
    cores: float, begun: dict[str, tuple[float, float]], done_s: list[float]
) -> None:
    machine = Machine(cores=cores)
    for name, (work_s, at_s) in begun.items():
        machine.begin(name, work_s, at_s=at_s)
    assert machine.run() == pytest.approx(dict(zip(begun, done_s, strict=True)))


def test_who_ends_leaves_its_share_to_the_others_and_is_never_done() -> None:
    machine = Machine(cores=1)
    machine.begin("lives", 1.0)
    machine.begin("dies", 1.0)
    machine.agenda.at(1.0, lambda: machine.cores.drop("dies"))
    assert machine.run() == pytest.approx({"lives": 1.5})


def test_many_pieces_of_work_are_all_done_in_the_order_of_their_size() -> None:
    machine = Machine(cores=3)
    for number in range(200):
        machine.begin(str(number), 0.001 * (1 + number % 17), at_s=0.0003 * (number % 29))
    done = machine.run()
    assert len(done) == 200
    total_s = sum(0.001 * (1 + number % 17) for number in range(200))
    assert max(done.values()) >= total_s / 3


# ---------------------------------------------------------------- in a whole run


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> History:
    """kill_half on two cores, which two learners that start at a time have for themselves."""
    folder = tmp_path_factory.mktemp("runs")
    costs = folder / "costs.toml"
    costs.write_text("cores = 2\nstart_s = 0.8\ncompile_s = 0.0\nspread = 0.0\nstep_s = 0.03\n")
    asked = Asked(
        plan="kill_half",
        fleet="sim",
        settings=(
            f"fleet.costs={costs}",
            "training.step_time=100ms",
            "training.stop.rounds=60",
            "twin=false",
        ),
    )
    return run_and_judge(prepare(asked), folder).history


def test_four_learners_that_start_together_start_half_as_fast_as_two(shared: History) -> None:
    begun = {
        (event.payload.node, event.payload.incarnation): event.time_s
        for event in shared.of(NodeStarted)
    }
    took_s = [
        event.time_s - begun[event.payload.life]
        for event in shared.of(LearnerJoined)
        if event.payload.life in begun
    ]
    first, again = took_s[:4], took_s[4:]
    assert min(first) > 1.6
    assert all(0.8 < seconds < 1.5 for seconds in again), "beside two learners that train"
